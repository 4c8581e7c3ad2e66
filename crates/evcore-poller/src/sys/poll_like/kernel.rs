//! The differences between event ports, `/dev/poll` and poll, as a trait.
//!
//! No type here needs a header of another system. So all code except the calls themselves (in each
//! `system.rs`) is compiled and tested on Linux, over a model of the calls (`sys/fake_kernel.rs`).

use std::{ffi::c_short, fmt, os::fd::RawFd, time::Duration};

use rustix::io::Errno;

use crate::error::Result;

/// A kernel that has at most one watch for each descriptor number, and whose interface uses poll's
/// flags.
///
/// `POLLERR`, `POLLHUP` and `POLLNVAL` are reported without being requested.
pub(in crate::sys) trait Kernel: fmt::Debug + Send {
    /// The name of the backend.
    const NAME: &'static str;
    /// The calls behind [`apply`](Self::apply) and [`wait`](Self::wait), as errors name them.
    const CALLS: Calls;
    /// The flag of a half-close; 0 if the kernel has none.
    const HALF_CLOSE: c_short = 0;
    /// The limit on the changes of one [`apply`](Self::apply). Each may be two entries of
    /// `/dev/poll`, whose writes are limited by the limit of descriptors (usually 256 or more).
    const AT_ONCE: usize = 64;
    /// True if the report of a watch ends it.
    const REPORTS_ONCE: bool = false;
    /// True if the close of a number ends its watch. Such a kernel's watches are added and removed
    /// at once, so that `add` or `remove` returns the kernel's refusal.
    const DROPS_CLOSED: bool = false;

    /// Begins a watch. Returns whether the kernel has the watch now. If not, the number is open,
    /// and [`apply`](Self::apply) makes the watch later.
    ///
    /// Fails with `EBADF` if no file is open under `fd`.
    fn begin(&mut self, fd: RawFd, flags: c_short) -> Result<bool>;

    /// Applies changes in their order. The first one that is refused ends the call with its error;
    /// those before it are applied.
    fn apply(&mut self, changes: &[Change]) -> Result<(), Errno>;

    /// Waits until a watch has something to report, and returns the number of such watches, at most
    /// `limit`. [`found`](Self::found) reads them. The result is 0 if the timeout has passed. If
    /// more watches are ready, later calls report the others first.
    ///
    /// `limit` is at least 1, and at most the number of watches. `timeout` is at most 24 days;
    /// `None` waits without limit.
    fn wait(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno>;

    /// Returns the report at `index` of the last wait: a number, and the flags that were found.
    fn found(&self, index: usize) -> (RawFd, c_short);
}

#[derive(Clone, Copy, Debug)]
pub(in crate::sys) struct Calls {
    pub(in crate::sys) apply: &'static str,
    pub(in crate::sys) wait: &'static str,
}

/// A change of the watch of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Change {
    pub(super) fd: RawFd,
    /// True if the kernel may have a watch, which the change replaces or ends.
    pub(super) is_kept: bool,
    /// The flags; `None` if the watch ends.
    pub(super) flags: Option<c_short>,
}
