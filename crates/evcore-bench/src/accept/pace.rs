//! Time that a measurement lets pass.

use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take for what it does at once: far longer than any that works.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(1);

/// Does nothing for that long.
pub(crate) fn pause(time: Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "a measurement has a duration, and a bare worker blocks on request"
    )]
    thread::sleep(time);
}

/// Waits for a condition, and returns whether it came to be.
pub(crate) fn until(condition: impl FnMut() -> bool) -> bool {
    wait(condition, || pause(LOOK))
}

/// Waits for a condition that comes to be within microseconds, and returns whether it did.
pub(super) fn soon(condition: impl FnMut() -> bool) -> bool {
    wait(condition, thread::yield_now)
}

fn wait(mut condition: impl FnMut() -> bool, between: impl Fn()) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        between();
    }
    false
}
