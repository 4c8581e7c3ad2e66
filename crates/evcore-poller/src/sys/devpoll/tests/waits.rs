//! Timeouts, signals, small buffers and the waker.

use super::*;

#[test]
fn timeouts_are_milliseconds_rounded_up() {
    for (nanoseconds, ms) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
        let mut fixture = Fixture::new();
        fixture.events = Events::raw(8);
        let timeout = Duration::from_nanos(nanoseconds);
        assert_eq!(fixture.try_wait(Some(timeout)).expect("a wait"), []);
        assert_eq!(fixture.calls(), [Poll(1, ms)]);
    }
}

#[test]
fn a_long_wait_is_made_in_chunks() {
    let mut fixture = Fixture::new();
    let days = 24 * 3600 * 60;
    fixture.try_wait(Some(days * SECOND)).expect("a wait");
    let calls = fixture.calls();
    let waited = calls.iter().map(|call| match call {
        Poll(1, ms) => i64::from(*ms),
        other => panic!("{other:?}"),
    });
    assert_eq!(waited.sum::<i64>(), i64::from(days) * 1000);
}

#[test]
fn the_longest_timeout_is_ended_by_an_event() {
    for timeout in [None, Some(Duration::MAX)] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::READ, Mode::Level);
        let late = Duration::from_millis(1);
        fixture.kernel.device().set_in_wait(late, A, IN);
        let reported = fixture.try_wait(timeout).expect("a wait");
        assert_eq!(reported, [(1, Ready::READABLE)]);
    }
}

#[test]
fn without_a_timeout_the_call_waits_without_limit() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.try_wait(None).expect("a wait");
    assert_eq!(fixture.calls(), [Write(vec![(A, IN)]), Poll(2, -1)]);
}

#[test]
fn a_wait_returns_on_a_signal_if_asked_to() {
    let mut fixture = Fixture::new();
    fixture.events = Events::raw(8);
    fixture.kernel.device().ends.push_back(End::Interrupted);
    let seen = fixture.try_wait(Some(SECOND));
    assert!(matches!(seen, Err(Error::Interrupted)));
    assert_eq!(fixture.calls(), [Poll(1, 1000)]);
}

#[test]
fn a_signal_ends_no_other_wait() {
    let mut fixture = Fixture::new();
    fixture.kernel.device().ends.push_back(End::Interrupted);
    fixture.set(A, IN);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    let reported = fixture.try_wait(None).expect("a wait");
    assert_eq!(reported, [(1, Ready::READABLE)]);
}

#[test]
fn an_error_of_the_wait_loses_nothing() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.kernel.device().ends.push_back(End::Broken);
    let failed = fixture.try_wait(NOW).expect_err("it is broken");
    assert!(failed.to_string().starts_with("ioctl(DP_POLL) failed"));
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_refusal_is_reported_though_the_wait_fails() {
    for end in [End::Broken, End::Interrupted] {
        let mut fixture = Fixture::new();
        fixture.events = Events::raw(8);
        fixture.kernel.device().refuses.push(A);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.kernel.device().ends.push_back(end);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(1, GONE)]);
    }
}

#[test]
fn nothing_starves_with_a_small_buffer() {
    let mut fixture = Fixture::with_room(1);
    for (fd, key) in (B + 1..).zip(0..5) {
        fixture.open(fd);
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    for _ in 0..3 {
        let mut keys: Vec<_> = (0..5).map(|_| fixture.wait()[0].0).collect();
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_larger_buffer_is_used_to_its_end() {
    let mut fixture = Fixture::with_room(1);
    for (fd, key) in [(A, 1), (B, 2)] {
        fixture.add(fd, key, Interest::READ, Mode::Level);
        fixture.set(fd, IN);
    }
    assert_eq!(fixture.wait().len(), 1);
    fixture.events = Events::bounded(8);
    assert_eq!(fixture.wait().len(), 2);
}

#[test]
fn each_wake_is_reported_once() {
    let mut fixture = Fixture::new();
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

#[test]
fn a_wake_hides_no_event_and_no_event_a_wake() {
    let mut fixture = Fixture::with_room(1);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.wait();
    for _ in 0..3 {
        fixture.poller.waker().wake();
        // The only place of the list is either for the wake or for the report.
        let (mut wakes, mut reports) = (0, 0);
        for _ in 0..2 {
            reports += fixture.wait().len();
            wakes += usize::from(fixture.events.was_woken());
        }
        assert_eq!(wakes, 1);
        assert!(reports >= 1);
    }
}

#[test]
fn a_wake_is_reported_beside_a_refusal() {
    let mut fixture = Fixture::new();
    fixture.kernel.device().refuses.push(A);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.poller.waker().wake();
    assert_eq!(fixture.wait(), [(1, GONE)]);
    assert!(fixture.events.was_woken());
}
