//! A pause that needs no resource of the kernel.

use std::time::Duration;

use rustix::event::{Timespec, poll};

/// Time that this process pauses if the kernel is short of a resource.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits for a fixed time, for which the kernel needs no resource. A signal ends the wait.
pub(crate) fn pause() {
    let time = Timespec::try_from(PAUSE).expect("a moment fits");
    // The result does not matter, because the next attempt shows whether the kernel has the
    // resource again.
    let _ = poll(&mut [], Some(&time));
}
