//! Which tokens the loop gives out, and how many.

use std::{fs::File, num::NonZeroU32};

use evcore::{Builder, Connections, Error, Interest, Mode, Ready, Timer, Token};

use crate::{script::Did, stage::Stage};

#[test]
fn a_closed_token_does_not_come_back_even_within_the_batch_that_reports_it() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    stage.report_readable(&[a, b]);
    stage.wait();
    stage.step();
    stage.leave(b);
    let next = stage.join();
    assert_eq!(next.index(), b.index());
    assert_ne!(next, b);
    assert_eq!(
        stage.rest(),
        [],
        "what was reported of b is not delivered to the next"
    );
}

#[test]
fn a_token_that_was_never_given_out_is_stale_and_nothing_overflows() {
    let mut stage = Stage::listening(2);
    for index in [evcore::poller::MAX_ID, 1 << 31, u32::MAX] {
        let token = Token::new(index, NonZeroU32::MIN);
        assert!(!stage.ev.close(token));
        assert!(!stage.ev.post(token, Ready::READABLE));
        assert!(!stage.ev.disarm(token, Timer::WRITE));
        assert!(!stage.ev.rearm(token, Interest::NONE));
    }
}

#[test]
fn the_limit_of_connections_is_enforced_and_a_place_is_free_after_a_close() {
    let mut stage = Stage::built(0, |builder: Builder, _| builder.connections(2));
    let [a, _] = [stage.join(), stage.join()];
    let refused = stage.try_join();
    assert!(
        matches!(refused, Err(Error::Full { limit: 2 })),
        "{refused:?}"
    );
    stage.begin(); // is no connection
    stage.leave(a);
    stage.join();
}

#[test]
fn two_tables_of_one_loop_do_not_collide() {
    let mut stage = Stage::new();
    let null = || File::open("/dev/null").unwrap();
    let (mut clients, mut jobs) = (Connections::new(), Connections::new());
    let mut tokens = Vec::new();
    for number in 0..10 {
        let (ev, mode) = (&mut stage.ev, Mode::Level);
        tokens.push(clients.add(ev, null(), Interest::READ, mode).unwrap());
        let job = ev.add_unwatched().unwrap();
        jobs.insert(job, number);
        tokens.push(job);
    }
    assert_eq!((clients.len(), jobs.len()), (10, 10));
    for pair in tokens.chunks(2) {
        assert!(clients.contains(pair[0]) && !jobs.contains(pair[0]));
        assert!(!clients.contains(pair[1]) && jobs.contains(pair[1]));
        assert!(!clients.close(&mut stage.ev, pair[1]));
        assert!(clients.close(&mut stage.ev, pair[0]));
        assert!(jobs.remove(&mut stage.ev, pair[1]).is_some());
    }
    assert!(clients.is_empty() && jobs.is_empty() && stage.ev.status().active == 0);
}

#[test]
fn a_value_ends_with_its_token() {
    let mut stage = Stage::new();
    let mut conns = Connections::new();
    let old = stage.ev.add_unwatched().unwrap();
    assert_eq!(conns.insert(old, "old"), None);
    assert_eq!(conns.insert(old, "older"), Some("old"));
    // The loop alone was asked to close it, which leaves the value to be found by nobody else.
    stage.ev.close(old);
    let new = stage.ev.add_unwatched().unwrap();
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
    let mut stage = Stage::new();
    stage.script.fail_add_after(0);
    assert!(matches!(stage.try_join(), Err(Error::Poller(_))));
    assert_eq!(stage.ev.status().active, 0);
    let token = stage.join();
    assert_eq!(
        token.generation(),
        NonZeroU32::MIN,
        "the very token that was refused"
    );
}

#[test]
fn a_token_without_a_descriptor_has_timers_and_posts_and_is_no_connection() {
    let mut stage = Stage::new();
    let token = stage.ev.add_unwatched().unwrap();
    assert_eq!(stage.ev.status().active, 0);
    assert!(matches!(
        stage.ev.modify(token, Interest::READ),
        Err(Error::Stale { .. })
    ));
    assert!(!stage.ev.rearm(token, Interest::READ));
    stage.arm_ms(token, Timer::WRITE, 1);
    stage.ev.post(token, Ready::NONE);
    stage.pass_ms(1);
    let expected = [
        Did::Expired(token, Timer::WRITE),
        Did::Ready(token, Ready::NONE),
    ];
    assert_eq!(stage.turn(), expected);
    stage.script.record();
    assert!(stage.ev.close(token));
    assert_eq!(stage.script.record(), [], "the poller never knew it");
}
