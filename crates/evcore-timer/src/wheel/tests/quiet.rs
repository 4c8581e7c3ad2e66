//! Ticks at which nothing is due, and the next tick at which a timer may be due.

use super::*;

#[test]
fn the_next_deadline_is_exact_until_its_timer_leaves() {
    let mut wheel = wheel_with(&[(0, 70_000), (1, 60_000), (2, 65_000)]);
    for now in [0, 300, 59_999] {
        assert_eq!(wheel.next_deadline(), Some(60_000));
        assert_eq!(fired(&mut wheel, now), []);
    }
    wheel.arm(1, 69_000);
    assert_eq!(wheel.next_deadline(), Some(60_000), "early, once");
    assert_eq!(fired(&mut wheel, 60_000), []);
    assert_eq!(fired(&mut wheel, 64_900), []);
    assert_eq!(wheel.next_deadline(), Some(65_000));
    assert!(wheel.disarm(2));
    assert!(wheel.next_deadline() > Some(65_000));
    assert_eq!(fired(&mut wheel, 70_000), [1, 0]);
}

#[test]
fn timers_armed_after_a_quiet_tick_fire_in_order() {
    // Nothing is due at 300, so the wheel stays at 0, and 400 is in a slot that begins before 300.
    let mut wheel = wheel_with(&[(0, 1_000)]);
    assert_eq!(fired(&mut wheel, 300), []);
    assert_eq!(wheel.position, 0);
    for (id, deadline) in [(1, 400), (2, 299), (3, 300), (4, 400)] {
        wheel.arm(id, deadline);
        wheel.verify();
    }
    assert_eq!(wheel.next_deadline(), Some(299));
    assert_eq!(fired(&mut wheel, 300), [2, 3]);
    assert_eq!(fired(&mut wheel, 1_000), [1, 4, 0]);
}

#[test]
fn a_quiet_tick_ends_a_phase_that_was_left_early() {
    let mut wheel = wheel_with(&[(0, 100), (1, 100)]);
    assert_eq!(wheel.pop_expired(100), Some((0, 100)));
    wheel.arm(2, 90); // waits for the next phase
    assert_eq!(wheel.pop_expired(50), None);
    assert_eq!(fired(&mut wheel, 100), [2, 1]);
}
