//! What the histograms record.

use std::time::Duration;

use evcore::{Budgets, Ready, Timer};

use crate::stage::Stage;

const MS: Duration = Duration::from_millis(1);

fn measured() -> Stage {
    Stage::built(0, |builder, _| builder.histograms(true))
}

/// Asserts that a figure is `expected`, or above it by at most 1 %.
fn assert_about(figure: u64, expected: u64) {
    let above = figure.checked_sub(expected);
    assert!(
        above.is_some_and(|above| above <= expected / 100),
        "{figure} for {expected}"
    );
}

#[test]
fn without_asking_there_are_no_histograms() {
    let mut stage = Stage::built(0, |builder, _| builder.watchdog(MS));
    stage.turn();
    assert!(stage.ev.histograms().is_none());
    stage.ev.clear_histograms();
}

#[test]
fn a_turn_goes_to_the_next_wait_with_what_comes_after_its_steps() {
    let mut stage = measured();
    let token = stage.join();
    stage.ev.post(token, Ready::READABLE);
    stage.wait();
    assert_eq!(
        stage.ev.histograms().unwrap().turn_ns().count(),
        0,
        "it is not over"
    );
    stage.step();
    stage.pass_ms(3);
    assert!(stage.rest().is_empty());
    stage.pass_ms(4);
    stage.wait();
    let turns = stage.ev.histograms().unwrap().turn_ns();
    assert_eq!(turns.count(), 1);
    assert_about(turns.max(), 7_000_000);
}

#[test]
fn what_a_wait_takes_is_in_no_turn() {
    let mut stage = measured();
    stage.turn();
    let timeout = stage.ev.prepare().unwrap();
    stage.pass_ms(500);
    stage.ev.poll(timeout).unwrap();
    stage.wait();
    let turns = stage.ev.histograms().unwrap().turn_ns();
    assert_eq!((turns.count(), turns.max()), (2, 0));
}

#[test]
fn a_turn_that_is_left_early_is_over_when_the_next_wait_begins() {
    let mut stage = measured();
    let tokens = [stage.join(), stage.join()];
    stage.report_readable(&tokens);
    stage.wait();
    stage.step();
    stage.pass_ms(2);
    stage.wait();
    let turns = stage.ev.histograms().unwrap().turn_ns();
    assert_eq!(turns.count(), 1);
    assert_about(turns.max(), 2_000_000);
}

#[test]
fn a_wait_that_fails_ends_a_turn_and_begins_none() {
    let mut stage = measured();
    stage.wait();
    stage.script.fail_wait();
    assert!(stage.ev.wait().is_err());
    stage.pass_ms(1);
    stage.wait();
    let turns = stage.ev.histograms().unwrap().turn_ns();
    assert_eq!((turns.count(), turns.max()), (1, 0));
}

#[test]
fn a_wait_that_was_not_prepared_ends_the_turn_before_too() {
    let mut stage = measured();
    let token = stage.join();
    stage.report_readable(&[token]);
    stage.wait();
    stage.pass_ms(5);
    stage.ev.poll(Some(Duration::ZERO)).unwrap();
    let turns = stage.ev.histograms().unwrap().turn_ns();
    assert_eq!(turns.count(), 1);
    assert_about(turns.max(), 5_000_000);
}

#[test]
fn a_timer_is_late_by_what_passed_from_its_deadline_to_its_turn() {
    let mut stage = measured();
    let [a, b] = [stage.join(), stage.join()];
    stage.arm_ms(a, Timer::READ, 10);
    stage.arm_ms(b, Timer::WRITE, 12);
    stage.pass_ms(15);
    stage.wait();
    stage.pass_ms(100); // its own turn's time stands still
    stage.rest();
    let late = stage.ev.histograms().unwrap().timer_lateness_ns();
    assert_eq!(late.count(), 2);
    assert_about(late.quantile(0.5), 3_000_000);
    assert_about(late.max(), 5_000_000);
}

#[test]
fn a_timer_that_its_budget_carried_over_is_as_late_as_the_turn_that_fires_it() {
    let expired = 1;
    let budgets = Budgets {
        expired,
        ..Budgets::default()
    };
    let mut stage = Stage::built(0, |builder, _| builder.histograms(true).budgets(budgets));
    let tokens = [stage.join(), stage.join()];
    for token in tokens {
        stage.arm_ms(token, Timer::READ, 1);
    }
    for _ in tokens {
        stage.pass_ms(1);
        stage.turn();
    }
    let late = stage.ev.histograms().unwrap().timer_lateness_ns();
    assert_eq!((late.count(), late.min()), (2, 0));
    assert_about(late.max(), 1_000_000);
}

#[test]
fn queues_are_measured_as_the_turn_begins() {
    let mut stage = measured();
    let tokens @ [a, b, c] = [(); 3].map(|()| stage.join());
    stage.report_readable(&tokens);
    stage.ev.post(a, Ready::WRITABLE);
    stage.ev.post_next(b, Ready::WRITABLE);
    stage.ev.handle().post(c, Ready::WRITABLE).unwrap();
    stage.wait();
    let histograms = stage.ev.histograms().unwrap();
    assert_eq!(
        (histograms.events().count(), histograms.events().max()),
        (1, 3)
    );
    assert_eq!(
        (histograms.posted().count(), histograms.posted().max()),
        (1, 3)
    );
    stage.rest();
    stage.turn();
    let histograms = stage.ev.histograms().unwrap();
    assert_eq!(
        (histograms.posted().count(), histograms.posted().min()),
        (2, 0)
    );
}

#[test]
fn with_a_resolution_only_turns_that_begin_with_a_tick_are_measured() {
    let mut stage = Stage::built(0, |builder, _| {
        builder.histograms(true).timer_resolution(100 * MS)
    });
    for _ in 0..25 {
        stage.pass_ms(10);
        stage.turn();
    }
    assert_eq!(stage.ev.stats().ticks, 2);
    let turns = stage.ev.histograms().unwrap().turn_ns();
    assert_eq!(turns.count(), 2);
    assert_about(turns.max(), 10_000_000);
}

#[test]
fn with_a_resolution_and_a_watchdog_every_turn_is_measured_from_its_true_beginning() {
    let mut stage = Stage::built(0, |builder, _| {
        let builder = builder.histograms(true);
        builder.timer_resolution(100 * MS).watchdog(50 * MS)
    });
    for _ in 0..25 {
        stage.pass_ms(10);
        stage.turn();
    }
    stage.wait();
    let turns = stage.ev.histograms().unwrap().turn_ns();
    assert_eq!(turns.count(), 25);
    assert_about(turns.max(), 10_000_000);
    assert_eq!(stage.ev.take_slow_turn(), None);
}

#[test]
fn what_was_cleared_tells_only_of_what_comes() {
    let mut stage = measured();
    let token = stage.join();
    stage.arm_ms(token, Timer::READ, 1);
    stage.pass_ms(9);
    stage.turn();
    stage.pass_ms(2);
    stage.ev.clear_histograms();
    stage.wait();
    let histograms = stage.ev.histograms().unwrap();
    assert_eq!(histograms.timer_lateness_ns().count(), 0);
    assert_eq!(histograms.events().count(), 1);
    assert_eq!(histograms.turn_ns().count(), 1, "it was under way");
    assert_about(histograms.turn_ns().max(), 2_000_000);
}
