//! The order of a turn, with the accept lock and without.

use evcore::{Ready, Timer};

use crate::{
    script::Did,
    stage::{Stage, readable},
};

/// One of everything is due: a client, an event, a timer, a post and a wake-up.
fn everything_at_once(stage: &mut Stage) -> [evcore::Token; 3] {
    let tokens @ [event, timer, post] = [stage.join(), stage.join(), stage.join()];
    stage.arm_ms(timer, Timer::READ, 5);
    stage.ev.post(post, Ready::WRITABLE);
    stage.pass_ms(5);
    stage.connect(0, 1);
    stage.ev.handle().wake();
    stage.script.report(vec![
        (stage.listener_fd(0), Ready::READABLE),
        (stage.fd(event), Ready::READABLE),
    ]);
    stage.script.record();
    tokens
}

#[test]
fn without_a_lock_events_come_first_and_then_the_clients() {
    let mut stage = Stage::listening(1);
    let [event, timer, post] = everything_at_once(&mut stage);
    let expected = [
        readable(event),
        Did::Accepted(0),
        Did::Woken,
        Did::Expired(timer, Timer::READ),
        Did::Ready(post, Ready::WRITABLE),
    ];
    assert_eq!(stage.turn(), expected);
}

#[test]
fn with_the_lock_only_accepts_come_before_it_is_released() {
    let mut stage = Stage::locking(1);
    let [event, timer, post] = everything_at_once(&mut stage);
    stage.turn();
    let record: Vec<_> = stage.script.record();
    let expected = [
        Did::TryLock(true),
        Did::Add(stage.listener_fd(0)),
        Did::Wait(Some(std::time::Duration::ZERO)),
        Did::Accepted(0),
        Did::Unlock,
        Did::Woken,
        Did::Expired(timer, Timer::READ),
        Did::Ready(post, Ready::WRITABLE),
        readable(event),
    ];
    assert_eq!(record, expected);
}

#[test]
fn listeners_are_registered_after_the_lock_and_before_the_wait_and_stay_registered() {
    let mut stage = Stage::locking(2);
    let [first, second] = [stage.listener_fd(0), stage.listener_fd(1)];
    stage.turn();
    let turn = [Did::TryLock(true), Did::Wait(None), Did::Unlock];
    let expected = [turn[0], Did::Add(first), Did::Add(second), turn[1], turn[2]];
    assert_eq!(stage.script.record(), expected);
    stage.turn();
    assert_eq!(stage.script.record(), turn);
    assert!(stage.ev.status().listening);
}

#[test]
fn a_worker_that_is_refused_the_lock_stops_listening_and_delivers_directly() {
    let mut stage = Stage::locking(1);
    stage.turn();
    let token = stage.join();
    stage.script.record();
    stage.script.set_lock_free(false);
    stage.report_readable(&[token]);
    stage.wait();
    assert!(!stage.ev.status().listening);
    // Nothing was posted, so nothing is left for a later phase.
    assert_eq!(stage.step(), Some(readable(token)));
    assert_eq!(stage.ev.stats().posted, 0);
    let fd = stage.listener_fd(0);
    assert_eq!(
        stage.script.record()[..2],
        [Did::TryLock(false), Did::Remove(fd)]
    );
}

#[test]
fn events_come_in_the_order_in_which_they_were_reported() {
    for mut stage in [Stage::new(), Stage::locking(1)] {
        let [a, b, c] = [stage.join(), stage.join(), stage.join()];
        stage.report_readable(&[b, c, a]);
        assert_eq!(stage.turn(), [readable(b), readable(c), readable(a)]);
    }
}

#[test]
fn timers_come_in_the_order_of_their_deadlines_and_of_arming() {
    let mut stage = Stage::new();
    let [a, b] = [stage.join(), stage.join()];
    stage.arm_ms(a, Timer::WRITE, 20);
    stage.arm_ms(b, Timer::READ, 10);
    stage.arm_ms(a, Timer::READ, 20);
    stage.pass_ms(20);
    let expected = [
        Did::Expired(b, Timer::READ),
        Did::Expired(a, Timer::WRITE),
        Did::Expired(a, Timer::READ),
    ];
    assert_eq!(stage.turn(), expected);
}

#[test]
fn the_time_stands_still_within_a_turn() {
    let mut stage = Stage::new();
    stage.pass_ms(7);
    assert_eq!(stage.ev.clock().monotonic_ms(), 0);
    stage.wait();
    assert_eq!(stage.ev.clock().monotonic_ms(), 7);
    stage.pass_ms(7);
    stage.rest();
    assert_eq!(stage.ev.clock().monotonic_ms(), 7);
}

#[test]
fn a_timer_that_is_armed_in_the_past_by_a_timer_fires_in_the_next_turn() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 1);
    stage.pass_ms(1);
    stage.wait();
    assert_eq!(stage.step(), Some(Did::Expired(token, Timer::READ)));
    stage.arm_ms(token, Timer::READ, 0);
    assert_eq!(stage.rest(), []);
    stage.script.record();

    assert_eq!(stage.turn(), [Did::Expired(token, Timer::READ)]);
    assert_eq!(
        stage.script.record()[0],
        Did::Wait(Some(std::time::Duration::ZERO))
    );
}

#[test]
fn an_interrupted_wait_is_a_turn_in_which_only_time_has_passed() {
    let mut stage = Stage::locking(1);
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 5);
    stage.pass_ms(5);
    stage.script.interrupt();
    assert_eq!(stage.turn(), [Did::Expired(token, Timer::READ)]);
    assert!(!stage.script.holds_lock());
    stage.script.interrupt();
    assert_eq!(stage.turn(), []);
    assert_eq!(stage.ev.stats().turns, 2);
}

#[test]
fn the_end_of_a_turn_is_told_as_often_as_it_is_asked_for() {
    let mut stage = Stage::new();
    assert!(stage.ev.next_step().is_none(), "no turn has begun");
    stage.turn();
    assert!(stage.ev.next_step().is_none());
    assert!(stage.ev.next_step().is_none());
}
