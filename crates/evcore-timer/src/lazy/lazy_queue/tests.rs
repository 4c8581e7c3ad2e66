//! Over each queue beside the oracle, and by examples.

use proptest::prelude::*;

use super::*;
use crate::oracle::{Subject, assert_agrees, scripts};
use crate::{TimerHeap, TimerTree, TimerWheel};

impl<Q: Subject> Subject for Lazy<Q> {
    const EQUALS_IN_ORDER: bool = false;
    const EXACT_WAKE_UPS: bool = false;

    fn verify(&self) {
        self.queue.verify();
        for (id, slot) in (0..).zip(&self.slots) {
            let filed = slot.is_armed().then_some(slot.filed);
            assert_eq!(self.queue.deadline(id), filed, "where {id} is filed");
        }
    }
}

/// A queue that counts how often it is armed.
#[derive(Debug, Default)]
struct Counting {
    queue: TimerTree,
    armings: usize,
    refilings: usize,
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
        self.refilings += 1;
        self.queue.reinsert_in_phase(id, deadline);
    }

    fn clear(&mut self) {
        self.queue.clear();
    }

    fn deadline(&self, id: u32) -> Option<u64> {
        self.queue.deadline(id)
    }

    fn next_deadline(&self) -> Option<u64> {
        self.queue.next_deadline()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

#[test]
fn re_arming_to_later_reaches_the_queue_once_a_deadline() {
    let mut timers = Lazy::new(Counting::default());
    for now in 0..1_000 {
        assert_eq!(timers.pop_expired(now), None);
        timers.arm(0, now + 60);
    }
    assert_eq!(timers.queue().armings, 1);
    assert_eq!(timers.queue().refilings, 999 / 60);
}

#[test]
fn re_arming_to_earlier_takes_effect_at_once() {
    let mut timers = Lazy::new(TimerTree::new());
    timers.arm(0, 100);
    timers.arm(0, 300);
    timers.arm(0, 50);
    assert_eq!(timers.next_deadline(), Some(50));
    assert_eq!(timers.pop_expired(50), Some((0, 50)));
}

#[test]
fn earlier_than_wanted_and_later_than_filed_is_a_store_too() {
    let mut timers = Lazy::new(Counting::default());
    for deadline in [100, 300, 200] {
        timers.arm(0, deadline);
    }
    assert_eq!(timers.queue().armings, 1);
    assert_eq!(timers.pop_expired(199), None);
    assert_eq!(timers.pop_expired(200), Some((0, 200)));
}

#[test]
fn armed_again_with_the_same_deadline_it_keeps_its_place_among_equals() {
    let mut timers = Lazy::new(TimerTree::new());
    for (id, deadline) in [(0, 10), (1, 10), (0, 20), (0, 10)] {
        timers.arm(id, deadline);
    }
    let fired: Vec<_> = std::iter::from_fn(|| timers.pop_expired(10)).collect();
    assert_eq!(fired, [(0, 10), (1, 10)], "a queue of its own says 1 and 0");
}

#[test]
fn a_moved_timer_fires_among_the_others_in_its_order_and_in_its_phase() {
    let mut timers = Lazy::new(TimerWheel::new());
    for (id, deadline) in [(0, 10), (1, 15), (2, 25), (0, 20)] {
        timers.arm(id, deadline);
    }
    let fired: Vec<_> = std::iter::from_fn(|| timers.pop_expired(30)).collect();
    assert_eq!(fired, [(1, 15), (0, 20), (2, 25)]);
}

#[test]
fn a_timer_moved_by_a_handler_to_a_tick_that_has_passed_waits_for_the_next_phase() {
    let mut timers = Lazy::new(TimerTree::new());
    timers.arm(0, 10);
    timers.arm(1, 15);
    assert_eq!(timers.pop_expired(30), Some((0, 10)));
    timers.arm(1, 25);
    assert_eq!(timers.pop_expired(30), None);
    assert_eq!(timers.pop_expired(30), Some((1, 25)));
}

#[test]
fn many_moved_timers_are_filed_again_by_several_calls() {
    let moved = 2 * u32::try_from(REFILES_MAX).unwrap();
    let mut timers = Lazy::new(Counting::default());
    for id in 0..moved {
        timers.arm(id, 10);
        timers.arm(id, 20);
    }
    timers.arm(moved, 15);
    for call in 1..=2 {
        assert_eq!(timers.pop_expired(15), None);
        assert!(timers.has_more());
        assert_eq!(timers.queue().refilings, call * REFILES_MAX);
    }
    assert_eq!(timers.pop_expired(15), Some((moved, 15)));
    assert!(!timers.has_more());
}

#[test]
fn the_last_tick_is_a_deadline_like_any_other() {
    let mut timers = Lazy::new(TimerWheel::new());
    timers.arm(0, u64::MAX);
    assert_eq!(timers.deadline(0), Some(u64::MAX));
    timers.arm(0, u64::MAX);
    assert_eq!(timers.pop_expired(u64::MAX), Some((0, u64::MAX)));
    assert_eq!(timers.deadline(0), None);
}

#[test]
fn a_queue_chosen_at_run_time_can_be_lazy() {
    let queue: Box<dyn TimerQueue> = Box::new(TimerHeap::new());
    let mut timers = Lazy::new(queue);
    timers.arm(0, 10);
    timers.arm(0, 20);
    assert_eq!(timers.pop_expired(10), None);
    assert_eq!(timers.pop_expired(20), Some((0, 20)));
}

#[test]
#[should_panic(expected = "the queue has timers already")]
fn a_queue_with_timers_is_refused() {
    let mut queue = TimerWheel::new();
    queue.arm(0, 10);
    let _ = Lazy::new(queue);
}

proptest! {
    #[test]
    fn over_the_wheel_any_script_has_the_oracles_result_to_the_tick(script in scripts()) {
        assert_agrees(Lazy::new(TimerWheel::new()), &script);
    }

    #[test]
    fn with_pauses_any_script_has_the_oracles_result_to_the_tick(script in scripts()) {
        let refiles_max = 2;
        assert_agrees(Lazy { refiles_max, ..Lazy::new(TimerWheel::new()) }, &script);
        assert_agrees(Lazy { refiles_max, ..Lazy::new(TimerTree::new()) }, &script);
    }

    #[test]
    fn over_the_tree_any_script_has_the_oracles_result_to_the_tick(script in scripts()) {
        assert_agrees(Lazy::new(TimerTree::new()), &script);
    }

    #[test]
    fn over_the_heap_any_script_has_the_oracles_result_to_the_tick(script in scripts()) {
        assert_agrees(Lazy::new(TimerHeap::new()), &script);
    }
}
