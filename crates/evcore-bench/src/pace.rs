//! Pauses and waits of a measurement.

use std::thread;
use std::time::{Duration, Instant};

/// Limit of a wait for something that should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a measurement has a duration")]
    thread::sleep(time);
}

/// Waits until a condition is true, but at most for [`PATIENCE`]. Returns whether it became true.
/// The first checks come without a pause, for conditions that take microseconds.
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
