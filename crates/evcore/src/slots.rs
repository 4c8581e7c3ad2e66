//! The tokens of a loop: which one occupies each index, and what is posted for it.
//!
//! The loop gives out the tokens, so two tables of the application never collide. A token that is not
//! the occupant of its index is stale, and every call here refuses it. A generation is not used
//! twice, so an event of an ended token is never delivered to a later occupant.

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
    /// How many occupants to make room for at once.
    expected: usize,
    // Invariant: the indices for which something is posted, for this turn or the next; each is
    // occupied.
    posted: TurnQueue,
    // Invariant: how many occupants are watched.
    watched: u32,
    // Invariant: the indices whose state is that of a background token.
    background: BTreeSet<u32>,
}

/// The token that occupies an index. If the index is vacant: the generation of the last one, with an
/// index that no token has.
///
/// One word, in a table of its own, because an event needs this and nothing else. It has the form of
/// a token in both cases, so that the bits of an event are compared with one word.
#[derive(Clone, Copy, Debug)]
struct Occupant(Token);

/// By how many indices the tables grow at least.
const LEAST_GROWTH: usize = 8;

/// The index of a vacant [`Occupant`].
const VACANT: u32 = u32::MAX;

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
    /// For about `expected` tokens; there may be more, up to the index `index_max`. Allocates nothing
    /// yet.
    pub(crate) fn new(expected: u32, index_max: u32) -> Self {
        Self {
            occupants: Vec::new(),
            states: Vec::new(),
            free: Vec::new(),
            index_max,
            expected: expected as usize,
            posted: TurnQueue::default(),
            watched: 0,
            background: BTreeSet::new(),
        }
    }

    /// The token that begins next; `None` if every index is taken.
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
            background,
            ..
        } = mem::take(self.state_mut(token)?);
        self.occupants[token.index() as usize] = Occupant::after(token);
        self.posted.cancel(token.index());
        self.watched -= u32::from(watched);
        if background {
            self.background.remove(&token.index());
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
            let grown = len + len / 4 + LEAST_GROWTH;
            let ends = if (len..grown).contains(&self.expected) {
                self.expected
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
    const NONE: Self = Self(Token::new(VACANT, NonZeroU32::MIN));

    /// The generation of the last occupant has ended.
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
        let [ended, current] = [(); 2].map(|()| begin(&mut slots, false));
        slots.end(ended);
        assert_eq!(slots.find(current.to_bits()), Some(current));
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
}
