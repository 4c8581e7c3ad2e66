//! How long a turn waits.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer, balancer::Policy};

use crate::stage::Stage;

const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

/// How long the next turn waits.
fn timeout(stage: &mut Stage) -> Option<Duration> {
    timeout_of(stage, &mut 0)
}

/// How long the next turn waits; adds up the steps that it then has.
fn timeout_of(stage: &mut Stage, steps: &mut usize) -> Option<Duration> {
    stage.script.record();
    stage.wait();
    let timeouts = stage.script.timeouts();
    *steps += stage.rest().len();
    assert_eq!(timeouts.len(), 1);
    timeouts[0]
}

#[test]
fn with_nothing_to_do_it_waits_without_limit() {
    let mut stage = Stage::new();
    stage.join();
    assert_eq!(timeout(&mut stage), None);
}

#[test]
fn it_waits_for_the_earliest_timer_and_not_after_that() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 40);
    stage.arm_ms(token, Timer::WRITE, 30);
    assert_eq!(timeout(&mut stage), Some(30 * MS));
    stage.pass_ms(10);
    stage.turn();
    assert_eq!(timeout(&mut stage), Some(20 * MS));
    stage.ev.disarm(token, Timer::WRITE);
    assert_eq!(timeout(&mut stage), Some(30 * MS));
    stage.ev.close(token);
    assert_eq!(timeout(&mut stage), None);
}

#[test]
fn what_the_handlers_took_is_not_waited_for_again() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.report_readable(&[token]);
    stage.wait();
    assert_eq!(stage.rest().len(), 1);
    stage.arm_ms(token, Timer::READ, 40);
    stage.time.advance(30 * MS + NS);
    assert_eq!(timeout(&mut stage), Some(10 * MS - NS));
    // And where they took longer than that, it does not wait at all.
    stage.arm_ms(token, Timer::READ, 40);
    stage.time.advance(50 * MS);
    assert_eq!(timeout(&mut stage), Some(Duration::ZERO));
}

#[test]
fn what_was_done_before_the_first_wait_is_not_waited_for_again() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 40);
    stage.pass_ms(30);
    assert_eq!(timeout(&mut stage), Some(10 * MS));
}

#[test]
fn what_was_done_after_a_wait_that_failed_is_not_waited_for_again() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.turn();
    stage.script.fail_wait();
    assert!(stage.ev.wait().is_err());
    stage.arm_ms(token, Timer::READ, 40);
    stage.pass_ms(30);
    assert_eq!(timeout(&mut stage), Some(10 * MS));
}

#[test]
fn a_timer_is_never_early_by_so_much_as_a_nanosecond() {
    // Within a millisecond, at its edges, and across one.
    for begun_ns in [0, 1, 500_000, 999_999] {
        for after in [NS, MS - NS, MS, MS + NS, 5 * MS + 999_999 * NS] {
            let mut stage = Stage::new();
            let token = stage.join();
            stage.time.advance(begun_ns * NS);
            stage.turn();
            assert!(stage.ev.arm(token, Timer::READ, after));
            let waits = timeout(&mut stage).expect("a timer is armed");
            assert!(
                waits >= after,
                "waits {waits:?} from {begun_ns} ns for {after:?}"
            );
            assert!(
                waits < after + MS,
                "rounded up to a millisecond, not further"
            );

            stage.time.advance(waits - NS);
            assert_eq!(stage.turn(), [], "one nanosecond before");
            stage.time.advance(NS);
            assert_eq!(stage.turn().len(), 1);
        }
    }
}

#[test]
fn a_timer_of_no_time_at_all_waits_for_the_millisecond_to_end() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.time.advance(300_000 * NS);
    stage.turn();
    assert!(stage.ev.arm(token, Timer::READ, Duration::ZERO));
    assert_eq!(timeout(&mut stage), Some(700_000 * NS));
}

#[test]
fn a_timer_at_the_end_of_time_overflows_nothing() {
    let mut stage = Stage::new();
    let token = stage.join();
    stage.pass_ms(123);
    stage.turn();
    assert!(stage.ev.arm(token, Timer::READ, Duration::MAX));
    let waits = timeout(&mut stage).expect("a timer is armed");
    assert!(waits > Duration::from_secs(60 * 60 * 24 * 365), "{waits:?}");
    assert_eq!(stage.turn(), []);
}

#[test]
fn a_crowd_of_timers_is_sorted_over_several_turns_of_which_none_waits() {
    let budgets = Budgets {
        expired: 32,
        ..Budgets::default()
    };
    let mut stage = Stage::built(1, |builder, _| builder.budgets(budgets));
    let crowd: Vec<_> = (0..300).map(|_| stage.join()).collect();
    for token in &crowd {
        stage.arm_ms(*token, Timer::READ, 300);
    }
    stage.pass_ms(300);
    let (mut fired, mut waits) = (0, 0);
    while fired < crowd.len() {
        let timeout = timeout_of(&mut stage, &mut fired);
        // The first was asked before the time had passed.
        assert!(waits == 0 || timeout == Some(Duration::ZERO), "{timeout:?}");
        waits += 1;
    }
    assert!(waits > 300 / 32 + 1, "sorting took nothing of the budget");
    assert_eq!(timeout(&mut stage), None);
}

#[test]
fn a_worker_without_the_lock_asks_again_after_the_delay() {
    let mut stage = Stage::locking(1);
    stage.script.set_lock_free(false);
    assert_eq!(timeout(&mut stage), Some(500 * MS));
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 600);
    assert_eq!(timeout(&mut stage), Some(500 * MS));
    stage.arm_ms(token, Timer::READ, 60);
    assert_eq!(timeout(&mut stage), Some(60 * MS));
}

#[test]
fn the_accept_delay_is_the_policys() {
    let delay = Duration::from_millis(20);
    let mut stage = Stage::built(1, |builder, script| {
        builder
            .policy(Policy::Mutex { delay })
            .group(script.clone())
    });
    stage.script.set_lock_free(false);
    assert_eq!(timeout(&mut stage), Some(delay));
}

#[test]
fn carried_work_outweighs_every_limit() {
    let mut stage = Stage::locking(1);
    stage.script.set_lock_free(false);
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 60);
    stage.ev.post(token, Ready::READABLE);
    assert_eq!(timeout(&mut stage), Some(Duration::ZERO));
    assert_eq!(timeout(&mut stage), Some(60 * MS));
}

#[test]
fn a_wake_up_that_is_not_delivered_yet_is_not_waited_for() {
    let mut stage = Stage::new();
    stage.ev.handle().wake();
    stage.wait();
    stage.script.record();
    stage.wait();
    assert_eq!(stage.script.timeouts(), [Some(Duration::ZERO)]);
    assert_eq!(stage.rest().len(), 1, "one wake-up, seen once");
    assert_eq!(stage.turn(), []);
}
