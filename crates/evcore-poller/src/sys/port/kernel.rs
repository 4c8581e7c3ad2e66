//! The kernel as the backend uses it, in types of our own.
//!
//! The types need no header of illumos. So everything above the calls is compiled and tested on any
//! system, over the real calls (`system.rs`) or over a model of them (`fake_kernel.rs`).

use std::{
    ffi::{c_int, c_ushort},
    fmt,
    os::fd::RawFd,
    time::Duration,
};

use rustix::io::Errno;

use crate::{interest::Interest, sys::poll_flags};

/// One port, and its calls for descriptors.
pub(in crate::sys) trait Kernel: fmt::Debug + Send {
    /// `port_associate`: queues one event when one of its `flags`, an error or a hang-up is
    /// true; at once if it already is. Replaces an existing association.
    ///
    /// [`Errno::BADFD`] if no file is open under `fd`.
    fn associate(&mut self, fd: RawFd, flags: c_int) -> Result<(), Errno>;

    /// `port_dissociate`: ends an association, and drops its queued event.
    ///
    /// [`Errno::NOENT`] if `fd` has no association, or if its event was delivered. [`Errno::BADFD`]
    /// if no file is open under `fd`.
    fn dissociate(&mut self, fd: RawFd) -> Result<(), Errno>;

    /// `port_getn`: waits until `count` events are queued, and takes all queued events, at most the
    /// length of `list` (which is at least `count`). Sets `count` to their number. Their
    /// associations end.
    ///
    /// [`Errno::TIME`] if the timeout has passed. [`Errno::INTR`] if a signal came. In both cases
    /// events may have been taken, and `count` may be unchanged.
    ///
    /// `timeout` is at most a few weeks; `None` waits without limit.
    fn getn(
        &mut self,
        list: &mut [PortEvent],
        count: &mut u32,
        timeout: Option<Duration>,
    ) -> Result<(), Errno>;
}

/// The kernel's `port_event`; `system.rs` checks that the layout is the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sys) struct PortEvent {
    /// The readiness, in the flags of poll.
    pub(super) events: c_int,
    /// The kind of object.
    pub(super) source: c_ushort,
    pub(super) pad: c_ushort,
    /// The descriptor.
    pub(super) object: usize,
    /// The cookie of the association, which is not used.
    pub(super) user: usize,
}

/// `PORT_SOURCE_FD`: the object is a descriptor.
pub(in crate::sys) const SOURCE_FD: c_ushort = 4;

impl PortEvent {
    /// The descriptor, if the object is one.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        if self.source != SOURCE_FD {
            return None;
        }
        RawFd::try_from(self.object).ok()
    }
}

/// The flags of poll that ask for `interest`.
pub(super) fn asking(interest: Interest) -> c_int {
    poll_flags::asking(interest).into()
}
