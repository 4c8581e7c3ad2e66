//! A hierarchical timing wheel over all of `u64`.
//!
//! A server arms, re-arms and disarms timers all the time, and few of them ever fire.
//! So the wheel sorts as little as it can: a timer is put into a slot whose width grows with its
//! distance, and is looked at again only if that slot comes up.
//! After G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels*, 1987 (their scheme 7),
//! with a bitmap a level, so that empty stretches are skipped and not walked.
//!
//! # What may be relied on
//!
//! - The order is exact, to the tick. Slots are lists in the order of arming, and at any moment
//!   there is one slot for each new deadline. A coarse slot is emptied from its back, each timer to
//!   the front of its finer slot, so those armed meanwhile stay behind: equal deadlines never
//!   change places.
//! - [`next_deadline`](TimerQueue::next_deadline) is exact for what is overdue and for the aligned
//!   block of 256 ticks that the wheel is in. Farther out it is the start of a slot: early, but
//!   from one timer fired to the next by at most one wake for each of the seven coarser levels.
//!
//! # What a call costs
//!
//! - `arm` and `disarm`: an unlink and a link, whatever is armed. The exception is an `arm` whose
//!   deadline is not after the latest `now`: such timers are kept sorted, and the call steps over
//!   those that are due later than the new one.
//! - `next_deadline`: a look at two words of a bitmap and the fronts of two lists.
//! - `pop_expired`: a timer is moved at most seven times in its life, by the calls that reach its
//!   slots; with ticks of a millisecond and deadlines within a minute, once or twice. One call
//!   moves 64 timers at most: where a slot holds more, the call [pauses](TimerQueue::has_more),
//!   and others go on with it.
//! - The call that begins a phase: nothing to speak of, unless the phase before was left early with
//!   overdue timers: then the two sorted lists are merged.
//! - A `now` that goes back: an append for each slot, a link for each overdue timer that is not due
//!   any more, and the moves that were already done once more.

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
/// [`next_deadline`](TimerQueue::next_deadline) may be early by one wake for each of seven levels,
/// never late.
///
/// # Cost
///
/// Arming, re-arming and disarming are an unlink and a link, with a thousand timers as with a
/// million: what grows is the share of them that no cache holds.
/// A call of [`pop_expired`](TimerQueue::pop_expired) sorts 64 timers at most, and then
/// [pauses](TimerQueue::has_more).
///
/// Timers that are armed for ticks at or before the latest `now` are kept in a sorted list, for
/// they are few where deadlines lie ahead.
/// To arm one is a step for each of them that is due after it.
/// A phase that begins before the last one had ended takes a step for each that is left of them and
/// due after the earliest new one, and a `now` that goes back for each that is not due any more.
///
/// # Memory
///
/// 16 bytes for each id up to the highest that was armed, and 33 KiB beside: ids must be dense.
/// The table grows and does not shrink; the `arm` that makes it grow copies it, unless there was
/// [room](Self::with_capacity).
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
    // Invariant: a timer is on `LATE`, on `DUE`, in the slot that is being drained, or in the slot
    // that its deadline has from `position`.
    // Invariant: of timers with equal deadlines those in a slot were armed before those on `DUE`,
    // and these before those on `LATE`.
    lists: Lists,
    // Invariant: no deadline in a slot lies before it, and it is not after `latest_now`.
    position: u64,
    /// The coarse slot that the wheel has come to, while finer slots are still to have some of its
    /// timers.
    // Invariant: it starts at `position`, and what it holds was armed before what the finer slots
    // hold of the same deadline.
    draining: Option<u32>,
    // Invariant: no deadline on `DUE` or `LATE` is after it. Outside a phase `DUE` is empty and
    // every deadline in a slot is after it.
    latest_now: u64,
    in_phase: bool,
    paused: bool,
    /// How many timers one call moves at most. Fewer in tests, so that short scripts pause.
    moves_max: usize,
    armed: usize,
}

/// With a million timers armed each move is a few cache misses, so this is some 10 µs
/// (docs/performance.md, the longest call).
const MOVES_MAX: usize = 64;

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
            draining: None,
            latest_now: 0,
            in_phase: false,
            paused: false,
            moves_max: MOVES_MAX,
            armed: 0,
        }
    }

    /// Arms a new id, or what is overdue.
    #[inline(never)]
    fn arm_rarely(&mut self, id: u32, deadline: u64) {
        let node = self.take_up(id);
        self.file(node, deadline);
    }

    /// Links a timer, which is not linked, where its deadline belongs.
    fn file(&mut self, node: u32, deadline: u64) {
        if deadline > self.latest_now {
            self.file_ahead(node, deadline);
        } else {
            self.lists.insert_ordered(LATE, node, deadline);
        }
    }

    /// Links a timer, which is not linked and not overdue, into its slot.
    #[inline]
    fn file_ahead(&mut self, node: u32, deadline: u64) {
        let slot = slot_of(deadline, self.position);
        self.lists.push_back(slot, node, deadline);
    }

    /// Links a timer, which is not linked, where this phase finds it if its deadline has come.
    fn file_in_phase(&mut self, node: u32, deadline: u64) {
        // Equal ones on `DUE` were armed before this one, and a slot is emptied before `DUE` is:
        // then it must go there too.
        let behind_due = self
            .lists
            .last(DUE)
            .is_none_or(|last| self.lists.deadline(last) < deadline);
        if behind_due && deadline >= self.position {
            self.file_ahead(node, deadline);
        } else {
            self.lists.insert_ordered(DUE, node, deadline);
        }
    }

    /// The node of a timer that is about to be filed, counted and on no list.
    #[inline]
    fn take_up(&mut self, id: u32) -> u32 {
        let node = self.lists.admit(id);
        self.detach(node);
        node
    }

    /// Takes a timer that is about to be filed off its list, or counts it.
    #[inline]
    fn detach(&mut self, node: u32) {
        if self.lists.is_linked(node) {
            self.lists.unlink(node);
        } else {
            self.armed += 1;
        }
    }

    /// Disarms a timer that is linked.
    #[inline]
    fn take_off(&mut self, node: u32) {
        self.lists.unlink(node);
        self.lists.release(node);
        self.armed -= 1;
    }

    fn begin_phase(&mut self, now: u64) {
        if now < self.latest_now {
            self.turn_back(now);
        }
        self.latest_now = now;
        self.in_phase = true;
        if self.lists.is_occupied(LATE) {
            self.lists.merge(DUE, LATE);
        }
    }

    fn end_phase(&mut self) {
        // No slot that starts at or before `latest_now` is occupied, so none changes its meaning.
        self.position = self.latest_now;
        self.draining = None; // empty, if there is one
        self.in_phase = false;
    }

    /// All of a phase in which nothing is armed.
    fn turn_empty(&mut self, now: u64) {
        self.latest_now = now;
        self.paused = false;
        self.end_phase();
    }

    /// The next that has expired. Not inlined, so that it costs nothing where nothing is armed.
    #[inline(never)]
    fn pop_armed(&mut self, now: u64) -> Option<(u32, u64)> {
        if !self.in_phase || now != self.latest_now {
            self.begin_phase(now);
        }
        let search = self.first_due();
        self.paused = matches!(search, Search::Paused);
        match search {
            Search::Found(node) => {
                let expired = (self.lists.id(node), self.lists.deadline(node));
                self.take_off(node);
                Some(expired)
            }
            Search::Over => {
                self.end_phase();
                None
            }
            Search::Paused => None,
        }
    }

    /// Looks for the timer that is to fire next in this phase.
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
                return Search::Paused;
            }
        }
        due.map_or(Search::Over, Search::Found)
    }

    /// The occupied slot that comes up first, and the tick at which it does.
    #[inline]
    fn first_slot(&self) -> Option<(u32, u64)> {
        let draining = self.draining.filter(|&slot| self.lists.is_occupied(slot));
        let slot = draining.or_else(|| self.lists.lowest_occupied(DUE))?;
        Some((slot, start_of(slot, self.position)))
    }

    /// Moves the wheel to the start of a coarse slot before which there is nothing, and timers of
    /// that slot to the finer levels; returns how many, at most `count`.
    #[inline(never)] // so that a timer which stands ready is taken by short code
    fn drain(&mut self, slot: u32, start: u64, count: usize) -> usize {
        self.position = start;
        let moved = self
            .lists
            .spill(slot, count, |deadline| slot_of(deadline, start));
        self.draining = self.lists.is_occupied(slot).then_some(slot);
        moved
    }

    /// Puts the timers of a slot that is half drained back behind those that it still holds.
    fn undo_drain(&mut self) {
        if let Some(slot) = self.draining.take() {
            self.gather_finer(slot);
        }
    }

    /// Appends to a slot all slots of finer levels, in the order in which they come up.
    fn gather_finer(&mut self, slot: u32) {
        let finer_levels = level_of(slot) * SLOTS;
        while let Some(finer) = self.lists.lowest_occupied(finer_levels) {
            self.lists.append(slot, finer);
        }
    }

    /// Moves the wheel back, so that what lay between the new `now` and the old one is in the
    /// future again.
    #[cold]
    fn turn_back(&mut self, now: u64) {
        if now < self.position {
            self.undo_drain();
            // Seen from `now`, all that is nearer to the old position than the digit in which the
            // two differ is in one slot.
            let slot = slot_of(self.position, now);
            self.gather_finer(slot);
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

/// What came of looking for a timer to fire.
enum Search {
    Found(u32),
    /// There is none in this phase.
    Over,
    /// As many timers were moved as one call may move.
    Paused,
}

impl TimerQueue for TimerWheel {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        // What servers do all the time must not call anything: a register saved for a call costs as
        // much as all the rest.
        match self.lists.known(id) {
            Some(node) if deadline > self.latest_now => {
                self.detach(node);
                self.file_ahead(node, deadline);
            }
            _ => self.arm_rarely(id, deadline),
        }
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
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
        self.take_off(node);
        true
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.armed == 0 {
            self.turn_empty(now);
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
        let overdue =
            [DUE, LATE].map(|list| self.lists.first(list).map(|node| self.lists.deadline(node)));
        let slot = self.first_slot().map(|(_, start)| start);
        overdue.into_iter().chain([slot]).flatten().min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.armed
    }

    fn has_more(&self) -> bool {
        self.paused
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
    /// Panics where an invariant does not hold.
    pub(crate) fn verify(&self) {
        assert_eq!(self.lists.verify(), self.armed, "count of armed timers");
        assert!(
            self.position <= self.latest_now,
            "the wheel is ahead of time"
        );
        for slot in 0..DUE {
            self.verify_slot(slot);
        }
        if let Some(slot) = self.draining {
            assert_eq!(
                start_of(slot, self.position),
                self.position,
                "start of what is drained"
            );
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
        let draining = self.draining == Some(slot);
        for deadline in self.lists.deadlines(slot) {
            if draining {
                let finer = level_of(slot_of(deadline, self.position));
                assert!(
                    finer < level_of(slot),
                    "{deadline} does not belong to what is drained"
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
