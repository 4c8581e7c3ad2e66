//! Tests of the behaviour that only a port has: the errors of `port_getn`, and associations that
//! end with a report, a removal or a close.

use super::*;
use Call::{Associate, Dissociate, Wait};

fn fixture() -> Fixture {
    Fixture::new(Kind::Port)
}

#[test]
fn an_addition_and_a_removal_are_made_at_once() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    assert_eq!(fixture.calls(), [Associate(A, IN)]);
    fixture.set(A, IN);
    fixture.remove(1);
    assert_eq!(fixture.calls(), [Dissociate(A)]);
    assert_eq!(fixture.wait(), [], "its event was dropped");
    assert_eq!(fixture.calls(), [Wait(1, NOW)]);
}

#[test]
fn removal_before_a_close_makes_no_call() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.calls();
    fixture.remove_before_close(1);
    fixture.close(A);
    assert_eq!(fixture.calls(), []);
}

#[test]
fn a_timeout_reports_no_event_whatever_the_count() {
    for counts_none in [false, true] {
        let mut fixture = fixture();
        fixture.kernel().port.counts_none = counts_none;
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        // The list still holds the entry of the previous wait.
        assert_eq!(fixture.wait().len(), 1);
        fixture.set(A, 0);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn events_taken_by_a_failed_call_are_reported() {
    for errno in [Errno::TIME, Errno::INTR] {
        let mut fixture = fixture();
        fixture.events = Events::raw(8);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.kernel().port.late = Some(errno);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)], "{errno}");
    }
}

#[test]
fn a_close_before_the_wait_is_silent() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.close(A);
    assert_eq!(fixture.wait(), []);
    let removed = fixture.poller.remove(1);
    assert!(matches!(removed, Err(Error::NotOpen { fd: A })));
}

#[test]
fn removing_a_reused_number_succeeds() {
    let mut fixture = fixture();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.close(A);
    fixture.open(A);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [], "the new file is not reported");
    fixture.remove(1);
}
