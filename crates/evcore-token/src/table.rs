//! The home of what tokens name.
//!
//! A table has a limit, given once, and commits memory as it fills, not before.
//! Freed slots are used again last-in first-out, because the slot freed last is the one whose
//! memory is still in the cache.
//!
//! Deliberately absent: indexing with `[]`, which would panic on a stale token, and a stale token
//! is an ordinary event; and giving memory back, since a server that was busy once will be again.

use std::fmt;
use std::mem;
use std::num::NonZeroU32;

use crate::slot::{NIL, Slot};
use crate::{Full, Token};

/// A table of values with a limit, each named by a [`Token`].
///
/// Growing moves the values, so a call to [`insert`](Self::insert) that finds the memory used up
/// costs O(len); over many inserts that is O(1) each.
/// A slot takes at most 8 bytes beyond its value, for values of 4 bytes or more whose alignment is
/// 8 or less.
///
/// # Examples
///
/// ```
/// use evcore_token::{Full, Table};
///
/// let mut table = Table::with_capacity(10_000);
/// let token = table.insert(String::from("a connection"))?;
/// table.get_mut(token).unwrap().push_str(", open");
/// assert_eq!(table.remove(token).as_deref(), Some("a connection, open"));
/// assert_eq!(table.get(token), None);
/// # Ok::<(), Full<String>>(())
/// ```
pub struct Table<T> {
    // Invariant: no longer than `limit`, so no index is `u32::MAX`.
    slots: Vec<Slot<T>>,
    // Invariant: starts a chain through `Slot::Free::next` of every free slot, which ends in `NIL`.
    free_head: u32,
    // Invariant: the number of occupied slots.
    len: u32,
    // Invariant: the number of retired slots.
    retired: u32,
    limit: u32,
}

/// Slots that the first insert makes room for, where the limit allows.
const FIRST_SLOTS: usize = 8;

impl<T> Table<T> {
    /// Makes an empty table that will hold `limit` values at most.
    ///
    /// Allocates nothing: memory is committed as the table fills, doubling, and never for more
    /// slots than the limit.
    /// Indices are below the limit, so `u32::MAX` is never one.
    #[must_use]
    pub const fn with_capacity(limit: u32) -> Self {
        Self {
            slots: Vec::new(),
            free_head: NIL,
            len: 0,
            retired: 0,
            limit,
        }
    }

    /// Puts `value` into a free slot and names it.
    ///
    /// The slot is the one freed last, or else a new one.
    ///
    /// # Errors
    ///
    /// [`Full`] hands the value back when no slot is free.
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

    /// Finds a place, and tells its token before there is a value.
    ///
    /// For values that hold their own token, and for making one only if there is a place for it.
    /// `None` when no slot is free.
    pub fn vacant_entry(&mut self) -> Option<VacantEntry<'_, T>> {
        let token = self.next_token()?;
        Some(VacantEntry { table: self, token })
    }

    /// Takes the value out, which makes `token` stale.
    ///
    /// `None` if it is stale already.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        let slot = self.slots.get_mut(token.index() as usize)?;
        if !slot.holds(token) {
            return None;
        }
        let vacated = match token.generation().checked_add(1) {
            Some(generation) => {
                let next = mem::replace(&mut self.free_head, token.index());
                Slot::Free { generation, next }
            }
            // Starting over at 1 would bring the very first token of this slot back to life.
            None => {
                self.retired += 1;
                Slot::Retired
            }
        };
        self.len -= 1;
        match mem::replace(slot, vacated) {
            Slot::Occupied { value, .. } => Some(value),
            Slot::Free { .. } | Slot::Retired => unreachable!("the slot holds the token's value"),
        }
    }

    /// Removes every value for which `keep` returns false, in the order of their indices.
    ///
    /// The way to close everything while walking: `keep` may do what it likes with the token, such
    /// as telling the loop to forget it.
    /// Costs O(slots that were ever in use at once).
    pub fn retain(&mut self, mut keep: impl FnMut(Token, &mut T) -> bool) {
        for index in 0..self.slot_count() {
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
        match self.slots.get(token.index() as usize)? {
            Slot::Occupied { generation, value } if *generation == token.generation() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// The value that `token` names, to be changed; `None` if the token is stale.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        match self.slots.get_mut(token.index() as usize)? {
            Slot::Occupied { generation, value } if *generation == token.generation() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// Whether `token` still names a value.
    #[inline]
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        self.get(token).is_some()
    }

    /// The token of whatever lives in slot `index` now; `None` if nothing does.
    ///
    /// For side tables that know only the id, such as [`IdleList`](crate::IdleList).
    #[inline]
    #[must_use]
    pub fn token_at(&self, index: u32) -> Option<Token> {
        self.slots.get(index as usize)?.token(index)
    }

    /// The number of values.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no values.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the next [`insert`](Self::insert) would hand its value back.
    #[inline]
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.free() == 0
    }

    /// The limit that the table was made with.
    #[inline]
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.limit
    }

    /// Places left: the capacity less the values and the retired slots.
    ///
    /// A slot is retired after 2³² − 1 values have lived in it; its place is lost for good.
    #[inline]
    #[must_use]
    pub const fn free(&self) -> u32 {
        self.limit - self.len - self.retired
    }

    /// Walks the values and their tokens, in the order of their indices.
    ///
    /// Costs O(slots that were ever in use at once), as do [`iter_mut`](Self::iter_mut) and
    /// [`tokens`](Self::tokens).
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        (0..self.slot_count())
            .zip(&self.slots)
            .filter_map(|(index, slot)| match slot {
                Slot::Occupied { generation, value } => {
                    Some((Token::new(index, *generation), value))
                }
                Slot::Free { .. } | Slot::Retired => None,
            })
    }

    /// Walks the values and their tokens, in the order of their indices, to change the values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        (0..self.slot_count())
            .zip(&mut self.slots)
            .filter_map(|(index, slot)| match slot {
                Slot::Occupied { generation, value } => {
                    Some((Token::new(index, *generation), value))
                }
                Slot::Free { .. } | Slot::Retired => None,
            })
    }

    /// Walks the tokens of all values, in the order of their indices.
    ///
    /// Collect them to change the table while walking, or see [`retain`](Self::retain).
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.iter().map(|(token, _)| token)
    }

    /// Checks every invariant, for tests; only in builds with debug assertions.
    ///
    /// Costs O(slots that were ever in use at once).
    ///
    /// # Panics
    ///
    /// If the table is broken, which no sequence of calls should achieve.
    #[cfg(any(test, debug_assertions))]
    pub fn verify(&self) {
        assert!(self.slots.len() <= self.limit as usize);
        assert!(self.slots.capacity() <= self.limit as usize);

        let occupied = self
            .slots
            .iter()
            .filter(|slot| matches!(slot, Slot::Occupied { .. }));
        assert_eq!(occupied.count(), self.len as usize);
        let retired = self
            .slots
            .iter()
            .filter(|slot| matches!(slot, Slot::Retired));
        assert_eq!(retired.count(), self.retired as usize);

        let mut free_slots = self.slots.len() - self.len as usize - self.retired as usize;
        let mut index = self.free_head;
        while index != NIL {
            let Slot::Free { next, .. } = &self.slots[index as usize] else {
                panic!("slot {index} is in the chain of free slots and not free");
            };
            index = *next;
            free_slots = free_slots
                .checked_sub(1)
                .expect("the chain of free slots has an end");
        }
        assert_eq!(free_slots, 0, "free slots are missing from the chain");
    }

    /// The token that the next value will get; `None` when no slot is free.
    fn next_token(&self) -> Option<Token> {
        if self.free_head == NIL {
            let index = self.slot_count();
            return (index < self.limit).then(|| Token::new(index, NonZeroU32::MIN));
        }
        match &self.slots[self.free_head as usize] {
            Slot::Free { generation, .. } => Some(Token::new(self.free_head, *generation)),
            Slot::Occupied { .. } | Slot::Retired => unreachable!("the chain holds free slots"),
        }
    }

    /// Puts `value` where `token`, just made by `next_token`, says.
    fn fill(&mut self, token: Token, value: T) -> &mut T {
        let index = token.index() as usize;
        let occupied = Slot::Occupied {
            generation: token.generation(),
            value,
        };
        if index == self.slots.len() {
            self.reserve_one();
            self.slots.push(occupied);
        } else {
            let vacant = mem::replace(&mut self.slots[index], occupied);
            let Slot::Free { next, .. } = vacant else {
                unreachable!("the slot was free")
            };
            self.free_head = next;
        }
        self.len += 1;
        match &mut self.slots[index] {
            Slot::Occupied { value, .. } => value,
            Slot::Free { .. } | Slot::Retired => unreachable!("the slot was just filled"),
        }
    }

    /// Makes room for one more slot; unlike `Vec` alone, never for more than the limit.
    fn reserve_one(&mut self) {
        let used = self.slots.len();
        if used == self.slots.capacity() {
            let doubled = used.saturating_mul(2).max(FIRST_SLOTS);
            self.slots
                .reserve_exact(doubled.min(self.limit as usize) - used);
        }
    }

    /// How many slots there are, whatever is in them.
    fn slot_count(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("the limit is a u32")
    }
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A free place in a [`Table`] whose token is known already.
///
/// Dropping it leaves the table as it was.
///
/// # Examples
///
/// ```
/// use evcore_token::{Table, Token};
///
/// struct Connection { name: Token }
///
/// let mut table = Table::with_capacity(1);
/// let entry = table.vacant_entry().expect("the table is empty");
/// let name = entry.token();
/// entry.insert(Connection { name });
/// assert_eq!(table.get(name).unwrap().name, name);
/// assert!(table.vacant_entry().is_none());
/// ```
#[must_use = "dropping the entry inserts nothing"]
pub struct VacantEntry<'a, T> {
    table: &'a mut Table<T>,
    token: Token,
}

impl<'a, T> VacantEntry<'a, T> {
    /// The token that the value will have.
    #[inline]
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Puts `value` in this place, and lends it.
    pub fn insert(self, value: T) -> &'a mut T {
        self.table.fill(self.token, value)
    }
}

impl<T> fmt::Debug for VacantEntry<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(&self.token).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the only slot of `table`, which must be free, look as if used nearly up.
    fn age_to_the_last_generation<T>(table: &mut Table<T>) {
        let Some(Slot::Free { generation, .. }) = table.slots.first_mut() else {
            panic!("slot 0 is free");
        };
        *generation = NonZeroU32::MAX;
    }

    #[test]
    fn a_new_table_allocates_nothing() {
        let table = Table::<u64>::with_capacity(u32::MAX);
        assert_eq!(table.slots.capacity(), 0);
        assert_eq!(table.free(), u32::MAX);
    }

    #[test]
    fn growing_reserves_no_more_than_the_limit() {
        let mut table = Table::with_capacity(11);
        for n in 0..11u64 {
            table.insert(n).unwrap();
            assert!(table.slots.capacity() <= 11);
        }
        assert!(table.is_full());
        assert_eq!(table.slots.capacity(), 11);
    }

    #[test]
    fn growing_doubles() {
        let mut table = Table::with_capacity(1000);
        let mut growths = 0;
        for n in 0..1000u64 {
            let before = table.slots.capacity();
            table.insert(n).unwrap();
            growths += u32::from(table.slots.capacity() != before);
        }
        assert_eq!(growths, 8, "8, 16, 32, 64, 128, 256, 512, 1000");
    }

    #[test]
    fn a_full_table_hands_the_value_back() {
        let mut table = Table::with_capacity(1);
        table.insert("first").unwrap();
        assert!(table.is_full());
        assert_eq!(table.insert("second"), Err(Full("second")));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn the_slot_freed_last_is_used_first() {
        let mut table = Table::with_capacity(3);
        let tokens = [(); 3].map(|()| table.insert(()).unwrap());
        table.remove(tokens[2]);
        table.remove(tokens[0]);
        assert_eq!(table.insert(()).unwrap().index(), 0);
        assert_eq!(table.insert(()).unwrap().index(), 2);
    }

    #[test]
    fn a_stale_token_never_reaches_its_successor() {
        let mut table = Table::with_capacity(1);
        let old = table.insert("old").unwrap();
        table.remove(old);
        let new = table.insert("new").unwrap();
        assert_eq!(old.index(), new.index());
        assert!(!table.contains(old));
        assert_eq!(table.get(old), None);
        assert_eq!(table.get_mut(old), None);
        assert_eq!(table.remove(old), None);
        assert_eq!(table.get(new), Some(&"new"));
    }

    #[test]
    fn a_token_from_the_future_resolves_to_nothing() {
        let mut table = Table::with_capacity(1);
        let token = table.insert(()).unwrap();
        let future = Token::new(token.index(), NonZeroU32::MAX);
        assert!(!table.contains(future));
        assert!(!table.contains(Token::new(7, NonZeroU32::MIN)));
    }

    #[test]
    fn a_slot_out_of_generations_is_retired() {
        let mut table = Table::with_capacity(2);
        let first = table.insert("first").unwrap();
        table.remove(first);
        age_to_the_last_generation(&mut table);

        let last = table.insert("last").unwrap();
        assert_eq!(last, Token::new(0, NonZeroU32::MAX));
        assert_eq!(table.remove(last), Some("last"));
        table.verify();
        assert_eq!(table.free(), 1, "its place is lost");
        assert_eq!(table.capacity(), 2);

        let other = table.insert("other").unwrap();
        assert_eq!(other.index(), 1);
        assert_eq!(table.insert("none"), Err(Full("none")));
        assert!(!table.contains(first));
        assert!(!table.contains(last));
    }

    #[test]
    fn a_dropped_entry_leaves_the_table_as_it_was() {
        let mut table = Table::with_capacity(2);
        let expected = table.vacant_entry().unwrap().token();
        table.verify();
        assert!(table.is_empty());
        assert_eq!(table.insert(()).unwrap(), expected);
    }

    #[test]
    fn retain_closes_what_it_is_told_to() {
        let mut table = Table::with_capacity(8);
        let tokens: Vec<_> = (0..8).map(|n| table.insert(n).unwrap()).collect();
        let mut closed = Vec::new();
        table.retain(|token, n| {
            if *n % 2 == 0 {
                closed.push(token);
            }
            *n % 2 != 0
        });
        table.verify();
        assert_eq!(closed, [tokens[0], tokens[2], tokens[4], tokens[6]]);
        assert!(
            table
                .tokens()
                .eq([tokens[1], tokens[3], tokens[5], tokens[7]])
        );
    }

    #[test]
    fn debug_shows_tokens_and_values() {
        let mut table = Table::with_capacity(1);
        table.insert("value").unwrap();
        assert_eq!(format!("{table:?}"), r#"{0v1: "value"}"#);
    }
}
