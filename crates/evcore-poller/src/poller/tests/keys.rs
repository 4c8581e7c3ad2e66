//! Tests of keys: their two halves, of which the low one is the id, and ids that are used again.

use super::*;
use crate::id::MAX_ID;

#[test]
fn both_halves_of_a_key_must_match() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(old, Interest::READ, Mode::Edge).expect("add");
    assert!(matches!(
        fixture.add(new, Interest::READ, Mode::Edge),
        Err(Error::AlreadyRegistered { key }) if key == new
    ));
    let poller = &mut fixture.poller;
    for refused in [
        poller.modify(new, Interest::READ),
        poller.rearm(new, Interest::READ),
        poller.remove(new),
        poller.remove_before_close(new),
    ] {
        assert!(matches!(refused, Err(Error::NotRegistered { key }) if key == new));
    }
    poller.remove(old).expect("remove");
    fixture
        .add(new, Interest::READ, Mode::Edge)
        .expect("the id is free");
}

#[test]
fn rearm_checks_the_key_on_a_native_edge_too() {
    let mut fixture = Fixture::new(ALL);
    assert!(matches!(
        fixture.poller.rearm(3, Interest::READ),
        Err(Error::NotRegistered { key: 3 })
    ));
}

#[test]
fn ids_end_at_the_limit() {
    let mut fixture = Fixture::new(ALL);
    let key = u64::from(MAX_ID) + 1;
    assert!(matches!(
        fixture.add(key, Interest::READ, Mode::Level),
        Err(Error::IdTooLarge { key: refused }) if refused == key
    ));
    assert_eq!(fixture.calls(), []);
    let highest = (7 << 32) | u64::from(MAX_ID);
    fixture
        .add(highest, Interest::READ, Mode::Level)
        .expect("add");
}

#[test]
fn an_id_with_a_pending_change_may_be_reused() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut fixture = Fixture::new(ALL);
    fixture.add(old, Interest::READ, Mode::Level).expect("add");
    fixture.modify(old, Interest::BOTH);
    fixture.poller.remove(old).expect("remove");
    fixture.add(new, Interest::WRITE, Mode::Level).expect("add");
    fixture.calls();
    fixture.idle();
    assert_eq!(
        fixture.calls(),
        [Wait(None)],
        "the new registration needs no change"
    );
    fixture.modify(new, Interest::READ);
    fixture.idle();
    assert_eq!(fixture.calls(), [Modify(new, Interest::READ), Wait(None)]);
}

#[test]
fn a_new_registration_inherits_no_mask() {
    let mut fixture = Fixture::new(NOTHING);
    fixture.add(3, Interest::READ, Mode::Oneshot).expect("add");
    fixture.wait(reports([(3, Ready::READABLE)]));
    fixture.poller.remove(3).expect("remove");
    fixture.add(3, Interest::READ, Mode::Oneshot).expect("add");
    fixture.calls();
    fixture.idle();
    assert_eq!(fixture.calls(), [Wait(None)]);
}

#[test]
fn a_descriptor_is_registered_once() {
    let mut fixture = Fixture::new(ALL);
    fixture.add(3, Interest::READ, Mode::Level).expect("add");
    fixture.calls();
    let twice = Registration {
        fd: 3,
        key: 4,
        interest: Interest::READ,
        ends: WatchSet::of(Interest::READ).ends(),
        mode: Mode::Level,
    };
    let refused = fixture.poller.register(twice);
    assert!(matches!(refused, Err(Error::AlreadyWatched { fd: 3 })));
    assert_eq!(fixture.calls(), [], "no call is made");
    fixture.poller.remove_before_close(3).expect("registered");
    fixture
        .poller
        .register(twice)
        .expect("the descriptor is free");
}
