//! Tokens: a token is the name of one value in one slot of a table.
//!
//! A token is plain data: it can be copied, compared, hashed, and handed to the kernel as 64 bits.
//! It has no reference to its table, and it keeps nothing alive.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

/// The name of a value in a [`Table`](crate::Table): the index of the value's slot, and a
/// generation, in 64 bits.
///
/// The generation counts the values that the slot has held, so a token that outlives its value is
/// recognised as stale. A token is valid in the table that created it and means nothing in another.
///
/// The generation is never zero, so `Option<Token>` is 8 bytes as well.
/// Tokens are ordered by their bits, so they can be keys; the order is not the order of creation.
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

// Side tables hold many values of this type, so its size is checked at compile time.
const _: () = assert!(size_of::<Option<Token>>() == 8);

impl Token {
    /// Creates the token of the value with this generation in slot `index`.
    ///
    /// Any index and any generation are accepted; only the table can check whether there is
    /// such a value.
    #[inline]
    #[must_use]
    pub const fn new(index: u32, generation: NonZeroU32) -> Self {
        let bits = (generation.get() as u64) << 32 | index as u64;
        match NonZeroU64::new(bits) {
            Some(bits) => Self(bits),
            None => unreachable!(),
        }
    }

    /// The token with these bits, as [`to_bits`](Self::to_bits) returned them.
    ///
    /// `None` if the generation would be zero. So no token has the bits 0 to `u32::MAX`, and a
    /// 64-bit key can use them for other purposes.
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

    /// The index of the slot: a small dense number, suitable to index side tables.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the low half is the index")]
    pub const fn index(self) -> u32 {
        self.0.get() as u32
    }

    /// The generation: 1 for the first value of the slot, 2 for the second, and so on.
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

    /// The bits of the token: the index in the low half, the generation in the high half.
    ///
    /// Fits `epoll_data`, and on 64-bit systems kqueue's `udata` and the user pointer of event
    /// ports.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Token {
    /// The index and the generation, such as `5v3`.
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
    fn bits_with_a_zero_generation_are_refused() {
        assert_eq!(Token::from_bits(0), None);
        assert_eq!(Token::from_bits(u64::from(u32::MAX)), None);
        assert!(Token::from_bits(1 << 32).is_some());
    }

    #[test]
    fn a_token_prints_its_index_and_its_generation() {
        let token = Token::new(5, NonZeroU32::new(3).unwrap());
        assert_eq!(format!("{token} {token:?}"), "5v3 5v3");
    }

    proptest! {
        #[test]
        fn index_and_generation_survive_the_conversion_to_bits(index: u32, generation in 1..=u32::MAX) {
            let generation = NonZeroU32::new(generation).unwrap();
            let token = Token::new(index, generation);
            prop_assert_eq!(token.index(), index);
            prop_assert_eq!(token.generation(), generation);
            prop_assert_eq!(Token::from_bits(token.to_bits()), Some(token));
        }
    }
}
