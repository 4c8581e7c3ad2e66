//! Strays, which are reports of files that are not watched. They end no wait, and hide no other
//! report.

use super::*;

/// The time that is left when a stray ends a call.
const REST: Duration = Duration::from_millis(10);
const BEFORE_REST: Duration = Duration::from_millis(30);

/// Makes a fixture in which a stray at [`A`] will end the next call, after the call has waited for
/// [`BEFORE_REST`].
fn with_a_stray(kind: Kind) -> Fixture {
    let mut fixture = Fixture::new(kind);
    let flag = match kind {
        // The descriptor is removed before a close, and not closed.
        Kind::Port | Kind::Kqueue => {
            fixture.add(A, 1, Interest::READ, Mode::Level);
            fixture.remove_before_close(1);
            IN
        }
        // The device keeps the flags of a file that was closed before its entry was first written.
        _ => {
            fixture.add(A, 1, Interest::WRITE, Mode::Level);
            fixture.close(A);
            fixture.wait();
            fixture.remove(1);
            fixture.open(A);
            fixture.add(A, 1, Interest::READ, Mode::Level);
            fixture.wait();
            OUT
        }
    };
    fixture.kernel().set_in_wait(BEFORE_REST, A, flag);
    fixture.costs();
    fixture
}

/// Makes a fixture in which the stray is ready now, and [`B`] is watched.
fn with_a_stray_before(kind: Kind) -> Fixture {
    let mut fixture = with_a_stray(kind);
    fixture.set(A, kind.pick([IN, OUT, OUT, IN]));
    fixture.add(B, 2, Interest::READ, Mode::Level);
    fixture
}

#[test]
fn a_stray_alone_does_not_restart_the_timeout() {
    for kind in REFUSING {
        let mut fixture = with_a_stray(kind);
        let timeout = Some(BEFORE_REST + REST);
        assert_eq!(fixture.try_wait(timeout).expect("a wait"), []);
        let timeouts = fixture.timeouts();
        assert_eq!(timeouts[..2], [timeout, NOW]);
        assert!(timeouts[2] <= Some(REST), "{timeouts:?}");
        assert_eq!(timeouts.len(), 3, "{timeouts:?}");
    }
}

#[test]
fn a_stray_alone_interrupts_a_wait_that_returns_on_signals() {
    for kind in REFUSING {
        let mut fixture = with_a_stray(kind);
        fixture.events = Events::raw(8);
        let waited = fixture.try_wait(Some(BEFORE_REST + REST));
        assert!(matches!(waited, Err(Error::Interrupted)), "{waited:?}");
        let watched = fixture.watched().len();
        assert_eq!(watched, kind.pick([0, 1, 0, 0]), "the stray is dropped");
    }
}

#[test]
fn a_stray_does_not_delay_ready_descriptors() {
    for kind in REFUSING {
        for timeout in [None, NOW, Some(SECOND)] {
            let mut fixture = with_a_stray_before(kind);
            fixture.events = Events::bounded(1);
            fixture.set(B, IN);
            let reported = fixture.try_wait(timeout).expect("a wait");
            assert_eq!(reported, [(2, Ready::READABLE)]);
        }
    }
}

#[test]
fn a_wait_without_a_timeout_goes_on_after_a_stray() {
    for kind in REFUSING {
        let mut fixture = with_a_stray_before(kind);
        fixture.events = Events::raw(8);
        fixture.kernel().set_in_wait(Duration::ZERO, B, IN);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(2, Ready::READABLE)]);
    }
}

#[test]
fn a_wake_together_with_a_stray_ends_the_wait() {
    for kind in REFUSING {
        let mut fixture = with_a_stray_before(kind);
        fixture.poller.waker().wake();
        assert_eq!(fixture.try_wait(None).expect("a wait"), []);
        assert!(fixture.events.was_woken());
    }
}

/// The event of the waker is queued behind another. An event port delivers the waker's event after
/// the poller has reported the wake.
#[test]
fn the_event_of_a_reported_wake_ends_no_other_wait() {
    for kind in KINDS {
        let mut fixture = Fixture::with_room(kind, 1);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.wait();
        fixture.wait();
        fixture.poller.waker().wake();
        while !fixture.events.was_woken() {
            fixture.wait();
        }
        fixture.set(A, 0);
        fixture.costs();
        assert_eq!(fixture.try_wait(Some(SECOND)).expect("a wait"), []);
        assert!(!fixture.events.was_woken(), "there was no other wake");
        let timeouts = fixture.timeouts();
        let goes_on = timeouts.last().is_some_and(|left| *left > NOW);
        assert!(goes_on, "{timeouts:?}");
        fixture.poller.waker().wake();
        fixture.try_wait(None).expect("a wait");
        assert!(fixture.events.was_woken());
    }
}
