//! Up to two lists of ids that share one table of links.
//!
//! An id is in at most one of the lists, so one entry of the table holds its links whichever list
//! it is in. One bit of the entry, the *mark*, names the list, so looking up, linking and unlinking
//! are all O(1).
//!
//! `LruList` of evcore-token has one list in each table and needs no such bit. The two do not share
//! code, because neither crate depends on the other (decision 0018).

#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    // Invariant: `table[id]` is `Link::ABSENT` for exactly the ids that are in no list.
    table: Vec<Link>,
}

/// One of the lists: its first and its last id, and its length. Its links are in the table.
#[derive(Clone, Debug)]
pub(crate) struct List {
    // Invariant: both are `END` if the list is empty, and both are ids otherwise.
    front: u32,
    back: u32,
    // Invariant: the number of ids between `front` and `back`, both included.
    len: u32,
    /// The mark in the links of all its ids: `MARK` or 0.
    mark: u32,
}

/// The neighbours of one id, or `END` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    /// The id before this one, with the mark of its list.
    previous: u32,
    next: u32,
}

/// The highest id. No higher number is an id, because one bit of a link is the mark, and the
/// numbers `END` and `UNLINKED` have other meanings.
pub(crate) const MAX_ID: u32 = UNLINKED - 1;

const MARK: u32 = 1 << 31;

const END: u32 = MARK - 1;

/// The value of both links of an id that is in no list.
const UNLINKED: u32 = END - 1;

const LEAST_GROWTH: usize = 8;

impl Links {
    pub(crate) const fn new() -> Self {
        Self { table: Vec::new() }
    }

    /// A table for the ids below `ids`.
    ///
    /// # Panics
    ///
    /// If one of them is above [`MAX_ID`].
    pub(crate) fn covering(ids: u32) -> Self {
        assert!(
            ids <= MAX_ID + 1,
            "{ids} ids are too many, the highest is {MAX_ID}"
        );
        Self {
            table: vec![Link::ABSENT; ids as usize],
        }
    }

    #[inline]
    pub(crate) fn has(&self, list: &List, id: u32) -> bool {
        self.linked(id)
            .is_some_and(|link| link.previous & MARK == list.mark)
    }

    /// Puts `id` at the back of a list and returns true. If it already is in a list, it stays there
    /// and the result is false.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`].
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, id: u32) -> bool {
        if self.linked(id).is_some() {
            return false;
        }
        if id as usize >= self.table.len() {
            self.cover(id);
        }
        self.table[id as usize] = Link {
            previous: list.back | list.mark,
            next: END,
        };
        match list.back {
            END => list.front = id,
            back => self.table[back as usize].next = id,
        }
        list.back = id;
        list.len += 1;
        true
    }

    #[inline]
    pub(crate) fn remove(&mut self, list: &mut List, id: u32) -> bool {
        if !self.has(list, id) {
            return false;
        }
        let Link { previous, next } = self.table[id as usize];
        match previous & !MARK {
            END => list.front = next,
            previous => self.table[previous as usize].next = next,
        }
        match next {
            END => list.back = previous & !MARK,
            // The neighbour is in the same list, so its mark is already right.
            next => self.table[next as usize].previous = previous,
        }
        self.table[id as usize] = Link::ABSENT;
        list.len -= 1;
        true
    }

    #[inline]
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<u32> {
        let id = list.front()?;
        self.remove(list, id);
        Some(id)
    }

    /// Moves all ids of `other` behind `list`, in their order. Costs O(ids moved), because the mark
    /// of each id changes to the mark of `list`.
    pub(crate) fn append(&mut self, list: &mut List, other: &mut List) {
        while let Some(id) = self.pop(other) {
            self.push(list, id);
        }
    }

    pub(crate) fn clear(&mut self, list: &mut List) {
        while self.pop(list).is_some() {}
    }

    pub(crate) fn iter(&self, list: &List) -> impl Iterator<Item = u32> {
        std::iter::successors(list.front(), |&id| {
            let next = self.table[id as usize].next;
            (next != END).then_some(next)
        })
    }

    /// Panics if an invariant does not hold. `lists` are all lists of this table.
    #[cfg(test)]
    pub(crate) fn verify(&self, lists: &[&List]) {
        let mut in_lists = 0;
        for list in lists {
            self.verify_list(list);
            in_lists += list.len as usize;
        }
        let linked = self.table.iter().filter(|link| **link != Link::ABSENT);
        assert_eq!(linked.count(), in_lists);
    }

    #[cfg(test)]
    fn verify_list(&self, list: &List) {
        let (mut previous, mut id, mut walked) = (END, list.front, 0);
        while id != END {
            assert!(walked < list.len, "more ids are linked than counted");
            let link = self.table[id as usize];
            assert_eq!(
                link.previous & !MARK,
                previous,
                "{id} is linked in one direction only"
            );
            assert_eq!(
                link.previous & MARK,
                list.mark,
                "{id} has the other list's mark"
            );
            (previous, id, walked) = (id, link.next, walked + 1);
        }
        assert_eq!(list.back, previous);
        assert_eq!(list.len, walked);
    }

    #[inline]
    fn linked(&self, id: u32) -> Option<&Link> {
        let link = self.table.get(id as usize)?;
        (*link != Link::ABSENT).then_some(link)
    }

    /// Grows the table until it covers `id`. If its memory has to grow, a quarter more than is
    /// needed is reserved. So ascending ids cost amortised O(1) each, and little memory is unused.
    #[cold]
    fn cover(&mut self, id: u32) {
        assert!(id <= MAX_ID, "id {id} is above {MAX_ID}");
        let (len, held) = (id as usize + 1, self.table.len());
        if len > self.table.capacity() {
            let grown = len + len / 4 + LEAST_GROWTH;
            self.table.reserve_exact(grown - held);
        }
        self.table.resize(len, Link::ABSENT);
    }
}

impl List {
    /// An empty list: the only one of its table, or the first of two.
    pub(crate) const fn new() -> Self {
        Self {
            front: END,
            back: END,
            len: 0,
            mark: 0,
        }
    }

    /// An empty list: the second of its table.
    pub(crate) const fn second() -> Self {
        Self {
            mark: MARK,
            ..Self::new()
        }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        (self.front != END).then_some(self.front)
    }

    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Link {
    const ABSENT: Self = Self {
        previous: UNLINKED,
        next: UNLINKED,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_eight_bytes_per_id_up_to_the_highest() {
        let (mut links, mut list) = (Links::new(), List::new());
        assert!(links.push(&mut list, 999));
        assert_eq!(links.table.len(), 1000);
        assert_eq!(size_of::<Link>(), 8);
    }

    #[test]
    fn a_table_made_for_100_ids_does_not_grow_for_them() {
        let (mut links, mut list) = (Links::covering(100), List::new());
        let before = links.table.capacity();
        (0..100).for_each(|id| assert!(links.push(&mut list, id)));
        assert_eq!(links.table.capacity(), before);
    }

    /// The numbers above the highest id have other meanings, so a table must not cover them.
    #[test]
    #[should_panic(expected = "are too many")]
    fn a_table_for_ids_above_the_highest_is_refused() {
        let _ = Links::covering(MAX_ID + 2);
    }

    #[test]
    fn an_id_is_in_one_list_at_most() {
        let (mut links, mut first, mut second) = (Links::new(), List::new(), List::second());
        assert!(links.push(&mut first, 1) && links.push(&mut second, 2));
        assert!(!links.push(&mut second, 1), "it is in the first list");
        assert!(links.has(&first, 1) && !links.has(&second, 1));
        assert!(!links.remove(&mut second, 1) && links.remove(&mut first, 1));
        assert!(links.has(&second, 2) && !links.has(&first, 2));
        links.verify(&[&first, &second]);
    }

    #[test]
    fn the_highest_id_is_below_the_marks() {
        assert_eq!(MAX_ID, 2_147_483_645, "as documented");
        assert_eq!([MAX_ID + 1, MAX_ID + 2], [UNLINKED, END]);
    }

    #[test]
    fn numbers_above_the_highest_id_are_in_no_list() {
        let (links, first, second) = (Links::covering(1), List::new(), List::second());
        for id in [0, MAX_ID, UNLINKED, END, MARK, u32::MAX] {
            assert!(!links.has(&first, id) && !links.has(&second, id), "{id}");
        }
    }
}
