//! Timers that were overdue when they were armed.
//!
//! A *phase* is a run of `pop_expired` calls with one `now`. A handler that arms a timer for a tick
//! that has passed must not keep the phase from ending. So such a timer waits on the heap
//! `waiting`, and the timers that the phase may fire are on the heap `due`. When a phase begins
//! after one that was completed, the two heaps change roles, which moves no timer.
//!
//! If a phase was left early, the next phase may fire timers of both heaps. Then a third, empty
//! heap becomes `waiting`, and each call moves some timers of the former `waiting` heap to `due`
//! (it *admits* them to the phase).

use crate::keyed_heap::{Entry, Heap, Place, Places};

/// Maximum number of timers that one call admits to a phase. With a million overdue timers, each
/// costs some cache misses on two heaps, so a call takes some 20 µs.
pub(crate) const ADMIT_MAX: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Overdue {
    heaps: [Heap; 3],
    /// The number of the heap with the timers that the phase may fire.
    due: u8,
    /// The number of the heap whose timers are moved: to `due` if they were armed before the phase,
    /// and otherwise to `waiting`.
    // Invariant: empty, unless timers are still being moved.
    admitting: u8,
    /// The number of the heap for timers that are armed from now on.
    waiting: u8,
    /// True if `waiting` may hold timers that were armed before the phase.
    // Invariant: if not set, timers on `waiting` have a sequence after `limit`.
    waiting_is_mixed: bool,
    /// The sequence of the phase and of timers that are inserted into it. The phase may fire timers
    /// up to this sequence.
    limit: u64,
    /// The number of armings and phases so far.
    sequence: u64,
    inserted: u32,
}

impl Overdue {
    /// Number of heaps, which are numbered from 0.
    pub(crate) const HEAPS: u8 = 3;

    pub(crate) const fn new() -> Self {
        Self {
            heaps: [Heap::new(0), Heap::new(1), Heap::new(2)],
            due: 0,
            admitting: 1,
            waiting: 2,
            waiting_is_mixed: false,
            limit: 0,
            sequence: 0,
            inserted: 0,
        }
    }

    /// Inserts a timer, which waits for the next phase.
    pub(crate) fn insert(&mut self, id: u32, deadline: u64, places: &mut impl Places) {
        self.sequence += 1;
        let entry = Entry {
            deadline,
            sequence: self.sequence,
            minor: 0,
            id,
        };
        self.heap(self.waiting).push(entry, places);
    }

    /// Inserts a timer as if it had been armed just before the phase began.
    pub(crate) fn insert_in_phase(&mut self, id: u32, deadline: u64, places: &mut impl Places) {
        self.inserted += 1;
        let entry = Entry {
            deadline,
            sequence: self.limit,
            minor: self.inserted,
            id,
        };
        self.heap(self.due).push(entry, places);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let [a, b, c] = &self.heaps;
        a.is_empty() & b.is_empty() & c.is_empty()
    }

    /// Lets the phase that begins now fire all timers that have been inserted.
    #[inline]
    pub(crate) fn begin_phase(&mut self) {
        self.sequence += 1;
        self.limit = self.sequence;
        self.inserted = 0;
        if !self.heaps[usize::from(self.waiting)].is_empty() {
            self.admit_waiting();
        }
    }

    /// Lets the phase fire the timers of `waiting`. Timers that are armed from now on go on an
    /// empty heap, unless timers of an earlier phase are still being moved.
    fn admit_waiting(&mut self) {
        self.waiting_is_mixed = !self.heaps[usize::from(self.admitting)].is_empty();
        if self.waiting_is_mixed {
            return;
        }
        let to = if self.heaps[usize::from(self.due)].is_empty() {
            &mut self.due
        } else {
            &mut self.admitting
        };
        std::mem::swap(to, &mut self.waiting);
    }

    /// Returns whether timers that the phase may fire are not yet on `due`.
    #[inline]
    pub(crate) fn is_admitting(&self) -> bool {
        self.waiting_is_mixed || !self.heaps[usize::from(self.admitting)].is_empty()
    }

    /// Moves at most `count` timers of the `admitting` heap. Returns whether all are moved.
    pub(crate) fn admit(&mut self, count: usize, places: &mut impl Places) -> bool {
        for _ in 0..count {
            if let Some(entry) = self.heap(self.admitting).pop(places) {
                let to = if entry.sequence <= self.limit {
                    self.due
                } else {
                    self.waiting
                };
                self.heap(to).push(entry, places);
            } else if self.waiting_is_mixed {
                self.waiting_is_mixed = false;
                std::mem::swap(&mut self.admitting, &mut self.waiting);
            } else {
                return true;
            }
        }
        !self.is_admitting()
    }

    /// The id and the deadline of the first timer on `due`.
    #[inline]
    pub(crate) fn first_due(&self) -> Option<(u32, u64)> {
        let first = self.heaps[usize::from(self.due)].first()?;
        Some((first.id, first.deadline))
    }

    /// Removes the first timer on `due`. Its old place stays in `places` until the caller clears or
    /// replaces it.
    pub(crate) fn pop_due(&mut self, places: &mut impl Places) -> Option<(u32, u64)> {
        let Entry { id, deadline, .. } = self.heap(self.due).pop(places)?;
        Some((id, deadline))
    }

    /// The earliest deadline of all heaps.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let firsts = self.heaps.iter().filter_map(Heap::first);
        firsts.map(|entry| entry.deadline).min()
    }

    #[inline]
    pub(crate) fn deadline(&self, place: Place) -> u64 {
        self.heaps[usize::from(place.heap())]
            .at(place.index())
            .deadline
    }

    /// Removes the timer at `place`. Its old place stays in `places` until the caller clears or
    /// replaces it.
    pub(crate) fn remove(&mut self, place: Place, places: &mut impl Places) {
        self.heap(place.heap()).remove(place.index(), places);
    }

    /// Removes all timers. Their old places stay in the caller's table until the caller clears
    /// them.
    pub(crate) fn clear(&mut self) {
        self.heaps.iter_mut().for_each(Heap::clear);
        self.waiting_is_mixed = false;
    }

    fn heap(&mut self, number: u8) -> &mut Heap {
        &mut self.heaps[usize::from(number)]
    }
}

#[cfg(test)]
impl Overdue {
    /// Checks the invariants, and returns the number of timers.
    pub(crate) fn verify(&self, place_of: impl Fn(u32) -> Option<Place>) -> usize {
        let mut roles = [self.due, self.admitting, self.waiting];
        roles.sort_unstable();
        assert_eq!(roles, [0, 1, 2], "each role has a heap");
        for heap in &self.heaps {
            heap.verify(&place_of);
        }
        let due = self.heaps[usize::from(self.due)].iter();
        assert!(due.into_iter().all(|entry| entry.sequence <= self.limit));
        let waiting = self.heaps[usize::from(self.waiting)].iter();
        assert!(
            self.waiting_is_mixed || waiting.into_iter().all(|entry| entry.sequence > self.limit),
            "a timer was armed before the phase and waits for the next"
        );
        self.heaps.iter().map(Heap::len).sum()
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = u64> + '_ {
        self.heaps
            .iter()
            .flat_map(|heap| heap.iter().map(|entry| entry.deadline))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    type Table = HashMap<u32, Place>;

    fn verify(overdue: &Overdue, places: &Table) {
        overdue.verify(|id| places.get(&id).copied());
    }

    fn insert(overdue: &mut Overdue, places: &mut Table, timers: &[(u32, u64)]) {
        for &(id, deadline) in timers {
            overdue.insert(id, deadline, places);
            verify(overdue, places);
        }
    }

    /// Timers of two phases: the first was left early while timer 0 was due. The second may also
    /// fire timers 1 and 2, of which one is admitted.
    fn paused() -> (Overdue, Table) {
        let (mut overdue, mut places) = (Overdue::new(), Table::new());
        insert(&mut overdue, &mut places, &[(0, 50)]);
        overdue.begin_phase();
        insert(&mut overdue, &mut places, &[(1, 40), (2, 30)]);
        overdue.begin_phase();
        assert!(!overdue.admit(1, &mut places));
        verify(&overdue, &places);
        (overdue, places)
    }

    fn fired(overdue: &mut Overdue, places: &mut Table) -> Vec<u32> {
        std::iter::from_fn(|| Some(overdue.pop_due(places)?.0)).collect()
    }

    #[test]
    fn a_phase_fires_what_was_armed_before_it() {
        let (mut overdue, mut places) = (Overdue::new(), Table::new());
        insert(&mut overdue, &mut places, &[(0, 50), (1, 40)]);
        assert_eq!(overdue.first_due(), None);
        assert_eq!(overdue.next_deadline(), Some(40));
        overdue.begin_phase();
        assert!(!overdue.is_admitting());
        insert(&mut overdue, &mut places, &[(2, 30)]);
        assert_eq!(fired(&mut overdue, &mut places), [1, 0]);
        assert_eq!(overdue.next_deadline(), Some(30));
    }

    #[test]
    fn timers_of_two_phases_fire_in_one_order() {
        let (mut overdue, mut places) = paused();
        insert(&mut overdue, &mut places, &[(3, 10)]);
        assert!(overdue.admit(2, &mut places));
        assert_eq!(fired(&mut overdue, &mut places), [2, 1, 0]);
    }

    #[test]
    fn a_phase_begun_during_a_pause_fires_all_earlier_timers() {
        let (mut overdue, mut places) = paused();
        insert(&mut overdue, &mut places, &[(3, 20)]);
        overdue.begin_phase();
        insert(&mut overdue, &mut places, &[(4, 10)]);
        while !overdue.admit(1, &mut places) {
            verify(&overdue, &places);
        }
        assert_eq!(fired(&mut overdue, &mut places), [3, 2, 1, 0]);
        assert_eq!(overdue.next_deadline(), Some(10));
    }

    #[test]
    fn the_last_timer_to_admit_may_be_removed() {
        let (mut overdue, mut places) = paused();
        insert(&mut overdue, &mut places, &[(3, 20)]);
        overdue.begin_phase();
        overdue.remove(places[&1], &mut places);
        assert!(overdue.is_admitting(), "3 is not admitted yet");
        assert!(overdue.admit(9, &mut places));
        assert_eq!(fired(&mut overdue, &mut places), [3, 2, 0]);
    }

    #[test]
    fn a_timer_inserted_in_a_phase_goes_behind_its_equals() {
        let (mut overdue, mut places) = paused();
        insert(&mut overdue, &mut places, &[(3, 40)]);
        overdue.insert_in_phase(4, 40, &mut places);
        overdue.insert_in_phase(5, 40, &mut places);
        verify(&overdue, &places);
        overdue.begin_phase();
        while !overdue.admit(1, &mut places) {}
        assert_eq!(fired(&mut overdue, &mut places), [2, 1, 4, 5, 3, 0]);
    }

    #[test]
    fn timers_inserted_into_a_phase_fire_in_insertion_order() {
        let (mut overdue, mut places) = (Overdue::new(), Table::new());
        overdue.begin_phase();
        for id in 0..6 {
            overdue.insert_in_phase(id, 40, &mut places);
        }
        assert_eq!(fired(&mut overdue, &mut places), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_timer_inserted_into_a_phase_follows_the_previous_phase() {
        let (mut overdue, mut places) = (Overdue::new(), Table::new());
        for ids in [0..3, 3..4] {
            overdue.begin_phase();
            for id in ids {
                overdue.insert_in_phase(id, 40, &mut places);
            }
        }
        assert_eq!(fired(&mut overdue, &mut places), [0, 1, 2, 3]);
    }

    #[test]
    fn clear_ends_a_pause() {
        let (mut overdue, mut places) = paused();
        insert(&mut overdue, &mut places, &[(3, 20)]);
        overdue.begin_phase();
        overdue.clear();
        assert!(!overdue.is_admitting());
        assert_eq!(overdue.next_deadline(), None);
        assert_eq!(overdue.verify(|_| None), 0);
    }
}
