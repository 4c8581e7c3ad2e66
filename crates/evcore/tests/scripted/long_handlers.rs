//! Timers that a long handler arms, with and without an update of the clock.

use std::time::Duration;

use evcore::Timer;

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

const MS: Duration = Duration::from_millis(1);

const LONG_MS: u64 = 200;

#[test]
fn without_an_update_a_deadline_counts_from_the_turn() {
    let mut fixture = Fixture::new();
    let token = fixture.begin();
    fixture.pass_ms(LONG_MS);
    fixture.arm_ms(token, Timer::READ, 100);
    assert_eq!(fixture.ev.timers().deadline(token, Timer::READ), Some(100));
    fixture.rest();
    assert_eq!(fixture.turn(), [Recorded::Expired(token, Timer::READ)]);
}

#[test]
fn after_an_update_a_deadline_counts_from_the_present() {
    let mut fixture = Fixture::new();
    let token = fixture.begin();
    fixture.pass_ms(LONG_MS);
    fixture.ev.timers().update_clock();
    fixture.arm_ms(token, Timer::READ, 100);
    assert_eq!(fixture.ev.timers().deadline(token, Timer::READ), Some(300));
    fixture.rest();
    fixture.pass_ms(99);
    assert_eq!(fixture.turn(), []);
    fixture.pass_ms(1);
    assert_eq!(fixture.turn(), [Recorded::Expired(token, Timer::READ)]);
}

#[test]
fn between_ticks_a_deadline_counts_from_the_present_too() {
    let mut fixture = Fixture::built(0, |builder, _| builder.timer_resolution(10 * MS));
    let token = fixture.begin();
    fixture.pass_ms(LONG_MS);
    fixture.ev.timers().update_clock();
    fixture.arm_ms(token, Timer::READ, 100);
    // The resolution is added, because the clock may be behind by one resolution in any handler.
    assert_eq!(fixture.ev.timers().deadline(token, Timer::READ), Some(310));
    fixture.rest();
    // The next tick is due a whole period after the update.
    fixture.backend.record();
    fixture.turn();
    assert_eq!(fixture.backend.timeouts(), [Some(10 * MS)]);
}

#[test]
fn an_update_by_a_timers_handler_adds_no_timer_to_its_turn() {
    let mut fixture = Fixture::new();
    let tokens = [fixture.join(), fixture.join(), fixture.join()];
    fixture.arm_ms(tokens[0], Timer::READ, 10);
    fixture.arm_ms(tokens[1], Timer::READ, 10);
    fixture.arm_ms(tokens[2], Timer::READ, 50);
    fixture.pass_ms(10);
    fixture.wait();
    let expired = |of: usize| Recorded::Expired(tokens[of], Timer::READ);
    assert_eq!(fixture.step(), Some(expired(0)));
    fixture.pass_ms(LONG_MS);
    fixture.ev.timers().update_clock();
    fixture.arm_ms(tokens[0], Timer::READ, 0);
    // The other timer of this turn still expires in this turn. Timers that have become due by the
    // update expire in the next turn.
    assert_eq!(fixture.rest(), [expired(1)]);
    assert_eq!(fixture.turn(), [expired(2), expired(0)]);
}

#[test]
fn an_update_in_the_handler_of_an_event_lets_due_timers_expire() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 50);
    fixture.report_readable(&[token]);
    fixture.wait();
    assert_eq!(fixture.step(), Some(readable(token)));
    fixture.pass_ms(LONG_MS);
    fixture.ev.timers().update_clock();
    assert_eq!(fixture.rest(), [Recorded::Expired(token, Timer::READ)]);
}

#[test]
fn a_deadline_in_absolute_time_does_not_move_with_the_handler() {
    let mut fixture = Fixture::new();
    let [late, soon, past] = [(); 3].map(|()| fixture.begin());
    let turn = fixture.ev.clock().instant();
    fixture.pass_ms(LONG_MS);
    assert!(
        fixture
            .ev
            .timers()
            .arm_at(late, Timer::READ, turn + 300 * MS)
    );
    assert!(
        fixture
            .ev
            .timers()
            .arm_at(soon, Timer::READ, turn + 100 * MS)
    );
    assert!(
        fixture
            .ev
            .timers()
            .arm_at(past, Timer::READ, turn - 100 * MS)
    );
    let due = [late, soon, past].map(|token| fixture.ev.timers().deadline(token, Timer::READ));
    assert_eq!(due, [Some(300), Some(100), Some(0)]);
    fixture.ev.timers().update_clock();
    assert!(
        fixture
            .ev
            .timers()
            .arm_at(late, Timer::READ, turn + 300 * MS)
    );
    assert_eq!(fixture.ev.timers().deadline(late, Timer::READ), Some(300));
    fixture.leave(late);
    assert!(!fixture.ev.timers().arm_at(late, Timer::READ, turn));
}

/// The example in the documentation of `EventLoop::arm`.
#[test]
fn a_timer_armed_again_by_its_handler_keeps_its_period() {
    for (handler_ms, wait_ms, period_ms) in [(17, 33, 50), (70, 0, 70)] {
        let mut fixture = Fixture::new();
        let token = fixture.begin();
        fixture.arm_ms(token, Timer::READ, 50);
        fixture.rest();
        let waits_and_times = [(); 3].map(|()| {
            let timeout = fixture.ev.prepare().unwrap().timeout.unwrap();
            fixture.time.advance(timeout);
            fixture.ev.wait_at_most(Some(timeout)).unwrap();
            assert_eq!(fixture.step(), Some(Recorded::Expired(token, Timer::READ)));
            let now_ms = fixture.ev.clock().monotonic_ms();
            fixture.pass_ms(handler_ms);
            fixture.arm_ms(token, Timer::READ, 50);
            fixture.rest();
            (timeout, now_ms)
        });
        let second = (wait_ms * MS, 50 + period_ms);
        let third = (wait_ms * MS, 50 + 2 * period_ms);
        assert_eq!(waits_and_times, [(50 * MS, 50), second, third]);
    }
}
