//! Lazy re-arming: extending a deadline is one store.
//!
//! The timeout of a connection is re-armed at every event, mostly to a later deadline, and rarely
//! fires. So the wrapped queue keeps the first deadline, and a table records the last one. When the
//! queued deadline expires, the timer is inserted again at the recorded one if that is later.
//! Between two queued deadlines a timer moves once, however often it was re-armed.
//!
//! The table holds nothing else. The queued deadline is not after the recorded one, so a re-arm to
//! a deadline after that needs no other number. For an earlier one the queue is asked.

#[cfg(test)]
mod tests;

use crate::blocks::SparseBlocks;
use crate::queue::TimerQueue;

/// Makes re-arming to a later deadline one store; wraps any queue. No timer fires early.
///
/// # Differences
///
/// - A re-arm to a later deadline writes it into a table and does not touch the queue. A re-arm to
///   an earlier deadline, or to a tick that has passed, goes to the queue.
/// - [`next_deadline`](TimerQueue::next_deadline) may be early, because the queue holds the older
///   deadlines. A re-armed timer costs at most one such wake for each deadline it was queued with.
/// - Timers still fire in the order of their deadlines, to the tick, and in the phase in which they
///   are due. The place of a re-armed timer among equal deadlines is not defined.
/// - A call of [`pop_expired`](TimerQueue::pop_expired) inserts at most 16 re-armed timers again
///   before it returns one that fires; then it [pauses](TimerQueue::has_more).
///
/// Periodic timers of a [`TimerHeap`](crate::TimerHeap) cannot be armed through the wrapper.
///
/// # Memory
///
/// 8 bytes for each id, in blocks of 512 ids, in addition to the queue. The table grows by 4 KiB,
/// copies nothing, and does not shrink. Ids far above the others are as in
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
    /// The deadline of each id; [`AS_QUEUED`] if it is the one in the queue, or if no timer is armed.
    // Invariant: a timer with a deadline here is armed in the queue, at that deadline or before.
    deadlines: SparseBlocks<u64, BLOCK>,
    /// The latest `now`. A deadline at or before it may have to wait for the next phase, which only
    /// the queue can decide.
    latest_now: u64,
    /// The most timers that one call inserts again. Tests lower it, so that short scripts pause.
    moves_max: usize,
    /// True if the latest call paused because it had moved `moves_max` timers.
    has_more: bool,
}

/// Number of deadlines in a block: 4 KiB.
const BLOCK: usize = 512;

/// The mark of an id without a deadline in the table, which has only deadlines after some `now`.
const AS_QUEUED: u64 = 0;

/// The default limit of moves in one call. With a million armed timers each move costs a few cache
/// misses over a wheel and up to 1.7 µs over a tree, so this is 5 to 30 µs.
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
            deadlines: SparseBlocks::with_len(ids, AS_QUEUED),
            latest_now: 0,
            moves_max: MOVES_MAX,
            has_more: false,
        }
    }

    /// The wrapped queue, which may hold older deadlines.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Arms a timer that is not armed, or to an earlier deadline.
    #[inline(never)]
    fn arm_slow(&mut self, id: u32, deadline: u64) {
        match self.deadlines.near_mut(id) {
            // Usually it is not armed. If it is, it was overdue, and moves like any other.
            Some(recorded) if *recorded == AS_QUEUED => {
                if deadline > self.latest_now {
                    *recorded = deadline;
                }
                self.queue.arm(id, deadline);
            }
            _ => self.arm_recorded(id, deadline),
        }
    }

    /// Arms a timer to an earlier deadline, or with an id that the table does not hold yet.
    #[cold]
    #[inline(never)]
    fn arm_recorded(&mut self, id: u32, deadline: u64) {
        let queued = self.queue.deadline(id);
        let may_wait = deadline > self.latest_now;
        if !(may_wait && queued.is_some_and(|queued| queued <= deadline)) {
            self.queue.arm(id, deadline);
        }
        self.record(id, if may_wait { deadline } else { AS_QUEUED });
    }

    /// The first timer that fires, beginning with this one of the queue. Inserts timers again that
    /// were re-armed. It is not inlined, so that a call that finds no timer is short.
    #[inline(never)]
    fn pop_moved(&mut self, mut id: u32, mut queued: u64, now: u64) -> Option<(u32, u64)> {
        let mut moves_left = self.moves_max;
        loop {
            let recorded = self.deadlines.at_mut(id);
            let wanted = *recorded;
            if wanted == queued || wanted == AS_QUEUED {
                *recorded = AS_QUEUED;
                return Some((id, queued));
            }
            self.queue.reinsert_in_phase(id, wanted);
            moves_left -= 1;
            if moves_left == 0 {
                self.has_more = true;
                return None;
            }
            (id, queued) = self.queue.pop_expired(now)?;
        }
    }

    /// Records that no deadline is in the table, for an id that is far above the others.
    #[cold]
    #[inline(never)]
    fn forget_far(&mut self, id: u32) {
        if let Some(recorded) = self.deadlines.get_mut(id) {
            *recorded = AS_QUEUED;
        }
    }

    fn record(&mut self, id: u32, deadline: u64) {
        if self.deadlines.near(id).is_none() {
            self.deadlines.admit(id, AS_QUEUED);
        }
        *self.deadlines.at_mut(id) = deadline;
    }
}

impl<Q: TimerQueue> TimerQueue for Lazy<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let latest_now = self.latest_now;
        match self.deadlines.near_mut(id) {
            // True if the recorded deadline is not after this one. `AS_QUEUED` becomes the highest
            // number, so it is never below.
            Some(recorded) if recorded.wrapping_sub(1) < deadline && deadline > latest_now => {
                *recorded = deadline;
            }
            _ => self.arm_slow(id, deadline),
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        match self.deadlines.near_mut(id) {
            Some(recorded) => *recorded = AS_QUEUED,
            None => self.forget_far(id),
        }
        self.queue.disarm(id)
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        self.latest_now = now;
        self.has_more = false;
        let (id, queued) = self.queue.pop_expired(now)?;
        self.pop_moved(id, queued, now)
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.queue.reinsert_in_phase(id, deadline);
        self.record(id, AS_QUEUED);
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.deadlines.fill(AS_QUEUED);
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        match self.deadlines.get(id) {
            None | Some(&AS_QUEUED) => self.queue.deadline(id),
            recorded => recorded.copied(),
        }
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.queue.next_deadline()
    }

    #[inline]
    fn len(&self) -> usize {
        self.queue.len()
    }

    fn has_more(&self) -> bool {
        self.has_more || self.queue.has_more()
    }
}

impl<Q: TimerQueue + Default> Default for Lazy<Q> {
    fn default() -> Self {
        Self::new(Q::default())
    }
}
