//! Timeouts, signals, small buffers and the waker.

use super::*;

#[test]
fn a_timeout_is_exact_or_rounded_up_to_a_millisecond() {
    for kind in KINDS {
        for (ns, ms) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)] {
            let mut fixture = Fixture::new(kind);
            let timeout = Duration::from_nanos(ns);
            assert_eq!(fixture.try_wait(Some(timeout)).expect("a wait"), []);
            let rounded = Duration::from_millis(ms);
            let passed = kind.pick([timeout, rounded, timeout, timeout]);
            assert_eq!(fixture.costs(), (0, vec![Some(passed)]));
        }
    }
}

#[test]
fn a_long_wait_is_made_in_chunks() {
    for mut fixture in Fixture::each(KINDS) {
        let days = 24 * 3600 * 60 * SECOND;
        fixture.try_wait(Some(days)).expect("a wait");
        let chunks = fixture.timeouts();
        assert!(chunks.len() > 1, "{chunks:?}");
        let waited: Duration = chunks
            .into_iter()
            .map(|chunk| chunk.expect("a timeout"))
            .sum();
        assert_eq!(waited, days);
    }
}

#[test]
fn the_longest_timeout_is_ended_by_an_event() {
    for kind in KINDS {
        for timeout in [None, Some(Duration::MAX)] {
            let mut fixture = Fixture::new(kind);
            fixture.add(A, 1, Interest::READ, Mode::Level);
            let late = Duration::from_millis(1);
            fixture.kernel().set_in_wait(late, A, IN);
            let reported = fixture.try_wait(timeout).expect("a wait");
            assert_eq!(reported, [(1, Ready::READABLE)]);
            if timeout.is_none() {
                assert_eq!(fixture.timeouts().last(), Some(&None));
            }
        }
    }
}

#[test]
fn readiness_found_by_an_earlier_call_is_not_reported_again() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        assert_eq!(fixture.wait().len(), 1);
        fixture.set(A, 0);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_signal_ends_a_raw_wait() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.events = Events::raw(8);
        fixture.fail_wait(Errno::INTR);
        let seen = fixture.try_wait(Some(SECOND));
        assert!(matches!(seen, Err(Error::Interrupted)));
        assert_eq!(fixture.timeouts(), [Some(SECOND)]);
    }
}

#[test]
fn a_signal_does_not_end_a_wait_that_is_not_raw() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.costs();
        fixture.fail_wait(Errno::INTR);
        fixture.kernel().set_in_wait(Duration::ZERO, A, IN);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(1, Ready::READABLE)]);
        assert_eq!(fixture.timeouts(), [None, None]);
    }
}

#[test]
fn an_error_of_the_wait_loses_nothing() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.wait();
        fixture.fail_wait(Errno::BADF);
        let failed = fixture.try_wait(NOW).expect_err("it is broken");
        let calls = ["port_getn", "ioctl(DP_POLL)", "poll", "kevent"];
        let call = fixture.kind.pick(calls);
        let message = failed.to_string();
        assert!(
            message.starts_with(&format!("{call} failed: ")),
            "{message}"
        );
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn nothing_starves_with_a_small_buffer() {
    for kind in KINDS {
        let mut fixture = Fixture::with_room(kind, 1);
        fixture.add_more(5);
        for _ in 0..3 {
            assert_eq!(fixture.keys_of_waits(5), [0, 1, 2, 3, 4]);
        }
    }
}

#[test]
fn nothing_starves_in_any_mode() {
    let in_each_mode = |capacity| MODES.map(|mode| (capacity, mode));
    for kind in KINDS {
        for (capacity, mode) in (1..4).flat_map(in_each_mode) {
            let mut fixture = Fixture::with_room(kind, capacity);
            for (fd, key) in [(A, 1), (B, 2)] {
                fixture.add(fd, key, Interest::BOTH, mode);
                fixture.set(fd, IN | OUT);
            }
            // kqueue may report the two sides in two events.
            let mut keys = fixture.keys_of_waits(4_usize.div_ceil(capacity));
            keys.dedup();
            assert_eq!(keys, [1, 2], "{capacity} {mode:?}");
        }
    }
}

#[test]
fn a_larger_buffer_is_used_to_its_end() {
    for kind in KINDS {
        let mut fixture = Fixture::with_room(kind, 1);
        fixture.add_both();
        assert_eq!(fixture.wait().len(), 1);
        fixture.events = Events::bounded(8);
        assert_eq!(fixture.wait().len(), 2);
    }
}

#[test]
fn each_wake_is_reported_once() {
    for mut fixture in Fixture::each(KINDS) {
        let waker = fixture.poller.waker();
        for _ in 0..3 {
            waker.wake();
            waker.wake();
            assert_eq!(fixture.try_wait(None).expect("a wait"), []);
            assert!(fixture.events.was_woken());
            fixture.wait();
            assert!(!fixture.events.was_woken());
        }
    }
}

#[test]
fn a_wake_and_an_event_do_not_hide_each_other() {
    for kind in KINDS {
        let mut fixture = Fixture::with_room(kind, 1);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.wait();
        for _ in 0..3 {
            fixture.poller.waker().wake();
            // The list has room for one event. In each wait, the wake or the report takes it.
            let (mut wakes, mut reports) = (0, 0);
            for _ in 0..2 {
                reports += fixture.wait().len();
                wakes += usize::from(fixture.events.was_woken());
            }
            assert_eq!(wakes, 1);
            assert!(reports >= 1);
        }
    }
}
