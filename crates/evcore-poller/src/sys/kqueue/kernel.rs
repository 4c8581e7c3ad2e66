//! What the backend asks of a kernel that has `kevent`, in types of our own.
//!
//! No header of a BSD is needed here, so that everything above the call is compiled and tested
//! on any system: over the real call (`system.rs`) or over a model of it (`fake_kernel.rs`).

use std::{fmt, os::fd::RawFd, time::Duration};

use rustix::io::Errno;

use crate::Interest;

/// The call.
pub(in crate::sys) trait Kernel: fmt::Debug + Send {
    /// `kevent`: makes `changes` in their order, then waits and returns how many events there are,
    /// at most `limit` and `c_int::MAX`; [`event`](Self::event) reads them.
    ///
    /// A change that is refused, or that asks for a receipt, is an event with [`flag::ERROR`];
    /// where there is any such event, nothing was waited for or looked at. With no place left for
    /// it the refusal is the error of the call, and the changes behind it were not made. After
    /// [`Errno::INTR`] all of them were.
    ///
    /// `timeout` is a few weeks at most; `None` waits without limit.
    fn kevent(
        &mut self,
        changes: &[Change],
        limit: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno>;

    /// The event at `index` of those that the last call brought.
    fn event(&self, index: usize) -> Event;

    /// `getpeername`: whether `fd` is a socket that has a peer.
    fn is_connected(&self, fd: RawFd) -> bool;
}

/// What is watched for: with a descriptor, it names a knote (the kernel's word for a registration).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sys) enum Filter {
    Read,
    Write,
}

impl Filter {
    pub(super) const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The interest that it serves.
    pub(super) const fn side(self) -> Interest {
        match self {
            Self::Read => Interest::READ,
            Self::Write => Interest::WRITE,
        }
    }
}

/// The filters that serve `interest`.
pub(super) fn filters(interest: Interest) -> impl Iterator<Item = Filter> {
    Filter::ALL
        .into_iter()
        .filter(move |filter| interest.contains(filter.side()))
}

/// What the kernel knows a descriptor by: a `uintptr_t`, so a negative number (which no file has) is
/// extended by its sign.
///
/// The kernel refuses such a number like any other that is not open, and returns the identifier as
/// it was. So the refusal belongs to the registration only if the number comes back whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Ident(pub(super) usize);

impl Ident {
    pub(super) fn new(fd: RawFd) -> Self {
        Self(fd as usize)
    }

    /// The descriptor that the identifier was made of.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is cut off is the extended sign"
    )]
    pub(super) fn fd(self) -> RawFd {
        self.0 as RawFd
    }
}

/// One entry of the list of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Change {
    pub(super) ident: Ident,
    pub(super) filter: Filter,
    pub(super) flags: u16,
    /// What the knote's events carry. (Not the key: where a pointer has 32 bits, so has this.)
    pub(super) id: u32,
}

/// One entry of the list of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Event {
    /// As the change had it.
    pub(super) ident: Ident,
    pub(super) filter: Filter,
    pub(super) flags: u16,
    /// With [`flag::EOF`]: the socket's error, or 0.
    pub(super) fflags: u32,
    /// With [`flag::ERROR`]: the refusal, or 0. Else bytes to read or to write, or connections.
    pub(super) data: i64,
    pub(super) id: u32,
}

impl Event {
    /// What a receipt says: `Some` change was made, or refused. `None` where it is no receipt.
    pub(super) fn receipt(&self) -> Option<Result<(), Errno>> {
        if self.flags & flag::ERROR == 0 {
            return None;
        }
        Some(match i32::try_from(self.data) {
            Ok(0) => Ok(()),
            Ok(errno) => Err(Errno::from_raw_os_error(errno)),
            Err(_) => Err(Errno::INVAL),
        })
    }

    /// Whether it is the refusal to watch the writing end of a pipe that has no reader.
    pub(super) fn is_broken_pipe(&self) -> bool {
        self.filter == Filter::Write && self.receipt() == Some(Err(Errno::PIPE))
    }

    /// Whether the writing side is at its end, without an error that says why: the peer is gone, or
    /// one's own side was shut.
    pub(super) fn is_unexplained_end(&self) -> bool {
        let is_end = self.filter == Filter::Write && self.flags & flag::EOF != 0;
        is_end && self.fflags == 0 && self.receipt().is_none()
    }
}

/// The flags of changes and events. Every system that has `kevent` gives them these values, which
/// `system.rs` checks.
pub(in crate::sys) mod flag {
    /// Makes a knote, or brings one that is there up to date; needs_scan at the descriptor afresh.
    pub(in crate::sys) const ADD: u16 = 0x01;
    /// Drops a knote.
    pub(in crate::sys) const DELETE: u16 = 0x02;
    /// On an event: its knote is gone. (It is asked of no change: see `kqueue.rs`.)
    pub(in crate::sys) const ONESHOT: u16 = 0x10;
    /// The knote reports changes only: edge-triggered.
    pub(in crate::sys) const CLEAR: u16 = 0x20;
    /// The change is answered by an event, also where it was made.
    pub(in crate::sys) const RECEIPT: u16 = 0x40;
    /// On an event: it is a receipt.
    pub(in crate::sys) const ERROR: u16 = 0x4000;
    /// On an event: the side that the filter watches has come to its end.
    pub(in crate::sys) const EOF: u16 = 0x8000;
}
