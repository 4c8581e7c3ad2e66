//! Waiting for conditions while other runs need the processors.

use std::{
    thread,
    time::{Duration, Instant},
};

use evcore_tests::PATIENCE;

const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` returns true. Pauses for 5 ms between two calls, and not for 1 ms like
/// `eventually`, so that more processor time is left to other runs.
pub(super) fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    assert!(becomes_true(PATIENCE, condition), "gave up waiting: {what}");
}

/// Waits up to `patience` until `condition` returns true. Returns whether it did.
pub(super) fn becomes_true(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        thread::park_timeout(PAUSE);
    }
    true
}
