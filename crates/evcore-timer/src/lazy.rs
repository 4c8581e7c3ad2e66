//! Lazy re-arming: extending a deadline is one store.
//!
//! The timeout of a connection is re-armed at every event, mostly to a later deadline, and rarely
//! fires. So the wrapped queue keeps the first deadline, and a table records the last one. When the
//! queued deadline expires, the timer is inserted again at the recorded one if that is later.
//! Between two queued deadlines a timer moves once, however often it was re-armed.

#[cfg(test)]
mod tests;

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
///   are due. Only among equal deadlines the place of a re-armed timer is not defined.
/// - A call of [`pop_expired`](TimerQueue::pop_expired) inserts at most 16 re-armed timers again
///   before it returns one that fires; then it [pauses](TimerQueue::has_more).
///
/// A wrapper does not expose the periods of a [`TimerHeap`](crate::TimerHeap).
///
/// # Memory
///
/// 16 bytes for each id up to the highest that was armed, in addition to the queue.
/// The table grows and does not shrink.
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
    // Invariant: the timers armed in `slots` are armed here, each at its deadline `queued`.
    queue: Q,
    slots: Vec<Slot>,
    /// The latest `now`. A deadline at or before it may have to wait for the next phase, which only
    /// the queue can decide.
    latest_now: u64,
    /// The most timers that one call inserts again. Lower in tests, so that short scripts pause.
    moves_max: usize,
    /// Whether the latest call paused because it had moved `moves_max` timers.
    has_more: bool,
}

/// With a million armed timers each move costs a few cache misses over a wheel and up to 1.7 µs over
/// a tree, so this is 5 to 30 µs.
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
            slots: Vec::with_capacity(ids),
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

    /// Arms a timer in the queue.
    fn insert(&mut self, id: u32, deadline: u64) {
        self.queue.arm(id, deadline);
        self.note_queued(id, deadline);
    }

    fn note_queued(&mut self, id: u32, deadline: u64) {
        let index = id as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Slot::UNARMED);
        }
        self.slots[index] = Slot {
            queued: deadline,
            wanted: deadline,
        };
    }
}

impl<Q: TimerQueue> TimerQueue for Lazy<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let latest_now = self.latest_now;
        match self.slots.get_mut(id as usize) {
            Some(slot) if slot.is_due_by(deadline) && deadline > latest_now => {
                slot.wanted = deadline;
            }
            _ => self.insert(id, deadline),
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        if let Some(slot) = self.slots.get_mut(id as usize) {
            *slot = Slot::UNARMED;
        }
        self.queue.disarm(id)
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        self.latest_now = now;
        self.has_more = false;
        for _ in 0..self.moves_max {
            let (id, queued) = self.queue.pop_expired(now)?;
            let slot = &mut self.slots[id as usize];
            let wanted = slot.wanted;
            if wanted == queued {
                *slot = Slot::UNARMED;
                return Some((id, wanted));
            }
            slot.queued = wanted;
            self.queue.reinsert_in_phase(id, wanted);
        }
        self.has_more = true;
        None
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.queue.reinsert_in_phase(id, deadline);
        self.note_queued(id, deadline);
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.slots.fill(Slot::UNARMED);
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        let slot = self.slots.get(id as usize)?;
        slot.is_armed().then_some(slot.wanted)
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
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

/// The deadline that a timer has in the queue, and the one that it was last armed with.
#[derive(Clone, Copy, Debug)]
struct Slot {
    // Invariant: not after `wanted` if the timer is armed.
    queued: u64,
    wanted: u64,
}

impl Slot {
    const UNARMED: Self = Self {
        queued: u64::MAX,
        wanted: 0,
    };

    #[inline]
    const fn is_armed(self) -> bool {
        self.queued <= self.wanted
    }

    /// Whether the timer is armed and its queued deadline is at or before `deadline`.
    #[inline]
    const fn is_due_by(self, deadline: u64) -> bool {
        self.queued <= deadline && self.is_armed()
    }
}
