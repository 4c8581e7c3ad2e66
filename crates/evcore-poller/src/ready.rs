//! The readiness that the kernel reported.

use std::{
    fmt,
    ops::{BitAnd, BitOr, BitOrAssign},
};

use crate::interest::Interest;

/// The readiness of a descriptor: any union of its constants.
///
/// ```
/// use evcore_poller::Ready;
///
/// let mut ready = Ready::READABLE;
/// ready |= Ready::READ_CLOSED;
/// assert!(ready.is_readable() && ready.is_read_closed());
/// assert!(!ready.is_writable());
/// ```
//
// The bits are those of epoll and of Linux's `poll`, so the most frequent conversion is a mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ready(u16);

impl Ready {
    /// No readiness.
    pub const NONE: Self = Self(0);
    /// A read, or an accept, does not block.
    pub const READABLE: Self = Self(0x0001);
    /// Priority data can be read. (An error or a hang-up alone does not set it.)
    pub const PRIORITY: Self = Self(0x0002);
    /// A write does not block.
    pub const WRITABLE: Self = Self(0x0004);
    /// The descriptor has an error. A read or a write returns it, and so does `SO_ERROR`.
    pub const ERROR: Self = Self(0x0008);
    /// The stream is hung up: written bytes do not reach the peer.
    pub const WRITE_CLOSED: Self = Self(0x0010);
    /// The peer sends no more. The bytes that it has sent before can still be read; then a read
    /// returns 0 bytes, also on backends that do not report this bit.
    pub const READ_CLOSED: Self = Self(0x2000);

    /// Every bit that has a meaning.
    pub(crate) const ALL: Self = Self::from_flags(Self::ALL_FLAGS);
    const ALL_FLAGS: u32 = 0x201f;

    /// The bits that concern every side of an interest.
    pub(crate) const EXCEPTIONAL: Self = Self(Self::ERROR.0 | Self::WRITE_CLOSED.0);

    /// Returns whether a read does not block.
    #[must_use]
    #[inline]
    pub const fn is_readable(self) -> bool {
        self.0 & Self::READABLE.0 != 0
    }

    /// Returns whether a write does not block.
    #[must_use]
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.0 & Self::WRITABLE.0 != 0
    }

    /// Returns whether priority data can be read.
    #[must_use]
    #[inline]
    pub const fn is_priority(self) -> bool {
        self.0 & Self::PRIORITY.0 != 0
    }

    /// Returns whether the peer sends no more.
    #[must_use]
    #[inline]
    pub const fn is_read_closed(self) -> bool {
        self.0 & Self::READ_CLOSED.0 != 0
    }

    /// Returns whether written bytes do not reach the peer any more.
    #[must_use]
    #[inline]
    pub const fn is_write_closed(self) -> bool {
        self.0 & Self::WRITE_CLOSED.0 != 0
    }

    /// Returns whether the descriptor has an error.
    #[must_use]
    #[inline]
    pub const fn is_error(self) -> bool {
        self.0 & Self::ERROR.0 != 0
    }

    /// Returns whether nothing is ready.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the bits: `EPOLLIN`, `EPOLLPRI`, `EPOLLOUT`, `EPOLLERR`, `EPOLLHUP` and `EPOLLRDHUP`,
    /// with Linux's values on every system.
    ///
    /// ```
    /// use evcore_poller::Ready;
    ///
    /// let ready = Ready::READABLE | Ready::READ_CLOSED;
    /// assert_eq!(ready.bits(), 0x2001);
    /// assert_eq!(Ready::from_bits_truncate(0x2001 | 0x8000), ready);
    /// ```
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Makes a readiness from its [`bits`](Self::bits). Unknown bits are dropped.
    #[must_use]
    #[inline]
    pub const fn from_bits_truncate(bits: u16) -> Self {
        Self::from_flags(bits as u32)
    }

    /// Returns whether there is an error or a hang-up, which concerns each side of the interest.
    #[inline]
    pub(crate) const fn is_exceptional(self) -> bool {
        self.0 & Self::EXCEPTIONAL.0 != 0
    }

    /// The sides of `interest`, reading and writing, as readiness. Code that uses a side then gets
    /// the error or the hang-up. Priority data is not a side.
    #[inline]
    pub(crate) const fn answering(interest: Interest) -> Self {
        Self((interest.bits() & Interest::BOTH.bits()) as u16)
    }

    /// The interest to which this readiness belongs.
    #[inline]
    pub(crate) const fn answered(self) -> Interest {
        Interest::from_ready_bits(self.0)
    }

    /// Makes the readiness of epoll's flags, without those that have no meaning here.
    #[inline]
    pub(crate) const fn from_flags(flags: u32) -> Self {
        Self((flags & Self::ALL_FLAGS) as u16)
    }
}

impl BitOr for Ready {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Ready {
    type Output = Self;

    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOrAssign for Ready {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READABLE, "READABLE"),
            (Self::PRIORITY, "PRIORITY"),
            (Self::WRITABLE, "WRITABLE"),
            (Self::ERROR, "ERROR"),
            (Self::WRITE_CLOSED, "WRITE_CLOSED"),
            (Self::READ_CLOSED, "READ_CLOSED"),
        ];
        let mut set = f.debug_set();
        for (bit, name) in names {
            if self.0 & bit.0 != 0 {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interest_and_readiness_have_the_same_bits() {
        assert_eq!(Ready::answering(Interest::READ), Ready::READABLE);
        assert_eq!(Ready::answering(Interest::WRITE), Ready::WRITABLE);
        assert_eq!(Ready::answering(Interest::PRIORITY), Ready::NONE);
        assert_eq!(Ready::PRIORITY.answered(), Interest::PRIORITY);
        let all = Ready::READABLE | Ready::ERROR | Ready::READ_CLOSED;
        assert_eq!(all.answered(), Interest::READ);
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn every_flag_of_linux_has_its_bit() {
        use rustix::event::epoll::EventFlags;
        let pairs = [
            (EventFlags::IN, Ready::READABLE),
            (EventFlags::PRI, Ready::PRIORITY),
            (EventFlags::OUT, Ready::WRITABLE),
            (EventFlags::ERR, Ready::ERROR),
            (EventFlags::HUP, Ready::WRITE_CLOSED),
            (EventFlags::RDHUP, Ready::READ_CLOSED),
            (EventFlags::ET, Ready::NONE),
        ];
        for (flag, bit) in pairs {
            assert_eq!(Ready::from_flags(flag.bits()), bit);
        }
    }
}
