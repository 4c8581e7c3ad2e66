//! Descriptors that another process passes to this one by their numbers.

#![allow(unsafe_code, reason = "descriptors known by their numbers")]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// The environment variable that lists the descriptors a new binary inherits: `5,6,9`, in the order
/// in which the old binary [passed them on](crate::Supervisor::inherit).
///
/// The variable stays set. If you start other programs, remove it by `Command::env_remove`.
pub const INHERITED: &str = "EVCORE_INHERITED";

/// The lowest number that may be passed. A standard stream that was taken would be closed later,
/// and error messages would be lost.
pub(crate) const FIRST: RawFd = 3;

/// Takes descriptors by their numbers, and makes `exec` close them.
///
/// # Errors
///
/// The first number that is not open. In this case, nothing is taken.
///
/// # Safety
///
/// The caller owns the descriptors that are open, and names each once. No other code uses them.
pub(crate) unsafe fn take(
    numbers: impl Iterator<Item = RawFd> + Clone,
) -> Result<Vec<OwnedFd>, RawFd> {
    for number in numbers.clone() {
        // SAFETY: the descriptor is borrowed for these two calls, which fail if it is not open.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_getfd(fd)
            .and_then(|flags| fcntl_setfd(fd, flags | FdFlags::CLOEXEC))
            .map_err(|_| number)?;
    }
    // SAFETY: all are open, and the caller guarantees the rest.
    let own = |number| unsafe { OwnedFd::from_raw_fd(number) };
    Ok(numbers.map(own).collect())
}
