//! Timeouts: never early, whatever their size. How late they are is the kernel's affair.

use std::{io::Write, time::Duration};

use evcore_poller::{Interest, Mode};

use crate::stage::{PATIENCE, READABLE, Stage};

crate::scenarios! {
    no_timeout_ends_early,
    a_timeout_of_zero_returns_at_once_with_what_there_is,
    without_a_timeout_a_wake_ends_it,
    the_longest_timeout_does_not_overflow,
    readiness_ends_a_wait_before_its_timeout,
}

fn no_timeout_ends_early(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Level);
    for nanoseconds in [0, 1, 999_999, 1_000_000, 1_000_001, 20_000_001] {
        let timeout = Duration::from_nanos(nanoseconds);
        for _ in 0..5 {
            let start = stage.ground.time();
            let trace = stage.wait(Some(timeout));
            let waited = stage.ground.time() - start;
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
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Level);
    stage.expect_nothing();
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE)]);
}

fn a_wake_ends(stage: &mut Stage, timeout: Option<Duration>) {
    let start = stage.ground.time();
    assert_eq!(stage.wait_while_woken(timeout), [], "{}", stage.name);
    assert!(stage.events.was_woken(), "{}", stage.name);
    let waited = stage.ground.time() - start;
    assert!(waited < PATIENCE, "{}: it slept on", stage.name);
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
    let (near, far) = stage.ground.late_pair();
    stage.add(&far, 1, Interest::READ, Mode::Level);
    let start = stage.ground.time();
    let trace = stage.wait_while_written(&near, Some(Duration::MAX));
    assert_eq!(trace, [(1, READABLE)], "{}", stage.name);
    let waited = stage.ground.time() - start;
    assert!(waited < PATIENCE, "{}: it slept on", stage.name);
}
