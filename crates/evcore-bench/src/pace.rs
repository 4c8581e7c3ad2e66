//! Time that a measurement lets pass.

use std::thread;
use std::time::{Duration, Instant};

/// The limit for an immediate answer of a server. A working server takes far less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Does nothing for this long.
pub(crate) fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a measurement has a duration")]
    thread::sleep(time);
}

/// Waits until a condition is true, and returns whether it became true. The first checks come
/// without a pause, for conditions that take microseconds.
pub(crate) fn until(mut condition: impl FnMut() -> bool) -> bool {
    const AT_FIRST: Duration = Duration::from_millis(1);
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if condition() {
            return true;
        }
        if began.elapsed() < AT_FIRST {
            thread::yield_now();
        } else {
            pause(AT_FIRST);
        }
    }
    false
}
