//! How often readiness is told, and what it says.

use super::*;

#[test]
fn level_is_told_while_it_holds() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    assert_eq!(fixture.wait(), []);
    fixture.set(A, IN);
    for _ in 0..3 {
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
    fixture.set(A, 0);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn what_is_ready_already_is_told_at_once() {
    let mut fixture = Fixture::new();
    fixture.set(A, IN | OUT);
    fixture.add(A, 1, Interest::BOTH, Mode::Level);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE | Ready::WRITABLE)]);
}

#[test]
fn only_what_is_asked_is_told() {
    for (interest, told) in [
        (Interest::READ, Ready::READABLE),
        (Interest::WRITE, Ready::WRITABLE),
        (Interest::PRIORITY, Ready::PRIORITY),
    ] {
        let mut fixture = Fixture::new();
        fixture.set(A, IN | OUT | PRI);
        fixture.add(A, 1, interest, Mode::Level);
        assert_eq!(fixture.wait(), [(1, told)]);
    }
}

#[test]
fn an_edge_is_told_once_a_side_until_rearmed() {
    let mut fixture = Fixture::new();
    fixture.set(A, IN);
    fixture.add(A, 1, Interest::BOTH, Mode::Edge);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    assert_eq!(fixture.wait(), []);
    fixture.set(A, IN | OUT);
    assert_eq!(fixture.wait(), [(1, Ready::WRITABLE)]);
    assert_eq!(fixture.wait(), []);
    fixture.poller.rearm(1, Interest::READ).expect("registered");
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_hang_up_or_an_error_behind_an_unanswered_report_is_told_once() {
    for (flag, bit) in [(HUP, Ready::WRITE_CLOSED), (ERR, Ready::ERROR)] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::READ, Mode::Edge);
        fixture.set(A, IN);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        assert_eq!(fixture.wait(), []);
        fixture.set(A, IN | flag);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE | bit)]);
        fixture.calls();
        for _ in 0..3 {
            assert_eq!(fixture.wait(), []);
        }
        assert_eq!(fixture.calls(), [Getn(8, NOW); 3], "it is watched no more");
        fixture.poller.rearm(1, Interest::READ).expect("registered");
        assert_eq!(fixture.wait(), [(1, Ready::READABLE | bit)]);
    }
}

#[test]
fn new_data_behind_an_unanswered_report_is_silent() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::BOTH, Mode::Edge);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    fixture.set(A, 0);
    fixture.set(A, IN);
    assert_eq!(fixture.wait(), []);
    fixture.poller.rearm(1, Interest::READ).expect("registered");
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
}

#[test]
fn a_connection_is_told_once_what_was_told_before_it_was_rearmed() {
    // illumos tells nothing of a socket that is not connected; Linux' poll a hang-up and room.
    for before in [0, HUP, HUP | OUT] {
        let mut fixture = Fixture::new();
        fixture.set(A, before);
        fixture.add(A, 1, Interest::BOTH, Mode::Edge);
        assert_eq!(fixture.wait().len(), usize::from(before != 0));
        fixture.set(A, 0); // `connect`: EINPROGRESS
        fixture.poller.rearm(1, Interest::BOTH).expect("registered");
        assert_eq!(fixture.wait(), []);
        fixture.set(A, OUT);
        assert_eq!(fixture.wait(), [(1, Ready::WRITABLE)]);
        fixture.set(A, IN | OUT);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn a_one_shot_is_told_once_until_modified() {
    let mut fixture = Fixture::new();
    fixture.set(A, IN);
    fixture.add(A, 1, Interest::BOTH, Mode::Oneshot);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    fixture.set(A, IN | OUT | HUP);
    assert_eq!(fixture.wait(), []);
    fixture.set(A, IN);
    fixture.modify(1, Interest::BOTH);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn data_is_told_with_the_hang_up_behind_it() {
    for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
        let mut fixture = Fixture::new();
        fixture.add(A, 1, Interest::READ, mode);
        fixture.set(A, IN | HUP);
        let told = Ready::READABLE | Ready::WRITE_CLOSED;
        assert_eq!(fixture.wait(), [(1, told)], "{mode:?}");
    }
}

#[test]
fn a_half_close_is_readable_and_stays_so() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN); // data, and the end behind it; then the end alone
    for _ in 0..2 {
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn an_error_or_hang_up_alone_is_told_to_the_sides_of_interest() {
    for (flag, bit) in [(ERR, Ready::ERROR), (HUP, Ready::WRITE_CLOSED)] {
        for (interest, sides) in [
            (Interest::READ, Ready::READABLE),
            (Interest::WRITE, Ready::WRITABLE),
            (Interest::PRIORITY, Ready::NONE),
        ] {
            let mut fixture = Fixture::new();
            fixture.add(A, 1, interest, Mode::Level);
            fixture.set(A, flag);
            assert_eq!(fixture.wait(), [(1, bit | sides)]);
        }
    }
}

#[test]
fn an_event_says_what_was_true_when_it_was_queued() {
    let mut fixture = Fixture::new();
    fixture.add(A, 1, Interest::READ, Mode::Level);
    fixture.set(A, IN);
    fixture.set(A, IN | HUP);
    assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    let told = Ready::READABLE | Ready::WRITE_CLOSED;
    assert_eq!(fixture.wait(), [(1, told)], "the next one has the rest");
    fixture.set(A, 0);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn exclusive_is_refused_by_name() {
    let mut fixture = Fixture::new();
    let stdin = std::io::stdin();
    let refused = fixture
        .poller
        .add_exclusive(&stdin, 1, Interest::READ, Mode::Level);
    assert!(matches!(
        refused,
        Err(Error::NoExclusive { backend: "port" })
    ));
}
