//! The reports of each mode (their number and their bits), where the poller emulates `Edge` and
//! `Oneshot`.

use super::*;

#[test]
fn level_is_reported_while_it_lasts() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        assert_eq!(fixture.wait(), []);
        fixture.set(A, IN);
        for _ in 0..3 {
            assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        }
        fixture.set(A, 0);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn a_source_that_is_already_ready_is_reported_at_once() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.set(A, IN | OUT);
        fixture.add(A, 1, Interest::BOTH, Mode::Level);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE | Ready::WRITABLE)]);
    }
}

#[test]
fn only_the_interest_is_reported() {
    for kind in MASKING {
        for (interest, reported) in [
            (Interest::READ, Ready::READABLE),
            (Interest::WRITE, Ready::WRITABLE),
            (Interest::PRIORITY, Ready::PRIORITY),
        ] {
            let mut fixture = Fixture::new(kind);
            fixture.set(A, IN | OUT | PRI);
            fixture.add(A, 1, interest, Mode::Level);
            assert_eq!(fixture.wait(), [(1, reported)]);
        }
    }
}

#[test]
fn an_edge_is_reported_once_per_side_until_rearmed() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.set(A, IN);
        fixture.add(A, 1, Interest::BOTH, Mode::Edge);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        assert_eq!(fixture.wait(), []);
        fixture.set(A, IN | OUT);
        assert_eq!(fixture.wait(), [(1, Ready::WRITABLE)]);
        assert_eq!(fixture.wait(), []);
        fixture.rearm(1, Interest::READ);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn new_data_before_a_rearm_is_not_reported() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::BOTH, Mode::Edge);
        fixture.set(A, IN);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        fixture.set(A, 0);
        fixture.set(A, IN);
        assert_eq!(fixture.wait(), []);
        fixture.rearm(1, Interest::READ);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn a_rearmed_connection_is_reported_once_more() {
    for kind in MASKING {
        // For an unconnected socket illumos reports nothing, Linux a hang-up and room.
        for before in [0, HUP, HUP | OUT] {
            let mut fixture = Fixture::new(kind);
            fixture.set(A, before);
            fixture.add(A, 1, Interest::BOTH, Mode::Edge);
            assert_eq!(fixture.wait().len(), usize::from(before != 0));
            fixture.set(A, 0); // `connect`: EINPROGRESS
            fixture.rearm(1, Interest::BOTH);
            assert_eq!(fixture.wait(), []);
            fixture.set(A, OUT);
            assert_eq!(fixture.wait(), [(1, Ready::WRITABLE)]);
            fixture.set(A, IN | OUT);
            assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        }
    }
}

#[test]
fn a_one_shot_fires_once_until_modified() {
    for mut fixture in Fixture::each(MASKING) {
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
}

#[test]
fn data_is_reported_with_the_hang_up_behind_it() {
    for kind in MASKING {
        for mode in [Mode::Level, Mode::Edge, Mode::Oneshot] {
            let mut fixture = Fixture::new(kind);
            fixture.add(A, 1, Interest::READ, mode);
            fixture.set(A, IN | HUP);
            let reported = Ready::READABLE | Ready::WRITE_CLOSED;
            assert_eq!(fixture.wait(), [(1, reported)], "{mode:?}");
        }
    }
}

#[test]
fn data_stays_readable_until_it_is_read() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN); // data, and the end behind it; then only the end
        for _ in 0..2 {
            assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        }
    }
}

#[test]
fn an_error_or_hang_up_sets_the_sides_of_the_interest() {
    for kind in MASKING {
        for (flag, bit) in [(ERR, Ready::ERROR), (HUP, Ready::WRITE_CLOSED)] {
            for (interest, sides) in [
                (Interest::READ, Ready::READABLE),
                (Interest::WRITE, Ready::WRITABLE),
                (Interest::PRIORITY, Ready::NONE),
            ] {
                let mut fixture = Fixture::new(kind);
                fixture.add(A, 1, interest, Mode::Level);
                fixture.set(A, flag);
                assert_eq!(fixture.wait(), [(1, bit | sides)]);
            }
        }
    }
}

#[test]
fn a_reregistered_edge_is_reported_afresh() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::READ, Mode::Edge);
        fixture.set(A, IN);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        assert_eq!(fixture.wait(), []);
        fixture.poller.reregister(1).expect("registered");
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn an_end_before_a_rearm_is_reported_once() {
    for kind in MASKING {
        for (flag, bit) in [(HUP, Ready::WRITE_CLOSED), (ERR, Ready::ERROR)] {
            let mut fixture = Fixture::new(kind);
            fixture.add(A, 1, Interest::READ, Mode::Edge);
            fixture.set(A, IN);
            assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
            assert_eq!(fixture.wait(), []);
            fixture.set(A, IN | flag);
            assert_eq!(fixture.wait(), [(1, Ready::READABLE | bit)]);
            for _ in 0..3 {
                assert_eq!(fixture.wait(), []);
            }
            assert_eq!(
                fixture.watched(),
                [],
                "the descriptor is not watched any more"
            );
            fixture.rearm(1, Interest::READ);
            assert_eq!(fixture.wait(), [(1, Ready::READABLE | bit)]);
        }
    }
}

#[test]
fn readiness_is_that_of_the_wait_or_of_the_queueing() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.set(A, IN | HUP);
        let reported = Ready::READABLE | Ready::WRITE_CLOSED;
        if fixture.kind == Kind::Port {
            assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        }
        assert_eq!(fixture.wait(), [(1, reported)], "the hang-up is reported");
        fixture.set(A, 0);
        assert_eq!(fixture.wait(), []);
        fixture.set(A, IN);
        fixture.set(A, 0);
        let is_queued = usize::from(fixture.kind == Kind::Port);
        assert_eq!(fixture.wait().len(), is_queued);
    }
}

#[test]
fn refusing_exclusive_names_the_backend() {
    for mut fixture in Fixture::each(KINDS) {
        let stdin = std::io::stdin();
        let refused = fixture
            .poller
            .add(&stdin, 1, Interest::READ, Mode::Exclusive);
        let name = fixture.poller.backend().name();
        assert!(matches!(refused, Err(Error::NoExclusive { backend }) if backend == name));
    }
}
