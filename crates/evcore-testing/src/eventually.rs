//! Waiting for a condition with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Time that a test waits for a condition before it fails; long, because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` returns true. `what` describes it in the panic message.
///
/// # Panics
///
/// After [`PATIENCE`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "gave up waiting: {what}");
        thread::yield_now();
    }
}
