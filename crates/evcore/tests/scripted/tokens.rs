//! The tokens that the loop gives out, and their limit.

use std::{fs::File, num::NonZeroU32};

use evcore::{Builder, Error, Interest, Mode, Ready, Timer, Token, TokenMap};

use crate::{fake_backend::Recorded, fixture::Fixture};

#[test]
fn a_closed_token_is_not_reused_even_within_its_batch() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.report_readable(&[a, b]);
    fixture.wait();
    fixture.step();
    fixture.leave(b);
    let next = fixture.join();
    assert_eq!(next.index(), b.index());
    assert_ne!(next, b);
    assert_eq!(
        fixture.rest(),
        [],
        "the event of b is not delivered to the next token"
    );
}

#[test]
fn a_token_that_was_never_given_out_is_stale() {
    let mut fixture = Fixture::listening(2);
    for index in [evcore::poller::MAX_ID, 1 << 31, u32::MAX] {
        let token = Token::new(index, NonZeroU32::MIN);
        assert!(!fixture.ev.remove(token));
        assert!(!fixture.ev.post(token, Ready::READABLE));
        assert!(!fixture.ev.disarm(token, Timer::WRITE));
        assert!(!fixture.ev.rearm(token, Interest::NONE));
    }
}

#[test]
fn the_connection_limit_is_enforced_until_a_close() {
    let mut fixture = Fixture::built(0, |builder: Builder, _| builder.connections(2));
    let [a, _] = [fixture.join(), fixture.join()];
    let refused = fixture.try_join();
    assert!(
        matches!(refused, Err(Error::Full { limit: 2 })),
        "{refused:?}"
    );
    fixture.begin(); // is not a connection
    fixture.leave(a);
    fixture.join();
}

#[test]
fn two_maps_of_one_loop_do_not_collide() {
    let mut fixture = Fixture::new();
    let null = || File::open("/dev/null").unwrap();
    let (mut clients, mut jobs) = (TokenMap::new(), TokenMap::new());
    let mut tokens = Vec::new();
    for number in 0..10 {
        let (ev, mode) = (&mut fixture.ev, Mode::Level);
        tokens.push(clients.add(ev, null(), Interest::READ, mode).unwrap());
        let job = ev.add_unwatched().unwrap();
        jobs.insert(job, number);
        tokens.push(job);
    }
    assert_eq!((clients.len(), jobs.len()), (10, 10));
    for pair in tokens.chunks(2) {
        assert!(clients.contains(pair[0]) && !jobs.contains(pair[0]));
        assert!(!clients.contains(pair[1]) && jobs.contains(pair[1]));
        assert!(!clients.close(&mut fixture.ev, pair[1]));
        assert!(clients.close(&mut fixture.ev, pair[0]));
        assert!(jobs.remove(&mut fixture.ev, pair[1]).is_some());
    }
    assert!(clients.is_empty() && jobs.is_empty() && fixture.ev.stats().active == 0);
}

#[test]
fn no_later_token_finds_the_value_of_a_removed_token() {
    let mut fixture = Fixture::new();
    let mut conns = TokenMap::new();
    let old = fixture.ev.add_unwatched().unwrap();
    assert_eq!(conns.insert(old, "old"), None);
    assert_eq!(conns.insert(old, "older"), Some("old"));
    // The token was removed from the loop only, so its value is still in the map. No later token
    // finds that value.
    fixture.ev.remove(old);
    let new = fixture.ev.add_unwatched().unwrap();
    assert_eq!(new.index(), old.index());
    assert_eq!(conns.get(new), None);
    assert_eq!(conns.insert(new, "new"), None);
    assert_eq!(
        (conns.get(old), conns.get(new), conns.len()),
        (None, Some(&"new"), 1)
    );
}

#[test]
fn a_registration_that_the_kernel_refuses_leaves_nothing_behind() {
    let mut fixture = Fixture::new();
    fixture.backend.fail_add_after(0);
    assert!(matches!(fixture.try_join(), Err(Error::Poller(_))));
    assert_eq!(fixture.ev.stats().active, 0);
    let token = fixture.join();
    assert_eq!(
        token.generation(),
        NonZeroU32::MIN,
        "the refused registration used up no token"
    );
}

#[test]
fn a_token_without_a_descriptor_is_not_a_connection() {
    let mut fixture = Fixture::new();
    let token = fixture.ev.add_unwatched().unwrap();
    assert_eq!(fixture.ev.stats().active, 0);
    assert!(matches!(
        fixture.ev.modify(token, Interest::READ),
        Err(Error::Stale { .. })
    ));
    assert!(!fixture.ev.rearm(token, Interest::READ));
    fixture.arm_ms(token, Timer::WRITE, 1);
    fixture.ev.post(token, Ready::NONE);
    fixture.pass_ms(1);
    let expected = [
        Recorded::Expired(token, Timer::WRITE),
        Recorded::Ready(token, Ready::NONE),
    ];
    assert_eq!(fixture.turn(), expected);
    fixture.backend.record();
    assert!(fixture.ev.remove(token));
    assert_eq!(fixture.backend.record(), [], "it was never registered");
}
