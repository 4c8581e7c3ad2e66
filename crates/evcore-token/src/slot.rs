//! One place of a table, in as few bytes as it takes.
//!
//! A slot knows its generation whether or not something lives in it, which is what makes an old
//! token stale; and while it is free it holds a link of the chain of free slots.

use std::num::NonZeroU32;

use crate::Token;

/// One place in the table.
///
/// An enum rather than a generation beside an `Option`: the tag shares its word with the
/// generation, which keeps the overhead at 8 bytes.
pub(crate) enum Slot<T> {
    Occupied {
        generation: NonZeroU32,
        value: T,
    },
    Free {
        /// That of the next occupant.
        generation: NonZeroU32,
        /// The slot that was freed before this one, or `NIL`.
        next: u32,
    },
    /// Out of generations.
    Retired,
}

impl<T> Slot<T> {
    pub(crate) fn holds(&self, token: Token) -> bool {
        self.token(token.index()) == Some(token)
    }

    /// The token of the occupant, where this slot is the one at `index`.
    pub(crate) fn token(&self, index: u32) -> Option<Token> {
        match self {
            Slot::Occupied { generation, .. } => Some(Token::new(index, *generation)),
            Slot::Free { .. } | Slot::Retired => None,
        }
    }
}

/// The end of the chain of free slots.
pub(crate) const NIL: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_costs_at_most_eight_bytes_more_than_its_value() {
        fn overhead<T>() -> usize {
            size_of::<Slot<T>>() - size_of::<T>()
        }
        assert_eq!(overhead::<u32>(), 8);
        assert_eq!(overhead::<u64>(), 8);
        assert_eq!(overhead::<Box<u8>>(), 8);
        assert_eq!(overhead::<(u64, u8)>(), 8);
        assert_eq!(overhead::<[u64; 20]>(), 8);
    }
}
