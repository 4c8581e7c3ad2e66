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

/// Whether a ring may wake a watcher of the file under `fd`, which is not -1. True if that cannot be
/// found out now.
///
/// Epoll refuses a file that nothing wakes, except for some of `/proc`. Those are regular files, which
/// nothing wakes or the kernel itself does, but no ring.
#[cfg(target_os = "linux")]
#[cold]
pub(super) fn may_be_woken_by_ring(fd: RawFd) -> bool {
    use rustix::{event::epoll, fs::FileType};

    // SAFETY: the borrow ends with this function. If the number is not open or another file's, the
    // answer is about that, and no memory is touched.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let status = rustix::fs::fstat(fd);
    let kind = status.map(|status| FileType::from_raw_mode(status.st_mode));
    if kind == Ok(FileType::RegularFile) {
        return false;
    }
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
