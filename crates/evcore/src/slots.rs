//! The tokens of a loop: which one occupies each index, and what is posted for it.
//!
//! This is the primary table: the loop gives out the tokens, so two tables of the application never
//! collide. A [`TokenMap`](crate::TokenMap) is a secondary one, which keeps values under tokens that
//! were given out here.
//!
//! A token that is not the occupant of its index is stale, and every call here refuses it. A generation
//! is not used twice, so an event of an ended token is never delivered to a later occupant.
//!
//! Deliberately not an `evcore_token::Table`, which is over slab: an index would take 20 bytes in place
//! of 12, and an event 12 instructions more (decision 0014).

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
    /// The index that was freed last, which is used first; [`END`] if there is none. The word of each
    /// free index has the next one.
    // Invariant: each is vacant, and its generations are not used up.
    free: u32,
    /// The index of the first token. Those below are never occupied.
    first_index: u32,
    /// The highest index that the poller has an id for.
    index_max: u32,
    /// How many indices to make room for at once.
    expected: u32,
    // Invariant: the indices for which something is posted, for this turn or the next; each is
    // occupied.
    posted: TurnQueue,
    // Invariant: how many occupants are watched.
    watched: u32,
    // Invariant: the indices whose state is that of a background token.
    background: BTreeSet<u32>,
}

/// The token that occupies an index. If the index is vacant: the generation of the last one, with
/// [`VACANT`] and the next free index, which together are no index of a token.
///
/// One word, in a table of its own, because an event needs this and nothing else. It has the form of
/// a token in both cases, so that the bits of an event are compared with one word.
#[derive(Clone, Copy, Debug)]
struct Occupant(Token);

/// By how many indices the tables grow at least.
const LEAST_GROWTH: usize = 8;

/// Part of the index of a vacant [`Occupant`].
const VACANT: u32 = 1 << 31;

/// The end of the free indices.
const END: u32 = VACANT - 1;

/// The state of an occupant.
// Invariant: the default if the index is vacant.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The poller watches a descriptor of it.
    watched: bool,
    /// A shutdown does not wait for its timers.
    background: bool,
    /// Merged readiness, delivered when the queue reaches this index.
    posted: Ready,
}

impl Slots {
    /// For indices from `first_index` to about `expected`; there may be more, up to `index_max`.
    /// Allocates nothing yet.
    pub(crate) fn new(first_index: u32, expected: u32, index_max: u32) -> Self {
        assert!(index_max < END, "the numbers above mark vacant indices");
        Self {
            occupants: Vec::new(),
            states: Vec::new(),
            free: END,
            first_index,
            index_max,
            expected,
            posted: TurnQueue::default(),
            watched: 0,
            background: BTreeSet::new(),
        }
    }

    /// The token that begins next; `None` if every index is taken.
    pub(crate) fn next_token(&self) -> Option<Token> {
        if let Some(free) = self.occupants.get(self.free as usize) {
            let next = free.0.generation().checked_add(1);
            let next = next.expect("a free index has generations left");
            return Some(Token::new(self.free, next));
        }
        let used = u32::try_from(self.occupants.len()).ok()?;
        let index = used.max(self.first_index);
        (index <= self.index_max).then(|| Token::new(index, NonZeroU32::MIN))
    }

    /// The [next token](Self::next_token) begins.
    pub(crate) fn begin(&mut self, token: Token, watched: bool) {
        debug_assert_eq!(Some(token), self.next_token());
        let index = token.index() as usize;
        match self.occupants.get(index) {
            Some(free) => self.free = free.0.index() - VACANT,
            None => self.cover(index),
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
            background,
            ..
        } = mem::take(self.state_mut(token)?);
        self.occupants[token.index() as usize] = Occupant::after(token, self.free);
        self.posted.cancel(token.index());
        self.watched -= u32::from(watched);
        if background {
            self.background.remove(&token.index());
        }
        // An index without a generation left is not used again.
        if token.generation() < NonZeroU32::MAX {
            self.free = token.index();
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

    /// Merges readiness into what is posted for a token. If nothing was, it is due in the next turn.
    /// `false` if the token is stale.
    #[inline]
    pub(crate) fn post_next(&mut self, token: Token, ready: Ready) -> bool {
        let Some(state) = self.state_mut(token) else {
            return false;
        };
        state.posted |= ready;
        self.posted.post_next(token.index());
        true
    }

    /// Makes what was put off to the next turn due, behind what is due already.
    #[inline(never)]
    pub(crate) fn begin_turn(&mut self) {
        self.posted.begin_turn();
    }

    /// Takes what has been due for the longest time.
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
        state.background = true;
        self.background.insert(token.index());
        true
    }

    /// The indices whose timers a shutdown does not wait for.
    pub(crate) fn background(&self) -> impl Iterator<Item = u32> {
        self.background.iter().copied()
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
    /// If the index is vacant. What is queued by index is cancelled when a generation ends.
    #[inline]
    pub(crate) fn occupant(&self, index: u32) -> Token {
        let token = self.occupants[index as usize].token();
        token.expect("ending a generation clears the queues")
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

    /// How many indices to make room for at once.
    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// How many descriptors are watched.
    #[inline]
    pub(crate) fn watched(&self) -> u32 {
        self.watched
    }

    /// Makes the tables long enough for an index. They grow by at least a quarter, but stop once at
    /// the expected number.
    #[cold]
    fn cover(&mut self, index: usize) {
        let (len, held) = (index + 1, self.occupants.len());
        if len > self.occupants.capacity() {
            let used = len - self.first_index as usize;
            let (grown, expected) = (len + used / 4 + LEAST_GROWTH, self.expected as usize);
            let ends = if (len..grown).contains(&expected) {
                expected
            } else {
                grown
            };
            self.occupants.reserve_exact(ends - held);
            self.states.reserve_exact(ends - held);
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
    /// No token has occupied the index yet.
    const NONE: Self = Self(Token::new(VACANT | END, NonZeroU32::MIN));

    /// The generation of the last occupant has ended.
    fn after(token: Token, next_free: u32) -> Self {
        Self(Token::new(VACANT | next_free, token.generation()))
    }

    #[inline]
    fn token(self) -> Option<Token> {
        (self.0.index() < VACANT).then_some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slots() -> Slots {
        Slots::new(0, 1000, 1 << 20)
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
    fn the_tables_grow_beyond_the_expected_number_only_if_needed() {
        let mut slots = slots();
        for _ in 0..1000 {
            begin(&mut slots, false);
        }
        assert_eq!(slots.occupants.capacity(), 1000);
        begin(&mut slots, false);
        assert_eq!(slots.occupants.capacity(), 1001 + 250 + 8);
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
        slots.occupants[0] = Occupant::after(token(0, u32::MAX - 1), END);
        let last = begin(&mut slots, false);
        assert_eq!(last, token(0, u32::MAX));
        slots.end(last);
        assert_eq!(begin(&mut slots, false), token(1, 1));
    }

    #[test]
    fn no_index_is_above_the_highest_that_the_poller_has() {
        let mut slots = Slots::new(0, 1, 1);
        let [a, _] = [(); 2].map(|()| begin(&mut slots, false));
        assert_eq!(slots.next_token(), None);
        slots.end(a);
        assert_eq!(slots.next_token(), Some(token(0, 2)));
    }

    #[test]
    fn bits_that_are_no_tokens_find_none() {
        let mut slots = slots();
        let [ended, current] = [(); 2].map(|()| begin(&mut slots, false));
        slots.end(ended);
        assert_eq!(slots.find(current.to_bits()), Some(current));
        // Of no generation: at an index that is vacant, occupied, and beyond the table.
        for bits in 0..=3 {
            assert_eq!(slots.find(bits), None, "{bits}");
        }
        for index in [VACANT, VACANT | END, END] {
            assert_eq!(slots.find(token(index, 1).to_bits()), None, "{index}");
        }
    }

    #[test]
    fn the_first_indices_are_never_occupied() {
        let mut slots = Slots::new(3, 1000, 1 << 20);
        let [a, b] = [(); 2].map(|()| begin(&mut slots, true));
        assert_eq!([a, b], [token(3, 1), token(4, 1)]);
        slots.end(a);
        assert_eq!(begin(&mut slots, true), token(3, 2));
        assert_eq!(begin(&mut slots, true), token(5, 1));
        for index in 0..3 {
            assert_eq!(slots.find(token(index, 1).to_bits()), None);
        }
    }

    #[test]
    fn what_is_posted_ends_with_the_generation() {
        let mut slots = slots();
        let token = begin(&mut slots, false);
        assert!(slots.post(token, Ready::READABLE));
        slots.end(token);
        assert!(slots.posted() == 0);
        begin(&mut slots, false);
        assert_eq!(slots.pop_posted(), None);
    }

    #[test]
    fn what_is_put_off_ends_with_the_generation() {
        let mut slots = slots();
        let token = begin(&mut slots, false);
        assert!(slots.post_next(token, Ready::READABLE));
        assert!(slots.posted() == 1 && slots.pop_posted().is_none());
        slots.end(token);
        assert!(slots.posted() == 0);
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
    proptest! {
        /// `Some(nth)` ends a token that was given out before, and `None` gives out another.
        #[test]
        fn the_slots_agree_with_a_list_of_what_is_current(
            (first_index, room) in (0..5u32, 1..9u32),
            operations in prop::collection::vec(prop::option::of(any::<usize>()), 0..100),
        ) {
            let mut slots = Slots::new(first_index, 0, first_index + room - 1);
            let (mut given, mut current) = (Vec::<Token>::new(), Vec::<Token>::new());
            for operation in operations {
                if let Some(nth) = operation {
                    let Some(token) = given.get(nth % given.len().max(1)).copied() else {
                        continue;
                    };
                    prop_assert_eq!(slots.end(token).is_some(), current.contains(&token));
                    current.retain(|other| *other != token);
                } else if let Some(token) = slots.next_token() {
                    slots.begin(token, false);
                    prop_assert!(!given.contains(&token), "{} was used before", token);
                    prop_assert!(token.index() >= first_index);
                    given.push(token);
                    current.push(token);
                } else {
                    prop_assert_eq!(current.len(), room as usize);
                }
                for token in &given {
                    let found = slots.find(token.to_bits());
                    prop_assert_eq!(found, current.contains(token).then_some(*token));
                }
            }
        }
    }
}
