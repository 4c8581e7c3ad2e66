//! The kernel as the backend uses it.
//!
//! The trait needs no header of illumos. So everything above the calls is compiled and tested on
//! Linux, over a model of the device (`fake_kernel.rs`), and the real calls are in `system.rs`.

use std::{
    ffi::{c_int, c_short},
    fmt,
    os::fd::RawFd,
};

use rustix::io::Errno;

/// One open `/dev/poll`.
pub(in crate::sys) trait Kernel: fmt::Debug + Send {
    /// Returns whether a file is open under `fd`, which is not -1.
    ///
    /// [`Errno::BADF`] if no file is open.
    fn is_open(&self, fd: RawFd) -> Result<(), Errno>;

    /// `write`: applies changes in their order. The flags of each are added to the descriptor's
    /// entry, which is made if it does not exist; [`REMOVE`] alone removes the entry.
    ///
    /// The first change that is refused ends the call with its error; those before it are applied.
    /// [`Errno::INVAL`] if the changes are more than the process may have descriptors.
    /// [`Errno::ACCESS`]: another process made the first call.
    fn write(&mut self, changes: &[libc::pollfd]) -> Result<(), Errno>;

    /// `ioctl(DP_POLL)`: waits until an entry has something to report, and returns how many of
    /// `list` it has filled, with a descriptor and its flags. The rest of the list is undefined.
    /// The result is 0 if the timeout has passed.
    ///
    /// `timeout` is in milliseconds; -1 waits without limit. A timeout that is not 0 lasts a clock
    /// tick at least.
    ///
    /// [`Errno::INTR`]: a signal came. [`Errno::INVAL`]: the list is longer than the limit of
    /// descriptors. [`Errno::ACCESS`] as above.
    fn poll(&mut self, list: &mut [libc::pollfd], timeout: c_int) -> Result<usize, Errno>;
}

/// `POLLREMOVE`, which the `libc` crate does not have.
pub(in crate::sys) const REMOVE: c_short = 0x0800;

pub(super) fn entry(fd: RawFd, events: c_short) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}
