//! What the backend asks of a kernel that has event ports, in types of our own.
//!
//! No header of illumos is needed here, so that everything above the calls is compiled and tested
//! on any system: over the real calls (`system.rs`) or over a model of them (`fake_kernel.rs`).

use std::{
    ffi::{c_int, c_ushort},
    fmt,
    os::fd::RawFd,
    time::Duration,
};

use rustix::io::Errno;

use crate::{Interest, Ready};

/// One port, and its calls for descriptors.
pub(in crate::sys) trait Kernel: fmt::Debug + Send {
    /// `port_associate`: queues one event when one of `asked` holds, or an error or a hang-up, for
    /// which nothing need be asked; at once, where it does already. Replaces an association that
    /// there is.
    ///
    /// [`Errno::BADFD`]: no file is open under `fd`.
    fn associate(&mut self, fd: RawFd, asked: c_int) -> Result<(), Errno>;

    /// `port_dissociate`: ends an association, and drops its queued event.
    ///
    /// [`Errno::NOENT`]: there is none, or its event was delivered. [`Errno::BADFD`]: no file is
    /// open under `fd`.
    fn dissociate(&mut self, fd: RawFd) -> Result<(), Errno>;

    /// `port_getn`: waits until `count` events are queued, and takes all there are, but no more
    /// than `list` holds (at least `count`); `count` is then how many. Their associations end.
    ///
    /// [`Errno::TIME`]: the time has passed. [`Errno::INTR`]: a signal came. Events may have been
    /// taken all the same, and `count` may have been left as it was.
    ///
    /// `timeout` is a few weeks at most; `None` waits without limit.
    fn getn(
        &mut self,
        list: &mut [PortEvent],
        count: &mut u32,
        timeout: Option<Duration>,
    ) -> Result<(), Errno>;
}

/// The kernel's `port_event`, which `system.rs` checks it against.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sys) struct PortEvent {
    /// What is ready, as of poll.
    pub(super) events: c_int,
    /// What kind of thing it is about.
    pub(super) source: c_ushort,
    pub(super) pad: c_ushort,
    /// The descriptor.
    pub(super) object: usize,
    /// The cookie of the association, which is not used.
    pub(super) user: usize,
}

/// `PORT_SOURCE_FD`: the event is about a descriptor.
pub(in crate::sys) const SOURCE_FD: c_ushort = 4;

impl PortEvent {
    /// The descriptor that it is about, if it is about one.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        if self.source != SOURCE_FD {
            return None;
        }
        RawFd::try_from(self.object).ok()
    }
}

/// The flags of poll that ask for `interest`.
pub(super) fn asking(interest: Interest) -> c_int {
    [
        (Interest::READ, libc::POLLIN),
        (Interest::WRITE, libc::POLLOUT),
        (Interest::PRIORITY, libc::POLLPRI),
    ]
    .into_iter()
    .filter(|(side, _)| interest.contains(*side))
    .fold(0, |asked, (_, flag)| asked | c_int::from(flag))
}

/// What the flags of poll say.
pub(super) fn readiness(found: c_int) -> Ready {
    [
        (libc::POLLIN, Ready::READABLE),
        (libc::POLLOUT, Ready::WRITABLE),
        (libc::POLLPRI, Ready::PRIORITY),
        (libc::POLLERR, Ready::ERROR),
        (libc::POLLNVAL, Ready::ERROR),
        (libc::POLLHUP, Ready::WRITE_CLOSED),
    ]
    .into_iter()
    .filter(|(flag, _)| found & c_int::from(*flag) != 0)
    .fold(Ready::NONE, |ready, (_, bit)| ready | bit)
}
