//! Descriptors by their numbers, for calls of rustix that take a borrowed descriptor.

#![allow(unsafe_code, reason = "a descriptor is borrowed by its number")]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;

/// Checks that a file is open under `fd`, which is not -1.
///
/// # Errors
///
/// `EBADF` if no file is open.
pub(super) fn is_open(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: the borrow ends with this call, which only checks whether the descriptor is open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(fd).map(drop)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl crate::backend::Registration {
    pub(super) fn borrow_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor was registered as a `BorrowedFd`, so it was open then and is not
        // -1. If the user has closed it since, the kernel refuses the number, or watches the file
        // that has it now. Watching the wrong file touches no memory.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}
