//! Closed descriptors, with and without a removal of their registrations.

use super::*;

#[test]
fn a_number_that_is_not_open_is_refused() {
    for mut fixture in Fixture::each(KINDS) {
        for fd in [B + 1, -100, RawFd::MIN, -2] {
            let refused = fixture.try_add(fd, 1, Interest::READ, Mode::Level);
            assert!(matches!(refused, Err(Error::NotOpen { .. })), "{refused:?}");
        }
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.watched(), []);
    }
}

#[test]
fn a_change_of_a_number_that_is_not_open_is_an_error_event() {
    for mut fixture in Fixture::each(KINDS) {
        for fd in [B + 1, -100, RawFd::MIN, -2] {
            // With an empty interest, no backend checks the number.
            fixture.add(fd, 1, Interest::NONE, Mode::Level);
            assert_eq!(fixture.wait(), []);
            for _ in 0..2 {
                fixture.modify(1, Interest::READ);
                assert_eq!(fixture.try_wait(None).expect("a wait"), [(1, GONE)]);
                assert_eq!(fixture.wait(), []);
            }
            fixture.remove(1);
        }
    }
}

#[test]
fn remove_before_close_costs_a_call_only_on_dev_poll() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.costs();
        fixture.remove_before_close(1);
        fixture.close(A);
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.changes(), fixture.kind.pick([0, 1, 0, 0]));
        assert_eq!(fixture.watched(), []);
        fixture.open(A);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn a_reused_number_reports_under_its_new_key() {
    let (old, new) = ((1 << 32) | 3, (2 << 32) | 3);
    for kind in KINDS {
        for (in_place, before_close) in [(false, false), (false, true), (true, true)] {
            let mut fixture = Fixture::new(kind);
            fixture.open(B + 1);
            fixture.add(B + 1, old, Interest::READ, Mode::Level);
            fixture.set(B + 1, IN);
            assert_eq!(fixture.wait(), [(old, Ready::READABLE)]);
            match before_close {
                true => fixture.remove_before_close(old),
                false => fixture.remove(old),
            }
            fixture.close(B + 1);
            // There is no wait between the close and the open, so the kernel is not updated between
            // them.
            match in_place && kind != Kind::Kqueue {
                true => fixture.kernel().open_in_place(B + 1),
                false => fixture.open(B + 1),
            }
            fixture.add(B + 1, new, Interest::WRITE, Mode::Level);
            fixture.set(B + 1, IN);
            assert_eq!(fixture.wait(), []);
            fixture.set(B + 1, IN | OUT);
            assert_eq!(fixture.wait(), [(new, Ready::WRITABLE)]);
        }
    }
}

/// On a port the closed descriptor is not idle, because a port drops an idle one without a report.
#[test]
fn a_closed_descriptor_is_reported_once() {
    for (kind, ready) in [
        (Kind::Port, IN),
        (Kind::DevPoll, 0),
        (Kind::DevPoll, IN),
        (Kind::Poll, 0),
        (Kind::Poll, IN),
    ] {
        let mut fixture = Fixture::new(kind);
        fixture.add_both();
        fixture.set(A, ready);
        fixture.wait();
        fixture.close(A);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(1, GONE), (2, Ready::READABLE)]);
        assert_eq!(fixture.wait(), [(2, Ready::READABLE)], "reported once");
        assert_eq!(fixture.keys_of_waits(1), [2]);
        assert_eq!(fixture.watched().len(), fixture.kind.pick([0, 1, 1, 0]));
        fixture.remove(1);
    }
}

#[test]
fn a_closed_edge_or_one_shot_is_reported_once() {
    for kind in [Kind::DevPoll, Kind::Poll] {
        for mode in [Mode::Edge, Mode::Oneshot] {
            let mut fixture = Fixture::new(kind);
            fixture.add(A, 1, Interest::READ, mode);
            fixture.wait();
            fixture.close(A);
            assert_eq!(fixture.wait(), [(1, GONE)], "{mode:?}");
            assert_eq!(fixture.wait(), [], "{mode:?}");
            assert_eq!(fixture.watched(), [], "{mode:?}");
        }
    }
}

#[test]
fn a_lost_descriptor_that_is_open_again_is_watched_again() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.wait();
        fixture.close(A);
        let reported = fixture.try_wait(None).expect("a wait");
        assert_eq!(reported, [(1, GONE)]);
        assert_eq!(fixture.wait(), []);
        fixture.open(A);
        assert_eq!(fixture.wait(), []);
        fixture.modify(1, Interest::READ);
        fixture.set(A, IN);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        fixture.remove(1);
    }
}

#[test]
fn closed_descriptors_that_do_not_fit_come_later() {
    for mut fixture in Fixture::each(MASKING) {
        let fds = fixture.add_more(5);
        assert_eq!(fixture.wait().len(), 5);
        fds.for_each(|fd| fixture.close(fd));
        fixture.events = Events::bounded(1);
        let mut keys = fixture.keys_of_waits(2);
        let mut left = (0..5).filter(|key| !keys.contains(key));
        let removed = left.next().expect("three are left");
        fixture.remove(removed);
        keys.push(removed);
        keys.extend(fixture.keys_of_waits(2));
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.watched(), []);
    }
}

#[test]
fn a_removed_key_is_silent_despite_a_duplicate() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.kernel().duplicate(A, B + 1);
        fixture.remove_before_close(1);
        fixture.close(A);
        fixture.set(B + 1, IN);
        assert_eq!(fixture.wait(), []);
    }
}

#[test]
fn two_numbers_of_one_file_report_under_two_keys() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.kernel().duplicate(A, B + 1);
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.add(B + 1, 2, Interest::WRITE, Mode::Level);
        assert_eq!(fixture.wait(), []);
        fixture.set(A, IN | OUT);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE), (2, Ready::WRITABLE)]);
        fixture.remove_before_close(1);
        fixture.close(A);
        assert_eq!(fixture.wait(), [(2, Ready::WRITABLE)]);
    }
}

/// On a port and on kqueue, the removal reports that the descriptor was closed.
#[test]
fn removal_after_a_close_leaves_no_watch() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.close(A);
        match (fixture.kind, fixture.poller.remove(1)) {
            (Kind::Port | Kind::Kqueue, Err(Error::NotOpen { fd: A })) => {}
            (Kind::DevPoll | Kind::Poll, Ok(())) => {}
            (kind, removed) => panic!("{kind:?}: {removed:?}"),
        }
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.watched(), []);
    }
}
