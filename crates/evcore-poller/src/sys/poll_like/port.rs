//! The backend for event ports, on illumos and Solaris. It was not run there, because no such
//! kernel was at hand.
//!
//! A watch is an association, which is one-shot: it ends when its event is delivered. So a
//! descriptor that has reported is associated again just before the next wait. If it is ready then,
//! the kernel queues an event at once, so the reports are level-triggered. A descriptor that is
//! removed in between costs no call, and one that is changed costs only the call of the change. An
//! `Edge` whose sides have all reported is associated without flags, which still queues a hang-up.
//! (illumos' sockets report errors as readiness, so an error is silent until the rearm.)
//!
//! The backend relies on these facts, from the manual pages and illumos' sources:
//!
//! - A port has one association per descriptor number. It ends when the number is closed, even if a
//!   duplicate is open, and its queued event is dropped. So the number identifies an association,
//!   and its cookie (a value that its events carry) is not used.
//! - Associating an associated descriptor replaces its flags, drops the queued event, and evaluates
//!   the descriptor afresh.
//! - Events come in the order in which they were queued, so nothing starves with a small buffer.
//! - An event has the readiness of the time when it was queued. It is reported even if the data was
//!   read since. The next event reports a hang-up that came later.
//! - A `port_getn` that ends by its timeout or by a signal may still have taken events, and may or
//!   may not have updated its count. The first entry of the list shows whether events were taken.
//!
//! A half-close is not reported. A read then returns 0 bytes. Wakers do not use `port_send`,
//! because it fails when the port's queue is full. A waker may also outlive the port, whose number
//! may then be another file's.

use std::{
    ffi::{c_int, c_short, c_ushort},
    fmt,
    os::fd::RawFd,
    time::Duration,
};

use rustix::io::Errno;

use super::kernel::{Calls, Change, Kernel};
use crate::error::{Error, Result};

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
mod system;

/// The calls to one port for descriptors. Tests implement them by a model.
pub(in crate::sys) trait Sys: fmt::Debug + Send {
    /// `port_associate`: queues one event as soon as one of its `flags`, an error or a hang-up is
    /// true (at once if it already is). Replaces an existing association.
    ///
    /// Fails with `EBADFD` if no file is open under `fd`.
    fn associate(&mut self, fd: RawFd, flags: c_int) -> Result<(), Errno>;

    /// `port_dissociate`: ends an association, and drops its queued event.
    ///
    /// Fails with `ENOENT` if `fd` has no association, or if its event was delivered, and with
    /// `EBADFD` if no file is open under `fd`.
    fn dissociate(&mut self, fd: RawFd) -> Result<(), Errno>;

    /// `port_getn`: waits until `count` events are queued, and takes all queued events, at most the
    /// length of `list` (which is at least `count`). Sets `count` to their number. Their
    /// associations end.
    ///
    /// Fails with `ETIME` if the timeout has passed, and with `EINTR` if a signal came. In both
    /// cases events may have been taken, and `count` may be unchanged.
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
    pub(in crate::sys) events: c_int,
    /// The kind of object: a descriptor, because nothing else is associated.
    pub(in crate::sys) source: c_ushort,
    pub(in crate::sys) pad: c_ushort,
    pub(in crate::sys) object: usize,
    /// The cookie of the association, which is not used.
    pub(in crate::sys) user: usize,
}

/// `PORT_SOURCE_FD`: the object is a descriptor.
pub(in crate::sys) const SOURCE_FD: c_ushort = 4;

#[derive(Debug)]
pub(in crate::sys) struct Port<S> {
    sys: S,
    /// The list is as long as the longest list of a call so far.
    list: Vec<PortEvent>,
}

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
pub(in crate::sys) fn open() -> Result<super::PollLike<Port<system::System>>> {
    super::PollLike::over(Port::over(system::System::open()?))
}

impl<S: Sys> Port<S> {
    pub(in crate::sys) fn over(sys: S) -> Self {
        Self {
            sys,
            list: Vec::new(),
        }
    }
}

impl<S: Sys> Kernel for Port<S> {
    const NAME: &'static str = "port";
    const CALLS: Calls = Calls {
        apply: "port_associate",
        wait: "port_getn",
    };
    const AT_ONCE: usize = 1;
    const REPORTS_ONCE: bool = true;
    const DROPS_CLOSED: bool = true;

    fn begin(&mut self, fd: RawFd, flags: c_short) -> Result<bool> {
        let associated = self.sys.associate(fd, flags.into()).map_err(unified);
        associated
            .map(|()| true)
            .map_err(Error::os(Self::CALLS.apply))
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), Errno> {
        for change in changes {
            let applied = match change.flags {
                Some(flags) => self.sys.associate(change.fd, flags.into()),
                None => match self.sys.dissociate(change.fd) {
                    // The descriptor was closed, and its number is another file's.
                    Err(Errno::NOENT) => Ok(()),
                    dissociated => dissociated,
                },
            };
            applied.map_err(unified)?;
        }
        Ok(())
    }

    fn wait(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        if self.list.len() < limit {
            self.list.resize(limit, PortEvent::default());
        }
        let list = &mut self.list[..limit];
        // A call that fails may leave the count at 1, which is the number of events that it waits
        // for. The count is valid only if the call also wrote an entry.
        list[0].source = 0;
        let mut count = 1;
        let outcome = self.sys.getn(list, &mut count, timeout);
        let taken = match list[0].source {
            0 => 0,
            _ => limit.min(count as usize),
        };
        match outcome {
            Ok(()) | Err(Errno::TIME) => Ok(taken),
            // The taken events are not queued any more, and would be lost.
            Err(Errno::INTR) if taken > 0 => Ok(taken),
            Err(errno) => Err(errno),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the flags of poll have 16 bits, and the number was a descriptor's"
    )]
    fn found(&self, index: usize) -> (RawFd, c_short) {
        let event = self.list[index];
        (event.object as RawFd, event.events as c_short)
    }
}

/// Replaces `EBADFD` by `EBADF`, which every other call returns for a number that is not open.
fn unified(errno: Errno) -> Errno {
    match errno {
        Errno::BADFD => Errno::BADF,
        other => other,
    }
}
