//! Time that a measurement lets pass.

use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take for what it does at once: far longer than any that works.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(1);

/// Does nothing for that long.
pub(super) fn pause(time: Duration) {
    thread::sleep(time);
}

/// Waits for a condition, and returns whether it came to be.
pub(super) fn until(condition: impl FnMut() -> bool) -> bool {
    within(PATIENCE, condition)
}

/// Waits for a condition that comes to be within microseconds.
pub(super) fn soon(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() && Instant::now() < deadline {
        thread::yield_now();
    }
}

/// Waits for a condition, at most so long, and returns whether it came to be.
pub(super) fn within(time: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + time;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        pause(LOOK);
    }
}
