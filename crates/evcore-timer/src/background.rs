//! Timers that nobody need wait for.
//!
//! A server that shuts down stays until its timers have fired, for each stands for somebody who is
//! being served.
//! Some do not: a job that runs every hour, a cache that is swept.
//! nginx marks these `cancelable`, and a worker leaves when no others are armed.
//! nginx walks its tree to find out; here they are counted.

use crate::queue::{ID_MAX, TimerQueue, assert_dense};

/// Tells whether only timers are left that nobody need wait for, over any queue.
///
/// Being cancelable is a property of the id and not of one arming: it stays when the timer fires,
/// is disarmed, or is armed again, and `clear` keeps it too.
/// It changes nothing about when and whether the timer fires.
///
/// The periods of a [`TimerHeap`](crate::TimerHeap) are out of reach below a wrapper.
///
/// # Memory
///
/// A bit for each id up to the highest that was marked, beside the queue's own.
///
/// # Example
///
/// ```
/// use evcore_timer::{WithBackground, TimerQueue, TimerWheel};
///
/// let mut timers = WithBackground::new(TimerWheel::new());
/// timers.set_background(0, true); // sweeps the cache
/// timers.arm(0, 3_600_000);
/// timers.arm(7, 60_000); // a client
/// assert!(!timers.only_background_left());
///
/// assert_eq!(timers.pop_expired(60_000), Some((7, 60_000)));
/// assert!(timers.only_background_left()); // time to go
/// ```
#[derive(Clone, Debug, Default)]
pub struct WithBackground<Q> {
    queue: Q,
    /// A bit an id.
    marks: Vec<u64>,
    // Invariant: the number of armed timers that are marked.
    armed_and_marked: usize,
}

impl<Q: TimerQueue> WithBackground<Q> {
    /// The highest id that can be marked.
    pub const ID_MAX: u32 = ID_MAX;

    /// Marks nothing yet; the queue may have timers.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        Self {
            queue,
            marks: Vec::new(),
            armed_and_marked: 0,
        }
    }

    /// Says whether the timer of `id` may be left behind, armed or not; at first none may.
    ///
    /// # Panics
    ///
    /// Where `id` is above [`ID_MAX`](Self::ID_MAX).
    pub fn set_background(&mut self, id: u32, background: bool) {
        if background == self.is_background(id) {
            return;
        }
        let (word, bit) = position(id);
        if word >= self.marks.len() {
            assert_dense(id);
            self.marks.resize(word + 1, 0);
        }
        self.marks[word] ^= bit;
        match (self.queue.is_armed(id), background) {
            (true, true) => self.armed_and_marked += 1,
            (true, false) => self.armed_and_marked -= 1,
            (false, _) => {}
        }
    }

    /// Whether the timer of `id` may be left behind.
    #[inline]
    #[must_use]
    pub fn is_background(&self, id: u32) -> bool {
        let (word, bit) = position(id);
        self.marks.get(word).is_some_and(|marks| marks & bit != 0)
    }

    /// Whether all timers that are armed may be left behind: so too where none is armed.
    #[inline]
    #[must_use]
    pub fn only_background_left(&self) -> bool {
        self.armed_and_marked == self.queue.len()
    }

    /// The queue below.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Counts a timer that is about to be armed.
    #[inline]
    fn count_arming(&mut self, id: u32) {
        if self.is_background(id) && !self.queue.is_armed(id) {
            self.armed_and_marked += 1;
        }
    }

    /// Counts a timer that was armed and is not any more.
    #[inline]
    fn count_gone(&mut self, id: u32) {
        if self.is_background(id) {
            self.armed_and_marked -= 1;
        }
    }
}

impl<Q: TimerQueue> TimerQueue for WithBackground<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        self.count_arming(id);
        self.queue.arm(id, deadline);
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let was_armed = self.queue.disarm(id);
        if was_armed {
            self.count_gone(id);
        }
        was_armed
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        let (id, deadline) = self.queue.pop_expired(now)?;
        // A periodic timer that was there before is armed still.
        if !self.queue.is_armed(id) {
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
        self.armed_and_marked = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.queue.deadline(id)
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
        self.queue.has_more()
    }
}

/// The word of an id, and its bit there.
#[inline]
const fn position(id: u32) -> (usize, u64) {
    ((id / u64::BITS) as usize, 1 << (id % u64::BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::oracle::{IDS, Subject, assert_agrees, scripts};
    use crate::{Lazy, TimerHeap, TimerTree, TimerWheel};

    impl<Q: Subject> Subject for WithBackground<Q> {
        const EQUALS_IN_ORDER: bool = Q::EQUALS_IN_ORDER;
        const EXACT_WAKE_UPS: bool = Q::EXACT_WAKE_UPS;

        fn verify(&self) {
            self.queue.verify();
            let mut armed = (0..IDS).filter(|&id| self.is_armed(id));
            assert_eq!(
                self.only_background_left(),
                armed.all(|id| self.is_background(id))
            );
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
    fn no_timer_at_all_keeps_nobody() {
        assert!(WithBackground::new(TimerTree::new()).only_background_left());
    }

    #[test]
    fn a_mark_counts_from_when_it_is_set_to_when_it_is_taken_back() {
        let mut timers = WithBackground::new(TimerTree::new());
        timers.arm(5, 10);
        assert!(!timers.only_background_left());
        timers.set_background(5, true);
        timers.set_background(5, true);
        assert!(timers.only_background_left());
        timers.set_background(5, false);
        assert!(!timers.only_background_left());
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
    fn a_periodic_timer_that_fired_is_counted_still() {
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
    fn a_mark_for_an_id_above_the_limit_is_refused_by_name() {
        let id = WithBackground::<TimerTree>::ID_MAX + 1;
        WithBackground::new(TimerTree::new()).set_background(id, true);
    }

    proptest! {
        #[test]
        fn any_script_leaves_the_count_right(
            script in scripts(),
            ids in prop::collection::hash_set(0..IDS, 0..IDS as usize),
        ) {
            assert_agrees(marked(TimerHeap::new(), &ids), &script);
            assert_agrees(marked(Lazy::new(TimerTree::new()), &ids), &script);
        }
    }
}
