//! Go's timer queue: a four-ary heap with periodic timers.
//!
//! The keys are in the heap itself, four siblings side by side, so a step down reads neighbouring
//! memory and no other table. Timers that are overdue when they are armed are on separate heaps.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::blocks::{Blocks, SparseBlocks};
use crate::keyed_heap::{Entry, Heap, Place, Places};
use crate::overdue::{ADMIT_MAX, Overdue};
use crate::queue::{self, TimerQueue};
use crate::rows::Rows;

/// A four-ary heap of timers, with exact wake-ups and periodic timers.
///
/// # Periodic timers
///
/// A timer armed by [`arm_periodic`](Self::arm_periodic) stays armed when it fires. It fires once,
/// however many of its periods have passed. The next deadline is the first after `now` that is a
/// whole number of periods after the one that fired. This is the rule of Go's tickers. If the next
/// deadline would be above [`u64::MAX`], the timer is disarmed.
///
/// `arm`, `reinsert_in_phase` and `disarm` make a timer non-periodic; `clear` does so for all.
///
/// # Cost
///
/// `next_deadline` is a few loads. `arm`, `disarm` and a timer that fires take at most log₄ n
/// steps, and twice as many if the timer moves to another heap.
///
/// A timer that is armed for a tick at or before the latest `now` is on a separate heap. If a phase
/// (a run of `pop_expired` calls with one `now`) is left early, the next phase may insert such
/// timers again. A call inserts at most 8 of them, and then [pauses](TimerQueue::has_more).
///
/// # Memory
///
/// 24 bytes for each armed timer, 4 for each id, in runs of 128 ids, and 8 for each id of a
/// periodic timer, in blocks of 512. Ids are found as in [`TimerTree`](crate::TimerTree#memory).
/// The tables grow by up to 4 KiB, copy no timer, and do not shrink.
///
/// # Example
///
/// ```
/// use evcore_timer::{TimerHeap, TimerQueue};
///
/// let mut timers = TimerHeap::new();
/// timers.arm(0, 250);
/// timers.arm_periodic(1, 100, 100);
///
/// assert_eq!(timers.pop_expired(100), Some((1, 100)));
/// assert_eq!(timers.next_deadline(), Some(200));
///
/// // Woken late: timer 1 fires once for 200 and 300, and then at 400.
/// assert_eq!(timers.pop_expired(333), Some((1, 200)));
/// assert_eq!(timers.pop_expired(333), Some((0, 250)));
/// assert_eq!(timers.next_deadline(), Some(400));
/// ```
#[derive(Clone)]
pub struct TimerHeap {
    /// The timers that were armed for ticks after `horizon`.
    main: Heap,
    // Invariant: of timers with equal deadlines, those on `main` were armed before these.
    overdue: Overdue,
    /// The row of each id (see `rows.rs`). The tables and heaps use rows in place of ids.
    rows: Rows,
    // Invariant: it has a place for each row.
    places: PlaceTable,
    // Invariant: 0 for rows that are not armed or not periodic.
    periods: SparseBlocks<u64, PERIODS_BLOCK>,
    /// True if a timer was ever periodic. Until then, arming does not look up a period.
    has_periods: bool,
    /// Number of insertions on `main`, which orders equal deadlines.
    insertions: u64,
    /// The highest `now` so far. A timer is overdue if it is armed for this tick or an earlier one.
    horizon: u64,
    /// `now` of the current phase.
    phase: Option<u64>,
    has_more: bool,
    /// Maximum number of timers that one call admits to a phase. Tests lower it, so that short
    /// scripts pause.
    admit_max: usize,
    armed: usize,
}

/// The number of the heap of timers that are not overdue.
const MAIN: u8 = Overdue::HEAPS;

/// Number of periods in a block: 4 KiB.
const PERIODS_BLOCK: usize = 512;

/// Number of places in a block: 4 KiB.
const PLACES_BLOCK: usize = 1024;

#[derive(Clone, Debug)]
struct PlaceTable(Blocks<u32, PLACES_BLOCK>);

impl PlaceTable {
    /// The value of an unarmed timer.
    const NONE: u32 = u32::MAX;

    #[inline]
    fn get(&self, row: u32) -> Option<Place> {
        let bits = *self.0.at(row);
        (bits != Self::NONE).then_some(Place::from_bits(bits))
    }

    fn release(&mut self, row: u32) {
        *self.0.at_mut(row) = Self::NONE;
    }
}

impl Places for PlaceTable {
    #[inline]
    fn set_place(&mut self, row: u32, place: Place) {
        *self.0.at_mut(row) = place.bits();
    }
}

const _: () = assert!(Place::MAX < PlaceTable::NONE);

impl TimerHeap {
    /// The highest id that can be armed, 2²⁷ − 1. With all ids armed the tables take 3.5 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// Creates an empty heap, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty heap with memory for the ids below `ids`. Higher ids make the tables grow.
    ///
    /// Arming these ids allocates nothing, with two exceptions: the first periodic timers, and a
    /// new maximum of timers that were armed for ticks at or before the latest `now`.
    ///
    /// # Panics
    ///
    /// If `ids` is above [`ID_MAX`](Self::ID_MAX) + 1.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        queue::assert_room(ids);
        let mut places = Blocks::new();
        let rows = Rows::with_capacity(ids);
        places.cover(rows.len(), PlaceTable::NONE);
        Self {
            main: Heap::with_capacity(MAIN, ids),
            overdue: Overdue::new(),
            rows,
            places: PlaceTable(places),
            periods: SparseBlocks::with_len(0, 0),
            has_periods: false,
            insertions: 0,
            horizon: 0,
            phase: None,
            has_more: false,
            admit_max: ADMIT_MAX,
            armed: 0,
        }
    }

    /// Arms the timer of `id` to fire at `first`, and every `period` ticks after that.
    ///
    /// # Panics
    ///
    /// If `period` is 0, or `id` is above [`ID_MAX`](Self::ID_MAX).
    pub fn arm_periodic(&mut self, id: u32, first: u64, period: u64) {
        assert!(
            period > 0,
            "timer {id} has period 0: it would never stop firing"
        );
        let row = self.admit(id);
        self.insert_by_deadline(row, first);
        self.has_periods = true;
        self.periods.admit(row, 0);
        *self.periods.at_mut(row) = period;
    }

    /// The period of `id`; `None` if its timer is not armed or not periodic.
    #[must_use]
    pub fn period(&self, id: u32) -> Option<u64> {
        self.period_at(self.rows.find(id)?)
    }

    fn period_at(&self, row: u32) -> Option<u64> {
        let period = self.periods.get(row).copied();
        period.filter(|&period| period > 0)
    }

    #[inline]
    fn admit(&mut self, id: u32) -> u32 {
        match self.rows.find(id) {
            Some(row) => row,
            None => self.grow(id),
        }
    }

    #[cold]
    fn grow(&mut self, id: u32) -> u32 {
        let row = self.rows.admit(id);
        self.places.0.cover(self.rows.len(), PlaceTable::NONE);
        row
    }

    #[inline]
    fn end_periods(&mut self, row: u32) {
        if self.has_periods {
            self.end_periods_of(row);
        }
    }

    #[inline(never)]
    fn end_periods_of(&mut self, row: u32) {
        if let Some(period) = self.periods.get_mut(row) {
            *period = 0;
        }
    }

    #[inline]
    fn deadline_at(&self, place: Place) -> u64 {
        if place.heap() == MAIN {
            self.main.at(place.index()).deadline
        } else {
            self.overdue.deadline(place)
        }
    }

    /// Puts a timer on the main heap, behind all timers there that are due at or before `deadline`.
    #[inline]
    fn insert(&mut self, row: u32, deadline: u64) {
        self.insertions += 1;
        let entry = Entry {
            deadline,
            sequence: self.insertions,
            minor: 0,
            id: row,
        };
        match self.places.get(row) {
            Some(place) if place.heap() == MAIN => {
                self.main.replace(place.index(), entry, &mut self.places);
            }
            place => {
                self.take_off_or_count(place);
                self.main.push(entry, &mut self.places);
            }
        }
    }

    /// Takes a timer off its heap, or counts it as armed if it is on none. Does not change the
    /// table of places.
    fn take_off_or_count(&mut self, place: Option<Place>) {
        match place {
            Some(place) => self.take_off(place),
            None => self.armed += 1,
        }
    }

    fn take_off(&mut self, place: Place) {
        if place.heap() == MAIN {
            self.main.remove(place.index(), &mut self.places);
        } else {
            self.overdue.remove(place, &mut self.places);
        }
    }

    #[inline]
    fn insert_by_deadline(&mut self, row: u32, deadline: u64) {
        if deadline > self.horizon {
            self.insert(row, deadline);
        } else {
            self.take_off_or_count(self.places.get(row));
            self.overdue.insert(row, deadline, &mut self.places);
        }
    }

    fn begin_phase(&mut self, now: u64) {
        self.phase = Some(now);
        self.horizon = self.horizon.max(now);
        self.overdue.begin_phase();
    }

    /// The row and the deadline of the next timer of this phase.
    fn first_due(&self, now: u64) -> Option<(u32, u64)> {
        let main = self.main.first().map(|first| (first.id, first.deadline));
        let first = match (main, self.overdue.first_due()) {
            (Some(main), Some(overdue)) if overdue.1 < main.1 => Some(overdue),
            (main, overdue) => main.or(overdue),
        };
        first.filter(|&(_, deadline)| deadline <= now)
    }

    fn rearm_or_remove(&mut self, row: u32, deadline: u64, now: u64) {
        let next = self
            .period_at(row)
            .and_then(|period| next_on_grid(deadline, period, now));
        if let Some(next) = next {
            self.insert_by_deadline(row, next);
        } else {
            self.disarm_row(row);
        }
    }

    #[inline]
    fn disarm_row(&mut self, row: u32) -> bool {
        let Some(place) = self.places.get(row) else {
            return false;
        };
        self.end_periods(row);
        self.take_off(place);
        self.places.release(row);
        self.armed -= 1;
        true
    }

    #[inline]
    fn earliest(&self) -> Option<u64> {
        let main = self.main.first().map(|first| first.deadline);
        let deadlines = [main, self.overdue.next_deadline()];
        deadlines.into_iter().flatten().min()
    }
}

impl TimerQueue for TimerHeap {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let row = self.admit(id);
        self.end_periods(row);
        self.insert_by_deadline(row, deadline);
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        let row = self.admit(id);
        self.end_periods(row);
        if self.phase.is_some_and(|now| deadline <= now) {
            self.take_off_or_count(self.places.get(row));
            self.overdue
                .insert_in_phase(row, deadline, &mut self.places);
        } else {
            self.insert_by_deadline(row, deadline);
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        self.rows.find(id).is_some_and(|row| self.disarm_row(row))
    }

    /// Removes one timer that is due at `now`, and returns its id and its deadline.
    ///
    /// A periodic timer is armed for its next period before it is returned.
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.phase != Some(now) {
            self.begin_phase(now);
        }
        self.has_more =
            self.overdue.is_admitting() && !self.overdue.admit(self.admit_max, &mut self.places);
        if self.has_more {
            return None;
        }
        let Some((row, deadline)) = self.first_due(now) else {
            self.phase = None;
            return None;
        };
        self.rearm_or_remove(row, deadline, now);
        Some((self.rows.id(row), deadline))
    }

    fn clear(&mut self) {
        self.main.clear();
        self.overdue.clear();
        self.places.0.fill(PlaceTable::NONE);
        self.periods.fill(0);
        self.armed = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        let place = self.places.get(self.rows.find(id)?)?;
        Some(self.deadline_at(place))
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.earliest()
    }

    #[inline]
    fn len(&self) -> usize {
        self.armed
    }

    fn has_more(&self) -> bool {
        self.has_more
    }
}

impl Default for TimerHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TimerHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHeap")
            .field("armed", &self.len())
            .field("next_deadline", &self.earliest())
            .finish_non_exhaustive()
    }
}

/// The first deadline after `now` that is a whole number of periods after `when`; `None` if it is
/// above `u64::MAX`. `when` must not be after `now`.
fn next_on_grid(when: u64, period: u64, now: u64) -> Option<u64> {
    let missed = (now - when) / period;
    // The last missed deadline is not after `now`, so only the step to the next can overflow.
    (when + missed * period).checked_add(period)
}

#[cfg(test)]
impl TimerHeap {
    pub(crate) fn with_pauses() -> Self {
        Self {
            admit_max: 2,
            ..Self::new()
        }
    }

    pub(crate) fn verify(&self) {
        let place_of = |row| self.places.get(row);
        self.main.verify(place_of);
        let timers = self.main.len() + self.overdue.verify(place_of);
        let placed = self
            .places
            .0
            .iter()
            .filter(|&&bits| bits != PlaceTable::NONE);
        assert_eq!(placed.count(), timers, "a place without an entry");
        assert_eq!(timers, self.armed, "number of armed timers");
        assert!(
            self.overdue
                .deadlines()
                .all(|deadline| deadline <= self.horizon),
            "a timer is on the wrong heap"
        );
        for (row, &period) in self.periods.iter() {
            assert!(
                period == 0 || self.places.get(row).is_some(),
                "row {row} is periodic and not armed"
            );
        }
    }
}
