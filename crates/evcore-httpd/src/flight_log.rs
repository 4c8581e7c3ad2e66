//! Logs the last actions of the event loop after something went wrong.
//!
//! The loop keeps them in its flight recorder. The loop's own thread reads the recorder, so that no
//! lock is needed. It does so after a slow turn (an iteration of the loop), and after a panic,
//! while the worker's server is dropped.

use std::{fmt, process};

use evcore::{Acceptor, EventLoop};

use crate::log::log;

const PAUSE_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub struct SlowTurnLog {
    /// The time from which the next slow turn may be logged, in milliseconds of the loop's clock.
    next_at_ms: u64,
}

impl SlowTurnLog {
    /// Logs the turn that has just ended if it was slow, with the loop's last records.
    pub fn report(&mut self, ev: &mut EventLoop<impl Acceptor>) {
        // The slow turn is taken even if it is not logged, because a later report of it would have
        // the records of other turns.
        let Some(slow) = ev.instruments().take_slow_turn() else {
            return;
        };
        let now_ms = ev.clock().monotonic_ms();
        if now_ms < self.next_at_ms {
            return;
        }
        self.next_at_ms = now_ms + PAUSE_MS;
        let (turn, took, steps) = (slow.turn, slow.took, slow.steps);
        let longest = slow.longest.map(|step| {
            let (took, kind) = (step.took, step.kind);
            format!(", the longest {took:?}: {kind:?}")
        });
        let longest = longest.unwrap_or_default();
        let what = format!("turn {turn} took {took:?}, with {steps} steps{longest}");
        log_records(what, ev);
    }
}

/// Logs a failure and, if the loop has a flight recorder, its last records. The newest record is
/// first, because a full pipe loses the later lines.
pub fn log_records(what: impl fmt::Display, ev: &mut EventLoop<impl Acceptor>) {
    let (time, pid) = (ev.clock().error_log_time(), process::id());
    log(format_args!("{time} [alert] {pid}: {what}"));
    let records: Vec<_> = ev.instruments().flight_records().collect();
    for (age, record) in records.iter().rev().enumerate() {
        log(format_args!(
            "{time} [alert] {pid}: record -{age}: {record:?}"
        ));
    }
}
