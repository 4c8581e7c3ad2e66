//! Two four-ary heaps of timers, and where in them each timer stands.
//!
//! Entry `i` stands above entries `4 i + 1` to `4 i + 4`.
//! An entry carries its whole key, so that comparing touches the heap alone; the table of places is
//! only written on the way.
//!
//! Nothing here knows why there are two heaps: that is the queue's business.

#[cfg(test)]
mod tests;

use crate::queue::{ID_MAX, assert_dense};

/// Entries below each.
const BRANCHES: usize = 4;

/// One of the heaps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pile {
    Main,
    Late,
}

/// The heaps and the table of places.
#[derive(Clone, Debug)]
pub(super) struct Piles {
    // Invariant: no entry is before the one above it.
    entries: [Vec<Entry>; 2],
    // Invariant: `places[id]` names the entry of `id`, and each entry is named so.
    places: Vec<Place>,
    /// How many times a timer was filed: the order of equal deadlines. At one a nanosecond it lasts
    /// for 584 years.
    filings: u64,
}

impl Piles {
    /// Empty heaps, and room for the timers of `ids` ids on the main one.
    pub(super) fn with_capacity(ids: usize) -> Self {
        Self {
            entries: [Vec::with_capacity(ids), Vec::new()],
            places: Vec::with_capacity(ids),
            filings: 0,
        }
    }

    /// Files a timer, wherever it was before, behind all of `pile` that are due at or before
    /// `deadline`.
    #[inline]
    pub(super) fn insert(&mut self, pile: Pile, id: u32, deadline: u64) {
        let entry = Entry {
            deadline,
            filing: self.filings,
            id,
        };
        self.filings += 1;
        match self.place(id) {
            Some((now_on, index)) if now_on == pile => self.replace(pile, index, entry),
            place => {
                if let Some((other, index)) = place {
                    self.take_out(other, index);
                }
                self.push(pile, entry);
            }
        }
    }

    /// Takes a timer off its heap; returns whether it was on one.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let Some((pile, index)) = self.place(id) else {
            return false;
        };
        self.take_out(pile, index);
        self.places[id as usize] = Place::NONE;
        true
    }

    /// Takes all timers off their heaps.
    pub(super) fn clear(&mut self) {
        self.entries.iter_mut().for_each(Vec::clear);
        self.places.fill(Place::NONE);
    }

    /// The id and the deadline of the timer that is due first.
    #[inline]
    pub(super) fn first(&self, pile: Pile) -> Option<(u32, u64)> {
        let first = self.entries[pile as usize].first()?;
        Some((first.id, first.deadline))
    }

    /// The deadline of `id`, if it is on a heap.
    #[inline]
    pub(super) fn deadline(&self, id: u32) -> Option<u64> {
        let (pile, index) = self.place(id)?;
        Some(self.entries[pile as usize][index].deadline)
    }

    /// How many timers are on the heaps.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.iter().map(Vec::len).sum()
    }

    #[inline]
    fn place(&self, id: u32) -> Option<(Pile, usize)> {
        self.places.get(id as usize)?.get()
    }

    fn push(&mut self, pile: Pile, entry: Entry) {
        if entry.id as usize >= self.places.len() {
            self.grow(entry.id);
        }
        let entries = &mut self.entries[pile as usize];
        entries.push(entry);
        let hole = entries.len() - 1;
        self.sift_up(pile, hole, entry);
    }

    /// Takes out an entry and leaves the place of its timer as it was.
    fn take_out(&mut self, pile: Pile, index: usize) {
        let entries = &mut self.entries[pile as usize];
        let Some(last) = entries.pop() else { return };
        if index < entries.len() {
            self.replace(pile, index, last);
        }
    }

    /// Puts `entry` where another stood, and on from there to where it belongs.
    #[inline]
    fn replace(&mut self, pile: Pile, index: usize, entry: Entry) {
        if entry.is_before(&self.entries[pile as usize][index]) {
            self.sift_up(pile, index, entry);
        } else {
            self.sift_down(pile, index, entry);
        }
    }

    /// Moves a hole up until `entry` may fill it.
    fn sift_up(&mut self, pile: Pile, mut hole: usize, entry: Entry) {
        while hole > 0 {
            let above = (hole - 1) / BRANCHES;
            let upper = self.entries[pile as usize][above];
            if !entry.is_before(&upper) {
                break;
            }
            self.put(pile, hole, upper);
            hole = above;
        }
        self.put(pile, hole, entry);
    }

    /// Moves a hole down until `entry` may fill it.
    fn sift_down(&mut self, pile: Pile, mut hole: usize, entry: Entry) {
        while let Some(below) = self.first_below(pile, hole) {
            let lower = self.entries[pile as usize][below];
            if !lower.is_before(&entry) {
                break;
            }
            self.put(pile, hole, lower);
            hole = below;
        }
        self.put(pile, hole, entry);
    }

    /// Which of the entries below a hole is first.
    #[inline]
    fn first_below(&self, pile: Pile, hole: usize) -> Option<usize> {
        let entries = &self.entries[pile as usize];
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
    fn put(&mut self, pile: Pile, index: usize, entry: Entry) {
        self.entries[pile as usize][index] = entry;
        self.places[entry.id as usize] = Place::of(pile, index);
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
    filing: u64,
    id: u32,
}

impl Entry {
    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        (self.deadline, self.filing) < (other.deadline, other.filing)
    }
}

/// The index of an entry, and in the lowest bit the heap that it is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place(u32);

impl Place {
    const NONE: Self = Self(u32::MAX);

    #[inline]
    fn of(pile: Pile, index: usize) -> Self {
        debug_assert!(index <= ID_MAX as usize, "more entries than ids");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are at most as many entries as ids"
        )]
        let index = index as u32;
        Self(index << 1 | pile as u32)
    }

    #[inline]
    fn get(self) -> Option<(Pile, usize)> {
        let pile = if self.0 & 1 == 0 {
            Pile::Main
        } else {
            Pile::Late
        };
        (self != Self::NONE).then_some((pile, (self.0 >> 1) as usize))
    }
}

#[cfg(test)]
impl Pile {
    const ALL: [Self; 2] = [Self::Main, Self::Late];
}

#[cfg(test)]
impl Piles {
    /// Panics where an entry is before the one above it, or a place is wrong.
    pub(super) fn verify(&self) {
        for pile in Pile::ALL {
            let entries = &self.entries[pile as usize];
            for (index, entry) in entries.iter().enumerate() {
                let above = &entries[index.saturating_sub(1) / BRANCHES];
                assert!(!entry.is_before(above), "entry {index} is out of order");
                let place = self.places[entry.id as usize];
                assert_eq!(place, Place::of(pile, index), "place of {}", entry.id);
            }
        }
        let placed = self.places.iter().filter(|&&place| place != Place::NONE);
        assert_eq!(placed.count(), self.len(), "a place names no entry");
    }

    /// The deadlines of a heap, in no order.
    pub(super) fn deadlines(&self, pile: Pile) -> impl Iterator<Item = u64> + '_ {
        self.entries[pile as usize]
            .iter()
            .map(|entry| entry.deadline)
    }
}
