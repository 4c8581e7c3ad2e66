//! Re-arming to later by a store.
//!
//! The queue below keeps a timer at the deadline that it was first armed with.
//! When that comes up, the timer is filed again at the one that was noted last, if that is later:
//! so in the time between two deadlines the timer is moved once, however often it was re-armed.

#[cfg(test)]
mod tests;

use crate::queue::TimerQueue;

/// Makes re-arming to later a store, over any queue; no timer fires early.
///
/// # What changes
///
/// - A re-arm to later writes the new deadline into a table and touches nothing else. A re-arm to
///   earlier, or to a tick that has passed, is the queue's own.
/// - [`next_deadline`](TimerQueue::next_deadline) may be early: it is the queue's, which knows the
///   older deadlines. Each timer that was moved costs at most one such wake for each deadline that
///   it was filed with.
/// - Timers still fire in the order of their deadlines, to the tick, and in the phase in which they
///   are due. Of equal deadlines one that was armed again may come before one that was armed
///   earlier than that, or after one that was armed later.
/// - A call of [`pop_expired`](TimerQueue::pop_expired) files again the moved timers that it meets
///   before one that fires, 16 at most; then it [pauses](TimerQueue::has_more).
///
/// The periods of a [`TimerHeap`](crate::TimerHeap) are out of reach below a wrapper.
///
/// # Memory
///
/// 16 bytes for each id up to the highest that was armed, beside the queue's own.
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
/// assert_eq!(timers.pop_expired(60), None); // filed again here, once
/// assert_eq!(timers.pop_expired(1_059), None);
/// assert_eq!(timers.pop_expired(1_060), Some((7, 1_060)));
/// ```
#[derive(Clone, Debug)]
pub struct Lazy<Q> {
    // Invariant: has armed what `slots` says is armed, each at the deadline `filed`.
    queue: Q,
    slots: Vec<Slot>,
    /// The latest `now`. A deadline at or before it may have to wait for the next phase, and the
    /// queue knows.
    latest_now: u64,
    /// How many timers one call files again at most. Fewer in tests, so that short scripts pause.
    refiles_max: usize,
    /// Whether the latest call ended since it had filed again as many as a call may.
    paused: bool,
}

/// With a million timers armed each refiling is a few cache misses over a wheel, and up to 1.7 µs
/// over a tree: so this is 5 to 30 µs.
const REFILES_MAX: usize = 16;

impl<Q: TimerQueue> Lazy<Q> {
    /// Lays a table over an empty queue.
    ///
    /// # Panics
    ///
    /// Where the queue is not empty.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Self::with_capacity(queue, 0)
    }

    /// As [`new`](Self::new), with memory for the ids below `ids`, so that arming these allocates
    /// nothing here.
    ///
    /// # Panics
    ///
    /// Where the queue is not empty.
    #[must_use]
    pub fn with_capacity(queue: Q, ids: usize) -> Self {
        assert!(queue.is_empty(), "the queue has timers already");
        Self {
            queue,
            slots: Vec::with_capacity(ids),
            latest_now: 0,
            refiles_max: REFILES_MAX,
            paused: false,
        }
    }

    /// The queue below, whose deadlines are those that the timers were filed with.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Arms in the queue itself.
    fn file(&mut self, id: u32, deadline: u64) {
        self.queue.arm(id, deadline);
        self.note_filed(id, deadline);
    }

    fn note_filed(&mut self, id: u32, deadline: u64) {
        let index = id as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Slot::UNARMED);
        }
        self.slots[index] = Slot {
            filed: deadline,
            wanted: deadline,
        };
    }
}

impl<Q: TimerQueue> TimerQueue for Lazy<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let latest_now = self.latest_now;
        match self.slots.get_mut(id as usize) {
            Some(slot) if slot.may_wait_for(deadline) && deadline > latest_now => {
                slot.wanted = deadline;
            }
            _ => self.file(id, deadline),
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
        self.paused = false;
        for _ in 0..self.refiles_max {
            let (id, filed) = self.queue.pop_expired(now)?;
            let slot = &mut self.slots[id as usize];
            let wanted = slot.wanted;
            if wanted == filed {
                *slot = Slot::UNARMED;
                return Some((id, wanted));
            }
            slot.filed = wanted;
            self.queue.reinsert_in_phase(id, wanted);
        }
        self.paused = true;
        None
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.queue.reinsert_in_phase(id, deadline);
        self.note_filed(id, deadline);
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
        self.paused || self.queue.has_more()
    }
}

impl<Q: TimerQueue + Default> Default for Lazy<Q> {
    fn default() -> Self {
        Self::new(Q::default())
    }
}

/// The deadline that a timer has in the queue, and the one that it was armed with last.
#[derive(Clone, Copy, Debug)]
struct Slot {
    // Invariant: not after `wanted`, unless the timer is not armed.
    filed: u64,
    wanted: u64,
}

impl Slot {
    const UNARMED: Self = Self {
        filed: u64::MAX,
        wanted: 0,
    };

    #[inline]
    const fn is_armed(self) -> bool {
        self.filed <= self.wanted
    }

    /// Whether the timer is armed and comes up at or before `deadline`.
    #[inline]
    const fn may_wait_for(self, deadline: u64) -> bool {
        self.filed <= deadline && self.is_armed()
    }
}
