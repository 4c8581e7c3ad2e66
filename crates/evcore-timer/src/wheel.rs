//! A hierarchical timing wheel over all of `u64`.
//!
//! A server arms, re-arms and disarms timers all the time, and few of them ever fire. So the wheel
//! sorts as little as possible: a timer is put into a slot whose width grows with its distance, and
//! is not touched again until that slot is reached.
//! After G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels*, 1987 (their scheme 7),
//! with a bitmap per level, so that empty slots are skipped without a walk.
//!
//! # Guarantees
//!
//! - The order is exact, to the tick. Slots are lists in the order of arming, and at any moment
//!   there is one slot for each new deadline. A coarse slot is emptied from its back, each timer to
//!   the front of its finer slot, so timers that are armed meanwhile stay behind: equal deadlines
//!   never change places.
//! - [`next_deadline`](TimerQueue::next_deadline) is exact for overdue timers and for the aligned
//!   block of 256 ticks that contains the position. Beyond that block it is the start of a slot,
//!   which may be early: by at most one wake for each of the seven coarser levels between two
//!   timers that fire.
//!
//! # Cost
//!
//! - `arm` and `disarm`: an unlink and a link, however many timers are armed. The exception is an
//!   `arm` whose deadline is not after the latest `now`: such timers are kept sorted, and the call
//!   steps over those with a later deadline.
//! - `next_deadline`: reads two words of a bitmap and the fronts of two lists.
//! - `pop_expired`: a timer moves at most seven times in its life, by the calls that reach its slots;
//!   with ticks of a millisecond and deadlines within a minute, once or twice. One call moves at
//!   most 64 timers. If a slot holds more, the call [pauses](TimerQueue::has_more), and the next
//!   calls go on.
//! - The call that begins a phase: O(1), unless the previous phase was left early with overdue
//!   timers; then the two sorted lists are merged.

mod deadline_slot;
mod lists;

#[cfg(test)]
mod tests;

use std::fmt;

use self::deadline_slot::{LEVELS, SLOTS, level_of, slot_of, start_of};
use self::lists::Lists;
use crate::queue::{self, TimerQueue};

/// The list of overdue timers that the current phase may yield, earliest first.
const DUE: u32 = LEVELS * SLOTS;

/// The list of timers that were overdue when they were armed and wait for the next phase, earliest
/// first.
const DEFERRED: u32 = DUE + 1;

const _: () = assert!(
    DEFERRED < lists::HEADS,
    "each slot and the two lists of overdue timers need a head"
);

/// A hierarchical timing wheel, for timeouts that are often re-armed and rarely fire.
///
/// [`next_deadline`](TimerQueue::next_deadline) may be early by one wake for each of seven levels,
/// and is never late.
///
/// # Cost
///
/// Arming, re-arming and disarming are an unlink and a link, with a thousand timers as with a
/// million; only the cache misses grow.
/// A call of [`pop_expired`](TimerQueue::pop_expired) moves at most 64 timers, and then
/// [pauses](TimerQueue::has_more).
///
/// Timers that are armed for ticks at or before the latest `now` are kept in a sorted list, because
/// they are few if deadlines are in the future. Arming one takes a step for each of them that is due
/// after it. A phase that begins before the previous one has ended takes a step for each of them
/// that is left and due after the earliest new one. A `now` that goes back takes a step for each
/// that is no longer due.
///
/// # Memory
///
/// 33 KiB, and 16 bytes for each id up to the highest that was armed, so ids must be dense.
/// The table grows and does not shrink. An `arm` that makes it grow copies it; see
/// [`with_capacity`](Self::with_capacity).
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
/// timers.arm(1, 100); // re-armed: now behind 2
///
/// let fired: Vec<u32> = std::iter::from_fn(|| timers.pop_expired(100)).map(|(id, _)| id).collect();
/// assert_eq!(fired, [0, 2, 1]);
/// ```
#[derive(Clone)]
pub struct TimerWheel {
    // Invariant: a timer is on `DEFERRED`, on `DUE`, in the slot that is being drained, or in the
    // slot of its deadline as seen from `position`.
    // Invariant: of timers with equal deadlines, those in a slot were armed before those on `DUE`,
    // and these before those on `DEFERRED`.
    lists: Lists,
    // Invariant: no deadline in a slot is before it, and it is not after `latest_now`.
    position: u64,
    /// The coarse slot whose timers are being moved to finer slots, while it still holds some.
    // Invariant: it starts at `position`, and its timers were armed before those with the same
    // deadline in finer slots.
    draining: Option<u32>,
    // Invariant: no deadline on `DUE` or `DEFERRED` is after it. Outside a phase `DUE` is empty and
    // every deadline in a slot is after it.
    latest_now: u64,
    in_phase: bool,
    has_more: bool,
    /// The most timers that one call moves. Lower in tests, so that short scripts pause.
    moves_max: usize,
    armed: usize,
}

/// With a million armed timers each move costs a few cache misses, so this is some 10 µs
/// (docs/performance.md, the longest call).
const MOVES_MAX: usize = 64;

impl TimerWheel {
    /// The highest id that can be armed, 2²⁷ − 1. A table of that size takes 2 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// Creates an empty wheel, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty wheel with memory for the ids below `ids`, so that arming these allocates
    /// nothing. Higher ids make the table grow.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        Self {
            lists: Lists::with_capacity(ids),
            position: 0,
            draining: None,
            latest_now: 0,
            in_phase: false,
            has_more: false,
            moves_max: MOVES_MAX,
            armed: 0,
        }
    }

    /// Arms a new id, or a timer that is overdue.
    #[inline(never)]
    fn arm_slow(&mut self, id: u32, deadline: u64) {
        let node = self.unlink_or_count(id);
        self.insert(node, deadline);
    }

    /// Links an unlinked timer where its deadline belongs.
    fn insert(&mut self, node: u32, deadline: u64) {
        if deadline > self.latest_now {
            self.insert_ahead(node, deadline);
        } else {
            self.lists.insert_ordered(DEFERRED, node, deadline);
        }
    }

    /// Links an unlinked timer, which is not overdue, into its slot.
    #[inline]
    fn insert_ahead(&mut self, node: u32, deadline: u64) {
        let slot = slot_of(deadline, self.position);
        self.lists.push_back(slot, node, deadline);
    }

    /// Links an unlinked timer where the current phase finds it if it is due.
    fn insert_in_phase(&mut self, node: u32, deadline: u64) {
        // Timers with the same deadline on `DUE` were armed before this one, and a slot is emptied
        // before `DUE`. If there are any, it must go behind them.
        let behind_due = self
            .lists
            .last(DUE)
            .is_none_or(|last| self.lists.deadline(last) < deadline);
        if behind_due && deadline >= self.position {
            self.insert_ahead(node, deadline);
        } else {
            self.lists.insert_ordered(DUE, node, deadline);
        }
    }

    /// The node of a timer that will be inserted: unlinked if it was armed, or counted as armed.
    #[inline]
    fn unlink_or_count(&mut self, id: u32) -> u32 {
        let node = self.lists.admit(id);
        self.detach(node);
        node
    }

    /// Unlinks a timer that will be inserted, or counts it as armed.
    #[inline]
    fn detach(&mut self, node: u32) {
        if self.lists.is_linked(node) {
            self.lists.unlink(node);
        } else {
            self.armed += 1;
        }
    }

    /// Disarms a linked timer.
    #[inline]
    fn remove(&mut self, node: u32) {
        self.lists.unlink(node);
        self.lists.release(node);
        self.armed -= 1;
    }

    fn begin_phase(&mut self, now: u64) {
        if now < self.latest_now {
            self.rewind(now);
        }
        self.latest_now = now;
        self.in_phase = true;
        if self.lists.is_occupied(DEFERRED) {
            self.lists.merge(DUE, DEFERRED);
        }
    }

    fn end_phase(&mut self) {
        // No slot that starts at or before `latest_now` is occupied, so every timer stays in its slot.
        self.position = self.latest_now;
        self.draining = None; // empty, if there is one
        self.in_phase = false;
    }

    /// A whole phase while no timer is armed.
    fn empty_phase(&mut self, now: u64) {
        self.latest_now = now;
        self.has_more = false;
        self.end_phase();
    }

    /// The next expired timer. Not inlined, so that it costs nothing if no timer is armed.
    #[inline(never)]
    fn pop_armed(&mut self, now: u64) -> Option<(u32, u64)> {
        if !self.in_phase || now != self.latest_now {
            self.begin_phase(now);
        }
        let search = self.first_due();
        self.has_more = matches!(search, Search::Stopped);
        match search {
            Search::Found(node) => {
                let expired = (self.lists.id(node), self.lists.deadline(node));
                self.remove(node);
                Some(expired)
            }
            Search::Over => {
                self.end_phase();
                None
            }
            Search::Stopped => None,
        }
    }

    /// Finds the timer that fires next in this phase.
    fn first_due(&mut self) -> Search {
        let due = self.lists.first(DUE);
        let limit = due.map_or(self.latest_now, |node| self.lists.deadline(node));
        let mut moves_left = self.moves_max;
        while let Some((slot, start)) = self.first_slot() {
            if start > limit {
                break;
            }
            if level_of(slot) == 0 {
                return self.lists.first(slot).map_or(Search::Over, Search::Found);
            }
            moves_left -= self.drain(slot, start, moves_left);
            if self.draining.is_some() {
                return Search::Stopped;
            }
        }
        due.map_or(Search::Over, Search::Found)
    }

    /// The first occupied slot, and the tick at which it starts.
    #[inline]
    fn first_slot(&self) -> Option<(u32, u64)> {
        let draining = self.draining.filter(|&slot| self.lists.is_occupied(slot));
        let slot = draining.or_else(|| self.lists.lowest_occupied(DUE))?;
        Some((slot, start_of(slot, self.position)))
    }

    /// Moves the wheel to the start of a coarse slot, the first that is occupied, and moves at most
    /// `count` of its timers to finer levels. Returns how many it moved.
    #[inline(never)] // so that the code which takes a due timer stays short
    fn drain(&mut self, slot: u32, start: u64, count: usize) -> usize {
        self.position = start;
        let moved = self
            .lists
            .cascade(slot, count, |deadline| slot_of(deadline, start));
        self.draining = self.lists.is_occupied(slot).then_some(slot);
        moved
    }

    /// Moves the timers of a partly drained slot back behind those that it still holds.
    fn undo_drain(&mut self) {
        if let Some(slot) = self.draining.take() {
            self.gather_finer(slot);
        }
    }

    /// Appends the timers of all finer levels to a slot, in the order of their slots.
    fn gather_finer(&mut self, slot: u32) {
        let finer_levels = level_of(slot) * SLOTS;
        while let Some(finer) = self.lists.lowest_occupied(finer_levels) {
            self.lists.append(slot, finer);
        }
    }

    /// Moves the wheel back, so that deadlines between the new `now` and the old one are in the future
    /// again.
    #[cold]
    fn rewind(&mut self, now: u64) {
        if now < self.position {
            self.undo_drain();
            // Seen from `now`, all timers on levels below the highest digit in which the two
            // positions differ belong into one slot.
            let slot = slot_of(self.position, now);
            self.gather_finer(slot);
            self.position = now;
        }
        let position = self.position;
        for overdue in [DUE, DEFERRED] {
            let last = self.lists.last_in_due_by(overdue, now);
            self.lists
                .redistribute(overdue, last, |deadline| slot_of(deadline, position));
        }
    }
}

/// The result of a search for the timer that fires next.
enum Search {
    Found(u32),
    /// No timer is left in this phase.
    Over,
    /// The call has moved as many timers as a call may move.
    Stopped,
}

impl TimerQueue for TimerWheel {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        // This is the hot path, so it must not call a function: saving registers for a call would
        // cost as much as all the rest.
        match self.lists.known(id) {
            Some(node) if deadline > self.latest_now => {
                self.detach(node);
                self.insert_ahead(node, deadline);
            }
            _ => self.arm_slow(id, deadline),
        }
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        let node = self.unlink_or_count(id);
        if self.in_phase {
            self.insert_in_phase(node, deadline);
        } else {
            self.insert(node, deadline);
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let Some(node) = self.lists.find(id) else {
            return false;
        };
        self.remove(node);
        true
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.armed == 0 {
            self.empty_phase(now);
            return None;
        }
        self.pop_armed(now)
    }

    fn clear(&mut self) {
        self.lists.clear();
        self.draining = None;
        self.armed = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.lists.find(id).map(|node| self.lists.deadline(node))
    }

    fn next_deadline(&self) -> Option<u64> {
        if self.armed == 0 {
            return None;
        }
        let overdue = [DUE, DEFERRED]
            .map(|list| self.lists.first(list).map(|node| self.lists.deadline(node)));
        let slot = self.first_slot().map(|(_, start)| start);
        overdue.into_iter().chain([slot]).flatten().min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.armed
    }

    fn has_more(&self) -> bool {
        self.has_more
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

#[cfg(test)]
impl TimerWheel {
    /// Panics if an invariant does not hold.
    pub(crate) fn verify(&self) {
        assert_eq!(self.lists.verify(), self.armed, "number of armed timers");
        assert!(
            self.position <= self.latest_now,
            "the position is after the latest now"
        );
        for slot in 0..DUE {
            self.verify_slot(slot);
        }
        if let Some(slot) = self.draining {
            assert_eq!(
                start_of(slot, self.position),
                self.position,
                "start of the slot that is drained"
            );
        }
        for overdue in [DUE, DEFERRED] {
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
            "a timer is due outside a phase"
        );
    }

    fn verify_slot(&self, slot: u32) {
        let draining = self.draining == Some(slot);
        for deadline in self.lists.deadlines(slot) {
            if draining {
                let finer = level_of(slot_of(deadline, self.position));
                assert!(
                    finer < level_of(slot),
                    "{deadline} does not belong to the slot that is drained"
                );
            } else {
                assert_eq!(
                    slot_of(deadline, self.position),
                    slot,
                    "slot of deadline {deadline}"
                );
            }
            assert!(
                self.in_phase || deadline > self.latest_now,
                "{deadline} was passed over"
            );
        }
    }
}
