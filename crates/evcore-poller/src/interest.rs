//! The interest of a registration, and the mode by which readiness is reported.

use bitflags::bitflags;

bitflags! {
    /// The readiness that a registration watches for: any union of its constants. Each bit has the
    /// same value as the [readiness](crate::Ready) that it selects.
    ///
    /// ```
    /// use evcore_poller::Interest;
    ///
    /// let both = Interest::READ | Interest::WRITE;
    /// assert_eq!(both, Interest::BOTH);
    /// assert_eq!(both - Interest::WRITE, Interest::READ);
    /// assert!(Interest::NONE.is_empty());
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Interest: u8 {
        /// Data to read, a connection to accept, or the end of the stream.
        const READ = 0b001;
        /// Priority data (for TCP, the urgent byte).
        const PRIORITY = 0b010;
        /// Room to write, or a finished `connect`.
        const WRITE = 0b100;
    }
}

impl Interest {
    /// The empty interest: the registration stays, and reports nothing, not even errors.
    pub const NONE: Self = Self::empty();
    /// [`READ`](Self::READ) and [`WRITE`](Self::WRITE).
    pub const BOTH: Self = Self::READ.union(Self::WRITE);
}

/// The rule by which lasting readiness is reported.
///
/// ```
/// # use evcore_poller::{Events, Interest, Mode, Poller};
/// # use std::{io::Write, os::unix::net::UnixStream, time::Duration};
/// # let (mut near, far) = UnixStream::pair()?;
/// # let (mut poller, mut events) = (Poller::new()?, Events::bounded(4));
/// poller.add(&far, 0, Interest::READ, Mode::Edge)?;
/// near.write_all(b"x")?;
/// assert_eq!(poller.wait(&mut events, None)?, 1);
/// // Nothing new came, so nothing is reported, although the byte is still there.
/// assert_eq!(poller.wait(&mut events, Some(Duration::ZERO))?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Readiness is reported in every wait while it lasts.
    Level,
    /// Readiness is reported once per side, until you answer with
    /// [`Poller::rearm`](crate::Poller::rearm).
    ///
    /// Answer when a call on that side has returned `WouldBlock`, and when a `connect` is in
    /// progress. A short read of a stream is enough as well, but only if
    /// [`Ready::READ_CLOSED`](crate::Ready::READ_CLOSED) has not been reported: data and the end of
    /// the stream may come in one event.
    ///
    /// An end is reported once even before the answer: the end of the peer's bytes, if the interest
    /// includes reading, and a hang-up or an error. This holds if the backend reports ends by bits
    /// of their own ([the table](crate::BackendKind#what-each-backend-does); select has no such
    /// bits). The affected sides are reported together with the end. If the poller emulates `Edge`,
    /// nothing more is reported after a hang-up or an error, until `rearm`.
    ///
    /// Backends differ in what else they report before the answer. A kernel that has `Edge` itself
    /// (epoll, kqueue, `io_uring`) reports new data and new room, and may repeat everything else
    /// that is ready. On every other backend the poller emulates `Edge`, and reports nothing else
    /// until `rearm`. A program that forgets a `rearm` works on epoll and waits for ever on poll.
    /// Test your program with [`BackendKind::Poll`](crate::BackendKind::Poll), or on Linux with
    /// [`BackendKind::EpollMasked`](crate::BackendKind::EpollMasked).
    Edge,
    /// The first event of any side is reported, and then nothing until
    /// [`Poller::modify`](crate::Poller::modify).
    Oneshot,
    /// `Level` for a source that other pollers watch exclusively too, in other threads or
    /// processes: an event wakes one of them (or a few), not all. It is for listeners.
    ///
    /// Only epoll has this, so check the [capabilities](crate::Capabilities::exclusive) of the
    /// [backend](crate::Poller::backend) first. [`READ_CLOSED`](crate::Ready::READ_CLOSED) is not
    /// reported, and [`Interest::PRIORITY`] is refused. A change of interest costs two system
    /// calls, because the kernel cannot modify such a registration. The kernel mostly wakes the
    /// poller that registered first, so [reregister](crate::Poller::reregister) from time to time.
    Exclusive,
    /// `Edge` for a source that other pollers watch exclusively too: see
    /// [`Exclusive`](Self::Exclusive).
    ExclusiveEdge,
}

impl Mode {
    /// Returns whether it is [`Edge`](Self::Edge) or [`ExclusiveEdge`](Self::ExclusiveEdge).
    #[must_use]
    #[inline]
    pub const fn is_edge(self) -> bool {
        matches!(self, Self::Edge | Self::ExclusiveEdge)
    }

    /// Returns whether it is [`Exclusive`](Self::Exclusive) or
    /// [`ExclusiveEdge`](Self::ExclusiveEdge).
    #[must_use]
    #[inline]
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive | Self::ExclusiveEdge)
    }
}
