//! Descriptors as mere numbers, for the kernels' interfaces that take no better.

#![allow(unsafe_code, reason = "a descriptor is borrowed by its number")]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;

/// Whether a file is open under `fd`, which is not -1.
///
/// # Errors
///
/// `EBADF` where there is none.
pub(super) fn is_open(fd: RawFd) -> Result<(), Errno> {
    rustix::io::fcntl_getfd(borrow(fd)).map(drop)
}

/// What the user registered, for as long as it is registered. Not -1.
pub(super) fn borrow(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the user keeps the descriptor open while it is registered (a waker's is ours). Where
    // it does not, the kernel says so or means another file: a wrong watch, and no memory is
    // touched.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
