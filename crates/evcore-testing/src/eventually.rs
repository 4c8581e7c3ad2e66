//! Waiting for a condition, with a limit that only a failure needs.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a condition may take before the test gives up: long, since the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
///
/// # Panics
///
/// After [`PATIENCE`], with what was waited for.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "gave up waiting: {what}");
        thread::yield_now();
    }
}
