//! A hierarchical timing wheel over all of `u64`.
//!
//! A server arms, re-arms and disarms timers all the time, and few of them ever fire.
//! So the wheel sorts as little as it can: a timer is put into a slot whose width grows with its distance, and is looked at again only if that slot comes up.
//! After G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels*, 1987 (their scheme 7), with a bitmap a level, so that empty stretches are skipped and not walked.
//!
//! # What may be relied on
//!
//! - The order is exact, to the tick. Slots are lists in the order of arming, a slot is emptied from its front into slots that are empty, and at any moment there is one slot for each deadline: so equal deadlines never change places.
//! - [`next_deadline`](TimerQueue::next_deadline) is exact for what is overdue and for the aligned block of 64 ticks that the wheel is in. Farther out it is the start of a slot: early, but from one timer fired to the next by at most one wake for each of the ten coarser levels.
//!
//! # What a call costs
//!
//! - `arm` and `disarm`: an unlink and a link, whatever is armed. The exception is an `arm` whose deadline is not after the latest `now`: such timers are kept sorted, and the call steps over those that are due later than the new one.
//! - `next_deadline`: a look at eleven words.
//! - `pop_expired`: a timer is moved at most ten times in its life, by the calls that reach its slots. One call moves all timers of the slots that it reaches, so where 100,000 timers share a slot, one call takes as long as moving 100,000 list nodes. There is no bound on that yet.
//! - A `now` that goes back: some list operations at once, and the moves that were already done once more.

mod lists;
mod slots;

#[cfg(test)]
mod tests;

use std::fmt;

use self::lists::Lists;
use self::slots::{LEVELS, SLOTS, level_of, slot_of, start_of};
use crate::queue::{self, TimerQueue};

/// Overdue timers that the phase under way may yield, earliest first.
const DUE: u32 = LEVELS * SLOTS;

/// Timers that were overdue when they were armed and wait for the next phase, earliest first.
const LATE: u32 = DUE + 1;

const _: () = assert!(
    LATE < lists::HEADS,
    "each slot and the two lists of overdue timers need a head"
);

/// A hierarchical timing wheel: the timer queue for deadlines that mostly move on and rarely come.
///
/// Arming, re-arming and disarming take the same few nanoseconds with a thousand timers and with a million.
/// [`next_deadline`](TimerQueue::next_deadline) may be early by one wake for each of ten levels, never late.
///
/// # Memory
///
/// 16 bytes for each id up to the highest that was armed, and 12 KiB beside: ids must be dense.
/// The table grows and does not shrink.
///
/// # Example
///
/// ```
/// use evcore_timer::{TimerQueue, TimerWheel};
///
/// let mut timers = TimerWheel::new();
/// timers.arm(0, 100);
/// timers.arm(1, 50);
/// timers.arm(2, 100);
/// timers.arm(1, 100); // again: now behind 2
///
/// let fired: Vec<u32> = std::iter::from_fn(|| timers.pop_expired(100)).map(|(id, _)| id).collect();
/// assert_eq!(fired, [0, 2, 1]);
/// ```
#[derive(Clone)]
pub struct TimerWheel {
    // Invariant: a timer is on `LATE`, on `DUE`, or in the slot that its deadline has from `position`.
    // Invariant: of timers with equal deadlines those in a slot were armed before those on `DUE`, and these before those on `LATE`.
    lists: Lists,
    // Invariant: no deadline in a slot lies before it, and it is not after `latest_now`.
    position: u64,
    // Invariant: no deadline on `DUE` or `LATE` is after it. Outside a phase `DUE` is empty and every deadline in a slot is after it.
    latest_now: u64,
    in_phase: bool,
    armed: usize,
}

impl TimerWheel {
    /// The highest id that can be armed, 2²⁷ − 1: a table up to it takes 2 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// An empty wheel, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty wheel with memory for the ids below `ids`, so that arming these allocates nothing.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        Self {
            lists: Lists::with_capacity(ids),
            position: 0,
            latest_now: 0,
            in_phase: false,
            armed: 0,
        }
    }

    /// Links a timer, which is not linked, where its deadline belongs.
    #[inline]
    fn file(&mut self, node: u32, deadline: u64) {
        if deadline > self.latest_now {
            self.lists
                .push_back(slot_of(deadline, self.position), node, deadline);
        } else {
            self.lists.insert_ordered(LATE, node, deadline);
        }
    }

    /// Links a timer, which is not linked, where this phase finds it if its deadline has come.
    fn file_in_phase(&mut self, node: u32, deadline: u64) {
        // Equal ones on `DUE` were armed before this one, and a slot is emptied before `DUE` is: then it must go there too.
        let behind_due = self
            .lists
            .last(DUE)
            .is_none_or(|last| self.lists.deadline(last) < deadline);
        if behind_due && deadline >= self.position {
            self.lists
                .push_back(slot_of(deadline, self.position), node, deadline);
        } else {
            self.lists.insert_ordered(DUE, node, deadline);
        }
    }

    /// The node of a timer that is about to be filed, counted and on no list.
    #[inline]
    fn take_up(&mut self, id: u32) -> u32 {
        let node = self.lists.admit(id);
        if self.lists.is_linked(node) {
            self.lists.unlink(node);
        } else {
            self.armed += 1;
        }
        node
    }

    fn begin_phase(&mut self, now: u64) {
        if now < self.latest_now {
            self.turn_back(now);
        }
        self.latest_now = now;
        self.in_phase = true;
        self.lists.merge(DUE, LATE);
    }

    fn end_phase(&mut self) {
        // No slot that starts at or before `latest_now` is occupied, so none changes its meaning.
        self.position = self.latest_now;
        self.in_phase = false;
    }

    /// The timer that is to fire next in this phase.
    fn first_due(&mut self) -> Option<u32> {
        let due = self.lists.first(DUE);
        let limit = due.map_or(self.latest_now, |node| self.lists.deadline(node));
        while let Some((slot, start)) = self.first_slot() {
            if start > limit {
                break;
            }
            if level_of(slot) == 0 {
                return self.lists.first(slot);
            }
            self.cascade(slot, start);
        }
        due
    }

    /// The occupied slot that comes up first, and the tick at which it does.
    #[inline]
    fn first_slot(&self) -> Option<(u32, u64)> {
        let slot = self.lists.lowest_occupied(LEVELS)?;
        Some((slot, start_of(slot, self.position)))
    }

    /// Moves the wheel to the start of its first occupied slot, and the timers of that slot to the finer levels, all of which are empty.
    fn cascade(&mut self, slot: u32, start: u64) {
        self.position = start;
        self.lists
            .redistribute(slot, slot, |deadline| slot_of(deadline, start));
    }

    /// Moves the wheel back, so that what lay between the new `now` and the old one is in the future again.
    fn turn_back(&mut self, now: u64) {
        if now < self.position {
            // Seen from `now`, all that is nearer to the old position than the digit in which the two differ is in one slot.
            let slot = slot_of(self.position, now);
            while let Some(finer) = self.lists.lowest_occupied(level_of(slot)) {
                self.lists.append(slot, finer);
            }
            self.position = now;
        }
        let position = self.position;
        for overdue in [DUE, LATE] {
            let last = self.lists.last_in_due_by(overdue, now);
            self.lists
                .redistribute(overdue, last, |deadline| slot_of(deadline, position));
        }
    }
}

impl TimerQueue for TimerWheel {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let node = self.take_up(id);
        self.file(node, deadline);
    }

    fn refile(&mut self, id: u32, deadline: u64) {
        let node = self.take_up(id);
        if self.in_phase {
            self.file_in_phase(node, deadline);
        } else {
            self.file(node, deadline);
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let Some(node) = self.lists.find(id) else {
            return false;
        };
        self.lists.unlink(node);
        self.lists.release(node);
        self.armed -= 1;
        true
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if !self.in_phase || now != self.latest_now {
            self.begin_phase(now);
        }
        let Some(node) = self.first_due() else {
            self.end_phase();
            return None;
        };
        let expired = (self.lists.id(node), self.lists.deadline(node));
        self.lists.unlink(node);
        self.lists.release(node);
        self.armed -= 1;
        Some(expired)
    }

    fn clear(&mut self) {
        self.lists.clear();
        self.armed = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.lists.find(id).map(|node| self.lists.deadline(node))
    }

    fn next_deadline(&self) -> Option<u64> {
        let overdue =
            [DUE, LATE].map(|list| self.lists.first(list).map(|node| self.lists.deadline(node)));
        let slot = self.first_slot().map(|(_, start)| start);
        overdue.into_iter().chain([slot]).flatten().min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.armed
    }
}

impl Default for TimerWheel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TimerWheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerWheel")
            .field("armed", &self.armed)
            .field("next_deadline", &self.next_deadline())
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

#[cfg(any(test, debug_assertions))]
impl TimerWheel {
    /// Checks every link, slot and count; for tests, and only where debug assertions are on.
    ///
    /// # Panics
    ///
    /// Where an invariant does not hold: that is a bug of this crate.
    ///
    /// Cost: in proportion to the highest id that was ever armed.
    pub fn verify(&self) {
        assert_eq!(self.lists.verify(), self.armed, "count of armed timers");
        assert!(
            self.position <= self.latest_now,
            "the wheel is ahead of time"
        );
        for slot in 0..DUE {
            self.verify_slot(slot);
        }
        for overdue in [DUE, LATE] {
            let deadlines = self.lists.deadlines(overdue);
            assert!(deadlines.is_sorted(), "overdue timers are out of order");
            assert!(
                self.lists
                    .deadlines(overdue)
                    .all(|deadline| deadline <= self.latest_now)
            );
        }
        assert!(
            self.in_phase || self.lists.first(DUE).is_none(),
            "a phase left timers behind"
        );
    }

    fn verify_slot(&self, slot: u32) {
        for deadline in self.lists.deadlines(slot) {
            assert_eq!(
                slot_of(deadline, self.position),
                slot,
                "slot of deadline {deadline}"
            );
            assert!(
                self.in_phase || deadline > self.latest_now,
                "{deadline} was passed over"
            );
        }
    }
}
