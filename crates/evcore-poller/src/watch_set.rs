//! The parts of one registration that a backend watches: the sides of its interest, and its ends
//! (half-close, hang-up and error).
//!
//! If the kernel has no `Edge`, a side or a half-close that was reported is masked (not watched any
//! more), and the other parts are still watched. So a hang-up is still reported if earlier data was
//! not read.

use std::ops::{BitOrAssign, Sub};

use crate::{interest::Interest, ready::Ready};

/// A set of conditions: the sides of interest in the low three bits, as in [`Interest`], and the
/// ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchSet(u8);

impl WatchSet {
    pub(crate) const EMPTY: Self = Self(0);
    /// The peer sends no more: [`Ready::READ_CLOSED`].
    const HALF_CLOSE: Self = Self(0b0_1000);
    /// [`Ready::WRITE_CLOSED`] or [`Ready::ERROR`], which a kernel reports for everything that it
    /// watches. So they are masked only together with all sides.
    const HANG_UP: Self = Self(0b1_0000);

    /// Returns all conditions that can be reported for `interest`.
    #[inline]
    pub(crate) const fn of(interest: Interest) -> Self {
        let ends = match (interest.is_empty(), interest.contains(Interest::READ)) {
            (true, _) => 0,
            (false, false) => Self::HANG_UP.0,
            (false, true) => Self::HANG_UP.0 | Self::HALF_CLOSE.0,
        };
        Self(interest.bits() | ends)
    }

    /// Returns the sides of `interest` without its ends.
    #[inline]
    pub(crate) const fn sides_of(interest: Interest) -> Self {
        Self(interest.bits())
    }

    /// Returns the part of `interest` that `ready` has reported. A hang-up or an error counts as a
    /// report of everything, because a level-triggered kernel repeats it as long as it watches
    /// anything.
    #[inline]
    pub(crate) const fn reported(ready: Ready, interest: Interest) -> Self {
        if ready.is_exceptional() {
            return Self::of(interest);
        }
        let end = if ready.is_read_closed() {
            Self::HALF_CLOSE.0
        } else {
            0
        };
        Self(ready.answered().bits() | end)
    }

    #[inline]
    pub(crate) const fn interest(self) -> Interest {
        Interest::from_bits_truncate(self.0)
    }

    #[inline]
    pub(crate) fn ends(self) -> Ready {
        let mut ends = Ready::NONE;
        if self.0 & Self::HALF_CLOSE.0 != 0 {
            ends |= Ready::READ_CLOSED;
        }
        if self.0 & Self::HANG_UP.0 != 0 {
            ends |= Ready::WRITE_CLOSED | Ready::ERROR;
        }
        ends
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[cfg(test)]
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOrAssign for WatchSet {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Sub for WatchSet {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_watched_until_they_are_reported() {
        let hang_up = Ready::WRITE_CLOSED | Ready::ERROR;
        assert_eq!(WatchSet::of(Interest::NONE), WatchSet::EMPTY);
        assert_eq!(WatchSet::of(Interest::WRITE).ends(), hang_up);

        let all = WatchSet::of(Interest::READ);
        assert_eq!(all.ends(), hang_up | Ready::READ_CLOSED);
        let left = all - WatchSet::reported(Ready::READABLE, Interest::READ);
        assert_eq!((left.interest(), left.ends()), (Interest::NONE, all.ends()));
        let left = left - WatchSet::reported(Ready::READ_CLOSED, Interest::READ);
        assert_eq!(left.ends(), hang_up);
        for end in [Ready::WRITE_CLOSED, Ready::ERROR] {
            assert!((left - WatchSet::reported(end, Interest::READ)).is_empty());
        }
    }
}
