//! Tests of the tree: examples, and a comparison with a naive queue, the oracle.

use proptest::prelude::*;

use super::*;
use crate::oracle::{TestedQueue, assert_agrees, config, scripts};

impl TestedQueue for TimerTree {
    fn verify(&self) {
        self.verify();
    }
}

fn tree_with(timers: &[(u32, u64)]) -> TimerTree {
    let mut tree = TimerTree::new();
    for &(id, deadline) in timers {
        tree.arm(id, deadline);
        tree.verify();
    }
    tree
}

fn fired(tree: &mut TimerTree, now: u64) -> Vec<u32> {
    let mut ids = Vec::new();
    while let Some((id, deadline)) = tree.pop_expired(now) {
        tree.verify();
        assert!(deadline <= now, "{id} fired early");
        ids.push(id);
    }
    tree.verify();
    ids
}

#[test]
fn timers_fire_by_deadline_and_equal_ones_as_armed() {
    let mut tree = tree_with(&[(4, 20), (3, 10), (2, 20), (1, 10), (0, 20)]);
    assert_eq!(fired(&mut tree, 19), [3, 1]);
    assert_eq!(fired(&mut tree, 20), [4, 2, 0]);
}

#[test]
fn rearming_with_the_same_deadline_goes_behind_its_equals() {
    let mut tree = tree_with(&[(0, 10), (1, 10), (0, 10)]);
    assert_eq!(tree.len(), 2);
    assert_eq!(fired(&mut tree, 10), [1, 0]);
}

#[test]
fn the_wake_up_is_exact_for_any_distance() {
    let mut tree = tree_with(&[(0, u64::MAX), (1, 1 << 40), (2, 1 << 40)]);
    assert_eq!(tree.next_deadline(), Some(1 << 40));
    assert!(tree.disarm(1));
    assert_eq!(tree.next_deadline(), Some(1 << 40));
    assert!(tree.disarm(2));
    assert_eq!(tree.next_deadline(), Some(u64::MAX));
    assert_eq!(fired(&mut tree, u64::MAX), [0]);
    assert_eq!(tree.next_deadline(), None);
}

#[test]
fn disarming_twice_returns_false_the_second_time() {
    let mut tree = tree_with(&[(3, 10)]);
    assert!(tree.disarm(3));
    assert!(!tree.disarm(3));
    assert!(!tree.disarm(u32::MAX));
    assert!(tree.is_empty());
}

#[test]
fn a_handler_that_arms_in_the_past_does_not_loop() {
    let mut tree = tree_with(&[(0, 10)]);
    for now in [10, 10, 11, 11] {
        assert_eq!(tree.pop_expired(now), Some((0, 10)));
        tree.arm(0, 10);
        tree.verify();
        assert_eq!(tree.next_deadline(), Some(10));
        assert_eq!(tree.pop_expired(now), None);
        assert_eq!(tree.next_deadline(), Some(10));
    }
}

#[test]
fn deferred_timers_fire_by_deadline_in_the_next_phase() {
    let mut tree = tree_with(&[(0, 10), (1, 11), (2, 13)]);
    assert_eq!(tree.pop_expired(12), Some((0, 10)));
    for (id, deadline) in [(3, 11), (4, 0), (5, 12), (6, 13)] {
        tree.arm(id, deadline);
    }
    assert_eq!(fired(&mut tree, 13), [4, 1, 3, 5, 2, 6]);
}

#[test]
fn many_overdue_timers_of_two_phases_take_several_calls() {
    let crowd = u32::try_from(3 * ADMIT_MAX).unwrap();
    let mut tree = tree_with(&[]);
    assert_eq!(tree.pop_expired(100), None);
    tree.arm(crowd, 50);
    tree.arm(crowd + 1, 60);
    assert!(tree.pop_expired(101).is_some());
    (0..crowd).for_each(|id| tree.arm(id, 40));
    for _ in 1..3 {
        assert_eq!(tree.pop_expired(102), None);
        assert!(tree.has_more());
        assert_eq!(
            tree.next_deadline(),
            Some(40),
            "so that the loop does not wait"
        );
        tree.verify();
    }
    for id in 0..crowd {
        assert_eq!(tree.pop_expired(102), Some((id, 40)));
        assert!(!tree.has_more());
    }
    assert_eq!(tree.pop_expired(102), Some((crowd + 1, 60)));
}

#[test]
fn clear_within_a_phase_does_not_end_it() {
    let mut tree = tree_with(&[(0, 10), (1, 10), (2, 500)]);
    assert_eq!(tree.pop_expired(10), Some((0, 10)));
    tree.clear();
    tree.verify();
    tree.arm(0, 10);
    assert_eq!(tree.pop_expired(10), None);
    assert_eq!(fired(&mut tree, 10), [0]);
}

#[test]
#[should_panic(expected = "134217729 timer ids are too many")]
fn room_for_an_id_above_the_highest_is_refused() {
    let _ = TimerTree::with_capacity(TimerTree::ID_MAX as usize + 2);
}

#[test]
#[should_panic(expected = "timer id 134217728 is above 134217727")]
fn arming_an_id_above_the_limit_panics() {
    TimerTree::new().arm(TimerTree::ID_MAX + 1, 10);
}

#[test]
#[should_panic(expected = "timer id 4294967295 is above 134217727")]
fn arming_the_highest_number_as_an_id_panics() {
    TimerTree::new().arm(u32::MAX, 10);
}

#[test]
fn debug_shows_the_state_without_the_table() {
    let shown = format!("{:?}", tree_with(&[(1_000, 10)]));
    assert_eq!(shown, "TimerTree { armed: 1, next_deadline: Some(10), .. }");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_script_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(TimerTree::new(), &script);
    }

    #[test]
    fn any_script_with_pauses_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(TimerTree::with_pauses(), &script);
    }
}
