//! The system calls that the kqueue backend makes, in types of our own.
//!
//! The types need no header of a BSD. So everything above the call is compiled and tested on any
//! system, over the real call (`system.rs`) or over a model of it (`sys/fake_kernel/kqueue.rs`).

use std::{
    fmt,
    os::fd::{BorrowedFd, RawFd},
    time::Duration,
};

use rustix::io::Errno;

use crate::interest::Interest;

pub(in crate::sys) trait Kernel: fmt::Debug + Send {
    /// `kevent`: applies `changes` in their order, then waits, and returns the number of events, at
    /// most `limit` and `c_int::MAX`. [`event`](Self::event) reads them.
    ///
    /// A change that is refused, or that has [`flag::RECEIPT`], becomes an event with
    /// [`flag::ERROR`]. If there is such an event, the call neither waits nor looks for other
    /// events. If there is no room for a refusal, the call returns it as its error, and the changes
    /// after it are not applied. After [`Errno::INTR`] all changes were applied.
    ///
    /// `timeout` is at most a few weeks; `None` waits without limit.
    fn kevent(
        &mut self,
        changes: &[Change],
        limit: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno>;

    /// Returns the event at `index` of the last call.
    fn event(&self, index: usize) -> Event;

    /// The descriptor of the queue. A model has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether `fd` is a socket that has a peer, by `getpeername`.
    fn is_connected(&self, fd: RawFd) -> bool;
}

/// A side of a descriptor. The descriptor and the side identify a knote (the kernel's word for a
/// registration).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sys) enum Filter {
    Read,
    Write,
}

impl Filter {
    pub(in crate::sys) const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub(in crate::sys) const fn side(self) -> Interest {
        match self {
            Self::Read => Interest::READ,
            Self::Write => Interest::WRITE,
        }
    }
}

pub(in crate::sys) fn filters(interest: Interest) -> impl Iterator<Item = Filter> {
    Filter::ALL
        .into_iter()
        .filter(move |filter| interest.contains(filter.side()))
}

/// The kernel's identifier of a descriptor: a `uintptr_t`, so a negative number (which no file has)
/// is sign-extended.
///
/// The kernel refuses such a number like any other that is not open, and returns the identifier
/// unchanged. The refusal finds its registration only if the number can be restored from the
/// identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Ident(pub(in crate::sys) usize);

impl Ident {
    pub(in crate::sys) fn new(fd: RawFd) -> Self {
        Self(fd as usize)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "only the sign extension is cut off"
    )]
    pub(in crate::sys) fn fd(self) -> RawFd {
        self.0 as RawFd
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Change {
    pub(in crate::sys) ident: Ident,
    pub(in crate::sys) filter: Filter,
    pub(in crate::sys) flags: u16,
    /// The id that the knote's events carry. (Not the key, because the kernel's field has 32 bits
    /// on 32-bit systems.)
    pub(in crate::sys) id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Event {
    pub(in crate::sys) ident: Ident,
    pub(in crate::sys) filter: Filter,
    pub(in crate::sys) flags: u16,
    /// The socket's error with [`flag::EOF`], or 0.
    pub(in crate::sys) fflags: u32,
    /// The refusal with [`flag::ERROR`], or 0. Otherwise the number of bytes to read or to write,
    /// or of connections.
    pub(in crate::sys) data: i64,
    pub(in crate::sys) id: u32,
}

impl Event {
    /// The content of a receipt: the change was applied, or refused. `None` if the event is not a
    /// receipt.
    pub(in crate::sys) fn receipt(&self) -> Option<Result<(), Errno>> {
        if self.flags & flag::ERROR == 0 {
            return None;
        }
        Some(match i32::try_from(self.data) {
            Ok(0) => Ok(()),
            Ok(errno) => Err(Errno::from_raw_os_error(errno)),
            Err(_) => Err(Errno::INVAL),
        })
    }

    /// Returns whether the event is the refusal to watch the writing end of a pipe that has no
    /// reader.
    pub(in crate::sys) fn is_broken_pipe(&self) -> bool {
        self.filter == Filter::Write && self.receipt() == Some(Err(Errno::PIPE))
    }

    /// Returns whether the writing side has ended without an error: the peer is gone, or the socket
    /// itself was shut for writing.
    pub(in crate::sys) fn is_unexplained_end(&self) -> bool {
        let is_end = self.filter == Filter::Write && self.flags & flag::EOF != 0;
        is_end && self.fflags == 0 && self.receipt().is_none()
    }
}

/// The flags of changes and events. They have these values on every system with `kevent`, which
/// `system.rs` checks.
pub(in crate::sys) mod flag {
    /// Makes a knote or updates it, and evaluates the descriptor afresh.
    pub(in crate::sys) const ADD: u16 = 0x01;
    /// Drops a knote.
    pub(in crate::sys) const DELETE: u16 = 0x02;
    /// The knote of this event is gone. (No change uses it: see `kqueue.rs`.)
    pub(in crate::sys) const ONESHOT: u16 = 0x10;
    /// The knote reports changes only: edge-triggered.
    pub(in crate::sys) const CLEAR: u16 = 0x20;
    /// The change is answered by an event, even if it was applied.
    pub(in crate::sys) const RECEIPT: u16 = 0x40;
    /// The event is a receipt.
    pub(in crate::sys) const ERROR: u16 = 0x4000;
    /// The side that the filter watches has come to its end.
    pub(in crate::sys) const EOF: u16 = 0x8000;
}
