//! The order of the steps in a turn (an iteration of the loop), with and without the accept lock.

use evcore::{Ready, Timer};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

/// Causes these steps in the next turn: a client, an event, a timer, a post and a wake-up.
fn everything_at_once(fixture: &mut Fixture) -> [evcore::Token; 3] {
    let tokens @ [event, timer, post] = [fixture.join(), fixture.join(), fixture.join()];
    fixture.arm_ms(timer, Timer::READ, 5);
    fixture.ev.post(post, Ready::WRITABLE);
    fixture.pass_ms(5);
    fixture.connect(0, 1);
    fixture.ev.handle().wake();
    fixture.backend.report(vec![
        (fixture.listener_fd(0), Ready::READABLE),
        (fixture.fd(event), Ready::READABLE),
    ]);
    fixture.backend.record();
    tokens
}

#[test]
fn without_a_lock_events_come_first_and_then_the_clients() {
    let mut fixture = Fixture::listening(1);
    let [event, timer, post] = everything_at_once(&mut fixture);
    let expected = [
        readable(event),
        Recorded::Accepted(0),
        Recorded::Woken,
        Recorded::Expired(timer, Timer::READ),
        Recorded::Ready(post, Ready::WRITABLE),
    ];
    assert_eq!(fixture.turn(), expected);
}

#[test]
fn under_the_lock_only_accepts_come_before_its_release() {
    let mut fixture = Fixture::locking(1);
    let [event, timer, post] = everything_at_once(&mut fixture);
    fixture.turn();
    let record: Vec<_> = fixture.backend.record();
    let expected = [
        Recorded::TryLock(true),
        Recorded::Add(fixture.listener_fd(0)),
        Recorded::Wait(Some(std::time::Duration::ZERO)),
        Recorded::Accepted(0),
        Recorded::Unlock,
        Recorded::Woken,
        Recorded::Expired(timer, Timer::READ),
        Recorded::Ready(post, Ready::WRITABLE),
        readable(event),
    ];
    assert_eq!(record, expected);
}

#[test]
fn listeners_are_registered_between_lock_and_wait_and_stay() {
    let mut fixture = Fixture::locking(2);
    let [first, second] = [fixture.listener_fd(0), fixture.listener_fd(1)];
    fixture.turn();
    let turn = [
        Recorded::TryLock(true),
        Recorded::Wait(None),
        Recorded::Unlock,
    ];
    let expected = [
        turn[0],
        Recorded::Add(first),
        Recorded::Add(second),
        turn[1],
        turn[2],
    ];
    assert_eq!(fixture.backend.record(), expected);
    fixture.turn();
    assert_eq!(fixture.backend.record(), turn);
    assert!(fixture.ev.stats().listening);
}

#[test]
fn without_the_lock_a_worker_stops_listening() {
    let mut fixture = Fixture::locking(1);
    fixture.turn();
    let token = fixture.join();
    fixture.backend.record();
    fixture.backend.set_lock_free(false);
    fixture.report_readable(&[token]);
    fixture.wait();
    assert!(!fixture.ev.stats().listening);
    // Nothing was posted, so nothing is left for a later phase.
    assert_eq!(fixture.step(), Some(readable(token)));
    assert_eq!(fixture.ev.stats().posted, 0);
    let fd = fixture.listener_fd(0);
    assert_eq!(
        fixture.backend.record()[..2],
        [Recorded::TryLock(false), Recorded::Remove(fd)]
    );
}

#[test]
fn events_come_in_the_order_in_which_they_were_reported() {
    for mut fixture in [Fixture::new(), Fixture::locking(1)] {
        let [a, b, c] = [fixture.join(), fixture.join(), fixture.join()];
        fixture.report_readable(&[b, c, a]);
        assert_eq!(fixture.turn(), [readable(b), readable(c), readable(a)]);
    }
}

#[test]
fn timers_come_in_the_order_of_their_deadlines_and_of_arming() {
    let mut fixture = Fixture::new();
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.arm_ms(a, Timer::WRITE, 20);
    fixture.arm_ms(b, Timer::READ, 10);
    fixture.arm_ms(a, Timer::READ, 20);
    fixture.pass_ms(20);
    let expected = [
        Recorded::Expired(b, Timer::READ),
        Recorded::Expired(a, Timer::WRITE),
        Recorded::Expired(a, Timer::READ),
    ];
    assert_eq!(fixture.turn(), expected);
}

#[test]
fn the_time_stands_still_within_a_turn() {
    let mut fixture = Fixture::new();
    fixture.pass_ms(7);
    assert_eq!(fixture.ev.clock().monotonic_ms(), 0);
    fixture.wait();
    assert_eq!(fixture.ev.clock().monotonic_ms(), 7);
    fixture.pass_ms(7);
    fixture.rest();
    assert_eq!(fixture.ev.clock().monotonic_ms(), 7);
}

#[test]
fn a_past_timer_armed_by_a_timer_expires_in_the_next_turn() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 1);
    fixture.pass_ms(1);
    fixture.wait();
    assert_eq!(fixture.step(), Some(Recorded::Expired(token, Timer::READ)));
    fixture.arm_ms(token, Timer::READ, 0);
    assert_eq!(fixture.rest(), []);
    fixture.backend.record();

    assert_eq!(fixture.turn(), [Recorded::Expired(token, Timer::READ)]);
    assert_eq!(
        fixture.backend.record()[0],
        Recorded::Wait(Some(std::time::Duration::ZERO))
    );
}

#[test]
fn an_interrupted_wait_is_a_turn_in_which_only_time_has_passed() {
    let mut fixture = Fixture::locking(1);
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 5);
    fixture.pass_ms(5);
    fixture.backend.interrupt();
    assert_eq!(fixture.turn(), [Recorded::Expired(token, Timer::READ)]);
    assert!(!fixture.backend.holds_lock());
    fixture.backend.interrupt();
    assert_eq!(fixture.turn(), []);
    assert_eq!(fixture.ev.stats().turns, 2);
}

#[test]
fn after_its_end_a_turn_has_no_further_step() {
    let mut fixture = Fixture::new();
    assert!(fixture.ev.next_step().is_none(), "no turn has begun");
    fixture.turn();
    assert!(fixture.ev.next_step().is_none());
    assert!(fixture.ev.next_step().is_none());
}
