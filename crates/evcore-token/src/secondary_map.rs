//! A map from tokens to values, where another table gives out the tokens.
//!
//! The map does not use the crate `slab`, which chooses the index of a value itself. Generations
//! are stored in a vector of their own, because next to a value a generation would take 8 bytes
//! with padding (decision 0014).

use std::{fmt, iter, num::NonZeroU32};

use crate::{growth, token::Token};

/// A map from tokens to values, where a [`TokenSet`](crate::TokenSet) or an event loop gives out
/// the tokens. A stale token never finds the value of a later one.
///
/// There may be several of these maps for one set of tokens. Each index up to the highest that had
/// a value takes an `Option<T>` and 4 bytes more. All calls that take a token are O(1), except that
/// an [`insert`](Self::insert) above all earlier indices is O(index). For ascending indices it is
/// amortised O(1).
///
/// ```
/// use evcore_token::{SecondaryMap, TokenSet};
///
/// let mut tokens = TokenSet::new(0, 16, 1_000);
/// let token = tokens.next().expect("an index is free");
/// tokens.begin(token);
///
/// let mut names = SecondaryMap::new();
/// names.insert(token, "alice");
/// assert_eq!(names.get(token), Some(&"alice"));
/// assert_eq!(names.remove(token), Some("alice"));
/// assert_eq!(names.get(token), None);
/// ```
#[derive(Clone)]
pub struct SecondaryMap<T> {
    /// The generation of each value's token, by index; `None` for an index without a value.
    generations: Vec<Option<NonZeroU32>>,
    // Invariant: it has the length of `generations`, and a value exactly where there is a
    // generation.
    values: Vec<Option<T>>,
    // Invariant: the number of values.
    len: usize,
}

impl<T> SecondaryMap<T> {
    /// Creates an empty map. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            generations: Vec::new(),
            values: Vec::new(),
            len: 0,
        }
    }

    /// Keeps `value` under a token, and returns the value that the token had before.
    ///
    /// Do not pass a token that has ended: its index may have a later token by now, and the call
    /// would replace the value of that token.
    pub fn insert(&mut self, token: Token, value: T) -> Option<T> {
        let index = token.index() as usize;
        let held = self.values.len();
        if index >= self.values.capacity() {
            let ends = growth::capacity_above(index + 1, 0);
            self.generations.reserve_exact(ends - held);
            self.values.reserve_exact(ends - held);
        }
        if index >= held {
            self.generations.resize(index + 1, None);
            self.values.resize_with(index + 1, || None);
        }
        let generation = self.generations[index].replace(token.generation());
        let before = self.values[index].replace(value);
        self.len += usize::from(before.is_none());
        // A value of an earlier token at this index is dropped.
        before.filter(|_| generation == Some(token.generation()))
    }

    /// Removes the value of a token, and returns it; `None` if the token has none here.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        if !self.contains(token) {
            return None;
        }
        let index = token.index() as usize;
        self.generations[index] = None;
        self.len -= 1;
        self.values[index].take()
    }

    /// The value of a token; `None` if the token has no value here or is stale.
    #[inline]
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        if !self.contains(token) {
            return None;
        }
        self.values[token.index() as usize].as_ref()
    }

    /// The value of a token, mutable; `None` if the token has no value here or is stale.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        if !self.contains(token) {
            return None;
        }
        self.values[token.index() as usize].as_mut()
    }

    /// The values of two tokens, mutable; `None` if one of the tokens has no value here, or if both
    /// are the same token.
    #[inline]
    #[must_use]
    pub fn get_disjoint_mut(&mut self, [a, b]: [Token; 2]) -> Option<[&mut T; 2]> {
        if a.index() == b.index() || !self.contains(a) || !self.contains(b) {
            return None;
        }
        let (at_a, at_b) = (a.index() as usize, b.index() as usize);
        let (low, high) = self.values.split_at_mut(at_a.max(at_b));
        let (low, high) = (low[at_a.min(at_b)].as_mut()?, high[0].as_mut()?);
        Some(if at_a < at_b {
            [low, high]
        } else {
            [high, low]
        })
    }

    /// Returns whether a token has a value here.
    #[inline]
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        let generation = self.generations.get(token.index() as usize);
        generation == Some(&Some(token.generation()))
    }

    /// The number of values.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no value.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tokens and values, in the order of indices. O(indices up to the highest
    /// that had a value).
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        let places = iter::zip(&self.generations, &self.values);
        iter::zip(0.., places).filter_map(|(index, (generation, value))| {
            Some((Token::new(index, (*generation)?), value.as_ref()?))
        })
    }

    /// The tokens and mutable values, in the order of indices. O(indices up to
    /// the highest that had a value).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        let places = iter::zip(&self.generations, &mut self.values);
        iter::zip(0.., places).filter_map(|(index, (generation, value))| {
            Some((Token::new(index, (*generation)?), value.as_mut()?))
        })
    }
}

impl<T> Default for SecondaryMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SecondaryMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
