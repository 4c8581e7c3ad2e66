//! The readiness that the kernel reported.

use bitflags::bitflags;

use crate::interest::Interest;

bitflags! {
    /// The readiness of a descriptor: any union of its constants.
    ///
    /// The bits are `EPOLLIN`, `EPOLLPRI`, `EPOLLOUT`, `EPOLLERR`, `EPOLLHUP` and `EPOLLRDHUP`,
    /// with Linux's values on every system.
    ///
    /// ```
    /// use evcore_poller::Ready;
    ///
    /// let mut ready = Ready::READABLE;
    /// ready |= Ready::READ_CLOSED;
    /// assert!(ready.is_readable() && ready.is_read_closed());
    /// assert!(!ready.is_writable());
    /// assert_eq!(ready.bits(), 0x2001);
    /// ```
    //
    // The bits have Linux's values, so that a mask converts the flags of epoll and of Linux's
    // `poll`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Ready: u16 {
        /// A read, or an accept, does not block.
        const READABLE = 0x0001;
        /// Priority data can be read. (An error or a hang-up does not set it.)
        const PRIORITY = 0x0002;
        /// A write does not block.
        const WRITABLE = 0x0004;
        /// The descriptor has an error. A read or a write returns it, and so does `SO_ERROR`. If
        /// they return no error, the kernel has refused the registration or its change.
        const ERROR = 0x0008;
        /// The stream is hung up: written bytes do not reach the peer.
        const WRITE_CLOSED = 0x0010;
        /// The peer sends no more. The bytes that it has sent before can still be read. A read
        /// after them returns 0 bytes, also on backends that do not report this bit.
        const READ_CLOSED = 0x2000;
    }
}

impl Ready {
    /// No readiness.
    pub const NONE: Self = Self::empty();

    const ALL_FLAGS: u32 = 0x201f;

    /// The bits that concern every side of an interest.
    pub(crate) const EXCEPTIONAL: Self = Self::ERROR.union(Self::WRITE_CLOSED);

    /// Returns whether a read does not block.
    #[must_use]
    #[inline]
    pub const fn is_readable(self) -> bool {
        self.contains(Self::READABLE)
    }

    /// Returns whether a write does not block.
    #[must_use]
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.contains(Self::WRITABLE)
    }

    /// Returns whether priority data can be read.
    #[must_use]
    #[inline]
    pub const fn is_priority(self) -> bool {
        self.contains(Self::PRIORITY)
    }

    /// Returns whether the peer sends no more.
    #[must_use]
    #[inline]
    pub const fn is_read_closed(self) -> bool {
        self.contains(Self::READ_CLOSED)
    }

    /// Returns whether written bytes do not reach the peer any more.
    #[must_use]
    #[inline]
    pub const fn is_write_closed(self) -> bool {
        self.contains(Self::WRITE_CLOSED)
    }

    /// Returns whether the descriptor has an error.
    #[must_use]
    #[inline]
    pub const fn is_error(self) -> bool {
        self.contains(Self::ERROR)
    }

    /// Returns whether there is an error or a hang-up, which concerns each side of the interest.
    #[inline]
    pub(crate) const fn is_exceptional(self) -> bool {
        self.intersects(Self::EXCEPTIONAL)
    }

    /// Returns the reading and writing bits of `interest` as readiness, without priority data. An
    /// event with an error or a hang-up gets these bits, so that code that only reads or only
    /// writes notices the error or the hang-up.
    #[inline]
    pub(crate) const fn answering(interest: Interest) -> Self {
        Self::from_bits_truncate((interest.bits() & Interest::BOTH.bits()) as u16)
    }

    /// Returns the interest to which this readiness belongs.
    #[inline]
    pub(crate) const fn answered(self) -> Interest {
        Interest::from_bits_truncate((self.bits() & 0b111) as u8)
    }

    /// Converts epoll's flags to a readiness, and drops the flags that have no meaning here.
    #[inline]
    pub(crate) const fn from_flags(flags: u32) -> Self {
        Self::from_bits_retain((flags & Self::ALL_FLAGS) as u16)
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
