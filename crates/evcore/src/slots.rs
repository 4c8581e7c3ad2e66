//! Who lives at each index, and what is posted for them.
//!
//! A token that is not the one that lives at its index is stale, and everything here is refused
//! to it. A generation that has ended does not begin again, so that an event that was reported for
//! it cannot be taken for one of a later life.

use std::{mem, num::NonZeroU32};

use evcore_poller::Ready;
use evcore_posted::TurnQueue;
use evcore_token::Token;

use crate::{Error, Result};

/// The table of lives, by index.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    list: Vec<Slot>,
    /// How many there will mostly be at most.
    expected: usize,
    // Invariant: the indices for which something is posted, for this turn or the next; each lives.
    posted: TurnQueue,
    // Invariant: how many slots are watched.
    watched: u32,
}

/// What is kept of an index.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Of who lives here or, where nobody does, lived here last. 0: nobody ever did.
    generation: u32,
    life: Life,
    /// Nobody need wait for its timers.
    // Invariant: only of one that lives.
    cancelable: bool,
    /// Merged readiness; delivered when the queue comes to this index, in whichever turn.
    posted: Ready,
}

/// Whether somebody lives at an index, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Over,
    /// Of timers and posts alone.
    Unwatched,
    /// The poller watches a descriptor of it.
    Watched,
}

impl Slots {
    /// For so many lives; there may be more. Commits no memory to them yet.
    pub(crate) fn expecting(lives: u32) -> Self {
        Self {
            expected: lives as usize,
            ..Self::default()
        }
    }

    /// Whether a life can begin under this token.
    pub(crate) fn check_free(&self, token: Token) -> Result<()> {
        match self.list.get(token.index() as usize) {
            Some(slot) if slot.life != Life::Over => Err(Error::InUse {
                token,
                living: self.living(token.index()),
            }),
            Some(slot) if token.generation().get() <= slot.generation => {
                Err(Error::Ended { token })
            }
            _ => Ok(()),
        }
    }

    /// A life that the poller watches. The index must be [free](Self::check_free).
    pub(crate) fn begin_watched(&mut self, token: Token) {
        self.begin(token, Life::Watched);
        self.watched += 1;
    }

    /// A life of timers and posts alone. The index must be [free](Self::check_free).
    pub(crate) fn begin_unwatched(&mut self, token: Token) {
        self.begin(token, Life::Unwatched);
    }

    /// Ends a life, and says whether the poller watched it; `None` if the token is stale.
    pub(crate) fn end(&mut self, token: Token) -> Option<bool> {
        let slot = self.of(token)?;
        let watched = mem::take(&mut slot.life) == Life::Watched;
        slot.cancelable = false;
        slot.posted = Ready::NONE;
        self.posted.cancel(token.index());
        self.watched -= u32::from(watched);
        Some(watched)
    }

    /// Merges readiness into what is posted for a token. `false` if the token is stale.
    #[inline]
    pub(crate) fn post(&mut self, token: Token, ready: Ready) -> bool {
        let Some(slot) = self.of(token) else {
            return false;
        };
        slot.posted |= ready;
        self.posted.post(token.index());
        true
    }

    /// Merges readiness into what is posted for a token, which waits for the next turn if nothing
    /// was. `false` if the token is stale.
    #[inline]
    pub(crate) fn post_next(&mut self, token: Token, ready: Ready) -> bool {
        let Some(slot) = self.of(token) else {
            return false;
        };
        slot.posted |= ready;
        self.posted.post_next(token.index());
        true
    }

    /// What waited for the next turn is due, behind what is due already.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        self.posted.begin_turn();
    }

    /// Takes back what is posted for a token.
    pub(crate) fn cancel(&mut self, token: Token) -> Ready {
        let Some(slot) = self.of(token) else {
            return Ready::NONE;
        };
        let ready = mem::take(&mut slot.posted);
        self.posted.cancel(token.index());
        ready
    }

    /// Takes what has been due the longest.
    #[inline]
    pub(crate) fn pop_posted(&mut self) -> Option<(Token, Ready)> {
        let index = self.posted.pop()?;
        let token = self.living(index);
        let ready = mem::take(&mut self.list[index as usize].posted);
        Some((token, ready))
    }

    /// Marks the timers of a token as such that nobody need wait for. `false` if the token is stale.
    pub(crate) fn set_cancelable(&mut self, token: Token) -> bool {
        self.of(token).map(|slot| slot.cancelable = true).is_some()
    }

    /// The indices whose timers nobody need wait for. Costs a look at all.
    pub(crate) fn cancelable(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.list);
        slots.filter_map(|(index, slot)| slot.cancelable.then_some(index))
    }

    /// Whether a token lives.
    #[inline]
    pub(crate) fn has(&self, token: Token) -> bool {
        self.slot(token).is_some()
    }

    /// Whether a token lives and the poller watches it.
    #[inline]
    pub(crate) fn watches(&self, token: Token) -> bool {
        self.slot(token)
            .is_some_and(|slot| slot.life == Life::Watched)
    }

    /// Who lives at an index.
    ///
    /// # Panics
    ///
    /// If nobody does: whatever is queued by index is cancelled when a life ends.
    #[inline]
    pub(crate) fn living(&self, index: u32) -> Token {
        let slot = self.list[index as usize];
        assert!(slot.life != Life::Over, "ending a life clears the queues");
        let generation = NonZeroU32::new(slot.generation).expect("a life has a generation");
        Token::new(index, generation)
    }

    /// Whether anything is posted, for this turn or the next.
    #[inline]
    pub(crate) fn has_posted(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Whether anything is posted for an index, for this turn or the next.
    #[inline]
    pub(crate) fn is_posted(&self, index: u32) -> bool {
        self.posted.contains(index)
    }

    /// How many indices have something posted, for this turn or the next.
    #[inline]
    pub(crate) fn posted(&self) -> u32 {
        self.posted.len()
    }

    /// How many descriptors are watched.
    #[inline]
    pub(crate) fn watched(&self) -> u32 {
        self.watched
    }

    fn begin(&mut self, token: Token, life: Life) {
        debug_assert!(self.check_free(token).is_ok(), "{token} cannot begin");
        let index = token.index() as usize;
        if self.list.len() <= index {
            self.cover(index);
        }
        let slot = &mut self.list[index];
        slot.generation = token.generation().get();
        slot.life = life;
    }

    /// Makes the list long enough for an index. It at least doubles, but for the last time before it
    /// covers all that are expected: there is no use in room for more.
    #[cold]
    fn cover(&mut self, index: usize) {
        let (len, held) = (index + 1, self.list.len());
        if len > self.list.capacity() && (len..2 * len).contains(&self.expected) {
            self.list.reserve_exact(self.expected - held);
        }
        self.list.resize(len, Slot::default());
    }

    #[inline]
    fn slot(&self, token: Token) -> Option<&Slot> {
        let slot = self.list.get(token.index() as usize)?;
        slot.is_of(token).then_some(slot)
    }

    #[inline]
    fn of(&mut self, token: Token) -> Option<&mut Slot> {
        let slot = self.list.get_mut(token.index() as usize)?;
        slot.is_of(token).then_some(slot)
    }
}

impl Slot {
    #[inline]
    fn is_of(self, token: Token) -> bool {
        self.generation == token.generation().get() && self.life != Life::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).expect("not zero"))
    }

    #[test]
    fn a_slot_is_eight_bytes() {
        assert_eq!(size_of::<Slot>(), 8);
    }

    #[test]
    fn the_list_has_no_room_for_more_than_are_expected_unless_they_come() {
        let mut slots = Slots::expecting(1000);
        (0..1000).for_each(|index| slots.begin_unwatched(token(index, 1)));
        assert_eq!(slots.list.capacity(), 1000);
        slots.begin_unwatched(token(1000, 1));
        assert!(slots.list.capacity() >= 2000, "from there on it doubles");
    }

    #[test]
    fn an_index_is_taken_until_its_life_ends() {
        let mut slots = Slots::default();
        slots.begin_watched(token(3, 5));
        assert!(slots.has(token(3, 5)) && !slots.has(token(3, 4)));
        let refusal = slots.check_free(token(3, 6));
        assert!(matches!(refusal, Err(Error::InUse { living, .. }) if living == token(3, 5)));

        assert_eq!(slots.end(token(3, 4)), None);
        assert_eq!(slots.end(token(3, 5)), Some(true));
        assert_eq!(slots.end(token(3, 5)), None);
        assert!(slots.check_free(token(3, 6)).is_ok());
    }

    #[test]
    fn a_generation_that_has_ended_does_not_begin_again_nor_does_an_earlier_one() {
        let mut slots = Slots::default();
        slots.begin_unwatched(token(0, 5));
        slots.end(token(0, 5));
        for generation in [1, 4, 5] {
            let refusal = slots.check_free(token(0, generation));
            assert!(matches!(refusal, Err(Error::Ended { .. })), "{generation}");
        }
    }

    #[test]
    fn what_is_posted_ends_with_the_life() {
        let mut slots = Slots::default();
        slots.begin_unwatched(token(0, 1));
        assert!(slots.post(token(0, 1), Ready::READABLE));
        slots.end(token(0, 1));
        assert!(!slots.has_posted());
        slots.begin_unwatched(token(0, 2));
        assert_eq!(slots.cancel(token(0, 2)), Ready::NONE);
    }

    #[test]
    fn what_is_posted_for_the_next_turn_ends_with_the_life_too() {
        let mut slots = Slots::default();
        slots.begin_unwatched(token(0, 1));
        assert!(slots.post_next(token(0, 1), Ready::READABLE));
        assert!(slots.has_posted() && slots.pop_posted().is_none());
        slots.end(token(0, 1));
        assert!(!slots.has_posted());
        slots.begin_unwatched(token(0, 2));
        slots.begin_turn();
        assert_eq!(slots.pop_posted(), None);
        assert!(!slots.post_next(token(0, 1), Ready::READABLE));
    }

    #[test]
    fn only_descriptors_count_as_watched() {
        let mut slots = Slots::default();
        slots.begin_watched(token(0, 1));
        slots.begin_unwatched(token(1, 1));
        assert_eq!(slots.watched(), 1);
        slots.end(token(1, 1));
        assert_eq!(slots.watched(), 1);
        slots.end(token(0, 1));
        assert_eq!(slots.watched(), 0);
    }
}
