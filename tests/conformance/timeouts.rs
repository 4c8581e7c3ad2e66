//! Timeouts: never early, whatever their size. How late they are is the kernel's affair.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use evcore_poller::{Interest, Mode};

use crate::stage::{READABLE, Stage, pair};

crate::scenarios! {
    no_timeout_ends_early,
    a_timeout_of_zero_returns_at_once_with_what_there_is,
    without_a_timeout_a_wake_ends_it,
    the_longest_timeout_does_not_overflow,
    readiness_ends_a_wait_before_its_timeout,
}

fn no_timeout_ends_early(stage: &mut Stage) {
    let (_near, far) = pair();
    stage.add(&far, 1, Interest::READ, Mode::Level);
    for nanoseconds in [0, 1, 999_999, 1_000_000, 1_000_001, 20_000_001] {
        let timeout = Duration::from_nanos(nanoseconds);
        for _ in 0..5 {
            let start = Instant::now();
            let trace = stage.wait(Some(timeout));
            let waited = start.elapsed();
            assert_eq!(trace, [], "{}", stage.name);
            assert!(
                waited >= timeout,
                "{}: {timeout:?} ended after {waited:?}",
                stage.name
            );
        }
    }
}

fn a_timeout_of_zero_returns_at_once_with_what_there_is(stage: &mut Stage) {
    let (mut near, far) = pair();
    stage.add(&far, 1, Interest::READ, Mode::Level);
    stage.expect_nothing();
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE)]);
}

fn a_wake_ends(stage: &mut Stage, timeout: Option<Duration>) {
    let waker = stage.poller.waker();
    std::thread::scope(|threads| {
        threads.spawn(|| waker.wake());
        assert_eq!(stage.wait(timeout), [], "{}", stage.name);
        assert!(stage.events.woken(), "{}", stage.name);
    });
}

fn without_a_timeout_a_wake_ends_it(stage: &mut Stage) {
    a_wake_ends(stage, None);
}

fn the_longest_timeout_does_not_overflow(stage: &mut Stage) {
    let ms = |ms| Some(Duration::from_millis(ms));
    for timeout in [
        Some(Duration::MAX),
        Some(Duration::from_secs(i64::MAX as u64)),
        ms(i32::MAX as u64),
        ms(i32::MAX as u64 + 1),
        ms(u64::from(u32::MAX) + 1),
    ] {
        a_wake_ends(stage, timeout);
    }
}

fn readiness_ends_a_wait_before_its_timeout(stage: &mut Stage) {
    let (mut near, far) = pair();
    stage.add(&far, 1, Interest::READ, Mode::Level);
    std::thread::scope(|threads| {
        threads.spawn(|| near.write_all(b"a").expect("write"));
        assert_eq!(
            stage.wait(Some(Duration::MAX)),
            [(1, READABLE)],
            "{}",
            stage.name
        );
    });
}
