//! Descriptors by their numbers, for the calls of a kernel that take a borrowed descriptor.

#![allow(unsafe_code, reason = "a descriptor is borrowed by its number")]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;

/// Checks that a file is open under `fd`, which is not -1.
///
/// # Errors
///
/// `EBADF` if there is none.
pub(super) fn is_open(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: the borrow ends with this call, which asks the kernel exactly whether the descriptor
    // is open, and does nothing else with it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(fd).map(drop)
}

/// Whether the file under `fd`, which is not -1, can wake a watcher: epoll refuses one that cannot.
/// True if that cannot be found out now; and for some files of `/proc`, which epoll accepts although
/// nothing wakes them.
#[cfg(target_os = "linux")]
#[cold]
pub(super) fn has_readiness(fd: RawFd) -> bool {
    use rustix::event::epoll;

    // SAFETY: the borrow ends with this function. If the number is not open or another file's, the
    // answer is about that, and no memory is touched.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(set) = epoll::create(epoll::CreateFlags::CLOEXEC) else {
        return true;
    };
    let data = epoll::EventData::new_u64(0);
    epoll::add(&set, fd, data, epoll::EventFlags::IN) != Err(Errno::PERM)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl crate::Registration {
    /// The descriptor, for one call of the kernel.
    pub(super) fn borrow_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it was registered as a `BorrowedFd`, so it was open then and is not -1. The user
        // may have closed it since. Then the kernel refuses the number or takes it for another
        // file's: a wrong watch, and no memory is touched.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}
