//! Who has been idle the longest.
//!
//! The ids are linked through a side table of their own, so moving one to the end costs the same
//! whether ten or a hundred thousand are idle.
//! There is no time in it: the order of the calls is the order of idleness.
//!
//! Deliberately absent: tokens. The list knows ids, and whoever removes an id's value removes the
//! id here too, so no generation is needed.

use std::fmt;

/// Ids in the order of idleness, the longest idle first.
///
/// The table of links takes 8 bytes for each id up to the highest ever touched, and is meant for
/// ids that are dense, such as [`Token::index`](crate::Token::index).
///
/// # Examples
///
/// ```
/// use evcore_token::LruList;
///
/// let mut idle = LruList::new();
/// idle.touch(3);
/// idle.touch(7);
/// idle.touch(3); // has just been used
/// assert_eq!(idle.oldest(), Some(7));
/// idle.remove(7); // is busy, or closed
/// assert!(idle.iter().eq([3]));
/// ```
#[derive(Clone)]
pub struct LruList {
    // Invariant: `links[id]` is `Link::ABSENT` for exactly the ids that are not listed.
    links: Vec<Link>,
    // Invariant: both `END` when the list is empty, both ids when it is not.
    oldest: u32,
    newest: u32,
    // Invariant: the number of ids between `oldest` and `newest`, both included.
    len: u32,
    /// How many ids there will mostly be at most.
    expected: u32,
}

/// The neighbours of one id, or `END` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    older: u32,
    newer: u32,
}

/// No neighbour on this side.
const END: u32 = u32::MAX;

/// Not an id either: marks those that are not listed.
const UNLISTED: u32 = u32::MAX - 1;

impl Link {
    const ABSENT: Self = Self {
        older: UNLISTED,
        newer: UNLISTED,
    };
}

impl LruList {
    /// The highest id that can be listed: two numbers are needed as marks.
    pub const MAX_ID: u32 = u32::MAX - 2;

    /// Makes an empty list. Allocates nothing.
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

    /// Makes an empty list for the ids below `ids`; there may be more. Allocates nothing.
    ///
    /// The table grows as the ids do, and doubles; but for the last time before it covers all that
    /// are expected it grows to these, so that it has no room for more.
    #[must_use]
    pub const fn with_expected(ids: u32) -> Self {
        let mut idle = Self::new();
        idle.expected = ids;
        idle
    }

    /// Makes `id` the one idle for the shortest time, whether it was listed or not.
    ///
    /// O(1), but for the growth of the table when `id` is higher than any before.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`](Self::MAX_ID).
    #[inline]
    pub fn touch(&mut self, id: u32) {
        assert!(id <= Self::MAX_ID, "id {id} is above {}", Self::MAX_ID);
        // The busiest connection is touched again and again.
        if self.newest == id {
            return;
        }
        self.remove(id);
        self.append(id);
    }

    /// Takes `id` off the list, and returns whether it was listed. O(1).
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

    /// The id that has been idle the longest; `None` if the list is empty.
    #[inline]
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != END).then_some(self.oldest)
    }

    /// Whether `id` is listed.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.links
            .get(id as usize)
            .is_some_and(|link| *link != Link::ABSENT)
    }

    /// The number of idle ids.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no id is idle.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Walks the ids, the longest idle first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(self.oldest(), |&id| {
            let newer = self.links[id as usize].newer;
            (newer != END).then_some(newer)
        })
    }

    /// Panics where an invariant does not hold.
    #[cfg(test)]
    pub(crate) fn verify(&self) {
        let (mut older, mut id, mut walked) = (END, self.oldest, 0);
        while id != END {
            assert!(walked < self.len, "more ids are linked than counted");
            let link = self.links[id as usize];
            assert_ne!(link, Link::ABSENT);
            assert_eq!(link.older, older, "{id} is linked one way only");
            (older, id, walked) = (id, link.newer, walked + 1);
        }
        assert_eq!(self.newest, older);
        assert_eq!(self.len, walked);
        let listed = self.links.iter().filter(|link| **link != Link::ABSENT);
        assert_eq!(listed.count(), self.len as usize);
    }

    /// Links `id`, which must not be listed, behind the newest.
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

    /// Grows the table until it covers an id.
    #[cold]
    fn cover(&mut self, index: usize) {
        let (len, held, expected) = (index + 1, self.links.len(), self.expected as usize);
        if len > self.links.capacity() && (len..2 * len).contains(&expected) {
            self.links.reserve_exact(expected - held);
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
    /// The ids, the longest idle first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_has_no_room_for_more_than_are_expected_unless_they_come() {
        let mut idle = LruList::with_expected(1000);
        assert_eq!(idle.links.capacity(), 0);
        (0..1000).for_each(|id| idle.touch(id));
        assert_eq!(idle.links.capacity(), 1000);
        idle.touch(1000);
        assert!(idle.links.capacity() >= 2000, "from there on it doubles");
    }

    fn list_of(len: u32) -> LruList {
        let mut idle = LruList::new();
        (0..len).for_each(|id| idle.touch(id));
        idle
    }

    #[test]
    fn an_empty_list_has_no_oldest() {
        let mut idle = LruList::new();
        assert_eq!(idle.oldest(), None);
        assert!(!idle.remove(0));
        assert!(!idle.contains(u32::MAX));
    }

    #[test]
    fn touching_the_newest_changes_nothing() {
        let mut idle = list_of(3);
        idle.touch(2);
        idle.verify();
        assert!(idle.iter().eq([0, 1, 2]));
    }

    #[test]
    fn a_link_takes_eight_bytes() {
        assert_eq!(size_of::<Link>(), 8);
    }

    #[test]
    #[should_panic(expected = "is above")]
    fn the_marks_are_not_ids() {
        LruList::new().touch(u32::MAX);
    }

    proptest! {
        #[test]
        fn the_list_agrees_with_a_vec(
            operations in prop::collection::vec((0..24u32, prop::bool::weighted(0.6)), 0..200),
        ) {
            let mut idle = LruList::new();
            let mut oracle = Vec::new();
            for (id, touch) in operations {
                let listed = oracle.contains(&id);
                prop_assert_eq!(idle.contains(id), listed);
                oracle.retain(|other| *other != id);
                if touch {
                    idle.touch(id);
                    oracle.push(id);
                } else {
                    prop_assert_eq!(idle.remove(id), listed);
                }
                idle.verify();
                prop_assert_eq!(idle.len() as usize, oracle.len());
                prop_assert_eq!(idle.is_empty(), oracle.is_empty());
                prop_assert_eq!(idle.oldest(), oracle.first().copied());
                prop_assert_eq!(idle.iter().collect::<Vec<_>>(), oracle.clone());
            }
        }
    }
}
