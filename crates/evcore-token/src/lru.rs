//! A list of ids in the order of their last use, least recently used first.
//!
//! The ids are linked through a side table, so moving one to the end is O(1). The list contains no
//! times; the order of the calls is the order of use.
//!
//! The list deliberately stores ids without the generation of a `Token`. The code that removes the
//! value of an id also removes the id from the list, so an id is enough.

use std::fmt;

use crate::growth;

/// A list of dense ids in the order of their last use, least recently used first.
///
/// A server uses it to find the connections that have been idle the longest. The table of links
/// takes 8 bytes for each id up to the highest that was ever touched, so ids should be dense, such
/// as [`Token::index`](crate::Token::index). The table never shrinks.
///
/// # Examples
///
/// ```
/// use evcore_token::LruList;
///
/// let mut idle = LruList::new();
/// idle.touch(3);
/// idle.touch(7);
/// idle.touch(3); // was used again
/// assert_eq!(idle.oldest(), Some(7));
/// idle.remove(7); // is busy or closed now
/// assert!(idle.iter().eq([3]));
/// ```
#[derive(Clone)]
pub struct LruList {
    // Invariant: `links[id]` is `Link::ABSENT` for exactly the ids that are not listed.
    links: Vec<Link>,
    // Invariant: both are `END` if the list is empty, and both are ids otherwise.
    oldest: u32,
    newest: u32,
    // Invariant: the number of ids between `oldest` and `newest`, both included.
    len: u32,
    /// The expected number of ids: a growth that would exceed it ends exactly there.
    expected: u32,
}

/// The neighbours of one id, or `END` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    older: u32,
    newer: u32,
}

const END: u32 = u32::MAX;

/// The mark in the links of ids that are not listed.
const UNLISTED: u32 = u32::MAX - 1;

impl Link {
    const ABSENT: Self = Self {
        older: UNLISTED,
        newer: UNLISTED,
    };
}

impl LruList {
    /// The highest id that can be listed. The two higher numbers stand for the end of the list, and
    /// for ids that are not listed.
    pub const MAX_ID: u32 = u32::MAX - 2;

    /// Creates an empty list. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            links: Vec::new(),
            oldest: END,
            newest: END,
            len: 0,
            expected: 0,
        }
    }

    /// Creates an empty list that expects the ids below `ids`. Allocates nothing yet.
    ///
    /// The table grows by a quarter as higher ids are touched. A growth that would exceed `ids`
    /// ends exactly there. Ids at or above `ids` make the table grow further.
    #[must_use]
    pub const fn with_expected(ids: u32) -> Self {
        let mut idle = Self::new();
        idle.expected = ids;
        idle
    }

    /// Moves `id` to the most recently used end, or adds it there if it was not listed.
    ///
    /// O(1), except when the table grows because `id` is higher than any before.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`](Self::MAX_ID).
    #[inline]
    pub fn touch(&mut self, id: u32) {
        assert!(id <= Self::MAX_ID, "id {id} is above {}", Self::MAX_ID);
        // A busy connection is touched many times in a row.
        if self.newest == id {
            return;
        }
        self.remove(id);
        self.append(id);
    }

    /// Removes `id` from the list, and returns whether it was listed. O(1).
    #[inline]
    pub fn remove(&mut self, id: u32) -> bool {
        if !self.contains(id) {
            return false;
        }
        let Link { older, newer } = self.links[id as usize];
        match older {
            END => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            END => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        self.links[id as usize] = Link::ABSENT;
        self.len -= 1;
        true
    }

    /// The least recently used id; `None` if the list is empty.
    #[inline]
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != END).then_some(self.oldest)
    }

    /// The id that was used next after `id`; `None` if `id` is the newest, or is not listed. O(1).
    ///
    /// ```
    /// use evcore_token::LruList;
    ///
    /// let mut idle = LruList::new();
    /// idle.touch(3);
    /// idle.touch(7);
    /// assert_eq!((idle.newer_than(3), idle.newer_than(7)), (Some(7), None));
    /// ```
    #[inline]
    #[must_use]
    pub fn newer_than(&self, id: u32) -> Option<u32> {
        let newer = self.links.get(id as usize)?.newer;
        (newer <= Self::MAX_ID).then_some(newer)
    }

    /// Returns whether `id` is listed.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.links
            .get(id as usize)
            .is_some_and(|link| *link != Link::ABSENT)
    }

    /// The number of listed ids.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether no id is listed.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the ids, least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(self.oldest(), |&id| {
            let newer = self.links[id as usize].newer;
            (newer != END).then_some(newer)
        })
    }

    #[cfg(test)]
    pub(crate) fn verify(&self) {
        let (mut older, mut id, mut walked) = (END, self.oldest, 0);
        while id != END {
            assert!(walked < self.len, "more ids are linked than counted");
            let link = self.links[id as usize];
            assert_ne!(link, Link::ABSENT);
            assert_eq!(link.older, older, "{id} is linked in one direction only");
            (older, id, walked) = (id, link.newer, walked + 1);
        }
        assert_eq!(self.newest, older);
        assert_eq!(self.len, walked);
        let listed = self.links.iter().filter(|link| **link != Link::ABSENT);
        assert_eq!(listed.count(), self.len as usize);
    }

    /// Links `id`, which must not be listed, at the most recently used end.
    fn append(&mut self, id: u32) {
        let index = id as usize;
        if index >= self.links.len() {
            self.cover(index);
        }
        self.links[index] = Link {
            older: self.newest,
            newer: END,
        };
        match self.newest {
            END => self.oldest = id,
            newest => self.links[newest as usize].newer = id,
        }
        self.newest = id;
        self.len += 1;
    }

    #[cold]
    fn cover(&mut self, index: usize) {
        let (len, held, expected) = (index + 1, self.links.len(), self.expected as usize);
        if len > self.links.capacity() {
            let capacity = growth::capacity_above(len, expected);
            self.links.reserve_exact(capacity - held);
        }
        self.links.resize(len, Link::ABSENT);
    }
}

impl Default for LruList {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LruList {
    /// The ids, least recently used first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_stops_once_at_the_expected_number_of_ids() {
        let mut list = LruList::with_expected(1000);
        assert_eq!(list.links.capacity(), 0);
        (0..1000).for_each(|id| list.touch(id));
        assert_eq!(list.links.capacity(), 1000);
        list.touch(1000);
        assert_eq!(list.links.capacity(), 1001 + 250 + 8, "a quarter more");
    }

    #[test]
    fn a_high_first_id_reserves_the_expected_number_of_ids() {
        let mut list = LruList::with_expected(1000);
        list.touch(900);
        assert_eq!(list.links.capacity(), 1000);
    }

    #[test]
    fn the_table_does_not_grow_while_it_has_room() {
        let mut list = LruList::with_expected(1000);
        for id in 0..1000_u32 {
            let before = list.links.capacity();
            list.touch(id);
            assert!(before <= id as usize || list.links.capacity() == before);
        }
    }

    fn list_of(len: u32) -> LruList {
        let mut list = LruList::new();
        (0..len).for_each(|id| list.touch(id));
        list
    }

    #[test]
    fn an_empty_list_has_no_oldest() {
        let mut list = LruList::new();
        assert_eq!(list.oldest(), None);
        assert!(!list.remove(0));
        assert!(!list.contains(u32::MAX));
    }

    #[test]
    fn touching_the_most_recently_used_id_changes_nothing() {
        let mut list = list_of(3);
        list.touch(2);
        list.verify();
        assert!(list.iter().eq([0, 1, 2]));
    }

    #[test]
    fn the_highest_id_is_below_the_marks() {
        let highest = LruList::MAX_ID;
        assert_eq!([highest + 1, highest + 2], [UNLISTED, END]);
    }

    #[test]
    fn debug_lists_the_ids() {
        assert_eq!(format!("{:?}", list_of(3)), "[0, 1, 2]");
    }

    #[test]
    fn a_link_takes_eight_bytes() {
        assert_eq!(size_of::<Link>(), 8);
    }

    #[test]
    #[should_panic(expected = "is above")]
    fn an_id_above_the_highest_is_refused() {
        LruList::new().touch(u32::MAX);
    }

    proptest! {
        #[test]
        fn the_list_agrees_with_a_vec(
            operations in prop::collection::vec((0..24u32, prop::bool::weighted(0.6)), 0..200),
        ) {
            let mut list = LruList::new();
            let mut oracle = Vec::new();
            for (id, touch) in operations {
                let listed = oracle.contains(&id);
                prop_assert_eq!(list.contains(id), listed);
                oracle.retain(|other| *other != id);
                if touch {
                    list.touch(id);
                    oracle.push(id);
                } else {
                    prop_assert_eq!(list.remove(id), listed);
                }
                list.verify();
                prop_assert_eq!(list.len() as usize, oracle.len());
                prop_assert_eq!(list.is_empty(), oracle.is_empty());
                let at = oracle.iter().position(|other| *other == id);
                let newer = at.and_then(|at| oracle.get(at + 1)).copied();
                prop_assert_eq!(list.newer_than(id), newer);
                let second = oracle.get(1).copied();
                prop_assert_eq!(oracle.first().and_then(|id| list.newer_than(*id)), second);
                prop_assert_eq!(list.oldest(), oracle.first().copied());
                prop_assert_eq!(list.iter().collect::<Vec<_>>(), oracle.clone());
            }
        }
    }
}
