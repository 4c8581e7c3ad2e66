//! Two four-ary heaps of timers, and a table with the place of each timer.
//!
//! Entry `i` is the parent of entries `4 i + 1` to `4 i + 4`.
//! An entry contains its whole key, so a comparison reads the heap alone; the table of places is only
//! written.
//!
//! The queue decides what the two heaps mean.

#[cfg(test)]
mod tests;

use crate::queue::{ID_MAX, assert_dense};

/// The children of an entry.
const BRANCHES: usize = 4;

/// One of the heaps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HeapId {
    Main,
    Deferred,
}

/// Both heaps and the table of places.
#[derive(Clone, Debug)]
pub(super) struct Heaps {
    // Invariant: no entry is before its parent.
    entries: [Vec<Entry>; 2],
    // Invariant: `places[id]` is the place of the entry of `id`, for all entries and no others.
    places: Vec<Place>,
    /// The number of insertions, which orders equal deadlines. At one per nanosecond it lasts for
    /// 584 years.
    insertions: u64,
}

impl Heaps {
    /// Empty heaps, with memory for the timers of `ids` ids on the main one.
    pub(super) fn with_capacity(ids: usize) -> Self {
        Self {
            entries: [Vec::with_capacity(ids), Vec::new()],
            places: Vec::with_capacity(ids),
            insertions: 0,
        }
    }

    /// Puts a timer on `heap`, behind all timers there that are due at or before `deadline`; removes
    /// it from its old place first.
    #[inline]
    pub(super) fn insert(&mut self, heap: HeapId, id: u32, deadline: u64) {
        let entry = Entry {
            deadline,
            sequence: self.insertions,
            id,
        };
        self.insertions += 1;
        match self.place(id) {
            Some((now_on, index)) if now_on == heap => self.replace(heap, index, entry),
            place => {
                if let Some((other, index)) = place {
                    self.remove_entry(other, index);
                }
                self.push(heap, entry);
            }
        }
    }

    /// Removes a timer from its heap, and returns whether it was on one.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let Some((heap, index)) = self.place(id) else {
            return false;
        };
        self.remove_entry(heap, index);
        self.places[id as usize] = Place::NONE;
        true
    }

    /// Removes all timers.
    pub(super) fn clear(&mut self) {
        self.entries.iter_mut().for_each(Vec::clear);
        self.places.fill(Place::NONE);
    }

    /// The id and the deadline of the earliest timer.
    #[inline]
    pub(super) fn first(&self, heap: HeapId) -> Option<(u32, u64)> {
        let first = self.entries[heap as usize].first()?;
        Some((first.id, first.deadline))
    }

    /// The deadline of `id`, if it is on a heap.
    #[inline]
    pub(super) fn deadline(&self, id: u32) -> Option<u64> {
        let (heap, index) = self.place(id)?;
        Some(self.entries[heap as usize][index].deadline)
    }

    /// The number of timers on both heaps.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    #[inline]
    fn place(&self, id: u32) -> Option<(HeapId, usize)> {
        self.places.get(id as usize)?.get()
    }

    fn push(&mut self, heap: HeapId, entry: Entry) {
        if entry.id as usize >= self.places.len() {
            self.grow(entry.id);
        }
        let entries = &mut self.entries[heap as usize];
        entries.push(entry);
        let hole = entries.len() - 1;
        self.sift_up(heap, hole, entry);
    }

    /// Removes an entry. The place of its timer is left as it was.
    fn remove_entry(&mut self, heap: HeapId, index: usize) {
        let entries = &mut self.entries[heap as usize];
        let Some(last) = entries.pop() else { return };
        if index < entries.len() {
            self.replace(heap, index, last);
        }
    }

    /// Replaces an entry by another, and moves that up or down to its place.
    #[inline]
    fn replace(&mut self, heap: HeapId, index: usize, entry: Entry) {
        if entry.is_before(&self.entries[heap as usize][index]) {
            self.sift_up(heap, index, entry);
        } else {
            self.sift_down(heap, index, entry);
        }
    }

    /// Moves a hole up until `entry` fits in.
    fn sift_up(&mut self, heap: HeapId, mut hole: usize, entry: Entry) {
        while hole > 0 {
            let parent = (hole - 1) / BRANCHES;
            let upper = self.entries[heap as usize][parent];
            if !entry.is_before(&upper) {
                break;
            }
            self.put(heap, hole, upper);
            hole = parent;
        }
        self.put(heap, hole, entry);
    }

    /// Moves a hole down until `entry` fits in.
    fn sift_down(&mut self, heap: HeapId, mut hole: usize, entry: Entry) {
        while let Some(child) = self.first_child(heap, hole) {
            let lower = self.entries[heap as usize][child];
            if !lower.is_before(&entry) {
                break;
            }
            self.put(heap, hole, lower);
            hole = child;
        }
        self.put(heap, hole, entry);
    }

    /// The index of the earliest child of a hole.
    #[inline]
    fn first_child(&self, heap: HeapId, hole: usize) -> Option<usize> {
        let entries = &self.entries[heap as usize];
        let start = BRANCHES * hole + 1;
        let end = entries.len().min(start + BRANCHES);
        let children = entries.get(start..end)?;
        let (mut first, mut earliest) = (0, children.first()?);
        for (index, child) in children.iter().enumerate().skip(1) {
            if child.is_before(earliest) {
                (first, earliest) = (index, child);
            }
        }
        Some(start + first)
    }

    #[inline]
    fn put(&mut self, heap: HeapId, index: usize, entry: Entry) {
        self.entries[heap as usize][index] = entry;
        self.places[entry.id as usize] = Place::of(heap, index);
    }

    #[cold]
    fn grow(&mut self, id: u32) {
        assert_dense(id);
        self.places.resize(id as usize + 1, Place::NONE);
    }
}

/// A timer with its key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: u64,
    sequence: u64,
    id: u32,
}

impl Entry {
    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        (self.deadline, self.sequence) < (other.deadline, other.sequence)
    }
}

/// The index of an entry, and in the lowest bit its heap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place(u32);

impl Place {
    const NONE: Self = Self(u32::MAX);

    #[inline]
    fn of(heap: HeapId, index: usize) -> Self {
        debug_assert!(index <= ID_MAX as usize, "more entries than ids");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are at most as many entries as ids"
        )]
        let index = index as u32;
        Self(index << 1 | heap as u32)
    }

    #[inline]
    fn get(self) -> Option<(HeapId, usize)> {
        let heap = if self.0 & 1 == 0 {
            HeapId::Main
        } else {
            HeapId::Deferred
        };
        (self != Self::NONE).then_some((heap, (self.0 >> 1) as usize))
    }
}

#[cfg(test)]
impl HeapId {
    const ALL: [Self; 2] = [Self::Main, Self::Deferred];
}

#[cfg(test)]
impl Heaps {
    /// Panics if an entry is before its parent, or a place is wrong.
    pub(super) fn verify(&self) {
        for heap in HeapId::ALL {
            let entries = &self.entries[heap as usize];
            for (index, entry) in entries.iter().enumerate() {
                let parent = &entries[index.saturating_sub(1) / BRANCHES];
                assert!(!entry.is_before(parent), "entry {index} is out of order");
                let place = self.places[entry.id as usize];
                assert_eq!(place, Place::of(heap, index), "place of {}", entry.id);
            }
        }
        let placed = self.places.iter().filter(|&&place| place != Place::NONE);
        assert_eq!(placed.count(), self.len(), "a place without an entry");
    }

    /// The deadlines of a heap, in no particular order.
    pub(super) fn deadlines(&self, heap: HeapId) -> impl Iterator<Item = u64> + '_ {
        self.entries[heap as usize]
            .iter()
            .map(|entry| entry.deadline)
    }
}
