//! A handler that takes long, with the clock of the system.

use std::time::{Duration, Instant};

use evcore::{EventLoop, Timer};

fn work(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_timer_armed_after_an_update_of_the_clock_is_never_early() {
    const AFTER: Duration = Duration::from_millis(10);
    for resolution in [None, Some(Duration::from_millis(5))] {
        let builder = EventLoop::builder();
        let builder = match resolution {
            Some(resolution) => builder.timer_resolution(resolution),
            None => builder,
        };
        let mut ev = builder.build().unwrap();
        let token = ev.add_unwatched().unwrap();
        ev.wait_at_most(Duration::ZERO).unwrap();

        work(3 * AFTER);
        let armed = Instant::now();
        ev.timers().update_clock();
        assert!(ev.clock().instant() <= Instant::now());
        ev.arm(token, Timer::READ, AFTER);
        while ev.next_step().is_none() {
            ev.wait().unwrap();
        }
        assert!(armed.elapsed() >= AFTER, "{:?}", armed.elapsed());
    }
}

#[test]
fn within_a_turn_the_clock_changes_only_by_update_clock() {
    let mut ev = EventLoop::builder().build().unwrap();
    ev.wait_at_most(Duration::ZERO).unwrap();
    let turn = ev.clock().instant();
    work(Duration::from_millis(2));
    assert_eq!(ev.clock().instant(), turn);
    assert!(turn <= Instant::now());
    ev.timers().update_clock();
    assert!(ev.clock().instant() >= turn + Duration::from_millis(2));
}
