//! Slots whose timers have all left (were disarmed or moved). Such a slot keeps a chunk until the
//! wheel reaches it.

use super::*;

/// Number of slots that have a chunk.
fn slots(wheel: &TimerWheel) -> usize {
    let slots = 0..lists::LISTS;
    slots.filter(|slot| wheel.lists.has_chunk(*slot)).count()
}

#[test]
fn a_slot_that_timers_left_is_dropped_when_it_is_reached() {
    // One slot on level 0 and three on level 1. Timer 0 leaves all of them except the last.
    let mut wheel = wheel_with(&[(0, 100), (0, 256), (0, 600), (0, 5_000)]);
    assert_eq!(slots(&wheel), 4);
    assert_eq!(wheel.next_deadline(), Some(100), "its first deadline");
    assert_eq!(fired(&mut wheel, 100), []);
    assert_eq!(wheel.next_deadline(), Some(5_000 / 256 * 256));
    assert_eq!(slots(&wheel), 1);
    for (id, deadline) in [(1, 6_000), (0, 400), (0, 200)] {
        wheel.arm(id, deadline);
    }
    assert_eq!(fired(&mut wheel, 450), [0]);
    assert_eq!(slots(&wheel), 1, "the slot of timer 1");
}

#[test]
fn a_call_drops_at_most_64_slots_that_timers_left() {
    let left_by_a_timer = || {
        let mut wheel = TimerWheel::new();
        for deadline in (1..=200).chain([5_000]) {
            wheel.arm(0, deadline);
        }
        wheel
    };
    let mut wheel = left_by_a_timer();
    assert_eq!(slots(&wheel), 201);
    assert_eq!(fired(&mut wheel, 1), []);
    assert!(wheel.next_deadline() <= Some(5_000), "it may be too early");
    assert_eq!(slots(&wheel), 200 - MOVES_MAX);

    let mut wheel = left_by_a_timer();
    assert_eq!(wheel.pop_expired(300), None);
    assert!(wheel.has_more());
    assert_eq!(slots(&wheel), 201 - MOVES_MAX);
    assert_eq!(fired(&mut wheel, 5_000), [0]);
    assert!(!wheel.has_more());
}
