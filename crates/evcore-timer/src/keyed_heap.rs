//! A four-ary heap of timers, and the places of timers on it.
//!
//! Entry `i` is the parent of entries `4 i + 1` to `4 i + 4`. The table begins with three unused
//! entries, so that the four children of an entry are in one block. An entry contains its whole
//! key, so a comparison reads no other table.

use crate::blocks::Blocks;
use crate::queue::ID_MAX;

const BRANCHES: usize = 4;

/// Number of unused entries at the beginning of the table.
const OFFSET: usize = BRANCHES - 1;

/// Number of entries in a block. They take 3 KiB.
const BLOCK: usize = 128;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) deadline: u64,
    /// Orders equal deadlines.
    pub(crate) sequence: u64,
    /// Orders equal sequences.
    pub(crate) minor: u32,
    pub(crate) id: u32,
}

impl Entry {
    const UNUSED: Self = Self {
        deadline: 0,
        sequence: 0,
        minor: 0,
        id: 0,
    };

    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        if self.deadline != other.deadline {
            return self.deadline < other.deadline;
        }
        (self.sequence, self.minor) < (other.sequence, other.minor)
    }
}

/// The place of an entry: its index, and in the lowest two bits the number of its heap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place(u32);

impl Place {
    /// The highest value of a place's bits. A table of places can use higher values for timers that
    /// are on no heap.
    pub(crate) const MAX: u32 = ID_MAX << 2 | 3;

    #[inline]
    pub(crate) fn new(heap: u8, index: usize) -> Self {
        debug_assert!(index <= ID_MAX as usize, "more entries than ids");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are at most as many entries as ids"
        )]
        let index = index as u32;
        Self(index << 2 | u32::from(heap))
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) const fn heap(self) -> u8 {
        (self.0 & 3) as u8
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        (self.0 >> 2) as usize
    }
}

pub(crate) trait Places {
    fn set_place(&mut self, id: u32, place: Place);
}

#[derive(Clone, Debug)]
pub(crate) struct Heap {
    // Invariant: no entry is before its parent.
    entries: Blocks<Entry, BLOCK>,
    len: usize,
    number: u8,
}

impl Heap {
    /// An empty heap, which allocates nothing.
    pub(crate) const fn new(number: u8) -> Self {
        assert!(
            number < 4,
            "a place has two bits for the number of its heap"
        );
        Self {
            entries: Blocks::new(),
            len: 0,
            number,
        }
    }

    /// An empty heap with memory for `timers` timers.
    pub(crate) fn with_capacity(number: u8, timers: usize) -> Self {
        let mut heap = Self::new(number);
        heap.cover(timers);
        heap
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&Entry> {
        (self.len > 0).then(|| self.at(0))
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> &Entry {
        self.entries.at(position(index))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Removes all entries. Their old places stay in the caller's table until the caller clears
    /// them.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn push(&mut self, entry: Entry, places: &mut impl Places) {
        let last = self.len;
        self.len += 1;
        self.cover(self.len);
        self.sift_up(last, entry, places);
    }

    /// Removes an entry. Its old place stays in `places` until the caller clears or replaces it.
    pub(crate) fn remove(&mut self, index: usize, places: &mut impl Places) {
        self.len -= 1;
        if index < self.len {
            let last = *self.at(self.len);
            self.replace(index, last, places);
        }
    }

    /// Removes the earliest entry. Its old place stays in `places` until the caller clears or
    /// replaces it.
    pub(crate) fn pop(&mut self, places: &mut impl Places) -> Option<Entry> {
        let first = *self.first()?;
        self.remove(0, places);
        Some(first)
    }

    /// Replaces an entry by another, and moves the new one up or down to its place.
    #[inline]
    pub(crate) fn replace(&mut self, index: usize, entry: Entry, places: &mut impl Places) {
        if entry.is_before(self.at(index)) {
            self.sift_up(index, entry, places);
        } else {
            self.sift_down(index, entry, places);
        }
    }

    /// Moves a hole up until `entry` fits in.
    fn sift_up(&mut self, mut hole: usize, entry: Entry, places: &mut impl Places) {
        while hole > 0 {
            let parent = (hole - 1) / BRANCHES;
            let upper = *self.at(parent);
            if !entry.is_before(&upper) {
                break;
            }
            self.put(hole, upper, places);
            hole = parent;
        }
        self.put(hole, entry, places);
    }

    /// Moves a hole down until `entry` fits in.
    fn sift_down(&mut self, mut hole: usize, entry: Entry, places: &mut impl Places) {
        while let Some(child) = self.first_child(hole) {
            let lower = *self.at(child);
            if !lower.is_before(&entry) {
                break;
            }
            self.put(hole, lower, places);
            hole = child;
        }
        self.put(hole, entry, places);
    }

    /// The index of the earliest child of a hole.
    #[inline]
    fn first_child(&self, hole: usize) -> Option<usize> {
        let start = BRANCHES * hole + 1;
        let end = self.len.min(start + BRANCHES);
        if start >= end {
            return None;
        }
        let children = self.entries.within_block(start + OFFSET, end + OFFSET);
        let (mut first, mut earliest) = (0, children.first()?);
        for (index, child) in children.iter().enumerate().skip(1) {
            if child.is_before(earliest) {
                (first, earliest) = (index, child);
            }
        }
        Some(start + first)
    }

    #[inline]
    fn put(&mut self, index: usize, entry: Entry, places: &mut impl Places) {
        *self.entries.at_mut(position(index)) = entry;
        places.set_place(entry.id, Place::new(self.number, index));
    }

    #[inline]
    fn cover(&mut self, len: usize) {
        if len + OFFSET > self.entries.len() {
            self.entries.cover(len + OFFSET, Entry::UNUSED);
        }
    }

    /// Panics if an entry is before its parent, or if `place_of` returns a wrong place.
    #[cfg(test)]
    pub(crate) fn verify(&self, place_of: impl Fn(u32) -> Option<Place>) {
        for (index, entry) in self.iter().enumerate() {
            let parent = self.at(index.saturating_sub(1) / BRANCHES);
            assert!(!entry.is_before(parent), "entry {index} is out of order");
            let place = Some(Place::new(self.number, index));
            assert_eq!(place_of(entry.id), place, "place of {}", entry.id);
        }
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        (0..self.len).map(|index| self.at(index))
    }
}

/// The position in the table of an entry of the heap.
#[inline]
fn position(index: usize) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most as many entries as ids"
    )]
    let position = (index + OFFSET) as u32;
    position
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    impl Places for HashMap<u32, Place> {
        fn set_place(&mut self, id: u32, place: Place) {
            self.insert(id, place);
        }
    }

    fn entry(id: u32, deadline: u64) -> Entry {
        Entry {
            deadline,
            sequence: id.into(),
            minor: 0,
            id,
        }
    }

    fn heap_with(deadlines: &[u64]) -> (Heap, HashMap<u32, Place>) {
        let (mut heap, mut places) = (Heap::new(2), HashMap::new());
        for (id, &deadline) in (0..).zip(deadlines) {
            heap.push(entry(id, deadline), &mut places);
            verify(&heap, &places);
        }
        (heap, places)
    }

    fn verify(heap: &Heap, places: &HashMap<u32, Place>) {
        heap.verify(|id| places.get(&id).copied());
    }

    #[test]
    fn an_entry_takes_24_bytes_and_a_place_4() {
        assert_eq!((size_of::<Entry>(), size_of::<Place>()), (24, 4));
    }

    #[test]
    fn a_place_is_an_index_and_the_number_of_a_heap() {
        let place = Place::new(3, ID_MAX as usize);
        assert_eq!((place.heap(), place.index()), (3, ID_MAX as usize));
        assert_eq!(
            (place.bits(), Place::from_bits(Place::MAX)),
            (Place::MAX, place)
        );
    }

    #[test]
    fn removing_the_first_entry_reveals_the_next() {
        let (mut heap, mut places) = heap_with(&[5, 3, 9, 1, 4, 8, 7, 2, 6, 0]);
        for deadline in 0..10 {
            assert_eq!(heap.pop(&mut places).unwrap().deadline, deadline);
            verify(&heap, &places);
        }
        assert!(heap.is_empty());
    }

    #[test]
    fn a_heap_of_many_blocks_stays_in_order() {
        let deadlines: Vec<u64> = (0..1_000).map(|n| n * 617 % 1_000).collect();
        let (mut heap, mut places) = (Heap::new(2), HashMap::new());
        for (id, &deadline) in (0..).zip(&deadlines) {
            heap.push(entry(id, deadline), &mut places);
        }
        verify(&heap, &places);
        for deadline in 0..1_000 {
            assert_eq!(heap.pop(&mut places).unwrap().deadline, deadline);
        }
    }

    #[test]
    fn a_heap_grows_by_a_block_when_it_is_full() {
        let mut places = HashMap::new();
        let mut heap = Heap::with_capacity(0, BLOCK - OFFSET);
        for id in 0..3 * BLOCK {
            let blocks = 1 + (id + OFFSET) / BLOCK;
            heap.push(entry(id.try_into().unwrap(), 10), &mut places);
            assert_eq!(heap.entries.len(), blocks * BLOCK);
        }
    }

    #[test]
    fn equal_deadlines_are_ordered_by_sequence_and_minor() {
        let (mut heap, mut places) = (Heap::new(0), HashMap::new());
        for (id, sequence, minor) in [(0, 2, 0), (1, 1, 8), (2, 1, 7), (3, 0, 9)] {
            let entry = Entry {
                deadline: 10,
                sequence,
                minor,
                id,
            };
            heap.push(entry, &mut places);
        }
        let order = std::iter::from_fn(|| Some(heap.pop(&mut places)?.id));
        assert!(order.eq([3, 2, 1, 0]));
    }

    #[test]
    fn the_last_entry_may_move_up_after_a_removal() {
        // The removal puts the last entry, 12, below 100, where it is too early.
        let mut deadlines = vec![0, 100, 10];
        deadlines.extend([90; 2]);
        deadlines.extend([101, 102, 103, 104, 12]);
        let (mut heap, mut places) = heap_with(&deadlines);
        let index = places[&5].index();
        assert_eq!(heap.at((index - 1) / BRANCHES).deadline, 100);
        heap.remove(index, &mut places);
        verify(&heap, &places);
    }

    #[test]
    #[should_panic(expected = "entry 2 is out of order")]
    fn verify_finds_a_key_that_was_changed_in_place() {
        let (mut heap, places) = heap_with(&[5, 6, 7]);
        heap.entries.at_mut(position(2)).deadline = 4;
        verify(&heap, &places);
    }

    #[test]
    #[should_panic(expected = "place of 1")]
    fn verify_finds_a_wrong_place() {
        let (heap, mut places) = heap_with(&[5, 6, 7]);
        places.insert(1, Place::new(2, 2));
        verify(&heap, &places);
    }
}
