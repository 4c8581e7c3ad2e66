//! The histograms of a loop.

use std::time::Duration;

use evcore::{Budgets, Histograms, InstrumentOptions, Ready, Timer};

use crate::fixture::Fixture;

const MS: Duration = Duration::from_millis(1);

fn measured() -> Fixture {
    Fixture::with_instruments(0, InstrumentOptions::new().histograms(true))
}

fn histograms(fixture: &mut Fixture) -> &Histograms {
    fixture.ev.instruments().histograms().unwrap()
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
fn without_the_option_there_are_no_histograms() {
    let mut fixture = Fixture::with_instruments(0, InstrumentOptions::new().watchdog(MS));
    fixture.turn();
    assert!(fixture.ev.instruments().histograms().is_none());
    fixture.ev.instruments().clear_histograms();
}

#[test]
fn a_turn_includes_the_work_after_its_last_step() {
    let mut fixture = measured();
    let token = fixture.join();
    fixture.ev.post(token, Ready::READABLE);
    fixture.wait();
    assert_eq!(
        histograms(&mut fixture).turn_ns().count(),
        0,
        "it is not over"
    );
    fixture.step();
    fixture.pass_ms(3);
    assert!(fixture.rest().is_empty());
    fixture.pass_ms(4);
    fixture.wait();
    let turns = histograms(&mut fixture).turn_ns();
    assert_eq!(turns.count(), 1);
    assert_about(turns.max(), 7_000_000);
}

#[test]
fn the_time_of_a_wait_is_in_no_turn() {
    let mut fixture = measured();
    fixture.turn();
    let timeout = fixture.ev.prepare().unwrap().timeout;
    fixture.pass_ms(500);
    fixture.ev.wait_at_most(timeout).unwrap();
    fixture.wait();
    let turns = histograms(&mut fixture).turn_ns();
    assert_eq!((turns.count(), turns.max()), (2, 0));
}

#[test]
fn a_turn_that_is_left_early_is_over_when_the_next_wait_begins() {
    let mut fixture = measured();
    let tokens = [fixture.join(), fixture.join()];
    fixture.report_readable(&tokens);
    fixture.wait();
    fixture.step();
    fixture.pass_ms(2);
    fixture.wait();
    let turns = histograms(&mut fixture).turn_ns();
    assert_eq!(turns.count(), 1);
    assert_about(turns.max(), 2_000_000);
}

#[test]
fn a_wait_that_fails_ends_a_turn_and_begins_none() {
    let mut fixture = measured();
    fixture.wait();
    fixture.backend.fail_wait();
    assert!(fixture.ev.wait().is_err());
    fixture.pass_ms(1);
    fixture.wait();
    let turns = histograms(&mut fixture).turn_ns();
    assert_eq!((turns.count(), turns.max()), (1, 0));
}

#[test]
fn a_wait_that_was_not_prepared_ends_the_turn_before_too() {
    let mut fixture = measured();
    let token = fixture.join();
    fixture.report_readable(&[token]);
    fixture.wait();
    fixture.pass_ms(5);
    fixture.ev.wait_at_most(Some(Duration::ZERO)).unwrap();
    let turns = histograms(&mut fixture).turn_ns();
    assert_eq!(turns.count(), 1);
    assert_about(turns.max(), 5_000_000);
}

#[test]
fn a_timer_is_late_by_what_passed_from_its_deadline_to_its_turn() {
    let mut fixture = measured();
    let [a, b] = [fixture.join(), fixture.join()];
    fixture.arm_ms(a, Timer::READ, 10);
    fixture.arm_ms(b, Timer::WRITE, 12);
    fixture.pass_ms(15);
    fixture.wait();
    fixture.pass_ms(100); // not counted: the time stands still in the timers' turn
    fixture.rest();
    let late = histograms(&mut fixture).timer_lateness_ns();
    assert_eq!(late.count(), 2);
    assert_about(late.quantile(0.5), 3_000_000);
    assert_about(late.max(), 5_000_000);
}

#[test]
fn a_carried_over_timer_is_late_by_its_own_turn() {
    let expired = 1;
    let budgets = Budgets {
        expired,
        ..Budgets::default()
    };
    let mut fixture = Fixture::built(0, |builder, _| {
        builder
            .instruments(InstrumentOptions::new().histograms(true))
            .budgets(budgets)
    });
    let tokens = [fixture.join(), fixture.join()];
    for token in tokens {
        fixture.arm_ms(token, Timer::READ, 1);
    }
    for _ in tokens {
        fixture.pass_ms(1);
        fixture.turn();
    }
    let late = histograms(&mut fixture).timer_lateness_ns();
    assert_eq!((late.count(), late.min()), (2, 0));
    assert_about(late.max(), 1_000_000);
}

#[test]
fn queues_are_measured_as_the_turn_begins() {
    let mut fixture = measured();
    let tokens @ [a, b, c] = [(); 3].map(|()| fixture.join());
    fixture.report_readable(&tokens);
    fixture.ev.post(a, Ready::WRITABLE);
    fixture.ev.post_next(b, Ready::WRITABLE);
    fixture.ev.handle().post(c, Ready::WRITABLE);
    fixture.wait();
    let all = histograms(&mut fixture);
    assert_eq!((all.events().count(), all.events().max()), (1, 3));
    assert_eq!((all.posted().count(), all.posted().max()), (1, 3));
    fixture.rest();
    fixture.turn();
    let all = histograms(&mut fixture);
    assert_eq!((all.posted().count(), all.posted().min()), (2, 0));
}

#[test]
fn with_a_resolution_only_turns_with_a_tick_are_measured() {
    let mut fixture = Fixture::built(0, |builder, _| {
        builder
            .instruments(InstrumentOptions::new().histograms(true))
            .timer_resolution(100 * MS)
    });
    for _ in 0..25 {
        fixture.pass_ms(10);
        fixture.turn();
    }
    assert_eq!(fixture.ev.stats().ticks, 2);
    let turns = histograms(&mut fixture).turn_ns();
    assert_eq!(turns.count(), 2);
    assert_about(turns.max(), 10_000_000);
}

#[test]
fn with_a_resolution_a_watchdog_measures_every_turn() {
    let mut fixture = Fixture::built(0, |builder, _| {
        let measured = InstrumentOptions::new().histograms(true).watchdog(50 * MS);
        builder.timer_resolution(100 * MS).instruments(measured)
    });
    for _ in 0..25 {
        fixture.pass_ms(10);
        fixture.turn();
    }
    fixture.wait();
    let turns = histograms(&mut fixture).turn_ns();
    assert_eq!(turns.count(), 25);
    assert_about(turns.max(), 10_000_000);
    assert_eq!(fixture.ev.instruments().take_slow_turn(), None);
}

#[test]
fn cleared_histograms_record_only_later_values() {
    let mut fixture = measured();
    let token = fixture.join();
    fixture.arm_ms(token, Timer::READ, 1);
    fixture.pass_ms(9);
    fixture.turn();
    fixture.pass_ms(2);
    fixture.ev.instruments().clear_histograms();
    fixture.wait();
    let all = histograms(&mut fixture);
    assert_eq!(all.timer_lateness_ns().count(), 0);
    assert_eq!(all.events().count(), 1);
    assert_eq!(all.turn_ns().count(), 1, "this turn had begun before");
    assert_about(all.turn_ns().max(), 2_000_000);
}
