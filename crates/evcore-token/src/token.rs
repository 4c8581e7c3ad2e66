//! The name of one occupant of one slot.
//!
//! A token is plain data: it can be copied, compared, hashed, and handed to the kernel as 64 bits.
//! It does not know its table, and it does not keep anything alive.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

/// An index and a generation in 64 bits.
///
/// The index says which slot; the generation says which of the values that have lived there, so a
/// token that outlives its value is recognised as stale.
/// A token is a name within one [`Table`](crate::Table); in another it means nothing.
///
/// The generation is never zero, so `Option<Token>` is 8 bytes as well.
/// Tokens are ordered by their bits, which makes them usable as keys and says nothing about age.
///
/// # Examples
///
/// ```
/// use evcore_token::Token;
/// use std::num::NonZeroU32;
///
/// let token = Token::new(5, NonZeroU32::MIN);
/// assert_eq!(token.to_string(), "5v1");
/// assert_eq!(Token::from_bits(token.to_bits()), Some(token));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Invariant: the high half is a generation, so it is not zero.
pub struct Token(NonZeroU64);

// A hundred thousand of these lie in side tables: the niche is worth a check by the compiler.
const _: () = assert!(size_of::<Option<Token>>() == 8);

impl Token {
    /// Names the occupant `generation` of slot `index`.
    ///
    /// Any index and any generation make a token; whether something lives there is for its table
    /// to say.
    #[inline]
    #[must_use]
    pub const fn new(index: u32, generation: NonZeroU32) -> Self {
        let bits = (generation.get() as u64) << 32 | index as u64;
        match NonZeroU64::new(bits) {
            Some(bits) => Self(bits),
            None => unreachable!(),
        }
    }

    /// The token that [`to_bits`](Self::to_bits) made these bits of.
    ///
    /// `None` where the generation is zero, as in no token: so 0 to `u32::MAX` are free for other
    /// uses of a 64-bit key.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits >> 32 == 0 {
            return None;
        }
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// The slot: a small dense number, fit to index side tables.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the low half is the index")]
    pub const fn index(self) -> u32 {
        self.0.get() as u32
    }

    /// Which of the slot's occupants, counted from 1.
    #[inline]
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the high half is the generation"
    )]
    pub const fn generation(self) -> NonZeroU32 {
        match NonZeroU32::new((self.0.get() >> 32) as u32) {
            Some(generation) => generation,
            None => unreachable!(),
        }
    }

    /// The index in the low half, the generation in the high half.
    ///
    /// Fits `epoll_data`, kqueue's `udata` and the user pointer of event ports.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Token {
    /// Slot 5, third occupant: `5v3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.index(), self.generation())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn index_is_the_low_half_and_generation_the_high_half() {
        let token = Token::new(5, NonZeroU32::new(3).unwrap());
        assert_eq!(token.to_bits(), 0x0000_0003_0000_0005);
    }

    #[test]
    fn a_zero_generation_is_no_token() {
        assert_eq!(Token::from_bits(0), None);
        assert_eq!(Token::from_bits(u64::from(u32::MAX)), None);
        assert!(Token::from_bits(1 << 32).is_some());
    }

    #[test]
    fn a_token_prints_its_slot_and_its_generation() {
        let token = Token::new(5, NonZeroU32::new(3).unwrap());
        assert_eq!(format!("{token} {token:?}"), "5v3 5v3");
    }

    proptest! {
        #[test]
        fn both_halves_come_back(index: u32, generation in 1..=u32::MAX) {
            let generation = NonZeroU32::new(generation).unwrap();
            let token = Token::new(index, generation);
            prop_assert_eq!(token.index(), index);
            prop_assert_eq!(token.generation(), generation);
            prop_assert_eq!(Token::from_bits(token.to_bits()), Some(token));
        }
    }
}
