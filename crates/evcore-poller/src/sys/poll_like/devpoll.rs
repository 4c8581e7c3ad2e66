//! The `/dev/poll` backend, for illumos and Solaris, where event ports replace the device and are
//! preferred. It was not run there, because no such kernel was at hand.
//!
//! The device is a poll whose array the kernel keeps. A `write` changes it, and `ioctl(DP_POLL)`
//! returns the entries that are ready. The changes since the last wait are made together, up to 64
//! by one write.
//!
//! The backend relies on these facts, from the manual page poll(4D) and from illumos' `devpoll.c`:
//!
//! - The device has one entry per descriptor number. A close does not remove the entry. Only a
//!   write of `POLLREMOVE` does. So each removal is written, even before a close.
//! - A second write of an entry adds its flags to those of the first. So `POLLREMOVE` precedes each
//!   change, in the same write.
//! - `POLLREMOVE` with any other flag is not a removal. An entry that does not exist is removed
//!   without an error.
//! - An entry whose descriptor was closed is reported as `POLLNVAL`, in each call until it is
//!   removed. (It may be silent if the descriptor was idle, and a duplicate is open.)
//! - If the number was assigned to another file meanwhile, that file is watched by mistake.
//! - A number without an open file is accepted, and never reported. So `begin` checks that the
//!   number is open. If it is closed between that check and the write, the device keeps the flags.
//!   No `POLLREMOVE` drops them, and they are added to those of the number's next file. So the
//!   backend reports only the flags of the registration. If it finds others, it writes the entry
//!   afresh.
//! - If a file refuses to be watched, the write fails there; the entries before it are applied.
//! - A write or a list that is longer than the limit of descriptors is refused (`EINVAL`).
//! - Each call starts its search for ready entries behind the entry that was reported last, so
//!   nothing starves with a small buffer.
//! - A forked child gets `EACCES` for each call. The poller refuses to work there anyway.
//! - The device itself cannot be polled (`POLLERR`), so the backend does not return its descriptor.
//!
//! A half-close is not reported. A read then returns 0 bytes.

use std::{
    ffi::{c_int, c_short},
    fmt,
    os::fd::RawFd,
    time::Duration,
};

use rustix::io::Errno;

use super::{
    flags::entry,
    kernel::{Calls, Change, Kernel},
};
use crate::{
    error::{Error, Result},
    sys::chunked_wait::in_ms,
};

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
mod system;

/// The calls to one open `/dev/poll`. Tests implement them by a model.
pub(in crate::sys) trait Sys: fmt::Debug + Send {
    /// Checks that a file is open under `fd`, which is not -1.
    fn is_open(&self, fd: RawFd) -> Result<(), Errno>;

    /// `write`: applies changes in their order. The flags of each are added to the descriptor's
    /// entry, which is made if it does not exist. [`REMOVE`] without other flags removes the entry.
    ///
    /// The first change that is refused ends the call with its error; those before it are applied.
    /// That error is `EINVAL` if there are more changes than the process may have descriptors, and
    /// `EACCES` if another process made the first call.
    fn write(&mut self, changes: &[libc::pollfd]) -> Result<(), Errno>;

    /// `ioctl(DP_POLL)`: waits until an entry has something to report, and returns how many of
    /// `list` it has filled, with a descriptor and its flags. The rest of the list is undefined.
    /// The result is 0 if the timeout has passed.
    ///
    /// `timeout` is in milliseconds; -1 waits without limit. A timeout that is not 0 lasts a clock
    /// tick at least.
    ///
    /// Fails with `EINTR` if a signal came, with `EINVAL` if the list is longer than the limit of
    /// descriptors, and with `EACCES` as `write` does.
    fn poll(&mut self, list: &mut [libc::pollfd], timeout: c_int) -> Result<usize, Errno>;
}

/// `POLLREMOVE`, which the `libc` crate does not have.
pub(in crate::sys) const REMOVE: c_short = 0x0800;

#[derive(Debug)]
pub(in crate::sys) struct DevPoll<S> {
    sys: S,
    /// The entries of one write; kept for its allocation.
    changes: Vec<libc::pollfd>,
    /// The list is as long as the longest list of a call so far.
    list: Vec<libc::pollfd>,
}

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
pub(in crate::sys) fn open() -> Result<super::PollLike<DevPoll<system::System>>> {
    super::PollLike::over(DevPoll::over(system::System::open()?))
}

impl<S: Sys> DevPoll<S> {
    pub(in crate::sys) fn over(sys: S) -> Self {
        Self {
            sys,
            changes: Vec::new(),
            list: Vec::new(),
        }
    }
}

impl<S: Sys> Kernel for DevPoll<S> {
    const NAME: &'static str = "devpoll";
    const CALLS: Calls = Calls {
        apply: "write(/dev/poll)",
        wait: "ioctl(DP_POLL)",
    };

    fn begin(&mut self, fd: RawFd, _: c_short) -> Result<bool> {
        let open = self.sys.is_open(fd);
        open.map(|()| false).map_err(Error::os("fcntl(F_GETFD)"))
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), Errno> {
        self.changes.clear();
        for change in changes {
            let removed = change.is_kept.then_some(REMOVE);
            let written = removed.into_iter().chain(change.flags);
            self.changes
                .extend(written.map(|flags| entry(change.fd, flags)));
        }
        self.sys.write(&self.changes)
    }

    fn wait(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        if self.list.len() < limit {
            self.list.resize(limit, entry(-1, 0));
        }
        self.sys.poll(&mut self.list[..limit], in_ms(timeout))
    }

    fn found(&self, index: usize) -> (RawFd, c_short) {
        (self.list[index].fd, self.list[index].revents)
    }
}
