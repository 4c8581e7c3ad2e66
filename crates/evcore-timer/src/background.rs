//! Background timers: those that a shutdown does not wait for.
//!
//! A server that shuts down stays until its timers have fired, because most of them belong to a
//! client. Some do not, such as an hourly job. nginx marks these `cancelable`, and a worker exits
//! when only such timers are armed. nginx walks its tree to find out; here they are counted.

use crate::blocks::SparseBlocks;
use crate::queue::{ID_MAX, TimerQueue, assert_dense};

/// Marks timers as background timers, and counts whether any others are armed; wraps any queue.
///
/// The mark belongs to the id: it stays when the timer fires, is disarmed or armed again, and when
/// the queue is cleared. It has no effect on when the timer fires. (nginx: `ev->cancelable`.)
///
/// A wrapper does not expose the periods of a [`TimerHeap`](crate::TimerHeap).
///
/// # Memory
///
/// One bit for each id, in blocks of 4,096 ids that have marks or are between them, in addition to the
/// queue.
///
/// # Example
///
/// ```
/// use evcore_timer::{WithBackground, TimerQueue, TimerWheel};
///
/// let mut timers = WithBackground::new(TimerWheel::new());
/// timers.set_background(0, true); // cleans a cache every hour
/// timers.arm(0, 3_600_000);
/// timers.arm(7, 60_000); // a client
/// assert!(!timers.only_background_left());
///
/// assert_eq!(timers.pop_expired(60_000), Some((7, 60_000)));
/// assert!(timers.only_background_left()); // the server may exit
/// ```
#[derive(Clone, Debug)]
pub struct WithBackground<Q> {
    queue: Q,
    /// One bit per id, in words.
    marks: SparseBlocks<u64, BLOCK>,
    /// No id from this one on was ever marked. It spares most ids the look into the table.
    marked_end: u32,
    // Invariant: the number of marked timers that are armed.
    background_armed: usize,
}

/// Words of a block: 512 bytes, for 4,096 ids.
const BLOCK: usize = 64;

impl<Q: TimerQueue> WithBackground<Q> {
    /// The highest id that can be marked.
    pub const ID_MAX: u32 = ID_MAX;

    /// Wraps a queue, which may have timers. No id is marked yet.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Self {
            queue,
            marks: SparseBlocks::with_len(0, 0),
            marked_end: 0,
            background_armed: 0,
        }
    }

    /// Marks the timer of `id` as a background timer or removes the mark, whether it is armed or
    /// not.
    ///
    /// # Panics
    ///
    /// If `id` is above [`ID_MAX`](Self::ID_MAX).
    pub fn set_background(&mut self, id: u32, background: bool) {
        if background == self.is_background(id) {
            return;
        }
        let (word, bit) = position(id);
        assert_dense(id);
        self.marks.admit(word, 0);
        *self.marks.at_mut(word) ^= bit;
        self.marked_end = self.marked_end.max(id + 1);
        match (self.queue.is_armed(id), background) {
            (true, true) => self.background_armed += 1,
            (true, false) => self.background_armed -= 1,
            (false, _) => {}
        }
    }

    /// Whether the timer of `id` is marked as a background timer.
    #[inline]
    #[must_use]
    pub fn is_background(&self, id: u32) -> bool {
        if id >= self.marked_end {
            return false;
        }
        let (word, bit) = position(id);
        self.marks.get(word).is_some_and(|marks| marks & bit != 0)
    }

    /// Whether all armed timers are background timers; also true if no timer is armed.
    #[inline]
    #[must_use]
    pub fn only_background_left(&self) -> bool {
        self.background_armed == self.queue.len()
    }

    /// The wrapped queue.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Arms a timer that may be marked. Out of line, so that all others pay a comparison.
    #[inline(never)]
    fn arm_counted(&mut self, id: u32, deadline: u64) {
        self.count_arming(id);
        self.queue.arm(id, deadline);
    }

    /// Counts a timer that will be armed now.
    fn count_arming(&mut self, id: u32) {
        if self.is_background(id) && !self.queue.is_armed(id) {
            self.background_armed += 1;
        }
    }

    /// Counts a timer that is no longer armed.
    fn count_gone(&mut self, id: u32) {
        if self.is_background(id) {
            self.background_armed -= 1;
        }
    }
}

impl<Q: TimerQueue> TimerQueue for WithBackground<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        if id < self.marked_end {
            return self.arm_counted(id, deadline);
        }
        self.queue.arm(id, deadline);
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let was_armed = self.queue.disarm(id);
        if was_armed && id < self.marked_end {
            self.count_gone(id);
        }
        was_armed
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        let (id, deadline) = self.queue.pop_expired(now)?;
        // A periodic timer that was armed before the wrapping is still armed.
        if id < self.marked_end && !self.queue.is_armed(id) {
            self.count_gone(id);
        }
        Some((id, deadline))
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.count_arming(id);
        self.queue.reinsert_in_phase(id, deadline);
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.background_armed = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.queue.deadline(id)
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
        self.queue.has_more()
    }
}

impl<Q: TimerQueue + Default> Default for WithBackground<Q> {
    fn default() -> Self {
        Self::new(Q::default())
    }
}

/// The word of an id, and the id's bit in it.
#[inline]
const fn position(id: u32) -> (u32, u64) {
    (id / u64::BITS, 1 << (id % u64::BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::oracle::{IDS, TestedQueue, assert_agrees, scripts};
    use crate::{Lazy, TimerHeap, TimerTree, TimerWheel};

    impl<Q: TestedQueue> TestedQueue for WithBackground<Q> {
        const EQUALS_IN_ORDER: bool = Q::EQUALS_IN_ORDER;
        const EXACT_WAKE_UPS: bool = Q::EXACT_WAKE_UPS;

        fn verify(&self) {
            self.queue.verify();
            let words = self.marks.iter().filter(|(_, marks)| **marks != 0);
            let marked = words.flat_map(|(word, marks)| {
                let bits = (0..u64::BITS).filter(move |bit| marks & 1 << bit != 0);
                bits.map(move |bit| word * u64::BITS + bit)
            });
            let armed = marked.filter(|&id| self.is_armed(id)).count();
            assert_eq!(armed, self.background_armed);
        }
    }

    fn marked<Q: TimerQueue>(queue: Q, ids: &HashSet<u32>) -> WithBackground<Q> {
        let mut timers = WithBackground::new(queue);
        for &id in ids {
            timers.set_background(id, true);
        }
        timers
    }

    #[test]
    fn an_empty_queue_has_only_background_timers() {
        assert!(WithBackground::new(TimerTree::new()).only_background_left());
    }

    #[test]
    fn a_timer_counts_as_background_while_it_is_marked() {
        let mut timers = WithBackground::new(TimerTree::new());
        timers.arm(5, 10);
        assert!(!timers.only_background_left());
        timers.set_background(5, true);
        timers.set_background(5, true);
        assert!(timers.only_background_left());
        timers.set_background(5, false);
        assert!(!timers.only_background_left());
        assert!(!timers.is_background(5));
        assert!(timers.disarm(5));
        assert!(timers.only_background_left());
    }

    #[test]
    fn marks_of_ids_64_apart_are_independent() {
        let timers = marked(TimerTree::new(), &HashSet::from([5, 64]));
        for id in 0..200 {
            assert_eq!(timers.is_background(id), [5, 64].contains(&id), "{id}");
        }
    }

    #[test]
    fn a_pause_of_the_wrapped_queue_is_reported() {
        let mut timers = WithBackground::new(Lazy::new(TimerTree::new()));
        for deadline in [10, 20] {
            for id in 0..100 {
                timers.arm(id, deadline);
            }
        }
        assert_eq!(timers.pop_expired(10), None);
        assert!(timers.has_more());
    }

    #[test]
    fn a_mark_outlives_the_arming() {
        let mut timers = marked(TimerWheel::new(), &HashSet::from([5]));
        for _ in 0..2 {
            timers.arm(5, 10);
            timers.arm(5, 11);
            assert!(timers.only_background_left());
            assert!(timers.disarm(5));
            assert!(!timers.disarm(5));
        }
        timers.arm(5, 10);
        timers.clear();
        timers.arm(6, 10);
        assert!(!timers.only_background_left());
        assert!(timers.is_background(5));
    }

    #[test]
    fn a_periodic_timer_that_fired_is_still_counted() {
        let mut heap = TimerHeap::new();
        heap.arm_periodic(5, 10, 10);
        let mut timers = WithBackground::new(heap);
        timers.set_background(5, true);
        assert_eq!(timers.pop_expired(10), Some((5, 10)));
        assert!(timers.only_background_left());
        timers.arm(6, 30);
        assert!(!timers.only_background_left());
    }

    #[test]
    #[should_panic(expected = "timer id 134217728 is above 134217727")]
    fn marking_an_id_above_the_limit_panics() {
        let id = WithBackground::<TimerTree>::ID_MAX + 1;
        WithBackground::new(TimerTree::new()).set_background(id, true);
    }

    proptest! {
        #[test]
        fn any_script_keeps_the_count_right(
            script in scripts(),
            ids in prop::collection::hash_set(0..IDS, 0..IDS as usize),
        ) {
            assert_agrees(marked(TimerHeap::new(), &ids), &script);
            assert_agrees(marked(Lazy::new(TimerTree::new()), &ids), &script);
        }
    }
}
