//! The life of a worker, with one call per turn: it serves, and then stops gracefully or at once.

use std::time::Duration;

use evcore::{Error, InstrumentOptions, Record, Result, Timer};

use crate::{
    fake_backend::Recorded,
    fixture::{Fixture, readable},
};

const GRACEFUL: Option<Duration> = Some(Duration::from_secs(30));
const FAST: Option<Duration> = Some(Duration::ZERO);

/// Begins a turn as a worker does.
fn next_turn(fixture: &mut Fixture, stop: Option<Duration>) -> Result<bool> {
    if let Some(timeout) = stop {
        fixture.ev.shutdown(timeout);
    }
    fixture.ev.wait()
}

/// The steps of the next turn; `None` if the worker is done.
fn turn(fixture: &mut Fixture, stop: Option<Duration>) -> Option<Vec<Recorded>> {
    let goes_on = next_turn(fixture, stop).unwrap();
    let steps = fixture.rest();
    assert!(goes_on || steps.is_empty());
    goes_on.then_some(steps)
}

#[test]
fn a_worker_without_a_stop_goes_on_even_if_nothing_is_left() {
    let mut fixture = Fixture::new();
    for _ in 0..3 {
        assert_eq!(turn(&mut fixture, None), Some(vec![]));
    }
    assert_eq!(turn(&mut fixture, GRACEFUL), None, "nothing is left");
    assert_eq!(fixture.ev.stats().turns, 3, "the last call does not wait");
}

#[test]
fn a_graceful_stop_ends_when_the_last_connection_is_closed() {
    for mut fixture in [Fixture::listening(1), Fixture::locking(1)] {
        let (silent, busy) = (fixture.join_idle(), fixture.join());
        fixture.pass_ms(60_000);
        assert_eq!(turn(&mut fixture, None), Some(vec![]));
        assert!(fixture.ev.stats().listening);

        let evicted = vec![Recorded::Evict(silent)];
        assert_eq!(turn(&mut fixture, GRACEFUL), Some(evicted));
        assert!(!fixture.ev.stats().listening);
        fixture.leave(silent);
        fixture.report_readable(&[busy]);
        assert_eq!(turn(&mut fixture, GRACEFUL), Some(vec![readable(busy)]));
        fixture.leave(busy);
        assert_eq!(turn(&mut fixture, GRACEFUL), None);
    }
}

#[test]
fn the_same_stop_in_each_turn_does_not_make_it_longer() {
    let mut fixture = Fixture::new();
    fixture.join();
    for _ in 0..30 {
        assert_eq!(turn(&mut fixture, GRACEFUL), Some(vec![]));
        fixture.pass_ms(1000);
    }
    assert_eq!(
        turn(&mut fixture, GRACEFUL),
        Some(vec![]),
        "the clock is read"
    );
    assert_eq!(turn(&mut fixture, GRACEFUL), None);
}

#[test]
fn the_same_stop_in_each_turn_closes_the_listeners_once() {
    let mut fixture = Fixture::with_instruments(1, InstrumentOptions::new().flight_recorder(100));
    fixture.join();
    for _ in 0..3 {
        assert_eq!(turn(&mut fixture, GRACEFUL), Some(vec![]));
    }
    let records = fixture.ev.instruments().flight_records();
    let plans = records.filter(|record| matches!(record, Record::Planned { .. }));
    assert_eq!(plans.count(), 1, "the first plan of the stop stands");
}

#[test]
fn a_fast_stop_ends_a_graceful_one_at_once() {
    let mut fixture = Fixture::new();
    let busy = fixture.join();
    fixture.arm_ms(busy, Timer::READ, 1000);
    assert_eq!(turn(&mut fixture, GRACEFUL), Some(vec![]));
    assert_eq!(turn(&mut fixture, FAST), None);
    assert_eq!(fixture.ev.stats().active, 1, "it is closed by its owner");
}

#[test]
fn a_fast_stop_is_at_once_also_with_a_timer_resolution() {
    let resolution = Duration::from_millis(100);
    let mut fixture = Fixture::built(0, |builder, _| builder.timer_resolution(resolution));
    fixture.join();
    assert_eq!(turn(&mut fixture, FAST), None);
}

#[test]
fn a_shutdown_of_a_handle_ends_the_worker_too() {
    let mut fixture = Fixture::new();
    fixture.ev.handle().shutdown(Duration::from_secs(30));
    assert_eq!(turn(&mut fixture, None), Some(vec![]));
    assert_eq!(turn(&mut fixture, None), None);
}

#[test]
fn a_wait_that_fails_ends_the_worker_with_its_error() {
    for stop in [None, GRACEFUL] {
        let mut fixture = Fixture::new();
        fixture.join();
        fixture.backend.fail_wait();
        let failed = next_turn(&mut fixture, stop);
        assert!(matches!(failed, Err(Error::Poller(_))), "{failed:?}");
    }
}

#[test]
fn neither_a_signal_nor_a_refused_listener_ends_the_worker() {
    for mut fixture in [Fixture::listening(2), Fixture::locking(2)] {
        fixture.backend.fail_add_after(0);
        assert_eq!(turn(&mut fixture, None), Some(vec![]));
        assert!(fixture.ev.listeners().take_error().is_some());
        fixture.backend.interrupt();
        assert_eq!(turn(&mut fixture, None), Some(vec![]));
        fixture.pass_ms(500);
        assert_eq!(turn(&mut fixture, None), Some(vec![]));
        assert_eq!(fixture.ev.stats().listener_errors, 1, "it listens again");
    }
}
