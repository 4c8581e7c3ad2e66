//! Timeouts: a wait without a report does not end early. The kernel decides how late the wait ends.

use std::{io::Write, time::Duration};

use evcore_poller::{Interest, Mode};

use crate::fixture::{DEADLINE, Fixture, READABLE};

crate::scenarios! {
    no_timeout_ends_early,
    a_timeout_of_zero_returns_at_once_with_what_is_ready,
    a_wake_ends_a_wait_without_a_timeout,
    the_longest_timeout_does_not_overflow,
    readiness_ends_a_wait_before_its_timeout,
}

fn no_timeout_ends_early(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    for nanoseconds in [0, 1, 999_999, 1_000_000, 1_000_001, 20_000_001] {
        let timeout = Duration::from_nanos(nanoseconds);
        for _ in 0..5 {
            let start = fixture.platform.time();
            let trace = fixture.wait(Some(timeout));
            let waited = fixture.platform.time() - start;
            assert_eq!(trace, [], "{}", fixture.name);
            assert!(
                waited >= timeout,
                "{}: {timeout:?} ended after {waited:?}",
                fixture.name
            );
        }
    }
}

fn a_timeout_of_zero_returns_at_once_with_what_is_ready(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    fixture.expect_nothing();
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE)]);
}

fn a_wake_ends(fixture: &mut Fixture, timeout: Option<Duration>) {
    let start = fixture.platform.time();
    assert_eq!(fixture.wait_while_woken(timeout), [], "{}", fixture.name);
    assert!(fixture.events.was_woken(), "{}", fixture.name);
    let waited = fixture.platform.time() - start;
    assert!(waited < DEADLINE, "{}: it slept on", fixture.name);
}

fn a_wake_ends_a_wait_without_a_timeout(fixture: &mut Fixture) {
    a_wake_ends(fixture, None);
}

fn the_longest_timeout_does_not_overflow(fixture: &mut Fixture) {
    let ms = |ms| Some(Duration::from_millis(ms));
    for timeout in [
        Some(Duration::MAX),
        Some(Duration::from_secs(i64::MAX as u64)),
        ms(i32::MAX as u64),
        ms(i32::MAX as u64 + 1),
        ms(u64::from(u32::MAX) + 1),
    ] {
        a_wake_ends(fixture, timeout);
    }
}

fn readiness_ends_a_wait_before_its_timeout(fixture: &mut Fixture) {
    let (near, far) = fixture.platform.late_pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    let start = fixture.platform.time();
    let trace = fixture.wait_while_written(&near, Some(Duration::MAX));
    assert_eq!(trace, [(1, READABLE)], "{}", fixture.name);
    let waited = fixture.platform.time() - start;
    assert!(waited < DEADLINE, "{}: it slept on", fixture.name);
}
