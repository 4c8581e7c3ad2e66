//! Ids, the halves of keys, and ids that are used again.

use super::*;

#[test]
fn both_halves_of_a_key_must_match() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut stage = Stage::new(NOTHING);
    stage.add(old, Interest::READ, Mode::Edge).expect("add");
    assert!(matches!(
        stage.add(new, Interest::READ, Mode::Edge),
        Err(Error::AlreadyRegistered { key }) if key == new
    ));
    let poller = &mut stage.poller;
    for refused in [
        poller.modify(new, Interest::READ),
        poller.rearm(new, Interest::READ),
        poller.remove(new),
        poller.remove_before_close(new),
    ] {
        assert!(matches!(refused, Err(Error::NotRegistered { key }) if key == new));
    }
    poller.remove(old).expect("remove");
    stage
        .add(new, Interest::READ, Mode::Edge)
        .expect("the id is free");
}

#[test]
fn rearm_checks_the_key_where_it_has_nothing_else_to_do() {
    let mut stage = Stage::new(ALL);
    assert!(matches!(
        stage.poller.rearm(3, Interest::READ),
        Err(Error::NotRegistered { key: 3 })
    ));
}

#[test]
fn ids_end_at_the_limit() {
    let mut stage = Stage::new(ALL);
    let key = u64::from(MAX_ID) + 1;
    assert!(matches!(
        stage.add(key, Interest::READ, Mode::Level),
        Err(Error::IdTooLarge { key: refused }) if refused == key
    ));
    assert_eq!(stage.calls(), []);
    let highest = (7 << 32) | u64::from(MAX_ID);
    stage
        .add(highest, Interest::READ, Mode::Level)
        .expect("add");
}

#[test]
fn an_id_that_still_waits_to_be_told_may_be_reused() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    let mut stage = Stage::new(ALL);
    stage.add(old, Interest::READ, Mode::Level).expect("add");
    stage.modify(old, Interest::BOTH);
    stage.poller.remove(old).expect("remove");
    stage.add(new, Interest::WRITE, Mode::Level).expect("add");
    stage.calls();
    stage.idle();
    assert_eq!(
        stage.calls(),
        [Wait(None)],
        "the new one has nothing to tell"
    );
    stage.modify(new, Interest::READ);
    stage.idle();
    assert_eq!(stage.calls(), [Modify(new, Interest::READ), Wait(None)]);
}

#[test]
fn a_new_registration_inherits_no_mask() {
    let mut stage = Stage::new(NOTHING);
    stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
    stage.wait(reports([(3, Ready::READABLE)]));
    stage.poller.remove(3).expect("remove");
    stage.add(3, Interest::READ, Mode::Oneshot).expect("add");
    stage.calls();
    stage.idle();
    assert_eq!(stage.calls(), [Wait(None)]);
}

#[test]
fn a_descriptor_is_registered_once() {
    let mut stage = Stage::new(ALL);
    stage.add(3, Interest::READ, Mode::Level).expect("add");
    stage.calls();
    let twice = Registration {
        fd: 3,
        key: 4,
        interest: Interest::READ,
        ends: Asked::by(Interest::READ).ends(),
        mode: Mode::Level,
        exclusive: false,
    };
    let refused = stage.poller.register(&twice);
    assert!(matches!(refused, Err(Error::AlreadyWatched { fd: 3 })));
    assert_eq!(stage.calls(), [], "the kernel is not asked");
    stage.poller.remove_before_close(3).expect("registered");
    stage.poller.register(&twice).expect("it is free");
}
