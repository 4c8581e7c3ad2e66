//! How tokens, timers and listeners share the parts' number spaces.
//!
//! The poller is given one id for each listener, and the tokens' indices behind them. A listener's
//! key has the generation 0, which no token has. The timer queue is given two ids for each index.

use std::num::NonZeroU32;

use evcore_poller::Ready;
use evcore_token::Token;

use crate::Side;

/// Whom an event of the poller means.
pub(crate) enum Named {
    Listener(u32),
    Token(Token),
}

/// The poller's key of a listener.
pub(crate) fn listener_key(listener: u32) -> u64 {
    u64::from(listener)
}

/// The poller's key of a token, behind `listeners` others.
#[inline]
pub(crate) fn token_key(token: Token, listeners: u32) -> u64 {
    // An index at the end of the range stays there, where the poller refuses it by name.
    let id = token.index().saturating_add(listeners);
    (u64::from(token.generation().get()) << 32) | u64::from(id)
}

/// Whom a poller's key names.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
pub(crate) fn named(key: u64, listeners: u32) -> Named {
    let (id, generation) = (key as u32, (key >> 32) as u32);
    match NonZeroU32::new(generation) {
        Some(generation) => Named::Token(Token::new(id.wrapping_sub(listeners), generation)),
        None => Named::Listener(id),
    }
}

/// The timer queue's id of one side of an index.
#[inline]
pub(crate) fn timer_id(index: u32, side: Side) -> u32 {
    2 * index + u32::from(side == Side::Write)
}

/// The index and the side that a timer's id means.
#[inline]
pub(crate) fn timer_owner(id: u32) -> (u32, Side) {
    (id / 2, if id % 2 == 0 { Side::Read } else { Side::Write })
}

/// What the loop keeps of each index: who lives there, and what waits for it in the posted queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// `None`: nobody. Else everything that carries another generation is stale.
    pub(crate) generation: Option<NonZeroU32>,
    /// Merged readiness; delivered when the posted queue comes to this index.
    pub(crate) posted: Ready,
    /// Whether the poller has a descriptor of it.
    pub(crate) watched: bool,
}

/// The slots, by index.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    list: Vec<Slot>,
}

impl Slots {
    /// The slot of a token that lives.
    #[inline]
    pub(crate) fn of(&mut self, token: Token) -> Option<&mut Slot> {
        let slot = self.list.get_mut(token.index() as usize)?;
        (slot.generation == Some(token.generation())).then_some(slot)
    }

    /// Whether a token lives.
    #[inline]
    pub(crate) fn has(&self, token: Token) -> bool {
        let slot = self.list.get(token.index() as usize);
        slot.is_some_and(|slot| slot.generation == Some(token.generation()))
    }

    /// Who lives at an index.
    #[inline]
    pub(crate) fn living(&self, index: u32) -> Option<Token> {
        let generation = self.list.get(index as usize)?.generation?;
        Some(Token::new(index, generation))
    }

    /// A new life. The index must be free.
    pub(crate) fn begin(&mut self, token: Token) -> &mut Slot {
        let index = token.index() as usize;
        if self.list.len() <= index {
            self.list.resize(index + 1, Slot::default());
        }
        let slot = &mut self.list[index];
        debug_assert!(slot.generation.is_none(), "checked by the caller");
        slot.generation = Some(token.generation());
        slot
    }

    /// The end of a life, and what it was.
    pub(crate) fn end(&mut self, token: Token) -> Option<Slot> {
        self.of(token).map(std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).expect("not zero"))
    }

    #[test]
    fn a_key_names_whom_it_was_made_from() {
        for (index, generation, listeners) in [(0, 1, 0), (0, 1, 3), (77, u32::MAX, 1)] {
            let token = token(index, generation);
            match named(token_key(token, listeners), listeners) {
                Named::Token(found) => assert_eq!(found, token),
                Named::Listener(_) => panic!("{token} became a listener"),
            }
        }
        assert!(matches!(named(listener_key(2), 3), Named::Listener(2)));
    }

    #[test]
    fn an_index_at_the_end_does_not_leak_into_the_generation() {
        assert_eq!(token_key(token(u32::MAX, 1), 5) >> 32, 1);
    }

    #[test]
    fn each_side_has_a_timer_of_its_own() {
        for index in [0, 1, 1 << 20] {
            for side in [Side::Read, Side::Write] {
                assert_eq!(timer_owner(timer_id(index, side)), (index, side));
            }
        }
    }

    #[test]
    fn a_slot_is_eight_bytes() {
        assert_eq!(size_of::<Slot>(), 8);
    }
}
