//! Tests of lazy re-arming: examples, and for each wrapped queue a comparison with a naive queue,
//! the oracle.

use proptest::prelude::*;

use super::*;
use crate::oracle::{TestedQueue, assert_agrees, config, scripts};
use crate::{TimerHeap, TimerTree, TimerWheel};

impl<Q: TestedQueue> TestedQueue for Lazy<Q> {
    const EQUALS_IN_ORDER: bool = false;
    const EXACT_WAKE_UPS: bool = false;

    fn verify(&self) {
        self.queue.verify();
        let mut left = 0;
        for (id, &recorded) in self.deadlines.iter() {
            left += usize::from(is_left(recorded));
            let queued = self.queue.deadline(id);
            assert_eq!(queued.is_some(), recorded != UNARMED, "{id}: {recorded}");
            let deadline = recorded & !LEFT;
            assert!(
                recorded == AS_QUEUED || queued.unwrap_or(0) <= deadline,
                "{id} is queued at {queued:?} and wanted at {deadline}"
            );
        }
        assert_eq!(left, self.left, "disarmed timers in the queue");
        assert!(left <= LEFT_MAX);
    }
}

/// A queue that counts the calls of `arm` and `reinsert_in_phase`.
#[derive(Debug, Default)]
struct Counting {
    queue: TimerTree,
    armings: usize,
    reinsertions: usize,
}

impl TimerQueue for Counting {
    fn arm(&mut self, id: u32, deadline: u64) {
        self.armings += 1;
        self.queue.arm(id, deadline);
    }

    fn disarm(&mut self, id: u32) -> bool {
        self.queue.disarm(id)
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        self.queue.pop_expired(now)
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.reinsertions += 1;
        self.queue.reinsert_in_phase(id, deadline);
    }

    fn clear(&mut self) {
        self.queue.clear();
    }

    fn deadline(&self, id: u32) -> Option<u64> {
        self.queue.deadline(id)
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.queue.next_deadline()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

#[test]
fn rearming_to_later_reaches_the_queue_once_per_deadline() {
    let mut timers = Lazy::new(Counting::default());
    for now in 0..1_000 {
        assert_eq!(timers.pop_expired(now), None);
        timers.arm(0, now + 60);
    }
    assert_eq!(timers.queue().armings, 1);
    assert_eq!(timers.queue().reinsertions, 999 / 60);
}

#[test]
fn rearming_to_earlier_takes_effect_at_once() {
    let mut timers = Lazy::new(TimerTree::new());
    timers.arm(0, 100);
    timers.arm(0, 300);
    timers.arm(0, 50);
    assert_eq!(timers.next_deadline(), Some(50));
    assert_eq!(timers.pop_expired(50), Some((0, 50)));
}

#[test]
fn rearming_between_both_deadlines_is_a_store() {
    let mut timers = Lazy::new(Counting::default());
    for deadline in [100, 300, 200] {
        timers.arm(0, deadline);
    }
    assert_eq!(timers.queue().armings, 1);
    assert_eq!(timers.pop_expired(199), None);
    assert_eq!(timers.pop_expired(200), Some((0, 200)));
}

#[test]
fn rearming_before_the_queued_deadline_moves_the_timer() {
    let mut timers = Lazy::new(Counting::default());
    for deadline in [100, 300, 99] {
        timers.arm(0, deadline);
    }
    assert_eq!(timers.queue().armings, 2);
    assert_eq!(timers.deadline(0), Some(99));
    assert_eq!(timers.pop_expired(99), Some((0, 99)));
}

#[test]
fn a_timer_of_the_first_tick_is_armed() {
    let mut timers = Lazy::new(TimerTree::new());
    timers.arm(0, 0);
    assert_eq!(
        (timers.deadline(0), timers.deadlines.get(0).copied()),
        (Some(0), Some(AS_QUEUED))
    );
    timers.arm(0, 5);
    assert_eq!(
        (timers.deadline(0), timers.deadlines.get(0).copied()),
        (Some(5), Some(5))
    );
    assert_eq!(timers.pop_expired(4), None);
    assert_eq!(timers.pop_expired(5), Some((0, 5)));
    assert_eq!(timers.deadlines.get(0).copied(), Some(UNARMED));
}

#[test]
fn a_timer_that_is_disarmed_and_armed_again_is_left_in_the_queue() {
    let mut timers = Lazy::new(Counting::default());
    for now in 0..50 {
        timers.arm(0, now + 60);
        assert!(timers.disarm(0));
        assert!(!timers.disarm(0));
        assert_eq!((timers.len(), timers.deadline(0)), (0, None));
        assert_eq!(
            (timers.next_deadline(), timers.pop_expired(now)),
            (None, None)
        );
    }
    assert_eq!(timers.queue().armings, 1);
    timers.arm(1, 200);
    assert_eq!(timers.next_deadline(), Some(60), "early, once");
    assert_eq!(timers.pop_expired(60), None);
    assert_eq!(timers.next_deadline(), Some(200));
    assert_eq!(timers.queue().len(), 1);
}

#[test]
fn few_disarmed_timers_are_left_in_the_queue() {
    let mut timers = Lazy::new(TimerTree::new());
    let ids = 0..100;
    ids.clone().for_each(|id| timers.arm(id, 1_000));
    assert!(ids.clone().all(|id| timers.disarm(id)));
    assert_eq!((timers.len(), timers.queue().len()), (0, LEFT_MAX));
    ids.clone().for_each(|id| timers.arm(id, 500));
    assert_eq!((timers.len(), timers.queue().len()), (100, 100));
    assert!(ids.clone().all(|id| timers.deadline(id) == Some(500)));
    for id in ids {
        assert_eq!(timers.pop_expired(500), Some((id, 500)));
    }
}

#[test]
fn rearming_with_the_same_deadline_keeps_the_place() {
    let mut timers = Lazy::new(TimerTree::new());
    for (id, deadline) in [(0, 10), (1, 10), (0, 20), (0, 10)] {
        timers.arm(id, deadline);
    }
    let fired: Vec<_> = std::iter::from_fn(|| timers.pop_expired(10)).collect();
    assert_eq!(
        fired,
        [(0, 10), (1, 10)],
        "the queue without `Lazy` yields 1 and 0"
    );
}

#[test]
fn a_moved_timer_fires_in_order_and_in_its_phase() {
    let mut timers = Lazy::new(TimerWheel::new());
    for (id, deadline) in [(0, 10), (1, 15), (2, 25), (0, 20)] {
        timers.arm(id, deadline);
    }
    let fired: Vec<_> = std::iter::from_fn(|| timers.pop_expired(30)).collect();
    assert_eq!(fired, [(1, 15), (0, 20), (2, 25)]);
}

#[test]
fn a_timer_moved_to_a_passed_tick_waits_for_the_next_phase() {
    let mut timers = Lazy::new(TimerTree::new());
    timers.arm(0, 10);
    timers.arm(1, 15);
    assert_eq!(timers.pop_expired(30), Some((0, 10)));
    timers.arm(1, 25);
    assert_eq!(timers.pop_expired(30), None);
    assert_eq!(timers.pop_expired(30), Some((1, 25)));
}

#[test]
fn many_moved_timers_take_several_calls() {
    let moved = 2 * u32::try_from(MOVES_MAX).unwrap();
    let mut timers = Lazy::new(Counting::default());
    for id in 0..moved {
        timers.arm(id, 10);
        timers.arm(id, 20);
    }
    timers.arm(moved, 15);
    for call in 1..=2 {
        assert_eq!(timers.pop_expired(15), None);
        assert!(timers.has_more());
        assert_eq!(timers.queue().reinsertions, call * MOVES_MAX);
    }
    assert_eq!(timers.pop_expired(15), Some((moved, 15)));
    assert!(!timers.has_more());
}

#[test]
fn the_last_tick_is_a_valid_deadline() {
    let mut timers = Lazy::new(TimerWheel::new());
    timers.arm(0, u64::MAX);
    assert_eq!(timers.deadline(0), Some(u64::MAX));
    timers.arm(0, u64::MAX);
    assert_eq!(timers.pop_expired(u64::MAX), Some((0, u64::MAX)));
    assert_eq!(timers.deadline(0), None);
}

#[test]
fn a_boxed_queue_can_be_wrapped() {
    let queue: Box<dyn TimerQueue> = Box::new(TimerHeap::new());
    let mut timers = Lazy::new(queue);
    timers.arm(0, 10);
    timers.arm(0, 20);
    assert_eq!(timers.pop_expired(10), None);
    assert_eq!(timers.pop_expired(20), Some((0, 20)));
}

#[test]
#[should_panic(expected = "the queue already has timers")]
fn wrapping_a_queue_with_timers_panics() {
    let mut queue = TimerWheel::new();
    queue.arm(0, 10);
    let _ = Lazy::new(queue);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_script_over_the_wheel_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(Lazy::new(TimerWheel::new()), &script);
    }

    #[test]
    fn any_script_with_pauses_agrees_with_the_oracle(script in scripts()) {
        let moves_max = 2;
        assert_agrees(Lazy { moves_max, ..Lazy::new(TimerWheel::new()) }, &script);
        assert_agrees(Lazy { moves_max, ..Lazy::new(TimerTree::new()) }, &script);
    }

    #[test]
    fn any_script_over_queues_with_pauses_agrees_with_the_oracle(script in scripts()) {
        let moves_max = 2;
        assert_agrees(Lazy { moves_max, ..Lazy::new(TimerWheel::with_pauses()) }, &script);
        assert_agrees(Lazy::new(TimerTree::with_pauses()), &script);
        assert_agrees(Lazy::new(TimerHeap::with_pauses()), &script);
    }

    #[test]
    fn any_script_over_the_tree_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(Lazy::new(TimerTree::new()), &script);
    }

    #[test]
    fn any_script_over_the_heap_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(Lazy::new(TimerHeap::new()), &script);
    }
}
