//! A pause for a process whose kernel is short of a resource.

use std::time::Duration;

use rustix::event::{Timespec, poll};

const PAUSE: Duration = Duration::from_millis(100);

/// A signal ends the pause.
pub(crate) fn pause() {
    let time = Timespec::try_from(PAUSE).expect("100 ms fit");
    // The result does not matter, because the caller tries again in any case.
    let _ = poll(&mut [], Some(&time));
}
