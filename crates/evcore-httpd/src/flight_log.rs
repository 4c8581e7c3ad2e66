//! What the event loop did last, in the log after something went wrong.
//!
//! The loop's thread reads its own flight recorder, so that no lock is needed: after a slow turn,
//! which the loop itself detects, and after a panic, while the worker's server is dropped.

use std::{fmt, process};

use evcore::{Acceptor, EventLoop};

use crate::log::log;

/// Logs slow turns, at most one a second.
#[derive(Debug, Default)]
pub struct SlowTurnLog {
    /// When the last one was logged, in Unix seconds.
    logged_at: i64,
}

impl SlowTurnLog {
    /// Logs the slowest turn since the last one that was logged, if any, with the loop's last records.
    pub fn report(&mut self, ev: &mut EventLoop<impl Acceptor>) {
        let now = ev.clock().unix_seconds();
        if now <= self.logged_at {
            return;
        }
        let Some(slow) = ev.take_slow_turn() else {
            return;
        };
        self.logged_at = now;
        let (turn, took, steps) = (slow.turn, slow.took, slow.steps);
        let longest = slow.longest.map(|step| {
            let (took, kind) = (step.took, step.kind);
            format!(", the longest {took:?}: {kind:?}")
        });
        let longest = longest.unwrap_or_default();
        let what = format_args!("turn {turn} took {took:?}, with {steps} steps{longest}");
        log_records(what, ev);
    }
}

/// Logs what went wrong and, if there is a flight recorder, the loop's last records.
pub fn log_records(what: impl fmt::Display, ev: &EventLoop<impl Acceptor>) {
    let (time, pid) = (ev.clock().error_log_time(), process::id());
    log(format_args!("{time} [alert] {pid}: {what}"));
    let count = ev.flight_records().count();
    for (record, left) in ev.flight_records().zip((0..count).rev()) {
        log(format_args!(
            "{time} [alert] {pid}: record -{left}: {record:?}"
        ));
    }
}
