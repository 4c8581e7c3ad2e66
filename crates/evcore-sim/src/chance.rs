//! How likely something is, without floating point.

use std::fmt;

/// How often something happens, of all the times that it could.
///
/// ```
/// use evcore_sim::{Chance, Rng};
///
/// let mut rng = Rng::new(7);
/// let wins = (0..6_000).filter(|_| rng.happens(Chance::one_in(6))).count();
/// assert!((900..1_100).contains(&wins));
/// assert!(rng.happens(Chance::ALWAYS) && !rng.happens(Chance::NEVER));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chance {
    /// Of 2^32 equally likely draws, those by which it happens.
    of_all: u64,
}

/// How many draws there are.
const ALL: u64 = 1 << 32;

impl Chance {
    /// Not once.
    pub const NEVER: Self = Self { of_all: 0 };
    /// Every time.
    pub const ALWAYS: Self = Self { of_all: ALL };

    /// Once in `n` times, on average; of 0 times, never.
    #[must_use]
    pub const fn one_in(n: u32) -> Self {
        if n == 0 {
            return Self::NEVER;
        }
        // n is below 2^32, so it is never rounded down to nothing.
        Self {
            of_all: ALL / n as u64,
        }
    }

    /// Whether it never happens.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.of_all == 0
    }

    /// Whether it happens by this draw.
    pub(crate) const fn covers(self, draw: u64) -> bool {
        draw >> 32 < self.of_all
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of_all {
            0 => f.write_str("never"),
            ALL => f.write_str("always"),
            of_all => write!(f, "one in {}", ALL / of_all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarest_chance_is_not_never() {
        assert!(Chance::one_in(u32::MAX).covers(0));
        assert!(!Chance::one_in(u32::MAX).covers(1 << 33));
        assert!(!Chance::one_in(0).covers(0));
        assert!(Chance::one_in(1).covers(u64::MAX));
    }
}
