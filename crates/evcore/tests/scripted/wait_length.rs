//! The timeout of the wait with which each turn (iteration of the loop) begins. `prepare` and
//! `wait_at_most` are the two halves of a wait.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer, Token, balancer::Policy};

use crate::fixture::{Fixture, readable};

const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

/// The timeout of the next turn's wait.
fn timeout(fixture: &mut Fixture) -> Option<Duration> {
    timeout_of(fixture, &mut 0)
}

/// The timeout of the next turn's wait. Adds the steps of that turn to a sum.
fn timeout_of(fixture: &mut Fixture, steps: &mut usize) -> Option<Duration> {
    fixture.backend.record();
    fixture.wait();
    let timeouts = fixture.backend.timeouts();
    *steps += fixture.rest().len();
    assert_eq!(timeouts.len(), 1);
    timeouts[0]
}

#[test]
fn a_loop_without_work_waits_without_limit() {
    let mut fixture = Fixture::new();
    fixture.join();
    assert_eq!(timeout(&mut fixture), None);
}

#[test]
fn a_loop_waits_for_the_earliest_timer_and_not_after_that() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 40);
    fixture.arm_ms(token, Timer::WRITE, 30);
    assert_eq!(timeout(&mut fixture), Some(30 * MS));
    fixture.pass_ms(10);
    fixture.turn();
    assert_eq!(timeout(&mut fixture), Some(20 * MS));
    fixture.ev.disarm(token, Timer::WRITE);
    assert_eq!(
        timeout(&mut fixture),
        Some(20 * MS),
        "the loop wakes once for the disarmed timer"
    );
    fixture.pass_ms(20);
    assert_eq!(fixture.turn(), []);
    assert_eq!(timeout(&mut fixture), Some(10 * MS));
    fixture.ev.remove(token);
    assert_eq!(timeout(&mut fixture), None);
}

#[test]
fn the_time_of_the_handlers_shortens_the_wait() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.report_readable(&[token]);
    fixture.wait();
    assert_eq!(fixture.rest().len(), 1);
    fixture.arm_ms(token, Timer::READ, 40);
    fixture.time.advance(30 * MS + NS);
    assert_eq!(timeout(&mut fixture), Some(10 * MS - NS));
    // If the handlers took longer than the timer, the loop does not wait.
    fixture.arm_ms(token, Timer::READ, 40);
    fixture.time.advance(50 * MS);
    assert_eq!(timeout(&mut fixture), Some(Duration::ZERO));
}

/// A loop after a turn with an event. The handlers of that turn took `took`. The only timer is due
/// when `after` has passed since the beginning of that turn.
fn served(after: Duration, took: Duration) -> Fixture {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.report_readable(&[token]);
    fixture.wait();
    assert_eq!(fixture.rest().len(), 1);
    assert!(fixture.ev.arm(token, Timer::READ, after));
    fixture.time.advance(took);
    fixture
}

/// With the feature `tracing` the loop reads the clock in every turn, so no wait is split.
#[cfg(not(feature = "tracing"))]
#[test]
fn after_events_a_far_timer_is_waited_for_in_two_parts() {
    let mut fixture = served(10_000 * MS, 1_000 * MS);
    assert_eq!(timeout(&mut fixture), Some(4_000 * MS), "about half");
    fixture.pass_ms(4_000);
    assert_eq!(timeout(&mut fixture), Some(5_000 * MS), "the rest");
}

#[test]
fn a_rough_wait_makes_no_timer_late_by_a_whole_turn() {
    for after in [2_000, 2_148, 3_000, 10_000, 60_000] {
        for tenths in 0..15 {
            let took = after * MS * tenths / 10;
            let mut fixture = served(after * MS, took);
            let mut passed = took;
            loop {
                let waits = timeout(&mut fixture).unwrap_or(Duration::ZERO);
                if fixture.ev.stats().expired > 0 {
                    break;
                }
                fixture.time.advance(waits);
                passed += waits;
            }
            let late = passed.saturating_sub(after * MS);
            assert!(
                late < took.max(NS),
                "{after} ms: late by {late:?} after {took:?}"
            );
        }
    }
}

#[test]
fn work_before_the_first_wait_shortens_it() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 40);
    fixture.pass_ms(30);
    assert_eq!(timeout(&mut fixture), Some(10 * MS));
}

#[test]
fn work_after_a_failed_wait_shortens_the_next_wait() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.turn();
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait().is_err());
    fixture.arm_ms(token, Timer::READ, 40);
    fixture.pass_ms(30);
    assert_eq!(timeout(&mut fixture), Some(10 * MS));
}

#[test]
fn a_timer_is_not_early_by_a_nanosecond() {
    // The turn begins at the edges of a millisecond or within it.
    for begun_ns in [0, 1, 500_000, 999_999] {
        for after in [NS, MS - NS, MS, MS + NS, 5 * MS + 999_999 * NS] {
            let mut fixture = Fixture::new();
            let token = fixture.join();
            fixture.time.advance(begun_ns * NS);
            fixture.turn();
            assert!(fixture.ev.arm(token, Timer::READ, after));
            let waits = timeout(&mut fixture).expect("a timer is armed");
            assert!(
                waits >= after,
                "waits {waits:?} from {begun_ns} ns for {after:?}"
            );
            assert!(
                waits < after + MS,
                "rounded up to a millisecond, not further"
            );

            fixture.time.advance(waits - NS);
            assert_eq!(fixture.turn(), [], "one nanosecond before");
            fixture.time.advance(NS);
            assert_eq!(fixture.turn().len(), 1);
        }
    }
}

#[test]
fn a_timer_of_zero_expires_at_the_end_of_the_millisecond() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.time.advance(300_000 * NS);
    fixture.turn();
    assert!(fixture.ev.arm(token, Timer::READ, Duration::ZERO));
    assert_eq!(timeout(&mut fixture), Some(700_000 * NS));
}

#[test]
fn a_timer_at_the_end_of_time_overflows_nothing() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.pass_ms(123);
    fixture.turn();
    assert!(fixture.ev.arm(token, Timer::READ, Duration::MAX));
    let waits = timeout(&mut fixture).expect("a timer is armed");
    assert!(waits > Duration::from_secs(60 * 60 * 24 * 365), "{waits:?}");
    assert_eq!(fixture.turn(), []);
}

#[test]
fn many_timers_are_sorted_over_several_turns_without_waits() {
    let budgets = Budgets {
        expired: 32,
        ..Budgets::default()
    };
    let mut fixture = Fixture::built(1, |builder, _| builder.budgets(budgets));
    let crowd: Vec<_> = (0..300).map(|_| fixture.join()).collect();
    for token in &crowd {
        fixture.arm_ms(*token, Timer::READ, 300);
    }
    fixture.pass_ms(300);
    let (mut fired, mut waits) = (0, 0);
    while fired < crowd.len() {
        let timeout = timeout_of(&mut fixture, &mut fired);
        assert_eq!(timeout, Some(Duration::ZERO));
        waits += 1;
    }
    assert!(waits > 300 / 32 + 1, "sorting took nothing of the budget");
    assert_eq!(timeout(&mut fixture), None);
}

#[test]
fn a_worker_without_the_lock_tries_again_after_the_delay() {
    let mut fixture = Fixture::locking(1);
    fixture.backend.set_lock_free(false);
    assert_eq!(timeout(&mut fixture), Some(500 * MS));
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 600);
    assert_eq!(timeout(&mut fixture), Some(500 * MS));
    fixture.arm_ms(token, Timer::READ, 60);
    assert_eq!(timeout(&mut fixture), Some(60 * MS));
}

#[test]
fn the_accept_delay_comes_from_the_policy() {
    let delay = Duration::from_millis(20);
    let mut fixture = Fixture::built(1, |builder, backend| {
        builder
            .policy(Policy::Mutex { delay })
            .group(backend.clone())
    });
    fixture.backend.set_lock_free(false);
    assert_eq!(timeout(&mut fixture), Some(delay));
}

#[test]
fn carried_work_outweighs_every_limit() {
    let mut fixture = Fixture::locking(1);
    fixture.backend.set_lock_free(false);
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 60);
    fixture.ev.post(token, Ready::READABLE);
    assert_eq!(timeout(&mut fixture), Some(Duration::ZERO));
    assert_eq!(timeout(&mut fixture), Some(60 * MS));
}

#[test]
fn a_wake_up_that_is_not_delivered_yet_is_not_waited_for() {
    let mut fixture = Fixture::new();
    fixture.ev.handle().wake();
    fixture.wait();
    fixture.backend.record();
    fixture.wait();
    assert_eq!(fixture.backend.timeouts(), [Some(Duration::ZERO)]);
    assert_eq!(fixture.rest().len(), 1, "one wake-up, seen once");
    assert_eq!(fixture.turn(), []);
}

fn timeout_at_most(fixture: &mut Fixture, limit: Duration) -> Option<Duration> {
    fixture.backend.record();
    fixture.ev.wait_at_most(limit).unwrap();
    let timeouts = fixture.backend.timeouts();
    assert_eq!(fixture.rest(), []);
    assert_eq!(timeouts.len(), 1);
    timeouts[0]
}

#[test]
fn a_limit_shortens_a_wait_and_never_lengthens_it() {
    let mut fixture = Fixture::listening(1);
    assert_eq!(timeout_at_most(&mut fixture, 7 * MS), Some(7 * MS));
    assert!(fixture.ev.stats().listening);
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 40);
    assert_eq!(timeout_at_most(&mut fixture, 41 * MS), Some(40 * MS));
    assert_eq!(timeout_at_most(&mut fixture, 39 * MS), Some(39 * MS));
    let zero = Duration::ZERO;
    assert_eq!(timeout_at_most(&mut fixture, zero), Some(zero));
}

#[test]
fn posts_timers_and_time_shorten_the_second_half_of_a_wait() {
    let second_half = |change: fn(&mut Fixture)| {
        let mut fixture = Fixture::new();
        let token = fixture.join();
        fixture.arm_ms(token, Timer::READ, 40);
        let timeout = fixture.ev.prepare().unwrap().timeout;
        change(&mut fixture);
        fixture.backend.record();
        fixture.ev.wait_at_most(timeout).unwrap();
        fixture.rest();
        fixture.backend.timeouts()[0]
    };
    assert_eq!(second_half(|_| ()), Some(40 * MS));
    assert_eq!(
        second_half(|fixture| fixture.time.advance(30 * MS)),
        Some(10 * MS)
    );
    let post = |fixture: &mut Fixture| {
        let token = fixture.join();
        assert!(fixture.ev.post(token, Ready::NONE));
    };
    assert_eq!(second_half(post), Some(Duration::ZERO));
    let arm = |fixture: &mut Fixture| {
        let token = fixture.join();
        fixture.arm_ms(token, Timer::READ, 5);
    };
    assert_eq!(second_half(arm), Some(5 * MS));
}

#[test]
fn a_slot_that_becomes_free_ends_the_second_half_of_a_wait() {
    let second_half = |change: fn(&mut Fixture, Token)| {
        let mut fixture = Fixture::built(1, |builder, _| builder.connections(1));
        let token = fixture.join();
        fixture.turn();
        fixture.ev.prepare().unwrap();
        change(&mut fixture, token);
        fixture.backend.record();
        fixture.ev.wait_at_most(None).unwrap();
        fixture.turn();
        (fixture.backend.timeouts()[0], fixture.ev.stats().listening)
    };
    assert_eq!(second_half(|_, _| ()), (None, false));
    assert_eq!(second_half(Fixture::leave), (Some(Duration::ZERO), true));
    let set_idle = |fixture: &mut Fixture, token| assert!(fixture.ev.set_idle(token));
    assert_eq!(second_half(set_idle), (Some(Duration::ZERO), true));
}

#[test]
fn a_wait_at_most_without_a_prepare_plans_its_turn() {
    let mut fixture = Fixture::listening(1);
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 40);
    for (given, expected) in [(None, 40 * MS), (Some(3 * MS), 3 * MS)] {
        fixture.backend.record();
        fixture.ev.wait_at_most(given).unwrap();
        assert_eq!(fixture.backend.timeouts(), [Some(expected)]);
        assert!(fixture.ev.stats().listening);
        assert_eq!(fixture.rest(), []);
    }
    fixture.ev.post_next(token, Ready::READABLE);
    fixture.ev.wait_at_most(None).unwrap();
    assert_eq!(fixture.rest(), [readable(token)]);
}

#[test]
fn halves_of_a_wait_in_any_order_lose_nothing() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.ev.post_next(token, Ready::READABLE);
    assert_eq!(fixture.ev.prepare().unwrap().timeout, Some(Duration::ZERO));
    assert_eq!(fixture.rest(), [], "the turn has not begun");
    assert_eq!(fixture.ev.prepare().unwrap().timeout, Some(Duration::ZERO));
    // `wait` repeats the first half of the wait.
    fixture.wait();
    assert_eq!(fixture.rest(), [readable(token)]);
    fixture.arm_ms(token, Timer::READ, 40);
    fixture.backend.record();
    fixture.ev.wait_at_most(None).unwrap();
    assert_eq!(fixture.backend.timeouts(), [Some(40 * MS)]);
}

#[test]
fn a_failed_second_half_uses_up_the_prepared_turn() {
    let mut fixture = Fixture::new();
    let token = fixture.join();
    fixture.ev.prepare().unwrap();
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait_at_most(None).is_err());
    fixture.ev.post_next(token, Ready::READABLE);
    fixture.ev.wait_at_most(None).unwrap();
    assert_eq!(fixture.rest(), [readable(token)]);
}
