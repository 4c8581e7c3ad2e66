//! Timeouts, signals, small buffers and the waker.

use super::*;

#[test]
fn timeouts_are_exact_to_the_nanosecond() {
    let nanoseconds = [0, 1, 999_999, 1_000_001];
    for timeout in nanoseconds.map(Duration::from_nanos) {
        for counts_none in [false, true] {
            let mut fixture = Fixture::new();
            fixture.kernel.port().counts_none = counts_none;
            assert_eq!(fixture.try_wait(Some(timeout)).expect("a wait"), []);
            assert_eq!(fixture.calls(), [Getn(8, Some(timeout))]);
        }
    }
}

#[test]
fn a_timeout_after_events_is_no_further_event() {
    // The list still holds the entry of the wait before.
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    assert_eq!(fixture.wait().len(), 1);
    fixture.set(A, 0);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_long_wait_is_made_in_chunks() {
    let mut fixture = Fixture::new();
    let days = 24 * 3600 * 60 * SECOND;
    fixture.try_wait(Some(days)).expect("a wait");
    let waited: Duration = fixture
        .calls()
        .iter()
        .map(|call| match call {
            Getn(8, Some(piece)) => *piece,
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(waited, days);
}

#[test]
fn the_longest_timeout_is_ended_by_an_event() {
    for timeout in [None, Some(Duration::MAX)] {
        let mut fixture = Fixture::new();
        fixture.set(A, IN);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        let reported = fixture.try_wait(timeout).expect("a wait");
        assert_eq!(reported, [(1, Ready::READABLE)]);
    }
}

#[test]
fn events_taken_at_the_timeout_are_reported() {
    for errno in [Errno::TIME, Errno::INTR] {
        let mut fixture = Fixture::new();
        fixture.events = Events::raw(8);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.kernel.port().ends.push_back(End::Late(errno));
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)], "{errno}");
    }
}

#[test]
fn a_wait_returns_on_a_signal_if_asked_to() {
    let mut fixture = Fixture::new();
    fixture.events = Events::raw(8);
    fixture.kernel.port().ends.push_back(End::Interrupted);
    let seen = fixture.try_wait(Some(SECOND));
    assert!(matches!(seen, Err(Error::Interrupted)));
    assert_eq!(fixture.calls(), [Getn(8, Some(SECOND))]);
}

#[test]
fn a_signal_ends_no_other_wait() {
    let mut fixture = Fixture::new();
    fixture.kernel.port().ends.push_back(End::Interrupted);
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
    fixture.wait();
    fixture.kernel.port().ends.push_back(End::Broken);
    assert!(matches!(fixture.try_wait(NOW), Err(Error::Os { .. })));
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_lost_watch_is_reported_though_the_wait_fails() {
    for end in [End::Broken, End::Interrupted] {
        let mut fixture = Fixture::new();
        fixture.events = Events::raw(8);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.wait();
        fixture.close(A);
        fixture.kernel.port().ends.push_back(end);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(1, Ready::ERROR | Ready::READABLE)]);
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
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.set(B, IN);
    assert_eq!(fixture.wait().len(), 1);
    fixture.events = Events::bounded(8);
    assert_eq!(fixture.wait().len(), 2);
}

#[test]
fn each_wake_is_reported_once() {
    let mut fixture = Fixture::new();
    let waker: Waker = fixture.poller.waker();
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
    fixture.poller.waker().wake();
    for woken in [true, false, false] {
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        assert_eq!(fixture.events.was_woken(), woken);
    }
}

/// The event of the waker is queued behind another one, and delivered after its wake was reported.
#[test]
fn the_event_of_a_reported_wake_ends_no_other_wait() {
    let mut fixture = Fixture::with_room(1);
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.poller.waker().wake();
    fixture.wait();
    assert!(fixture.events.was_woken());
    fixture.set(A, 0);
    fixture.calls();
    assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
    assert!(!fixture.events.was_woken(), "there was no other wake");
    let waits = fixture.calls();
    let goes_on = matches!(waits.last(), Some(Getn(1, Some(left))) if !left.is_zero());
    assert!(waits.len() > 1 && goes_on, "{waits:?}");
    fixture.poller.waker().wake();
    fixture.try_wait(None).expect("a wait");
    assert!(fixture.events.was_woken());
}

/// The time that is left when a stray ends a call.
const REST: Duration = Duration::from_millis(10);
const BEFORE_REST: Duration = Duration::from_millis(30);

/// The association of a descriptor that was removed before a close, and not closed, ends the next
/// call.
fn with_a_stray() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.poller.remove_before_close(1).expect("registered");
    fixture.kernel.port().set_in_wait(BEFORE_REST, A, IN);
    fixture.calls();
    fixture
}

#[test]
fn a_stray_alone_does_not_restart_the_timeout() {
    let mut fixture = with_a_stray();
    let timeout = BEFORE_REST + REST;
    assert_eq!(fixture.try_wait(Some(timeout)).expect("a wait"), []);
    let calls = fixture.calls();
    assert_eq!(calls[..2], [Getn(8, Some(timeout)), Getn(8, NOW)]);
    assert!(
        matches!(calls[2..], [Getn(8, Some(rest))] if rest <= REST),
        "{calls:?}"
    );
}

#[test]
fn a_stray_alone_interrupts_a_wait_that_returns_on_signals() {
    let mut fixture = with_a_stray();
    fixture.events = Events::raw(8);
    let waited = fixture.try_wait(Some(BEFORE_REST + REST));
    assert!(matches!(waited, Err(Error::Interrupted)), "{waited:?}");
}

#[test]
fn a_stray_does_not_delay_what_is_ready() {
    let mut fixture = with_a_stray();
    fixture.events = Events::bounded(1);
    fixture.set(A, IN);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.set(B, IN);
    let reported = fixture.try_wait(Some(SECOND)).expect("a wait");
    assert_eq!(reported, [(2, Ready::READABLE)]);
}

#[test]
fn a_wait_without_a_timeout_goes_on_after_a_stray() {
    let mut fixture = with_a_stray();
    fixture.events = Events::raw(8);
    fixture.set(A, IN);
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture.kernel.port().set_in_wait(Duration::ZERO, B, IN);
    let reported = fixture.try_wait(None).expect("a wait");
    assert_eq!(reported, [(2, Ready::READABLE)]);
}
