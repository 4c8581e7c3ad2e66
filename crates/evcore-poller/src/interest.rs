//! What a caller asks for, and how often it wants to be told.

use std::{
    fmt,
    ops::{BitOr, BitOrAssign, Sub},
};

/// The readiness that a registration asks about: any union of its constants.
///
/// ```
/// use evcore_poller::Interest;
///
/// let both = Interest::READ | Interest::WRITE;
/// assert_eq!(both, Interest::BOTH);
/// assert_eq!(both - Interest::WRITE, Interest::READ);
/// assert!(Interest::NONE.is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: the registration stays, and reports nothing, not even errors.
    pub const NONE: Self = Self(0);
    /// Data to read, a connection to accept, or the end of the stream.
    pub const READ: Self = Self(0b001);
    /// Priority data (for TCP, the urgent byte).
    pub const PRIORITY: Self = Self(0b010);
    /// Room to write, or a `connect` that has ended.
    pub const WRITE: Self = Self(0b100);
    /// [`READ`](Self::READ) and [`WRITE`](Self::WRITE).
    pub const BOTH: Self = Self(0b101);

    /// Whether all of `other` is asked for.
    #[must_use]
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is asked for.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits, which are those of [`Ready`](crate::Ready) too: what is asked is what is said.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// The interest that the three low bits of a readiness answer.
    pub(crate) const fn from_ready_bits(bits: u16) -> Self {
        Self((bits & 0b111) as u8)
    }
}

impl BitOr for Interest {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Interest {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// What is in the first and not in the second.
impl Sub for Interest {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READ, "READ"),
            (Self::PRIORITY, "PRIORITY"),
            (Self::WRITE, "WRITE"),
        ];
        let mut set = f.debug_set();
        for (bit, name) in names {
            if self.contains(bit) {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

/// How often readiness that lasts is reported.
///
/// ```
/// # use evcore_poller::{Events, Interest, Mode, Poller};
/// # use std::{io::Write, os::unix::net::UnixStream, time::Duration};
/// # let (mut near, far) = UnixStream::pair()?;
/// # let (mut poller, mut events) = (Poller::new()?, Events::with_capacity(4));
/// poller.add(&far, 0, Interest::READ, Mode::Edge)?;
/// near.write_all(b"x")?;
/// assert_eq!(poller.wait(&mut events, None)?, 1);
/// // Nothing new came, so nothing is said, although the byte is still there.
/// assert_eq!(poller.wait(&mut events, Some(Duration::ZERO))?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// In every wait for as long as it holds.
    Level,
    /// Once a side, until the caller answers with [`Poller::rearm`](crate::Poller::rearm): after
    /// `WouldBlock` there, and after a `connect` that is in progress. Reading a stream, a short read
    /// will do too, but only if [`Ready::READ_CLOSED`](crate::Ready::READ_CLOSED) has not been
    /// reported: data and the end of the stream may come in one event.
    ///
    /// The end of a stream is reported once more behind a report that nobody has answered: the end
    /// of what the peer sends, where reading is asked for, and a hang-up or an error, as far as the
    /// backend reports these by bits of their own ([the table](crate#what-each-backend-does); select
    /// has none of them). A side that it concerns is reported with it. After a hang-up or an error,
    /// nothing more is reported until `rearm`.
    ///
    /// Backends differ in one thing: in what else is reported before the answer. A kernel that keeps
    /// `Edge` itself (epoll, kqueue) reports new data and new room, and may repeat all that holds
    /// with it. Where `Edge` is kept by masking (poll, select, event ports), these are silent until
    /// `rearm`. A program that does not rearm therefore works on epoll and waits for ever on poll:
    /// test it with [`BackendKind::Poll`](crate::BackendKind::Poll).
    Edge,
    /// Once, whatever it is, and then nothing until [`Poller::modify`](crate::Poller::modify).
    Oneshot,
}
