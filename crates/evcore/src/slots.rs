//! The tokens of a loop: which one occupies each index, and what is posted for it.
//!
//! The loop hands tokens out, so that two tables of the application never collide. A token that is
//! not the occupant of its index is stale, and everything here is refused to it. A generation that
//! has ended does not begin again, so that an event that was reported for it cannot be taken for
//! one of a later occupant.

use std::{collections::BTreeSet, mem, num::NonZeroU32};

use evcore_poller::Ready;
use evcore_posted::TurnQueue;
use evcore_token::Token;

/// The table of occupants, by index.
#[derive(Debug)]
pub(crate) struct Slots {
    occupants: Vec<Occupant>,
    // Invariant: as many as occupants.
    states: Vec<State>,
    /// Indices whose occupant has left; the last one is used first.
    // Invariant: each is vacant, and its generations are not used up.
    free: Vec<u32>,
    /// The highest index that the poller has an id for.
    index_max: u32,
    /// How many occupants there will mostly be at most.
    expected: usize,
    // Invariant: the indices for which something is posted, for this turn or the next; each is
    // occupied.
    posted: TurnQueue,
    // Invariant: how many occupants are watched.
    watched: u32,
    // Invariant: the indices whose state says so.
    cancelable: BTreeSet<u32>,
}

/// The token that occupies an index; or, where none does, the generation of the last one under an
/// index that no token has.
///
/// One word and apart from the rest, since every event needs it and nothing else. It is a token in
/// either case: the bits of an event are compared with it, and nothing else has to be looked at.
#[derive(Clone, Copy, Debug)]
struct Occupant(Token);

/// The index of a vacant [`Occupant`].
const VACANT: u32 = u32::MAX;

/// What is known of an occupant.
// Invariant: the default where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The poller watches a descriptor of it.
    watched: bool,
    /// A shutdown does not wait for its timers.
    cancelable: bool,
    /// Merged readiness; delivered when the queue comes to this index, in whichever turn.
    posted: Ready,
}

impl Slots {
    /// For about `expected` tokens; there may be more, up to the index `index_max`. Commits no
    /// memory to them yet.
    pub(crate) fn new(expected: u32, index_max: u32) -> Self {
        Self {
            occupants: Vec::new(),
            states: Vec::new(),
            free: Vec::new(),
            index_max,
            expected: expected as usize,
            posted: TurnQueue::default(),
            watched: 0,
            cancelable: BTreeSet::new(),
        }
    }

    /// The token that begins next; `None` where every index is taken.
    pub(crate) fn next_token(&self) -> Option<Token> {
        if let Some(index) = self.free.last() {
            let ended = self.occupants[*index as usize].0.generation();
            let next = ended
                .checked_add(1)
                .expect("a free index has generations left");
            return Some(Token::new(*index, next));
        }
        let index = u32::try_from(self.occupants.len()).ok()?;
        (index <= self.index_max).then(|| Token::new(index, NonZeroU32::MIN))
    }

    /// The [next token](Self::next_token) begins.
    pub(crate) fn begin(&mut self, token: Token, watched: bool) {
        debug_assert_eq!(Some(token), self.next_token());
        let index = token.index() as usize;
        if self.free.pop().is_none() {
            self.cover(index);
        }
        self.occupants[index] = Occupant(token);
        self.states[index].watched = watched;
        self.watched += u32::from(watched);
    }

    /// Ends a token's generation, and returns whether the poller watched it; `None` if the token is
    /// stale.
    pub(crate) fn end(&mut self, token: Token) -> Option<bool> {
        let State {
            watched,
            cancelable,
            ..
        } = mem::take(self.state_mut(token)?);
        self.occupants[token.index() as usize] = Occupant::after(token);
        self.posted.cancel(token.index());
        self.watched -= u32::from(watched);
        if cancelable {
            self.cancelable.remove(&token.index());
        }
        // An index without a generation left is not used again.
        if token.generation() < NonZeroU32::MAX {
            self.free.push(token.index());
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
        let token = self.occupant(index);
        let ready = mem::take(&mut self.states[index as usize].posted);
        Some((token, ready))
    }

    /// A shutdown does not wait for the timers of this token. `false` if the token is stale.
    pub(crate) fn set_background(&mut self, token: Token) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.cancelable = true;
        self.cancelable.insert(token.index());
        true
    }

    /// The indices whose timers a shutdown does not wait for.
    pub(crate) fn cancelable(&self) -> impl Iterator<Item = u32> {
        self.cancelable.iter().copied()
    }

    /// Whether a token occupies its index.
    #[inline]
    pub(crate) fn has(&self, token: Token) -> bool {
        self.find(token.to_bits()).is_some()
    }

    /// The token that has these bits, if it occupies its index. They may be no token's.
    #[inline]
    pub(crate) fn find(&self, bits: u64) -> Option<Token> {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
        let Occupant(token) = *self.occupants.get(bits as u32 as usize)?;
        (token.to_bits() == bits).then_some(token)
    }

    /// Whether a token occupies its index and the poller watches it.
    #[inline]
    pub(crate) fn watches(&self, token: Token) -> bool {
        self.has(token) && self.states[token.index() as usize].watched
    }

    /// The token that occupies an index.
    ///
    /// # Panics
    ///
    /// If none does: whatever is queued by index is cancelled when a generation ends.
    #[inline]
    pub(crate) fn occupant(&self, index: u32) -> Token {
        let token = self.occupants[index as usize].token();
        token.expect("ending a generation clears the queues")
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

    /// Makes the lists long enough for an index. They at least double, until they cover all that
    /// are expected: room for more would be of no use.
    #[cold]
    fn cover(&mut self, index: usize) {
        let (len, held) = (index + 1, self.occupants.len());
        if len > self.occupants.capacity() && (len..2 * len).contains(&self.expected) {
            self.occupants.reserve_exact(self.expected - held);
            self.states.reserve_exact(self.expected - held);
        }
        self.occupants.resize(len, Occupant::NONE);
        self.states.resize(len, State::default());
    }

    #[inline]
    fn state_mut(&mut self, token: Token) -> Option<&mut State> {
        let is_current = self.has(token);
        is_current.then(|| &mut self.states[token.index() as usize])
    }
}

impl Occupant {
    /// Where no token has been yet.
    const NONE: Self = Self(Token::new(VACANT, NonZeroU32::MIN));

    /// Where the generation of a token has ended.
    fn after(token: Token) -> Self {
        Self(Token::new(VACANT, token.generation()))
    }

    #[inline]
    fn token(self) -> Option<Token> {
        (self.0.index() != VACANT).then_some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Slots {
        Slots::new(1000, 1 << 20)
    }

    fn begin(slots: &mut Slots, watched: bool) -> Token {
        let token = slots.next_token().expect("an index is free");
        slots.begin(token, watched);
        token
    }

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).expect("not zero"))
    }

    #[test]
    fn an_index_takes_twelve_bytes() {
        assert_eq!(size_of::<Occupant>() + size_of::<State>(), 12);
    }

    #[test]
    fn the_list_has_no_room_for_more_than_are_expected_unless_they_come() {
        let mut slots = slots();
        for _ in 0..1000 {
            begin(&mut slots, false);
        }
        assert_eq!(slots.occupants.capacity(), 1000);
        begin(&mut slots, false);
        assert!(
            slots.occupants.capacity() >= 2000,
            "from there on it doubles"
        );
    }

    #[test]
    fn the_index_freed_last_is_used_first_by_the_next_generation() {
        let mut slots = slots();
        let [a, b, c] = [(); 3].map(|()| begin(&mut slots, true));
        assert_eq!([a, b, c], [token(0, 1), token(1, 1), token(2, 1)]);
        assert_eq!(slots.end(a), Some(true));
        assert_eq!(slots.end(a), None);
        assert_eq!(slots.end(c), Some(true));
        assert_eq!(begin(&mut slots, false), token(2, 2));
        assert_eq!(begin(&mut slots, false), token(0, 2));
        assert!(slots.has(token(2, 2)) && !slots.has(c));
    }

    #[test]
    fn an_index_without_generations_left_is_not_used_again() {
        let mut slots = slots();
        let first = begin(&mut slots, false);
        slots.end(first);
        slots.occupants[0] = Occupant::after(token(0, u32::MAX - 1));
        let last = begin(&mut slots, false);
        assert_eq!(last, token(0, u32::MAX));
        slots.end(last);
        assert_eq!(begin(&mut slots, false), token(1, 1));
    }

    #[test]
    fn no_index_is_above_the_highest_that_the_poller_has() {
        let mut slots = Slots::new(1, 1);
        let [a, _] = [(); 2].map(|()| begin(&mut slots, false));
        assert_eq!(slots.next_token(), None);
        slots.end(a);
        assert_eq!(slots.next_token(), Some(token(0, 2)));
    }

    #[test]
    fn bits_that_are_no_tokens_find_none() {
        let mut slots = slots();
        let [ended, lives] = [(); 2].map(|()| begin(&mut slots, false));
        slots.end(ended);
        assert_eq!(slots.find(lives.to_bits()), Some(lives));
        // Of no generation: at an index that is vacant, occupied, and beyond the table.
        for bits in 0..=3 {
            assert_eq!(slots.find(bits), None, "{bits}");
        }
        assert_eq!(slots.find(token(VACANT, 1).to_bits()), None);
    }

    #[test]
    fn what_is_posted_ends_with_the_generation() {
        let mut slots = slots();
        let token = begin(&mut slots, false);
        assert!(slots.post(token, Ready::READABLE));
        slots.end(token);
        assert!(!slots.has_posted());
        let next = begin(&mut slots, false);
        assert_eq!(slots.cancel(next), Ready::NONE);
    }

    #[test]
    fn what_is_posted_for_the_next_turn_ends_with_the_generation_too() {
        let mut slots = slots();
        let token = begin(&mut slots, false);
        assert!(slots.post_next(token, Ready::READABLE));
        assert!(slots.has_posted() && slots.pop_posted().is_none());
        slots.end(token);
        assert!(!slots.has_posted());
        begin(&mut slots, false);
        slots.begin_turn();
        assert_eq!(slots.pop_posted(), None);
        assert!(!slots.post_next(token, Ready::READABLE));
    }

    #[test]
    fn only_descriptors_count_as_watched() {
        let mut slots = slots();
        let [fd, other] = [true, false].map(|watched| begin(&mut slots, watched));
        assert_eq!(slots.watched(), 1);
        slots.end(other);
        assert_eq!(slots.watched(), 1);
        slots.end(fd);
        assert_eq!(slots.watched(), 0);
    }
}
