//! Differences between the device and a port.

use super::*;

#[test]
fn an_end_behind_an_unanswered_report_is_reported_once() {
    for (flag, bit) in [(HUP, Ready::WRITE_CLOSED), (ERR, Ready::ERROR)] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::READ, Mode::Edge);
        fixture.set(A, IN);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        assert_eq!(fixture.wait(), []);
        fixture.set(A, IN | flag);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE | bit)]);
        for _ in 0..3 {
            assert_eq!(fixture.wait(), []);
        }
        assert_eq!(fixture.entries(), [], "it is watched no more");
        fixture.rearm(1, Interest::READ);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE | bit)]);
    }
}

#[test]
fn an_event_reports_what_is_true_now() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.set(A, 0);
    assert_eq!(fixture.wait(), []);
    fixture.set(A, IN);
    fixture.set(A, IN | HUP);
    let reported = Ready::READABLE | Ready::WRITE_CLOSED;
    assert_eq!(fixture.wait(), [(1, reported)]);
}

#[test]
fn exclusive_is_refused_by_name() {
    let mut fixture = Fixture::new();
    let stdin = std::io::stdin();
    let refused = fixture
        .poller
        .add(&stdin, 1, Interest::READ, Mode::Exclusive);
    assert!(matches!(
        refused,
        Err(Error::NoExclusive { backend: "devpoll" })
    ));
}
