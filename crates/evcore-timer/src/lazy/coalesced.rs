//! nginx's laziness: a small difference is none.
//!
//! `ngx_event_add_timer` leaves a timer in the tree where the new deadline is less than 300 ms from
//! the old.

use crate::queue::TimerQueue;

/// Ignores re-arming by less than a slack, over any queue; a timer may be off by less than that.
///
/// # What changes
///
/// - Arming an armed timer less than the slack from its deadline, earlier or later, changes
///   nothing: it keeps its deadline and its place among equal ones. At exactly the slack it moves.
/// - The deadline that counts is the one that was kept, so small steps do not add up: a timer fires
///   less than the slack before or after the deadline that it was armed with last.
/// - So too within a phase: a timer that is due and was not yet taken fires from its old arming if
///   a handler moves it by less than the slack.
///
/// With a slack of 0 every re-arm moves the timer.
/// The periods of a [`TimerHeap`](crate::TimerHeap) are out of reach below a wrapper.
///
/// # Example
///
/// ```
/// use evcore_timer::{TimerQueue, TimerTree, Coalesced};
///
/// let mut timers = Coalesced::new(TimerTree::new(), 300); // nginx, with ticks of a millisecond
/// timers.arm(7, 60_000);
/// timers.arm(7, 60_299);
/// assert_eq!(timers.deadline(7), Some(60_000));
/// timers.arm(7, 60_300);
/// assert_eq!(timers.deadline(7), Some(60_300));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Coalesced<Q> {
    queue: Q,
    slack: u64,
}

impl<Q: TimerQueue> Coalesced<Q> {
    /// Lets the timers of `queue` be off by less than `slack` ticks.
    #[must_use]
    pub fn new(queue: Q, slack: u64) -> Self {
        Self { queue, slack }
    }

    /// The queue below.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }
}

impl<Q: TimerQueue> TimerQueue for Coalesced<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let kept = self.queue.deadline(id);
        if kept.is_none_or(|kept| kept.abs_diff(deadline) >= self.slack) {
            self.queue.arm(id, deadline);
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        self.queue.disarm(id)
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        self.queue.pop_expired(now)
    }

    /// As the queue's own, without slack.
    #[inline]
    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.queue.reinsert_in_phase(id, deadline);
    }

    fn clear(&mut self) {
        self.queue.clear();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::oracle::{Subject, assert_agrees, scripts};
    use crate::{TimerHeap, TimerTree, TimerWheel};

    /// So that a good part of the scripts' re-armings is within it.
    const SLACK: u64 = 50;

    impl<Q: Subject> Subject for Coalesced<Q> {
        const EQUALS_IN_ORDER: bool = Q::EQUALS_IN_ORDER;
        const EXACT_WAKE_UPS: bool = Q::EXACT_WAKE_UPS;
        const SLACK: u64 = SLACK;

        fn verify(&self) {
            self.queue.verify();
        }
    }

    fn moved_to(slack: u64, from: u64, to: u64) -> u64 {
        let mut timers = Coalesced::new(TimerTree::new(), slack);
        timers.arm(0, from);
        timers.arm(0, to);
        timers.deadline(0).unwrap()
    }

    #[test]
    fn less_than_the_slack_keeps_the_deadline_in_either_direction() {
        assert_eq!(moved_to(300, 1_000, 1_299), 1_000);
        assert_eq!(moved_to(300, 1_000, 701), 1_000);
        assert_eq!(moved_to(300, 0, 299), 0);
    }

    #[test]
    fn exactly_the_slack_moves_the_deadline_in_either_direction() {
        assert_eq!(moved_to(300, 1_000, 1_300), 1_300);
        assert_eq!(moved_to(300, 1_000, 700), 700);
        assert_eq!(moved_to(u64::MAX, 0, u64::MAX), u64::MAX);
        assert_eq!(moved_to(0, 1_000, 1_000), 1_000);
    }

    #[test]
    fn small_steps_do_not_add_up() {
        let mut timers = Coalesced::new(TimerWheel::new(), 300);
        for deadline in 1_000..2_000 {
            timers.arm(0, deadline);
            assert!(timers.deadline(0).unwrap().abs_diff(deadline) < 300);
        }
    }

    #[test]
    fn what_is_not_armed_has_no_deadline_to_keep() {
        let mut timers = Coalesced::new(TimerTree::new(), 300);
        timers.arm(0, 1_000);
        assert!(timers.disarm(0));
        timers.arm(0, 1_001);
        assert_eq!(timers.pop_expired(1_001), Some((0, 1_001)));
        timers.arm(0, 1_002);
        assert_eq!(timers.deadline(0), Some(1_002));
    }

    proptest! {
        #[test]
        fn over_the_wheel_any_script_has_the_oracles_result(script in scripts()) {
            assert_agrees(Coalesced::new(TimerWheel::new(), SLACK), &script);
        }

        #[test]
        fn over_the_tree_any_script_has_the_oracles_result(script in scripts()) {
            assert_agrees(Coalesced::new(TimerTree::new(), SLACK), &script);
        }

        #[test]
        fn over_the_heap_any_script_has_the_oracles_result(script in scripts()) {
            assert_agrees(Coalesced::new(TimerHeap::new(), SLACK), &script);
        }
    }
}
