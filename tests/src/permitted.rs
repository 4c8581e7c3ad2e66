//! Backends that the kernel of this machine may refuse.

use std::thread;

use evcore_poller::{BackendKind, Poller};
use evcore_testing::unless_refused;

/// Returns whether the running kernel permits `kind`. If not, reports the calling test as not run.
///
/// # Panics
///
/// If the backend cannot be opened, and the error is not a [refusal](unless_refused).
#[must_use]
pub fn is_permitted(kind: BackendKind) -> bool {
    // A thread of its own opens the poller, because the kernel interrupts the thread that opened an
    // `io_uring` when the ring is closed.
    let opened = thread::spawn(move || Poller::with(kind).map(drop)).join();
    unless_refused(opened.expect("opening a poller does not panic")).is_some()
}
