//! A wait for a condition, with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Time that a test waits for a condition before it fails; long, because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The time for which [`eventually`] yields at first, and then its pause between two tries. A
/// thread that only yields takes a CPU away from the processes that it waits for.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until `condition` returns true. `what` describes the condition in the panic message.
///
/// # Panics
///
/// If the condition is false for as long as [`PATIENCE`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "gave up waiting: {what}");
        if waited < PAUSE {
            thread::yield_now();
        } else {
            // Not `sleep`, because some tests make its system call fail.
            thread::park_timeout(PAUSE);
        }
    }
}
