//! Probabilities without floating point, so that they are equal on every machine.

use std::fmt;

/// The probability of an event, each time that it can happen.
///
/// ```
/// use evcore_sim::{Probability, Rng};
///
/// let mut rng = Rng::new(7);
/// let wins = (0..6_000).filter(|_| rng.happens(Probability::one_in(6))).count();
/// assert!((900..1_100).contains(&wins));
/// assert!(rng.happens(Probability::ALWAYS) && !rng.happens(Probability::NEVER));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability {
    /// Number of hits among [`DRAWS`] equally likely draws.
    hits: u64,
}

const DRAWS: u64 = 1 << 32;

impl Probability {
    /// The event never happens.
    pub const NEVER: Self = Self { hits: 0 };
    /// The event happens every time.
    pub const ALWAYS: Self = Self { hits: DRAWS };

    /// The event happens once in `n` times on average, or never if `n` is 0.
    #[must_use]
    pub const fn one_in(n: u32) -> Self {
        if n == 0 {
            return Self::NEVER;
        }
        // `n` is below 2^32, so the quotient is never rounded down to 0.
        Self {
            hits: DRAWS / n as u64,
        }
    }

    /// Returns whether the event never happens.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.hits == 0
    }

    /// Returns whether a draw of 64 bits is a hit.
    pub(crate) const fn covers(self, draw: u64) -> bool {
        draw >> 32 < self.hits
    }
}

impl fmt::Debug for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hits {
            0 => f.write_str("never"),
            DRAWS => f.write_str("always"),
            hits => write!(f, "one in {}", DRAWS / hits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_probability_is_not_zero() {
        assert!(Probability::one_in(u32::MAX).covers(0));
        assert!(!Probability::one_in(u32::MAX).covers(1 << 33));
        assert!(!Probability::one_in(0).covers(0));
        assert!(Probability::one_in(1).covers(u64::MAX));
    }
}
