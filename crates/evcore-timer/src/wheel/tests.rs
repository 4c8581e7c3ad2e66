//! Tests of the wheel: examples, known bugs of other timer queues, and a comparison with a naive
//! queue, the oracle.

mod left_slots;
mod quiet;

use proptest::prelude::*;

use super::*;
use crate::oracle::{TestedQueue, assert_agrees, config, scripts};
use crate::overdue::ADMIT_MAX;

impl TestedQueue for TimerWheel {
    const EXACT_WAKE_UPS: bool = false;

    fn verify(&self) {
        self.verify();
    }
}

fn wheel_with(timers: &[(u32, u64)]) -> TimerWheel {
    let mut wheel = TimerWheel::new();
    for &(id, deadline) in timers {
        wheel.arm(id, deadline);
        wheel.verify();
    }
    wheel
}

/// The ids that fire in one phase, pauses included.
fn fired(wheel: &mut TimerWheel, now: u64) -> Vec<u32> {
    let mut ids = Vec::new();
    loop {
        let expired = wheel.pop_expired(now);
        wheel.verify();
        match expired {
            Some((id, deadline)) => {
                assert!(deadline <= now, "{id} fired early");
                ids.push(id);
            }
            None if wheel.has_more() => {}
            None => return ids,
        }
    }
}

#[test]
fn a_timer_fires_at_its_deadline_and_not_before() {
    for deadline in [1, 255, 256, 257, 65_535, 65_536, 1 << 36, u64::MAX] {
        let mut wheel = wheel_with(&[(0, deadline)]);
        assert_eq!(wheel.pop_expired(deadline - 1), None);
        assert_eq!(wheel.pop_expired(deadline), Some((0, deadline)));
        assert!(wheel.is_empty());
    }
}

#[test]
fn deadlines_of_all_levels_fire_in_order() {
    let mut wheel = wheel_with(&[
        (0, 100_000),
        (1, 300),
        (2, 5_000),
        (3, 5),
        (4, u64::MAX),
        (5, 299),
    ]);
    assert_eq!(fired(&mut wheel, u64::MAX), [3, 5, 1, 2, 0, 4]);
}

#[test]
fn equal_deadlines_of_different_levels_fire_as_armed() {
    let mut wheel = wheel_with(&[(0, 5_000), (9, 4_000)]);
    assert_eq!(fired(&mut wheel, 4_000), [9]);
    wheel.arm(1, 5_000);
    assert_eq!(fired(&mut wheel, 4_999), []);
    wheel.arm(2, 5_000);
    assert_eq!(fired(&mut wheel, 5_000), [0, 1, 2]);
}

#[test]
fn rearming_with_the_same_deadline_goes_behind_its_equals() {
    let mut wheel = wheel_with(&[(0, 10), (1, 10), (0, 10)]);
    assert_eq!(wheel.len(), 2);
    assert_eq!(fired(&mut wheel, 10), [1, 0]);
}

#[test]
fn disarming_an_unarmed_timer_returns_false() {
    let mut wheel = wheel_with(&[(3, 10)]);
    assert!(!wheel.disarm(2));
    assert!(!wheel.disarm(u32::MAX));
    assert!(wheel.disarm(3));
    assert!(!wheel.disarm(3));
    assert_eq!(fired(&mut wheel, 10), []);
}

#[test]
fn the_deadline_of_an_id_beyond_the_table_is_none() {
    let wheel = wheel_with(&[(3, 10)]);
    assert_eq!(
        [2, 3, 4, u32::MAX].map(|id| wheel.deadline(id)),
        [None, Some(10), None, None]
    );
}

#[test]
fn a_handler_that_arms_in_the_past_does_not_loop() {
    let mut wheel = wheel_with(&[(0, 10)]);
    for now in [10, 10, 11, 11] {
        assert_eq!(wheel.pop_expired(now), Some((0, 10)));
        wheel.arm(0, 10);
        assert_eq!(wheel.pop_expired(now), None);
        assert_eq!(wheel.next_deadline(), Some(10));
    }
}

#[test]
fn a_due_timer_that_a_handler_disarms_does_not_fire() {
    let mut wheel = wheel_with(&[(0, 10), (1, 10), (2, 9), (3, 10)]);
    assert_eq!(wheel.pop_expired(10), Some((2, 9)));
    assert!(wheel.disarm(1));
    wheel.arm(3, 20);
    assert_eq!(fired(&mut wheel, 10), [0]);
    assert_eq!(fired(&mut wheel, 20), [3]);
}

#[test]
fn a_phase_left_early_goes_on_with_the_same_now() {
    let mut wheel = wheel_with(&[(0, 10), (1, 11)]);
    assert_eq!(wheel.pop_expired(12), Some((0, 10)));
    wheel.arm(2, 5);
    assert_eq!(fired(&mut wheel, 12), [1]);
    assert_eq!(fired(&mut wheel, 12), [2]);
}

#[test]
fn another_now_begins_a_phase_that_yields_deferred_timers() {
    let mut wheel = wheel_with(&[(0, 10), (1, 11), (2, 13)]);
    assert_eq!(wheel.pop_expired(12), Some((0, 10)));
    for (id, deadline) in [(3, 11), (4, 0), (5, 12), (6, 13)] {
        wheel.arm(id, deadline);
    }
    assert_eq!(fired(&mut wheel, 13), [4, 1, 3, 5, 2, 6]);
}

#[test]
fn a_now_that_goes_back_fires_nothing_early() {
    let mut wheel = wheel_with(&[(0, 4_000), (1, 10_000)]);
    assert_eq!(fired(&mut wheel, 5_000), [0]);
    wheel.arm(2, 4_500);
    assert_eq!(fired(&mut wheel, 4_499), []);
    wheel.arm(3, 4_500);
    assert_eq!(fired(&mut wheel, 4_500), [2, 3]);
    assert_eq!(fired(&mut wheel, 10_000), [1]);
}

#[test]
fn a_wheel_drained_at_the_last_tick_can_be_reused() {
    let mut wheel = wheel_with(&[(0, u64::MAX), (1, 7)]);
    assert_eq!(fired(&mut wheel, u64::MAX), [1, 0]);
    for (id, deadline) in [(0, 90), (1, 30), (2, 0)] {
        wheel.arm(id, deadline);
    }
    assert_eq!(fired(&mut wheel, 50), [2, 1]);
    assert_eq!(fired(&mut wheel, 90), [0]);
}

#[test]
fn a_reinserted_timer_fires_in_the_phase_behind_its_equals() {
    let mut wheel = wheel_with(&[(0, 10), (1, 20), (2, 20), (3, 30)]);
    assert_eq!(wheel.pop_expired(30), Some((0, 10)));
    wheel.arm(4, 20);
    wheel.reinsert_in_phase(0, 20);
    wheel.verify();
    assert_eq!(fired(&mut wheel, 30), [1, 2, 0, 3]);
    assert_eq!(fired(&mut wheel, 30), [4]);
}

#[test]
fn reinserting_among_overdue_timers_keeps_the_order() {
    let mut wheel = wheel_with(&[]);
    assert_eq!(wheel.pop_expired(100), None);
    for (id, deadline) in [(0, 10), (1, 50), (2, 100)] {
        wheel.arm(id, deadline);
    }
    assert_eq!(wheel.pop_expired(200), Some((0, 10)));
    for (id, deadline) in [(3, 100), (4, 50), (5, 150), (6, 201)] {
        wheel.reinsert_in_phase(id, deadline);
        wheel.verify();
    }
    assert_eq!(fired(&mut wheel, 200), [1, 4, 2, 3, 5]);
    assert_eq!(fired(&mut wheel, 201), [6]);
}

#[test]
fn clear_within_a_phase_does_not_end_it() {
    let mut wheel = wheel_with(&[(0, 10), (1, 10), (2, 500)]);
    assert_eq!(wheel.pop_expired(10), Some((0, 10)));
    wheel.clear();
    wheel.verify();
    wheel.arm(0, 10);
    assert_eq!(wheel.pop_expired(10), None);
    assert_eq!(fired(&mut wheel, 1_000), [0]);
}

#[test]
fn a_whole_day_without_timers_is_skipped() {
    let day_ns = 86_400_000_000_000;
    let mut wheel = wheel_with(&[(0, 10 * day_ns), (1, 9 * day_ns)]);
    assert_eq!(fired(&mut wheel, 9 * day_ns), [1]);
    assert_eq!(wheel.position, 9 * day_ns);
    assert_eq!(wheel.next_deadline(), Some(10 * day_ns));
}

#[test]
fn a_crowded_slot_is_moved_by_several_calls() {
    let crowd = u32::try_from(3 * MOVES_MAX).unwrap();
    let mut wheel = TimerWheel::new();
    for id in 0..crowd {
        wheel.arm(id, 256 + u64::from(id % 256));
    }
    for calls in 1..3 {
        assert_eq!(wheel.pop_expired(300), None);
        assert!(wheel.has_more());
        assert_eq!(
            wheel.next_deadline(),
            Some(256),
            "so that the loop does not wait"
        );
        let left = wheel.deadlines(deadline_slot::SLOTS + 1).len();
        assert_eq!(left, (3 - calls) * MOVES_MAX);
        wheel.verify();
    }
    assert_eq!(wheel.pop_expired(300), Some((0, 256)));
    assert!(!wheel.has_more());
}

#[test]
fn one_call_moves_64_timers_over_all_levels() {
    // Each timer moves from level 2 to level 1, and from there to level 0: 192 moves in 3 calls.
    let mut wheel = TimerWheel::new();
    for id in 0..96 {
        wheel.arm(id, 0x01_01_01);
    }
    for _ in 0..2 {
        assert_eq!(wheel.pop_expired(0x01_01_01), None);
        assert!(wheel.has_more());
    }
    assert_eq!(wheel.pop_expired(0x01_01_01), Some((0, 0x01_01_01)));
}

#[test]
fn a_timer_armed_during_a_pause_goes_behind_its_equals() {
    let mut wheel = TimerWheel::with_pauses();
    for id in 0..6 {
        wheel.arm(id, 300);
    }
    wheel.arm(9, 260);
    wheel.arm(9, 500); // the call at 260 still searches
    assert_eq!(wheel.pop_expired(260), None);
    assert!(wheel.has_more());
    wheel.arm(6, 300);
    wheel.arm(0, 300);
    assert_eq!(fired(&mut wheel, 299), []);
    assert_eq!(fired(&mut wheel, 300), [1, 2, 3, 4, 5, 6, 0]);
}

#[test]
fn a_now_that_goes_back_during_a_pause_changes_no_order() {
    for back in [299, 200, 0] {
        let mut wheel = TimerWheel::with_pauses();
        for id in 0..6 {
            wheel.arm(id, 300);
        }
        assert_eq!(wheel.pop_expired(300), None);
        assert!(wheel.has_more());
        wheel.arm(6, 301);
        assert_eq!(fired(&mut wheel, back), []);
        wheel.arm(7, 300);
        assert_eq!(fired(&mut wheel, 400), [0, 1, 2, 3, 4, 5, 7, 6]);
    }
}

#[test]
fn disarming_all_during_a_pause_leaves_nothing_to_wake_up_for() {
    let mut wheel = TimerWheel::with_pauses();
    for id in 0..6 {
        wheel.arm(id, 300);
    }
    assert_eq!(wheel.pop_expired(300), None);
    for id in 0..6 {
        assert!(wheel.disarm(id));
    }
    assert_eq!(wheel.next_deadline(), None);
    wheel.arm(0, 600);
    assert_eq!(fired(&mut wheel, 600), [0]);
}

#[test]
fn with_capacity_makes_room_for_all_ids_below_it() {
    let mut wheel = TimerWheel::with_capacity(1_000);
    let before = (wheel.nodes.capacity(), wheel.lists.capacity());
    for id in 0..1_000 {
        wheel.arm(id, 1 + u64::from(id));
    }
    assert_eq!((wheel.nodes.capacity(), wheel.lists.capacity()), before);
}

#[test]
#[should_panic(expected = "134217729 timer ids are too many")]
fn room_for_an_id_above_the_highest_is_refused() {
    let _ = TimerWheel::with_capacity(TimerWheel::ID_MAX as usize + 2);
}

#[test]
#[should_panic(expected = "timer id 134217728 is above 134217727")]
fn arming_an_id_above_the_limit_panics() {
    TimerWheel::new().arm(TimerWheel::ID_MAX + 1, 10);
}

#[test]
#[should_panic(expected = "timer id 4294967295 is above 134217727")]
fn arming_the_highest_number_as_an_id_panics() {
    TimerWheel::new().arm(u32::MAX, 10);
}

#[test]
fn debug_shows_the_state_without_the_table() {
    let wheel = wheel_with(&[(1_000, 10)]);
    let shown = format!("{wheel:?}");
    assert_eq!(
        shown,
        "TimerWheel { armed: 1, quiet_until: 10, position: 0, .. }"
    );
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_script_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(TimerWheel::new(), &script);
    }

    #[test]
    fn any_script_with_pauses_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(TimerWheel::with_pauses(), &script);
    }

    #[test]
    fn any_script_over_a_boxed_wheel_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(Box::new(TimerWheel::with_pauses()), &script);
    }

    #[test]
    fn next_deadline_wastes_at_most_one_wake_per_level(
        position in any::<u64>(),
        ahead in any::<u64>(),
        shift in 0..64_u32,
    ) {
        let mut wheel = TimerWheel::new();
        prop_assert_eq!(wheel.pop_expired(position), None);
        let deadline = position.saturating_add(ahead >> shift);
        wheel.arm(0, deadline);

        let mut wakes = 1;
        while let Some(next) = wheel.next_deadline() {
            if wheel.pop_expired(next).is_some() {
                break;
            }
            wakes += 1;
        }
        prop_assert!(wheel.is_empty());
        prop_assert!(wakes <= deadline_slot::LEVELS, "{} wakes", wakes);
        prop_assert_eq!(wheel.now, deadline);
    }
}

/// Timers that are far ahead or overdue, which have no slot.
mod on_heaps {
    use super::*;

    #[test]
    fn far_timers_fire_ahead_of_equal_ones_in_slots() {
        let day = 86_400_000;
        let mut wheel = wheel_with(&[(0, 100 * day), (1, 99 * day), (2, u64::MAX)]);
        assert_eq!(wheel.next_deadline(), Some(99 * day));
        assert_eq!(fired(&mut wheel, 99 * day), [1]);
        wheel.arm(3, 100 * day);
        wheel.arm(4, 100 * day - 1);
        wheel.verify();
        assert_eq!(wheel.deadline(0), Some(100 * day));
        assert_eq!(fired(&mut wheel, 100 * day), [4, 0, 3]);
        assert!(wheel.disarm(2));
        assert!(wheel.is_empty());
    }

    #[test]
    fn overdue_timers_fire_behind_equal_ones_in_slots() {
        let mut wheel = wheel_with(&[(0, 10), (1, 12), (2, 15)]);
        assert_eq!(wheel.pop_expired(12), Some((0, 10)));
        wheel.arm(3, 12);
        wheel.arm(4, 9);
        assert_eq!(wheel.next_deadline(), Some(9));
        assert_eq!(fired(&mut wheel, 13), [4, 1, 3]);
    }

    #[test]
    fn many_overdue_timers_of_two_phases_take_several_calls() {
        let crowd = u32::try_from(3 * ADMIT_MAX).unwrap();
        let mut wheel = wheel_with(&[(crowd, 50)]);
        assert_eq!(wheel.pop_expired(100), Some((crowd, 50)));
        wheel.arm(crowd, 60);
        assert_eq!(wheel.pop_expired(100), None);
        wheel.arm(crowd + 1, 60);
        assert_eq!(wheel.pop_expired(101), Some((crowd, 60)));
        (0..crowd).for_each(|id| wheel.arm(id, 40));
        for _ in 1..3 {
            assert_eq!(wheel.pop_expired(102), None);
            assert!(wheel.has_more());
            assert_eq!(
                wheel.next_deadline(),
                Some(40),
                "so that the loop does not wait"
            );
            wheel.verify();
        }
        let order: Vec<u32> = (0..crowd).chain([crowd + 1]).collect();
        assert_eq!(fired(&mut wheel, 102), order);
    }

    #[test]
    fn a_timer_moves_between_slots_and_heaps() {
        let mut wheel = wheel_with(&[]);
        assert_eq!(wheel.pop_expired(1_000), None);
        for deadline in [900, 2_000, 1 << 40, 800, 1 << 41, 3_000] {
            wheel.arm(0, deadline);
            wheel.verify();
            assert_eq!((wheel.deadline(0), wheel.len()), (Some(deadline), 1));
        }
        assert_eq!(fired(&mut wheel, 3_000), [0]);
    }
}

mod peers {
    use super::*;

    // tokio #849: the wake-up stayed at the slot of the old deadline.
    #[test]
    fn moving_a_deadline_closer_moves_the_wake_up() {
        let mut wheel = wheel_with(&[(0, 200)]);
        assert_eq!(wheel.pop_expired(1), None);
        assert_eq!(wheel.pop_expired(3), None);
        wheel.arm(0, 5);
        assert_eq!(wheel.next_deadline(), Some(5));
        assert_eq!(fired(&mut wheel, 20), [0]);
    }

    // tokio #854: the loop slept past a second timer that was due before the first.
    #[test]
    fn a_sooner_timer_moves_the_wake_up() {
        let mut wheel = wheel_with(&[(0, 10_000)]);
        assert_eq!(wheel.pop_expired(1), None);
        wheel.arm(1, 600);
        assert!(wheel.next_deadline() <= Some(600));
        assert_eq!(fired(&mut wheel, 600), [1]);
    }

    // tokio #868: moving two timers in turn to later deadlines panicked.
    #[test]
    fn moving_several_timers_to_later_in_turn_loses_none() {
        let mut wheel = wheel_with(&[(0, 200), (1, 250)]);
        assert_eq!(wheel.pop_expired(0), None);
        for (id, deadline) in [(0, 300), (1, 350), (0, 400)] {
            wheel.arm(id, deadline);
            wheel.verify();
        }
        assert!(wheel.next_deadline() <= Some(350));
        assert_eq!(fired(&mut wheel, 399), [1]);
        assert_eq!(fired(&mut wheel, 400), [0]);
    }

    // tokio #1700: a timer armed after an expiry held back those that were due before it.
    #[test]
    fn arming_after_an_expiry_holds_nothing_back() {
        let mut wheel = wheel_with(&[(1, 1_000), (2, 2_000), (3, 3_000)]);
        assert_eq!(fired(&mut wheel, 1_000), [1]);
        wheel.arm(6, 6_000);
        assert!(wheel.next_deadline() <= Some(2_000));
        assert_eq!(fired(&mut wheel, 2_000), [2]);
    }

    // tokio #2473 and #3270: moving an expired timer that was not yet popped panicked if its
    // deadline was the start of a slot.
    #[test]
    fn a_due_timer_can_be_moved_and_disarmed() {
        let at = 7_481_600; // a multiple of 256
        let mut wheel = wheel_with(&[(0, at), (1, at), (2, at), (3, at)]);
        assert_eq!(wheel.pop_expired(at), Some((0, at)));
        wheel.arm(1, at + 256);
        wheel.verify();
        assert!(wheel.disarm(2));
        wheel.verify();
        assert_eq!(fired(&mut wheel, at), [3]);
        assert!(wheel.disarm(1));
        assert!(wheel.is_empty());
    }

    // tokio #3270: a timer armed in the past and then in the future still counted as overdue.
    #[test]
    fn an_overdue_timer_can_be_moved_into_the_future_and_on() {
        let mut wheel = wheel_with(&[]);
        assert_eq!(wheel.pop_expired(1_000), None);
        for deadline in [900, 2_000, 3_000] {
            wheel.arm(0, deadline);
            wheel.verify();
        }
        assert_eq!(fired(&mut wheel, 2_999), []);
        assert_eq!(fired(&mut wheel, 3_000), [0]);
    }

    // tokio #5536: a wheel of six levels panicked after 2^36 ticks.
    #[test]
    fn the_wheel_runs_for_any_number_of_ticks() {
        let mut wheel = TimerWheel::new();
        for bit in 0..64 {
            let now = 1 << bit;
            assert_eq!(wheel.pop_expired(now), None);
            wheel.arm(0, now + 1);
            assert_eq!(fired(&mut wheel, now + 1), [0]);
        }
    }

    // tokio #8274: a timer moved into the past did not end the wait.
    #[test]
    fn a_timer_moved_into_the_past_is_due_at_once() {
        let mut wheel = wheel_with(&[(0, 5_000)]);
        assert_eq!(wheel.pop_expired(1_000), None);
        wheel.arm(0, 10);
        assert_eq!(wheel.next_deadline(), Some(10));
        assert_eq!(fired(&mut wheel, 1_000), [0]);
    }

    // calloop #238: cancelled timers stayed in memory until their deadline.
    #[test]
    fn arming_and_disarming_takes_bounded_memory() {
        let mut wheel = wheel_with(&[(0, 1), (1, 1)]);
        let before = wheel.nodes.capacity();
        for deadline in 0..100_000 {
            wheel.arm(0, 1_000_000 + deadline);
            wheel.arm(1, deadline);
            assert!(wheel.disarm(1));
        }
        assert_eq!((wheel.len(), wheel.nodes.capacity()), (1, before));
        assert!(wheel.lists.capacity() <= 2 * lists::LISTS as usize + 64);
        wheel.verify();
    }

    // calloop #142: with a timer already due, the loop waited for one more tick.
    #[test]
    fn a_timer_due_now_fires_without_another_tick() {
        let mut wheel = TimerWheel::new();
        assert_eq!(wheel.pop_expired(500), None);
        wheel.arm(0, 500);
        assert_eq!(wheel.next_deadline(), Some(500));
        assert_eq!(fired(&mut wheel, 500), [0]);
    }

    // zio #515: deadline 0 meant "not armed".
    #[test]
    fn deadline_0_is_a_deadline() {
        let mut wheel = wheel_with(&[(0, 0)]);
        assert_eq!(
            (wheel.deadline(0), wheel.next_deadline()),
            (Some(0), Some(0))
        );
        assert_eq!(fired(&mut wheel, 0), [0]);
        wheel.arm(0, 0);
        assert!(wheel.disarm(0));
    }

    // glommio #44: a later timer in a narrow slot hid an earlier one in a wide slot.
    #[test]
    fn a_timer_in_a_finer_slot_does_not_hide_an_earlier_one() {
        let mut wheel = wheel_with(&[(0, 65_536)]);
        assert_eq!(wheel.pop_expired(65_530), None);
        wheel.arm(1, 65_537);
        assert!(wheel.next_deadline() <= Some(65_536));
        assert_eq!(fired(&mut wheel, 65_537), [0, 1]);
    }
}
