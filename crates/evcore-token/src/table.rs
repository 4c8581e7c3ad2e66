//! A table of values, each named by a token. The values are in the slots of a `Slab`.
//!
//! The slab provides the slots and reuses freed ones last-in first-out, because the memory of the
//! slot freed last is most likely still in the cache. The generations and the limit are implemented
//! here. So is the retirement of slots: a slot whose generations are used up gets no further value.
//!
//! The table deliberately cannot be indexed with `[]`, because that would panic on a stale token,
//! and a stale token is an ordinary event. It does not shrink, because a server that was busy once
//! will be busy again.

mod vacant_entry;

#[cfg(test)]
mod tests;

use std::{fmt, num::NonZeroU32};

use slab::Slab;

use crate::{full::Full, growth, token::Token};

pub use vacant_entry::VacantEntry;

/// A bounded table of values, each named by a [`Token`].
///
/// A slot takes 4 bytes for the generation in addition to its value. The slab may need memory to
/// distinguish a free slot from a used one: none for most types that contain a `Vec`, a `Box` or a
/// `bool`, and 8 bytes for a plain integer of 8 bytes.
///
/// When the table's memory is full, [`insert`](Self::insert) grows the table and moves all values:
/// O(len) for that call, O(1) amortised. All other calls that take one token are O(1).
///
/// # Examples
///
/// ```
/// use evcore_token::{Full, Table};
///
/// let mut table = Table::bounded(10_000);
/// let token = table.insert(String::from("a connection"))?;
/// table.get_mut(token).unwrap().push_str(", open");
/// assert_eq!(table.remove(token).as_deref(), Some("a connection, open"));
/// assert_eq!(table.get(token), None);
/// # Ok::<(), Full<String>>(())
/// ```
pub struct Table<T> {
    /// A retired slot holds `None`, so that the slab does not reuse it.
    // Invariant: no more slots than `limit`, so no index is `u32::MAX`.
    slots: Slab<Option<T>>,
    /// For each slot the generation of its value, or of its next value if it is free.
    // Invariant: its length is the highest number of slots that were ever in use at once.
    generations: Vec<NonZeroU32>,
    // Invariant: the number of slots that hold `None`.
    retired: u32,
    limit: u32,
}

impl<T> Table<T> {
    /// Creates an empty table that holds at most `limit` values.
    ///
    /// Allocates nothing yet. The memory grows by a quarter as the table fills, and is never
    /// reserved for more slots than `limit`. All indices are below `limit`, so `u32::MAX` is never
    /// an index.
    #[must_use]
    pub const fn bounded(limit: u32) -> Self {
        Self {
            slots: Slab::new(),
            generations: Vec::new(),
            retired: 0,
            limit,
        }
    }

    /// Puts `value` into the slot that was freed last, or into a new one, and returns its token.
    ///
    /// # Errors
    ///
    /// [`Full`] hands the value back if no slot is free.
    pub fn insert(&mut self, value: T) -> Result<Token, Full<T>> {
        match self.vacant_entry() {
            Some(entry) => {
                let token = entry.token();
                entry.insert(value);
                Ok(token)
            }
            None => Err(Full(value)),
        }
    }

    /// A free slot whose token is known before its value exists; `None` if no slot is free.
    ///
    /// Use it for values that hold their own token, or to create a value only if there is a slot
    /// for it.
    pub fn vacant_entry(&mut self) -> Option<VacantEntry<'_, T>> {
        let token = self.next_token()?;
        Some(VacantEntry::new(self, token))
    }

    /// Removes and returns the value, which makes `token` stale; `None` if `token` was stale
    /// already.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        let index = token.index() as usize;
        if !self.contains(token) {
            return None;
        }
        match token.generation().checked_add(1) {
            Some(next) => {
                self.generations[index] = next;
                self.slots.remove(index)
            }
            // A generation that wrapped around would make old tokens of this slot valid again.
            None => {
                self.retired += 1;
                self.slots[index].take()
            }
        }
    }

    /// Removes every value for which `keep` returns false, in the order of their indices.
    ///
    /// Use it to close many connections in one pass: `keep` can pass the token on, for example to
    /// `EventLoop::remove`. Costs O(slots that were ever in use at once).
    pub fn retain(&mut self, mut keep: impl FnMut(Token, &mut T) -> bool) {
        for index in 0..self.slots_used() {
            let Some(token) = self.token_at(index) else {
                continue;
            };
            let kept = self.get_mut(token).is_some_and(|value| keep(token, value));
            if !kept {
                self.remove(token);
            }
        }
    }

    /// The value that `token` names; `None` if the token is stale.
    #[inline]
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        let index = token.index() as usize;
        if *self.generations.get(index)? != token.generation() {
            return None;
        }
        self.slots.get(index)?.as_ref()
    }

    /// A mutable reference to the value that `token` names; `None` if the token is stale.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let index = token.index() as usize;
        if *self.generations.get(index)? != token.generation() {
            return None;
        }
        self.slots.get_mut(index)?.as_mut()
    }

    /// Returns whether `token` names a value, and is not stale.
    #[inline]
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        self.get(token).is_some()
    }

    /// The token of the value in slot `index`; `None` if there is no value.
    ///
    /// This is for side tables that keep only the index, such as [`LruList`](crate::LruList).
    #[inline]
    #[must_use]
    pub fn token_at(&self, index: u32) -> Option<Token> {
        self.slots.get(index as usize)?.as_ref()?;
        Some(Token::new(index, self.generations[index as usize]))
    }

    /// The number of values.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        narrow(self.slots.len()) - self.retired
    }

    /// Returns whether there are no values.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the next [`insert`](Self::insert) would hand its value back.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.free() == 0
    }

    /// The limit that the table was created with.
    #[inline]
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Number of values that still fit: the limit minus the values and the retired slots.
    ///
    /// A slot is retired after it has held 2³² − 1 values, and is never used again.
    #[inline]
    #[must_use]
    pub fn free(&self) -> u32 {
        self.limit - narrow(self.slots.len())
    }

    /// The values with their tokens, in the order of their indices.
    ///
    /// Costs O(slots that were ever in use at once), as do [`iter_mut`](Self::iter_mut) and
    /// [`tokens`](Self::tokens).
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        self.slots.iter().filter_map(|(index, value)| {
            let token = Token::new(narrow(index), self.generations[index]);
            Some((token, value.as_ref()?))
        })
    }

    /// The values, mutably, with their tokens, in the order of their indices.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        let generations = &self.generations;
        self.slots.iter_mut().filter_map(|(index, value)| {
            let token = Token::new(narrow(index), generations[index]);
            Some((token, value.as_mut()?))
        })
    }

    /// The tokens of all values, in the order of their indices.
    ///
    /// To change the table during the iteration, collect them first, or use
    /// [`retain`](Self::retain).
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.iter().map(|(token, _)| token)
    }

    fn next_token(&self) -> Option<Token> {
        if self.is_full() {
            return None;
        }
        let index = self.slots.vacant_key();
        let generation = self.generations.get(index).copied();
        Some(Token::new(
            narrow(index),
            generation.unwrap_or(NonZeroU32::MIN),
        ))
    }

    fn fill_next(&mut self, value: T) -> &mut T {
        if self.slots.vacant_key() == self.generations.len() {
            self.reserve_one();
            self.generations.push(NonZeroU32::MIN);
        }
        let filled = self.slots.vacant_entry().insert(Some(value));
        filled.as_mut().expect("it was just inserted")
    }

    /// Reserves memory for at least one more slot, but unlike `Vec` never for more than the limit.
    fn reserve_one(&mut self) {
        let used = self.generations.len();
        if used == self.generations.capacity() {
            let more = growth::capacity_above(used, self.limit as usize) - used;
            self.generations.reserve_exact(more);
            self.slots.reserve_exact(more);
        }
    }

    fn slots_used(&self) -> u32 {
        narrow(self.generations.len())
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the limit is a u32")]
const fn narrow(slots: usize) -> u32 {
    slots as u32
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
