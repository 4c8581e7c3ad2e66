//! Who lives at each index, and what is posted for them.
//!
//! A token that is not the one that lives at its index is stale, and everything here is refused
//! to it. A generation that has ended does not begin again, so that an event that was reported for
//! it cannot be taken for one of a later life.

use std::{collections::BTreeSet, mem, num::NonZeroU32};

use evcore_poller::Ready;
use evcore_posted::TurnQueue;
use evcore_token::Token;

use crate::{Error, Result};

/// The table of lives, by index.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    homes: Vec<Home>,
    // Invariant: as many as homes.
    states: Vec<State>,
    /// How many there will mostly be at most.
    expected: usize,
    // Invariant: the indices for which something is posted, for this turn or the next; each lives.
    posted: TurnQueue,
    // Invariant: how many lives are watched.
    watched: u32,
    // Invariant: the indices whose state says so.
    cancelable: BTreeSet<u32>,
}

/// Who lives at an index; or, where nobody does, the generation that was the last to live there,
/// under an index that is nobody's.
///
/// One word and apart from the rest, since every event asks for it and for nothing else. It is a
/// token in either case, so that whoever finds the bits of an event here has the token too, and
/// need not ask whether they are one's.
#[derive(Clone, Copy, Debug)]
struct Home(Token);

/// The index of a [`Home`] whose last life has ended.
const ENDED: u32 = u32::MAX - 1;

/// The index of a [`Home`] where nobody has lived yet.
const NEW: u32 = u32::MAX;

/// How somebody lives at an index.
// Invariant: the default where nobody does.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The poller watches a descriptor of it.
    watched: bool,
    /// Nobody need wait for its timers.
    cancelable: bool,
    /// Merged readiness; delivered when the queue comes to this index, in whichever turn.
    posted: Ready,
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
        let Some(home) = self.homes.get(token.index() as usize) else {
            return Ok(());
        };
        match home.living() {
            Some(living) => Err(Error::InUse { token, living }),
            None if token.generation().get() <= home.ended() => Err(Error::Ended { token }),
            None => Ok(()),
        }
    }

    /// A life that the poller watches. The index must be [free](Self::check_free).
    pub(crate) fn begin_watched(&mut self, token: Token) {
        self.begin_unwatched(token);
        self.states[token.index() as usize].watched = true;
        self.watched += 1;
    }

    /// A life of timers and posts alone. The index must be [free](Self::check_free).
    pub(crate) fn begin_unwatched(&mut self, token: Token) {
        debug_assert!(self.check_free(token).is_ok(), "{token} cannot begin");
        let index = token.index() as usize;
        if self.homes.len() <= index {
            self.cover(index);
        }
        self.homes[index] = Home::of(token);
    }

    /// Ends a life, and says whether the poller watched it; `None` if the token is stale.
    pub(crate) fn end(&mut self, token: Token) -> Option<bool> {
        let State {
            watched,
            cancelable,
            ..
        } = mem::take(self.state_mut(token)?);
        self.homes[token.index() as usize] = Home::after(token);
        self.posted.cancel(token.index());
        self.watched -= u32::from(watched);
        if cancelable {
            self.cancelable.remove(&token.index());
        }
        Some(watched)
    }

    /// Merges readiness into what is posted for a token. `false` if the token is stale.
    #[inline]
    pub(crate) fn post(&mut self, token: Token, ready: Ready) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.posted |= ready;
        self.posted.post(token.index());
        true
    }

    /// Merges readiness into what is posted for a token, which waits for the next turn if nothing
    /// was. `false` if the token is stale.
    #[inline]
    pub(crate) fn post_next(&mut self, token: Token, ready: Ready) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.posted |= ready;
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
        let Some(state) = self.state_mut(token) else {
            return Ready::NONE;
        };
        let ready = mem::take(&mut state.posted);
        self.posted.cancel(token.index());
        ready
    }

    /// Takes what has been due the longest.
    #[inline]
    pub(crate) fn pop_posted(&mut self) -> Option<(Token, Ready)> {
        let index = self.posted.pop()?;
        let token = self.living(index);
        let ready = mem::take(&mut self.states[index as usize].posted);
        Some((token, ready))
    }

    /// Marks the timers of a token as such that nobody need wait for. `false` if the token is
    /// stale.
    pub(crate) fn set_cancelable(&mut self, token: Token) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.cancelable = true;
        self.cancelable.insert(token.index());
        true
    }

    /// The indices whose timers nobody need wait for.
    pub(crate) fn cancelable(&self) -> impl Iterator<Item = u32> {
        self.cancelable.iter().copied()
    }

    /// Whether a token lives.
    #[inline]
    pub(crate) fn has(&self, token: Token) -> bool {
        self.find(token.to_bits()).is_some()
    }

    /// The token that has these bits, if it lives. They may be no token's.
    #[inline]
    pub(crate) fn find(&self, bits: u64) -> Option<Token> {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
        let home = *self.homes.get(bits as u32 as usize)?;
        (home.0.to_bits() == bits).then_some(home.0)
    }

    /// Whether a token lives and the poller watches it.
    #[inline]
    pub(crate) fn watches(&self, token: Token) -> bool {
        self.has(token) && self.states[token.index() as usize].watched
    }

    /// Who lives at an index.
    ///
    /// # Panics
    ///
    /// If nobody does: whatever is queued by index is cancelled when a life ends.
    #[inline]
    pub(crate) fn living(&self, index: u32) -> Token {
        let living = self.homes[index as usize].living();
        living.expect("ending a life clears the queues")
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

    /// Makes the lists long enough for an index. They at least double, but for the last time before
    /// they cover all that are expected: there is no use in room for more.
    #[cold]
    fn cover(&mut self, index: usize) {
        let (len, held) = (index + 1, self.homes.len());
        if len > self.homes.capacity() && (len..2 * len).contains(&self.expected) {
            self.homes.reserve_exact(self.expected - held);
            self.states.reserve_exact(self.expected - held);
        }
        self.homes.resize(len, Home::new());
        self.states.resize(len, State::default());
    }

    #[inline]
    fn state_mut(&mut self, token: Token) -> Option<&mut State> {
        let lives = self.has(token);
        lives.then(|| &mut self.states[token.index() as usize])
    }
}

impl Home {
    /// Where nobody has lived yet.
    fn new() -> Self {
        Self(Token::new(NEW, NonZeroU32::MIN))
    }

    fn of(token: Token) -> Self {
        debug_assert!(token.index() < ENDED, "{token} is a mark");
        Self(token)
    }

    /// When the life of a token is over.
    fn after(token: Token) -> Self {
        Self(Token::new(ENDED, token.generation()))
    }

    #[inline]
    fn living(self) -> Option<Token> {
        (self.0.index() < ENDED).then_some(self.0)
    }

    /// The last generation whose life here has ended, while nobody lives here; 0 if none has.
    fn ended(self) -> u32 {
        match self.0.index() {
            ENDED => self.0.generation().get(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).expect("not zero"))
    }

    #[test]
    fn an_index_takes_twelve_bytes() {
        assert_eq!(size_of::<Home>() + size_of::<State>(), 12);
    }

    #[test]
    fn the_list_has_no_room_for_more_than_are_expected_unless_they_come() {
        let mut slots = Slots::expecting(1000);
        (0..1000).for_each(|index| slots.begin_unwatched(token(index, 1)));
        assert_eq!(slots.homes.capacity(), 1000);
        slots.begin_unwatched(token(1000, 1));
        assert!(slots.homes.capacity() >= 2000, "from there on it doubles");
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
    fn bits_that_are_no_tokens_find_nobody_whatever_was_there() {
        let mut slots = Slots::default();
        slots.begin_unwatched(token(2, 1));
        slots.begin_unwatched(token(1, 1));
        slots.end(token(1, 1));
        assert_eq!(slots.find(token(2, 1).to_bits()), Some(token(2, 1)));
        // Of no generation: at an index where nobody has lived, whose life has ended, who lives.
        for bits in 0..=3 {
            assert_eq!(slots.find(bits), None, "{bits}");
        }
        for mark in [NEW, ENDED] {
            assert_eq!(slots.find(token(mark, 1).to_bits()), None);
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
