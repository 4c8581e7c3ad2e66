//! The calls that a change makes, and its effect.

use super::*;

#[test]
fn a_wait_without_changes_is_one_call() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.costs();
        for _ in 0..3 {
            fixture.wait();
            assert_eq!(fixture.costs(), (0, vec![NOW]));
        }
    }
}

#[test]
fn a_report_costs_a_call_only_if_it_ends_the_watch() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.wait();
        fixture.costs();
        for _ in 0..3 {
            fixture.wait();
            assert_eq!(fixture.changes(), fixture.kind.pick([1, 0, 0, 0]));
        }
    }
}

#[test]
fn a_change_that_is_taken_back_costs_no_call() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.wait();
        fixture.costs();
        fixture.modify(1, Interest::BOTH);
        fixture.modify(1, Interest::READ);
        fixture.wait();
        assert_eq!(fixture.costs(), (0, vec![NOW]));
    }
}

#[test]
fn a_registration_that_is_taken_back_is_not_watched() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.remove(1);
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.watched(), []);
        assert_eq!(fixture.changes(), fixture.kind.pick([2, 0, 0, 2]));
    }
}

#[test]
fn a_change_costs_the_same_calls_with_and_without_a_report() {
    for kind in KINDS {
        for ready in [0, IN] {
            let mut fixture = Fixture::new(kind);
            fixture.add(A, 1, Interest::READ, Mode::Level);
            fixture.set(A, ready);
            fixture.wait();
            fixture.costs();
            fixture.modify(1, Interest::WRITE);
            fixture.wait();
            assert_eq!(fixture.watched(), [(A, OUT)]);
            assert_eq!(fixture.changes(), kind.pick([1, 1, 0, 2]));
        }
    }
}

#[test]
fn removal_after_a_report_costs_a_call_only_if_the_kernel_still_has_a_watch() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        fixture.set(A, IN);
        fixture.wait();
        fixture.costs();
        fixture.remove(1);
        assert_eq!(fixture.wait(), []);
        assert_eq!(fixture.changes(), fixture.kind.pick([0, 1, 0, 1]));
    }
}

#[test]
fn a_fired_one_shot_is_not_watched() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Oneshot);
        fixture.set(A, IN);
        fixture.wait();
        fixture.costs();
        fixture.wait();
        assert_eq!(fixture.changes(), fixture.kind.pick([0, 1, 0, 1]));
        assert_eq!(fixture.watched(), []);
        fixture.modify(1, Interest::READ);
        fixture.wait();
        assert_eq!(fixture.changes(), fixture.kind.pick([1, 1, 0, 1]));
    }
}

#[test]
fn after_an_edge_report_without_a_rearm_only_hang_ups_are_watched() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::READ, Mode::Edge);
        fixture.set(A, IN);
        fixture.wait();
        fixture.costs();
        fixture.wait();
        assert_eq!(fixture.changes(), fixture.kind.pick([1, 1, 0, 1]));
        let half_close = fixture.kind.pick([0, 0, libc::POLLRDHUP, 0]);
        assert_eq!(fixture.watched(), [(A, half_close)]);
        fixture.wait();
        assert_eq!(fixture.changes(), 0);
    }
}

#[test]
fn an_edge_that_is_rearmed_in_time_is_not_changed() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.add(A, 1, Interest::READ, Mode::Edge);
        fixture.set(A, IN);
        fixture.wait();
        fixture.costs();
        fixture.rearm(1, Interest::READ);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
        assert_eq!(fixture.changes(), fixture.kind.pick([1, 0, 0, 0]));
    }
}

#[test]
fn an_interest_that_is_set_again_is_reported_again() {
    for mut fixture in Fixture::each(MASKING) {
        fixture.set(A, IN | HUP);
        fixture.add(A, 1, Interest::NONE, Mode::Level);
        for _ in 0..3 {
            assert_eq!(fixture.wait(), []);
            assert_eq!(fixture.watched(), []);
            fixture.modify(1, Interest::READ);
            let reported = Ready::READABLE | Ready::WRITE_CLOSED;
            assert_eq!(fixture.wait(), [(1, reported)]);
            fixture.modify(1, Interest::NONE);
        }
    }
}

#[test]
fn a_changed_interest_reports_nothing_else() {
    for kind in KINDS {
        for (before, after, reported) in [
            (Interest::BOTH, Interest::READ, Ready::READABLE),
            (Interest::BOTH, Interest::WRITE, Ready::WRITABLE),
            (Interest::READ, Interest::WRITE, Ready::WRITABLE),
        ] {
            let mut fixture = Fixture::new(kind);
            fixture.add(A, 1, before, Mode::Level);
            fixture.wait();
            fixture.set(A, IN | OUT);
            fixture.modify(1, after);
            assert_eq!(fixture.wait(), [(1, reported)]);
            fixture.set(A, (IN | OUT) & !requested_flags(after));
            assert_eq!(
                fixture.wait(),
                [],
                "an event port must not report what it queued before the change"
            );
            let watched = fixture.watched()[0].1 & !kind.pick([0, 0, libc::POLLRDHUP, 0]);
            assert_eq!(watched, requested_flags(after));
        }
    }
}

#[test]
fn a_key_removed_inside_a_batch_is_not_reported_again() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add_both();
        assert_eq!(fixture.wait().len(), 2);
        fixture.remove(2);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn a_descriptor_has_one_key() {
    for mut fixture in Fixture::each(KINDS) {
        fixture.add(A, 1, Interest::READ, Mode::Level);
        let second = fixture.try_add(A, 2, Interest::WRITE, Mode::Level);
        assert!(matches!(second, Err(Error::AlreadyWatched { fd: A })));
        fixture.set(A, IN | OUT);
        assert_eq!(fixture.wait(), [(1, Ready::READABLE)]);
    }
}

#[test]
fn the_wakers_watch_is_not_replaced() {
    for mut fixture in Fixture::each(MASKING) {
        let waker = fixture.poller.waker();
        let fd = waker.descriptor().expect("a channel has one");
        let refused = fixture.poller.add(&fd, 1, Interest::READ, Mode::Level);
        assert!(matches!(refused, Err(Error::AlreadyWatched { .. })));
        let added = fixture.poller.add(&fd, 1, Interest::NONE, Mode::Level);
        added.expect("nothing is watched yet");
        fixture.modify(1, Interest::READ);
        assert_eq!(fixture.wait(), [(1, GONE)]);
        fixture.remove(1);
        waker.wake();
        assert_eq!(fixture.try_wait(None).expect("a wait"), []);
        assert!(fixture.events.was_woken());
    }
}
