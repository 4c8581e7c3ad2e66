//! Time that a measurement lets pass.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take that a server does at once: far longer than any that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Does nothing for that long.
pub(crate) fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a measurement has a duration")]
    thread::sleep(time);
}

/// Waits until a condition is true, and returns whether it became true.
pub(crate) fn until(condition: impl FnMut() -> bool) -> bool {
    wait(condition, || pause(Duration::from_millis(1)))
}

/// The same for a condition that becomes true within microseconds.
pub(crate) fn soon(condition: impl FnMut() -> bool) -> bool {
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
