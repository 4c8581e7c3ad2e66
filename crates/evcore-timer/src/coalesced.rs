//! nginx's rule for re-arming: if the new deadline is close to the old one, the timer keeps the old
//! deadline.
//!
//! `ngx_event_add_timer` leaves a timer in the tree if the new deadline is less than 300 ms away
//! from the old one.

use crate::queue::TimerQueue;

/// Wraps any queue, and ignores a re-arm that would move the deadline by less than a fixed time,
/// the *slack*. So a timer may fire early or late by less than the slack.
///
/// # Differences
///
/// - If an armed timer is armed again less than the slack away from its deadline, earlier or later,
///   the timer keeps its deadline and its place among timers with equal deadlines. At exactly the
///   slack, the timer moves.
/// - New deadlines are compared with the one in the queue, so small steps do not add up: a timer is
///   due less than the slack before or after the deadline that it was last armed with.
/// - The rule also holds within a phase: a timer that is due and not yet popped still fires with
///   its old deadline if a handler moves the timer by less than the slack.
///
/// With a slack of 0 every re-arm moves the timer. Periodic timers of a
/// [`TimerHeap`](crate::TimerHeap) cannot be armed through the wrapper.
///
/// # Example
///
/// ```
/// use evcore_timer::{Coalesced, TimerQueue, TimerTree};
///
/// // A slack of 300 ms with ticks of 1 ms, as in nginx.
/// let mut timers = Coalesced::new(TimerTree::new(), 300);
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
    /// Wraps a queue. A re-arm by less than `slack` ticks is ignored from then on.
    #[must_use]
    pub fn new(queue: Q, slack: u64) -> Self {
        Self { queue, slack }
    }

    /// The wrapped queue.
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

    /// Passes the call on to the queue. The slack does not apply.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::oracle::{TestedQueue, assert_agrees, config, scripts};
    use crate::{Lazy, TimerHeap, TimerTree, TimerWheel};

    /// Large enough that many re-arms of the scripts are ignored.
    const SLACK: u64 = 50;

    impl<Q: TestedQueue> TestedQueue for Coalesced<Q> {
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
    fn a_rearm_by_less_than_the_slack_keeps_the_deadline() {
        assert_eq!(moved_to(300, 1_000, 1_299), 1_000);
        assert_eq!(moved_to(300, 1_000, 701), 1_000);
        assert_eq!(moved_to(300, 0, 299), 0);
    }

    #[test]
    fn a_rearm_by_exactly_the_slack_moves_the_deadline() {
        assert_eq!(moved_to(300, 1_000, 1_300), 1_300);
        assert_eq!(moved_to(300, 1_000, 700), 700);
        assert_eq!(moved_to(u64::MAX, 0, u64::MAX), u64::MAX);
        assert_eq!(moved_to(0, 1_000, 1_000), 1_000);
    }

    #[test]
    fn small_rearms_do_not_add_up() {
        let mut timers = Coalesced::new(TimerWheel::new(), 300);
        for deadline in 1_000..2_000 {
            timers.arm(0, deadline);
            assert!(timers.deadline(0).unwrap().abs_diff(deadline) < 300);
        }
    }

    #[test]
    fn a_timer_that_is_not_armed_keeps_no_deadline() {
        let mut timers = Coalesced::new(TimerTree::new(), 300);
        timers.arm(0, 1_000);
        assert!(timers.disarm(0));
        timers.arm(0, 1_001);
        assert_eq!(timers.pop_expired(1_001), Some((0, 1_001)));
        timers.arm(0, 1_002);
        assert_eq!(timers.deadline(0), Some(1_002));
    }

    #[test]
    fn a_pause_of_the_wrapped_queue_is_reported() {
        let mut timers = Coalesced::new(Lazy::new(TimerTree::new()), 5);
        for deadline in [10, 20] {
            for id in 0..100 {
                timers.arm(id, deadline);
            }
        }
        assert_eq!(timers.pop_expired(10), None);
        assert!(timers.has_more());
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn any_script_over_the_wheel_agrees_with_the_oracle(script in scripts()) {
            assert_agrees(Coalesced::new(TimerWheel::new(), SLACK), &script);
        }

        #[test]
        fn any_script_over_the_tree_agrees_with_the_oracle(script in scripts()) {
            assert_agrees(Coalesced::new(TimerTree::new(), SLACK), &script);
        }

        #[test]
        fn any_script_over_the_heap_agrees_with_the_oracle(script in scripts()) {
            assert_agrees(Coalesced::new(TimerHeap::new(), SLACK), &script);
        }
    }
}
