//! The set of tokens in use, for a program that gives out tokens itself.
//!
//! This is a primary table: it decides which token is given out next. A
//! [`SecondaryMap`](crate::SecondaryMap) keeps values under tokens that were given out here.
//!
//! The set deliberately does not use the crate `slab`, so that an index takes 8 bytes, and the
//! token of an event is looked up by one comparison (decision 0014).

use std::num::NonZeroU32;

use crate::{growth, token::Token};

/// The tokens that are in use. An index has at most one of them, and no token is used twice.
///
/// Use it if values are spread over side tables by index, so that no single table can give out the
/// tokens. The set takes 8 bytes for each index up to the highest that was ever used. The list of
/// free indices is in the same bytes.
///
/// ```
/// use evcore_token::TokenSet;
///
/// let mut tokens = TokenSet::new(0, 1_000, 10_000);
/// let first = tokens.next().expect("an index is free");
/// tokens.begin(first);
/// assert!(tokens.contains(first) && tokens.at(0) == Some(first));
///
/// tokens.end(first);
/// let second = tokens.next().expect("an index is free");
/// tokens.begin(second);
/// assert_eq!(second.index(), first.index());
/// assert_eq!(tokens.find(first.to_bits()), None); // its generation has ended
/// ```
#[derive(Debug)]
pub struct TokenSet {
    occupants: Vec<Occupant>,
    /// The index that was freed last, and is used next; [`END`] if no index is free. The word of
    /// each free index contains the index that was freed before it.
    // Invariant: each index of this chain is vacant, and its generations are not used up.
    free: u32,
    /// The index of the first token. Lower indices are never occupied.
    first_index: u32,
    index_max: u32,
    /// The expected number of indices: a growth that would exceed it ends exactly there.
    expected: u32,
}

/// The word of one index. If the index is occupied, the word is its token. If the index is vacant,
/// the word has the generation of the last token, and in place of the index the next free index
/// with the bit [`VACANT`]. No token has such an index.
///
/// The word has the form of a token in both cases, so that the bits of an event are compared with
/// one word.
#[derive(Clone, Copy, Debug)]
struct Occupant(Token);

const VACANT: u32 = 1 << 31;

/// The end of the chain of free indices.
const END: u32 = VACANT - 1;

impl TokenSet {
    /// Creates an empty set for indices from `first_index` to about `expected`. Higher indices, up
    /// to `index_max`, are used if needed. Allocates nothing yet.
    ///
    /// # Panics
    ///
    /// If `index_max` is 2^31 - 1 or more, because the set marks vacant indices with these numbers.
    #[must_use]
    pub const fn new(first_index: u32, expected: u32, index_max: u32) -> Self {
        assert!(index_max < END, "the numbers above mark vacant indices");
        Self {
            occupants: Vec::new(),
            free: END,
            first_index,
            index_max,
            expected,
        }
    }

    /// The token that begins next, at the index that was freed last or at a new one; `None` if
    /// every index is taken.
    #[must_use]
    pub fn next(&self) -> Option<Token> {
        if let Some(free) = self.occupants.get(self.free as usize) {
            let next = free.0.generation().checked_add(1);
            let next = next.expect("a free index has generations left");
            return Some(Token::new(self.free, next));
        }
        let used = u32::try_from(self.occupants.len()).ok()?;
        let index = used.max(self.first_index);
        (index <= self.index_max).then(|| Token::new(index, NonZeroU32::MIN))
    }

    /// Begins the [next](Self::next) token. Amortised O(1).
    ///
    /// # Panics
    ///
    /// In builds with debug assertions, if `token` is not the next token.
    pub fn begin(&mut self, token: Token) {
        debug_assert_eq!(Some(token), self.next());
        let index = token.index() as usize;
        match self.occupants.get(index) {
            Some(free) => self.free = free.0.index() - VACANT,
            None => self.cover(index),
        }
        self.occupants[index] = Occupant(token);
    }

    /// Ends a token. Returns false if it is not in use.
    pub fn end(&mut self, token: Token) -> bool {
        let is_used = self.contains(token);
        if is_used {
            self.occupants[token.index() as usize] = Occupant::after(token, self.free);
            // An index without a generation left is not used again.
            if token.generation() < NonZeroU32::MAX {
                self.free = token.index();
            }
        }
        is_used
    }

    /// Returns whether a token is in use.
    #[inline]
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        self.find(token.to_bits()).is_some()
    }

    /// The token that has these bits, if it is in use. Any bits are allowed.
    #[inline]
    #[must_use]
    pub fn find(&self, bits: u64) -> Option<Token> {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
        let Occupant(token) = *self.occupants.get(bits as u32 as usize)?;
        (token.to_bits() == bits).then_some(token)
    }

    /// The token that occupies an index; `None` if the index is vacant.
    #[inline]
    #[must_use]
    pub fn at(&self, index: u32) -> Option<Token> {
        self.occupants.get(index as usize)?.token()
    }

    /// The number of indices that a side table needs: one more than the highest that was ever used.
    #[inline]
    #[must_use]
    pub fn indices(&self) -> usize {
        self.occupants.len()
    }

    /// The number of indices that there is memory for. A side table that reserves this many entries
    /// grows no more often than this set.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.occupants.capacity()
    }

    #[cold]
    fn cover(&mut self, index: usize) {
        let (held, first) = (self.occupants.len(), self.first_index as usize);
        if index >= self.occupants.capacity() {
            let expected = (self.expected as usize).saturating_sub(first);
            let ends = first + growth::capacity_above(index + 1 - first, expected);
            self.occupants.reserve_exact(ends - held);
        }
        self.occupants.resize(index + 1, Occupant::NONE);
    }
}

impl Occupant {
    /// The value of an index that no token has occupied yet.
    const NONE: Self = Self(Token::new(VACANT | END, NonZeroU32::MIN));

    /// The value of an index whose last occupant was `token`.
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

    fn set() -> TokenSet {
        TokenSet::new(0, 1000, 1 << 20)
    }

    fn begin(set: &mut TokenSet) -> Token {
        let token = set.next().expect("an index is free");
        set.begin(token);
        token
    }

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).expect("not zero"))
    }

    #[test]
    fn an_index_takes_eight_bytes() {
        assert_eq!(size_of::<Occupant>(), 8);
    }

    #[test]
    fn the_table_grows_beyond_the_expected_number_only_if_needed() {
        let mut set = set();
        for _ in 0..1000 {
            begin(&mut set);
        }
        assert_eq!(set.capacity(), 1000);
        begin(&mut set);
        assert_eq!(set.capacity(), 1001 + 250 + 8);
    }

    #[test]
    fn the_index_freed_last_is_used_first_by_the_next_generation() {
        let mut set = set();
        let [a, b, c] = [(); 3].map(|()| begin(&mut set));
        assert_eq!([a, b, c], [token(0, 1), token(1, 1), token(2, 1)]);
        assert!(set.end(a) && !set.end(a) && set.end(c));
        assert_eq!(begin(&mut set), token(2, 2));
        assert_eq!(begin(&mut set), token(0, 2));
        assert!(set.contains(token(2, 2)) && !set.contains(c));
    }

    #[test]
    fn an_index_without_generations_left_is_not_used_again() {
        let mut set = set();
        let first = begin(&mut set);
        set.end(first);
        set.occupants[0] = Occupant::after(token(0, u32::MAX - 1), END);
        let last = begin(&mut set);
        assert_eq!(last, token(0, u32::MAX));
        set.end(last);
        assert_eq!(begin(&mut set), token(1, 1));
    }

    #[test]
    fn no_index_is_above_the_highest() {
        let mut set = TokenSet::new(0, 1, 1);
        let [a, _] = [(); 2].map(|()| begin(&mut set));
        assert_eq!(set.next(), None);
        set.end(a);
        assert_eq!(set.next(), Some(token(0, 2)));
    }

    #[test]
    fn invalid_bits_find_no_token() {
        let mut set = set();
        let [ended, current] = [(); 2].map(|()| begin(&mut set));
        set.end(ended);
        assert_eq!(set.find(current.to_bits()), Some(current));
        // Bits without a generation, at a vacant index, at an occupied one, and beyond the table.
        for bits in 0..=3 {
            assert_eq!(set.find(bits), None, "{bits}");
        }
        for index in [VACANT, VACANT | END, END] {
            assert_eq!(set.find(token(index, 1).to_bits()), None, "{index}");
        }
    }

    #[test]
    fn the_first_indices_are_never_occupied() {
        let mut set = TokenSet::new(3, 1000, 1 << 20);
        let [a, b] = [(); 2].map(|()| begin(&mut set));
        assert_eq!([a, b], [token(3, 1), token(4, 1)]);
        set.end(a);
        assert_eq!(begin(&mut set), token(3, 2));
        assert_eq!(begin(&mut set), token(5, 1));
        for index in 0..3 {
            assert_eq!(set.at(index), None);
            assert_eq!(set.find(token(index, 1).to_bits()), None);
        }
    }

    proptest! {
        /// `Some(nth)` tries to end a token that was given out before, and `None` begins another.
        #[test]
        fn the_set_agrees_with_a_list_of_current_tokens(
            (first_index, room) in (0..5u32, 1..9u32),
            operations in prop::collection::vec(prop::option::of(any::<usize>()), 0..100),
        ) {
            let mut set = TokenSet::new(first_index, 0, first_index + room - 1);
            let (mut given, mut current) = (Vec::<Token>::new(), Vec::<Token>::new());
            for operation in operations {
                if let Some(nth) = operation {
                    let Some(token) = given.get(nth % given.len().max(1)).copied() else {
                        continue;
                    };
                    prop_assert_eq!(set.end(token), current.contains(&token));
                    current.retain(|other| *other != token);
                } else if let Some(token) = set.next() {
                    set.begin(token);
                    prop_assert!(!given.contains(&token), "{} was used before", token);
                    prop_assert!(token.index() >= first_index);
                    given.push(token);
                    current.push(token);
                } else {
                    prop_assert_eq!(current.len(), room as usize);
                }
                for token in &given {
                    let found = current.contains(token).then_some(*token);
                    prop_assert_eq!(set.find(token.to_bits()), found);
                }
            }
        }
    }
}
