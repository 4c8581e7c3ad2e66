//! Tests of the heap: examples, and a comparison with a naive queue, the oracle.

use proptest::prelude::*;

use super::*;
use crate::oracle::{TestedQueue, assert_agrees, config, scripts};

impl TestedQueue for TimerHeap {
    fn verify(&self) {
        self.verify();
    }

    fn arm_periodic(&mut self, id: u32, first: u64, period: u64) -> bool {
        self.arm_periodic(id, first, period);
        true
    }
}

fn heap_with(timers: &[(u32, u64)]) -> TimerHeap {
    let mut heap = TimerHeap::new();
    for &(id, deadline) in timers {
        heap.arm(id, deadline);
        heap.verify();
    }
    heap
}

fn fired(heap: &mut TimerHeap, now: u64) -> Vec<(u32, u64)> {
    let mut all = Vec::new();
    while let Some((id, deadline)) = heap.pop_expired(now) {
        heap.verify();
        assert!(deadline <= now, "{id} fired early");
        all.push((id, deadline));
    }
    heap.verify();
    all
}

#[test]
fn timers_fire_by_deadline_and_equal_ones_as_armed() {
    let mut heap = heap_with(&[(4, 20), (3, 10), (2, 20), (1, 10), (0, 20)]);
    assert_eq!(fired(&mut heap, 19), [(3, 10), (1, 10)]);
    assert_eq!(fired(&mut heap, 20), [(4, 20), (2, 20), (0, 20)]);
}

#[test]
fn rearming_with_the_same_deadline_goes_behind_its_equals() {
    let mut heap = heap_with(&[(0, 10), (1, 10), (0, 10)]);
    assert_eq!(heap.len(), 2);
    assert_eq!(fired(&mut heap, 10), [(1, 10), (0, 10)]);
}

#[test]
fn the_wake_up_is_exact_for_any_distance() {
    let mut heap = heap_with(&[(0, u64::MAX), (1, 1 << 40)]);
    assert_eq!(heap.next_deadline(), Some(1 << 40));
    assert!(heap.disarm(1));
    assert_eq!(heap.next_deadline(), Some(u64::MAX));
}

#[test]
fn disarming_twice_returns_false_the_second_time() {
    let mut heap = heap_with(&[(3, 10)]);
    assert!(heap.disarm(3));
    assert!(!heap.disarm(3));
    assert!(!heap.disarm(u32::MAX));
    assert!(heap.is_empty());
}

#[test]
fn a_handler_that_arms_in_the_past_does_not_loop() {
    let mut heap = heap_with(&[(0, 10)]);
    for now in [10, 10, 11, 11] {
        assert_eq!(heap.pop_expired(now), Some((0, 10)));
        heap.arm(0, 10);
        heap.verify();
        assert_eq!(heap.next_deadline(), Some(10));
        assert_eq!(heap.pop_expired(now), None);
    }
}

#[test]
fn many_overdue_timers_of_two_phases_take_several_calls() {
    let crowd = u32::try_from(3 * ADMIT_MAX).unwrap();
    let mut heap = heap_with(&[]);
    assert_eq!(heap.pop_expired(100), None);
    heap.arm(crowd, 50);
    heap.arm(crowd + 1, 60);
    assert!(heap.pop_expired(101).is_some());
    (0..crowd).for_each(|id| heap.arm(id, 40));
    for _ in 1..3 {
        assert_eq!(heap.pop_expired(102), None);
        assert!(heap.has_more());
        assert_eq!(
            heap.next_deadline(),
            Some(40),
            "so that the loop does not wait"
        );
        heap.verify();
    }
    for id in 0..crowd {
        assert_eq!(heap.pop_expired(102), Some((id, 40)));
        assert!(!heap.has_more());
    }
    assert_eq!(heap.pop_expired(102), Some((crowd + 1, 60)));
}

#[test]
fn clear_within_a_phase_does_not_end_it() {
    let mut heap = heap_with(&[(0, 10), (1, 10)]);
    heap.arm_periodic(2, 50, 50);
    assert_eq!(heap.pop_expired(10), Some((0, 10)));
    heap.clear();
    heap.verify();
    heap.arm(0, 10);
    assert_eq!(heap.pop_expired(10), None);
    assert_eq!(fired(&mut heap, 100), [(0, 10)]);
}

#[test]
fn a_periodic_timer_fires_once_for_all_missed_periods() {
    let mut heap = TimerHeap::new();
    heap.arm_periodic(0, 100, 10);
    assert_eq!(fired(&mut heap, 99), []);
    assert_eq!(fired(&mut heap, 100), [(0, 100)]);
    assert_eq!(heap.deadline(0), Some(110));
    assert_eq!(fired(&mut heap, 145), [(0, 110)]);
    assert_eq!(heap.deadline(0), Some(150));
    assert_eq!(fired(&mut heap, 150), [(0, 150)]);
    assert_eq!(heap.deadline(0), Some(160));
}

#[test]
fn a_periodic_timer_ends_at_the_last_tick() {
    let mut heap = TimerHeap::new();
    heap.arm_periodic(0, u64::MAX - 25, 10);
    for left in [25, 15, 5] {
        assert_eq!(fired(&mut heap, u64::MAX - left), [(0, u64::MAX - left)]);
    }
    assert!(heap.is_empty());
    assert_eq!(heap.period(0), None);
}

#[test]
fn the_longest_period_does_not_overflow() {
    let mut heap = TimerHeap::new();
    heap.arm_periodic(0, 0, u64::MAX);
    heap.arm_periodic(1, 0, 1);
    heap.arm_periodic(2, u64::MAX, u64::MAX);
    assert_eq!(fired(&mut heap, 0), [(0, 0), (1, 0)]);
    assert_eq!(heap.deadline(0), Some(u64::MAX));
    let all = [(1, 1), (2, u64::MAX), (0, u64::MAX)];
    assert_eq!(fired(&mut heap, u64::MAX), all);
    assert!(heap.is_empty());
}

#[test]
fn disarming_and_arming_make_a_timer_non_periodic() {
    let mut heap = TimerHeap::new();
    heap.arm_periodic(0, 10, 10);
    heap.arm_periodic(1, 10, 10);
    assert_eq!(heap.pop_expired(10), Some((0, 10)));
    assert!(heap.disarm(0));
    assert_eq!(heap.pop_expired(10), Some((1, 10)));
    assert_eq!(heap.period(1), Some(10));
    heap.arm(1, 30);
    assert_eq!(heap.period(1), None);
    assert_eq!(fired(&mut heap, 1_000), [(1, 30)]);
    assert!(heap.is_empty());
}

#[test]
#[should_panic(expected = "timer 7 has period 0")]
fn a_period_of_zero_panics() {
    TimerHeap::new().arm_periodic(7, 10, 0);
}

#[test]
#[should_panic(expected = "134217729 timer ids are too many")]
fn room_for_an_id_above_the_highest_is_refused() {
    let _ = TimerHeap::with_capacity(TimerHeap::ID_MAX as usize + 2);
}

#[test]
#[should_panic(expected = "timer id 134217728 is above 134217727")]
fn arming_an_id_above_the_limit_panics() {
    TimerHeap::new().arm(TimerHeap::ID_MAX + 1, 10);
}

#[test]
#[should_panic(expected = "timer id 4294967295 is above 134217727")]
fn arming_the_highest_number_as_an_id_panics() {
    TimerHeap::new().arm_periodic(u32::MAX, 10, 1);
}

#[test]
fn debug_shows_the_state_without_the_table() {
    let shown = format!("{:?}", heap_with(&[(1_000, 10)]));
    assert_eq!(shown, "TimerHeap { armed: 1, next_deadline: Some(10), .. }");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_script_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(TimerHeap::new(), &script);
    }

    #[test]
    fn any_script_with_pauses_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(TimerHeap::with_pauses(), &script);
    }
}
