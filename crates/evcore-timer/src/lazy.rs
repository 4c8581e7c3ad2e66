//! Lazy re-arming: extending a deadline is one store.
//!
//! The timeout of a connection is re-armed at every event, mostly to a later deadline, and rarely
//! fires. So the wrapped queue keeps an old deadline, and a table records the last one. When the
//! queued deadline expires, the timer is inserted again at the recorded deadline if that is later.
//!
//! Most disarmed timers are armed again, for the next request or the next connection. So a few
//! disarmed timers are left in the queue, and arming such a timer for a later deadline is a store,
//! too. A timer that is not armed again is dropped when its deadline is reached.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::blocks::SparseBlocks;
use crate::queue::TimerQueue;

/// Wraps any queue, so that re-arming to a later deadline is one store. Disarming is one store,
/// too, while fewer than 64 disarmed timers are left in the queue. No timer fires early.
///
/// # Differences
///
/// - A re-arm to a later deadline writes the deadline into a table and does not change the queue. A
///   re-arm to a deadline before the one in the queue, to a tick that has passed, or to a tick of
///   2^63 or more changes the queue.
/// - [`next_deadline`](TimerQueue::next_deadline) may be early, because the queue holds the older
///   deadlines. A re-armed timer costs at most one such wake for each deadline it was queued with.
///   So does a disarmed timer that is left in the queue; at most 64 are left there at any time.
/// - Timers still fire in the order of their deadlines, to the tick, and in the phase in which they
///   are due. The place of a re-armed timer among equal deadlines is not defined.
/// - A call of [`pop_expired`](TimerQueue::pop_expired) [pauses](TimerQueue::has_more) when it has
///   inserted 16 re-armed timers again. A disarmed timer that it drops counts as one of the 16.
///
/// Periodic timers of a [`TimerHeap`](crate::TimerHeap) cannot be armed through the wrapper.
///
/// # Cost
///
/// A timer is inserted into the queue again at most once for each deadline with which it was
/// queued. So the wrapper pays off for timers that are re-armed at least twice within their
/// timeout, such as the timers of busy connections. An example is a million timers of one minute
/// that are re-armed at random times. At 1.2 times a minute they take an eighth more instructions
/// than with the wheel alone, and up to twice the time, because each access to the table is one
/// more cache miss. At 2.4 times a minute they take less time than with the wheel alone.
///
/// # Memory
///
/// 8 bytes for each id, in blocks of 512 ids, in addition to the queue. The table grows by 4 KiB,
/// copies nothing, and does not shrink. Ids far above the others cost what they cost in
/// [`TimerWheel`](crate::TimerWheel#memory).
///
/// # Example
///
/// ```
/// use evcore_timer::{Lazy, TimerQueue, TimerWheel};
///
/// let mut timers = Lazy::new(TimerWheel::new());
/// timers.arm(7, 60);
/// for event in 1..=1_000 {
///     timers.arm(7, 60 + event); // a store
/// }
/// assert_eq!(timers.deadline(7), Some(1_060));
///
/// assert_eq!(timers.pop_expired(60), None); // inserted again here, once
/// assert_eq!(timers.pop_expired(1_059), None);
/// assert_eq!(timers.pop_expired(1_060), Some((7, 1_060)));
/// ```
#[derive(Clone, Debug)]
pub struct Lazy<Q> {
    queue: Q,
    /// The deadline of each id, with the bit [`LEFT`] if the timer is disarmed and left in the
    /// queue. It is [`UNARMED`] or [`AS_QUEUED`] if there is no such deadline.
    // Invariant: a timer with a deadline here is in the queue, at that deadline or before.
    deadlines: SparseBlocks<u64, BLOCK>,
    /// The number of disarmed timers in the queue.
    // Invariant: at most `LEFT_MAX`.
    left: usize,
    /// `now` of the latest call of `pop_expired`, limited to the last deadline that the table can
    /// have. A deadline at or before this tick goes to the queue, which decides in which phase it
    /// expires.
    latest_now: i64,
    /// Maximum number of timers that one call inserts again or drops. Tests lower it, so that short
    /// scripts pause.
    moves_max: usize,
    /// True if the latest call of `pop_expired` has reached `moves_max`.
    has_more: bool,
}

/// Number of deadlines in a block: 4 KiB.
const BLOCK: usize = 512;

/// The timer is not armed, and not in the queue.
const UNARMED: u64 = 0;

/// The deadlines that the table can have.
const DEADLINES: Range<u64> = 1..LEFT;

/// The bit that is set in the last deadline of a timer that is disarmed and left in the queue.
const LEFT: u64 = 1 << 63;

/// The timer is armed for a deadline that only the queue has.
const AS_QUEUED: u64 = LEFT;

/// Maximum number of disarmed timers that are left in the queue. Each may cost one wake-up.
const LEFT_MAX: usize = 64;

/// The default of `moves_max`. With a million armed timers, a move costs a few cache misses if the
/// queue is a wheel, and up to 1.7 µs if it is a tree. So a call takes 5 to 30 µs.
const MOVES_MAX: usize = 16;

impl<Q: TimerQueue> Lazy<Q> {
    /// Wraps an empty queue.
    ///
    /// # Panics
    ///
    /// If the queue is not empty.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Self::with_capacity(queue, 0)
    }

    /// Wraps an empty queue, with memory in the table for the ids below `ids`. Higher ids make the
    /// table grow.
    ///
    /// # Panics
    ///
    /// If the queue is not empty.
    #[must_use]
    pub fn with_capacity(queue: Q, ids: usize) -> Self {
        assert!(queue.is_empty(), "the queue already has timers");
        Self {
            queue,
            deadlines: SparseBlocks::with_len(ids, UNARMED),
            left: 0,
            latest_now: 0,
            moves_max: MOVES_MAX,
            has_more: false,
        }
    }

    /// The wrapped queue, which may have older deadlines, and disarmed timers.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Arms a timer for which the store in [`arm`](TimerQueue::arm) is not enough.
    #[inline(never)]
    fn arm_slow(&mut self, id: u32, deadline: u64) {
        let is_for_table = self.is_for_table(deadline);
        match self.deadlines.near_mut(id) {
            // The timer was left in the queue, with this deadline or one before it.
            Some(recorded) if is_for_table && is_not_after(*recorded ^ LEFT, deadline) => {
                *recorded = deadline;
                self.left -= 1;
            }
            Some(recorded) if is_for_table && *recorded == UNARMED => {
                *recorded = deadline;
                self.queue.arm(id, deadline);
            }
            _ => self.arm_found(id, deadline, is_for_table),
        }
    }

    /// Arms a timer in the general case.
    #[inline(never)]
    fn arm_found(&mut self, id: u32, deadline: u64, is_for_table: bool) {
        let queued = self.queue.deadline(id);
        if !(is_for_table && queued.is_some_and(|queued| queued <= deadline)) {
            self.queue.arm(id, deadline);
        }
        self.record(id, deadline);
    }

    /// Returns whether the table can have this deadline, and the deadline is after `latest_now`.
    #[inline]
    fn is_for_table(&self, deadline: u64) -> bool {
        deadline > 0 && signed(deadline) > self.latest_now
    }

    /// Returns the first timer that fires: the one that the queue has just yielded, or a later one.
    /// Not inlined, so that a call that finds no timer is short.
    #[inline(never)]
    fn pop_moved(&mut self, mut id: u32, mut queued: u64, now: u64) -> Option<(u32, u64)> {
        let mut moves_left = self.moves_max;
        loop {
            let recorded = self.deadlines.at_mut(id);
            let wanted = *recorded;
            if wanted == queued || wanted == AS_QUEUED {
                *recorded = UNARMED;
                return Some((id, queued));
            }
            if is_left(wanted) {
                *recorded = UNARMED;
                self.left -= 1;
            } else {
                self.queue.reinsert_in_phase(id, wanted);
            }
            moves_left -= 1;
            if moves_left == 0 {
                self.has_more = true;
                return None;
            }
            (id, queued) = self.queue.pop_expired(now)?;
        }
    }

    /// Disarms a timer by removing it from the queue.
    #[inline(never)]
    fn disarm_queued(&mut self, id: u32) -> bool {
        match self.deadlines.get_mut(id) {
            Some(recorded) if *recorded != UNARMED && !is_left(*recorded) => *recorded = UNARMED,
            _ => return false,
        }
        self.queue.disarm(id)
    }

    /// Records the deadline of a timer that is in the queue.
    #[inline]
    fn record(&mut self, id: u32, deadline: u64) {
        let is_of_table = DEADLINES.contains(&deadline);
        let deadline = if is_of_table { deadline } else { AS_QUEUED };
        match self.deadlines.near_mut(id) {
            Some(recorded) if !is_left(*recorded) => *recorded = deadline,
            _ => self.record_slow(id, deadline),
        }
    }

    /// Like [`record`](Self::record), also for an id that the table does not have yet, and for a
    /// timer that was left in the queue.
    #[cold]
    #[inline(never)]
    fn record_slow(&mut self, id: u32, deadline: u64) {
        self.deadlines.admit(id, UNARMED);
        let recorded = self.deadlines.at_mut(id);
        self.left -= usize::from(is_left(*recorded));
        *recorded = deadline;
    }
}

/// Returns whether a deadline of the table is at or before another. Returns false for [`UNARMED`],
/// which becomes the highest number, and for a value with the bit [`LEFT`] if the other deadline is
/// below 2^63.
#[inline]
fn is_not_after(recorded: u64, deadline: u64) -> bool {
    recorded.wrapping_sub(1) < deadline
}

/// Converts a tick to a signed number. A tick of 2^63 or more becomes negative, so it is not after
/// `latest_now`.
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "that is what it is for")]
fn signed(tick: u64) -> i64 {
    tick as i64
}

#[inline]
fn is_left(recorded: u64) -> bool {
    DEADLINES.contains(&(recorded ^ LEFT))
}

impl<Q: TimerQueue> TimerQueue for Lazy<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let latest_now = self.latest_now;
        match self.deadlines.near_mut(id) {
            Some(recorded)
                if is_not_after(*recorded, deadline) && signed(deadline) > latest_now =>
            {
                *recorded = deadline;
            }
            _ => self.arm_slow(id, deadline),
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        match self.deadlines.near_mut(id) {
            Some(recorded) if DEADLINES.contains(recorded) && self.left < LEFT_MAX => {
                *recorded |= LEFT;
                self.left += 1;
                true
            }
            _ => self.disarm_queued(id),
        }
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        self.latest_now = signed(now.min(DEADLINES.end - 1));
        self.has_more = false;
        let (id, queued) = self.queue.pop_expired(now)?;
        self.pop_moved(id, queued, now)
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.queue.reinsert_in_phase(id, deadline);
        self.record(id, deadline);
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.deadlines.fill(UNARMED);
        self.left = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        match *self.deadlines.get(id)? {
            AS_QUEUED => self.queue.deadline(id),
            recorded => DEADLINES.contains(&recorded).then_some(recorded),
        }
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        self.queue.next_deadline()
    }

    #[inline]
    fn len(&self) -> usize {
        self.queue.len() - self.left
    }

    fn has_more(&self) -> bool {
        (self.has_more || self.queue.has_more()) && !self.is_empty()
    }
}

impl<Q: TimerQueue + Default> Default for Lazy<Q> {
    fn default() -> Self {
        Self::new(Q::default())
    }
}
