//! The time that a wait lasts, and the events that end it.

use super::*;

#[test]
fn a_timeout_is_exact_to_the_nanosecond() {
    for timeout in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_nanos(999_999),
        Duration::from_nanos(1_000_001),
        LONGEST_IN_MS * 3 + Duration::from_nanos(1),
        Duration::from_secs(1 << 32),
    ] {
        let mut fixture = Fixture::new();
        let mut events = Events::bounded(4);
        fixture
            .poller
            .wait(&mut events, Some(timeout))
            .expect("a wait");
        assert_eq!(fixture.kernel().waited, timeout);
    }
}

#[test]
fn readiness_ends_the_longest_wait() {
    for (timeout, reported) in [(None, None), (Some(Duration::MAX), Some(LONGEST_IN_MS))] {
        let mut fixture = Fixture::new();
        fixture.add(A, 7, Interest::READ, Mode::Level).expect("add");
        fixture.kernel().arrive(A, 1);
        fixture.calls();
        let mut events = Events::bounded(4);
        assert_eq!(
            fixture.poller.wait(&mut events, timeout).expect("a wait"),
            1
        );
        let timeouts: Vec<_> = fixture.calls().iter().map(|call| call.timeout).collect();
        assert_eq!(timeouts, [reported]);
    }
}

#[test]
fn a_wait_goes_on_after_a_signal() {
    let mut fixture = Fixture::new();
    fixture.kernel().signals = 3;
    let mut events = Events::bounded(4);
    fixture
        .poller
        .wait(&mut events, Some(SECOND))
        .expect("a wait");
    assert_eq!(fixture.changes().len(), 4);
    assert!(fixture.kernel().waited > Duration::ZERO);
}

#[test]
fn wakes_before_a_wait_end_it_once() {
    let mut fixture = Fixture::new();
    let waker = fixture.poller.waker();
    let mut events = Events::bounded(4);
    for _ in 0..3 {
        waker.wake();
        waker.wake();
        fixture.poller.wait(&mut events, None).expect("a wait");
        assert!(events.was_woken() && events.is_empty());
        fixture
            .poller
            .wait(&mut events, Some(SECOND))
            .expect("a wait");
        assert!(!events.was_woken());
    }
    assert_eq!(fixture.kernel().waited, SECOND * 3);
}

#[test]
fn a_wake_and_an_event_share_a_small_buffer() {
    let mut fixture = Fixture::new();
    fixture.add(A, 7, Interest::READ, Mode::Edge).expect("add");
    fixture.kernel().arrive(A, 1);
    fixture.poller.waker().wake();
    let mut events = Events::bounded(1);
    let (mut wakes, mut reports) = (0, 0);
    for _ in 0..2 {
        fixture.poller.wait(&mut events, None).expect("a wait");
        wakes += usize::from(events.was_woken());
        reports += events.len();
    }
    assert_eq!((wakes, reports), (1, 1));
}

#[test]
fn nothing_starves_with_a_small_buffer() {
    for capacity in [1, 2, 3] {
        for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
            let mut fixture = Fixture::new();
            for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
                fixture.add(fd, key, Interest::BOTH, mode).expect("add");
                fixture.kernel().arrive(fd, 1);
                fixture.kernel().make_room(fd, 1);
            }
            let mut keys = Vec::new();
            for _ in 0..6_usize.div_ceil(capacity) {
                keys.extend(fixture.wait_with(capacity).iter().map(|event| event.key));
            }
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys, [1, 2, 3], "{capacity} {mode:?}");
        }
    }
}

#[test]
fn a_wake_beside_a_stray_ends_the_wait() {
    let mut fixture = Fixture::new();
    fixture.kernel().arrive(A, 1);
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    fixture.poller.remove_before_close(1).expect("forget");
    fixture.poller.waker().wake();
    let mut events = Events::bounded(4);
    fixture.poller.wait(&mut events, None).expect("a wait");
    assert!(events.was_woken() && events.is_empty());
}

/// The time that is left when a stray ends a call.
const REST: Duration = Duration::from_millis(10);
const BEFORE_REST: Duration = Duration::from_millis(30);

/// The knote of a descriptor that was removed before a close, and not closed, ends the next call.
fn with_a_stray() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level).expect("add");
    fixture.poller.remove_before_close(1).expect("forget");
    fixture.kernel().arrive_in_wait(BEFORE_REST, A);
    fixture.calls();
    fixture
}

#[test]
fn a_stray_alone_does_not_restart_the_timeout() {
    let mut fixture = with_a_stray();
    let mut events = Events::bounded(4);
    let waited = fixture.poller.wait(&mut events, Some(BEFORE_REST + REST));
    assert_eq!(waited.expect("a wait"), 0);
    let timeouts: Vec<_> = fixture.calls().iter().map(|call| call.timeout).collect();
    assert_eq!(
        timeouts[..2],
        [Some(BEFORE_REST + REST), Some(Duration::ZERO)],
        "dropped, and nothing else is there"
    );
    assert!(
        timeouts.len() == 3 && timeouts[2] <= Some(REST),
        "{timeouts:?}"
    );
}

#[test]
fn a_stray_alone_interrupts_a_wait_that_returns_on_signals() {
    let mut fixture = with_a_stray();
    let mut events = Events::raw(4);
    let waited = fixture.poller.wait(&mut events, Some(BEFORE_REST + REST));
    assert!(matches!(waited, Err(Error::Interrupted)), "{waited:?}");
    assert_eq!(fixture.kernel().knotes(), [], "it comes once");
}

#[test]
fn a_stray_does_not_delay_what_is_ready() {
    let mut fixture = with_a_stray();
    fixture.add(B, 2, Interest::READ, Mode::Level).expect("add");
    fixture.kernel().arrive(A, 1);
    fixture.kernel().arrive(B, 1);
    let mut events = Events::bounded(1);
    let waited = fixture.poller.wait(&mut events, Some(SECOND));
    assert_eq!(waited.expect("a wait"), 1);
    assert_eq!(fixture.kernel().waited, Duration::ZERO);
}

#[test]
fn a_wait_without_a_timeout_goes_on_after_a_stray() {
    let mut fixture = with_a_stray();
    fixture.kernel().arrive(A, 1);
    fixture.add(B, 2, Interest::READ, Mode::Level).expect("add");
    fixture.kernel().arrive_in_wait(Duration::ZERO, B);
    let mut events = Events::raw(4);
    assert_eq!(fixture.poller.wait(&mut events, None).expect("a wait"), 1);
}
