//! Time that a measurement lets pass.

use std::thread;
use std::time::{Duration, Instant};

/// Time that any immediate answer of a server may take: far longer than a working one needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Does nothing for that long.
pub(crate) fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a measurement has a duration")]
    thread::sleep(time);
}

/// Waits until a condition is true, and returns whether it became true. At first it looks without a
/// pause, for what takes microseconds.
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
