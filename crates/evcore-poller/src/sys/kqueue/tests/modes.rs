//! The reports of each mode.

use super::*;

const MODES: [Mode; 3] = [Mode::Level, Mode::Edge, Mode::Oneshot];

#[test]
fn level_is_reported_while_it_lasts() {
    let mut fixture = Fixture::new();
    fixture.add(A, 7, Interest::READ, Mode::Level).expect("add");
    assert_eq!(fixture.wait(), []);
    fixture.kernel().arrive(A, 3);
    for _ in 0..3 {
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    }
    fixture.kernel().drain(A);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn an_edge_is_reported_once_for_each_arrival() {
    let mut fixture = Fixture::new();
    fixture.add(A, 7, Interest::READ, Mode::Edge).expect("add");
    fixture.calls();
    for _ in 0..2 {
        fixture.kernel().arrive(A, 3);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
        assert_eq!(fixture.wait(), []);
        fixture.poller.rearm(7, Interest::READ).expect("registered");
        assert_eq!(fixture.wait(), []);
    }
    assert_eq!(fixture.changes(), [0; 6]);
}

#[test]
fn an_edge_with_a_changed_interest_reports_afresh() {
    let mut fixture = Fixture::new();
    fixture.kernel().arrive(A, 3);
    fixture.kernel().make_room(A, 1);
    fixture.add(A, 7, Interest::READ, Mode::Edge).expect("add");
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    fixture.modify(7, Interest::BOTH);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE | Ready::WRITABLE)]);
    assert_eq!(fixture.wait(), []);
    fixture.modify(7, Interest::READ);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
}

#[test]
fn a_reregistered_edge_or_one_shot_reports_afresh() {
    for mode in MODES {
        let mut fixture = Fixture::new();
        fixture.kernel().arrive(A, 3);
        fixture.add(A, 7, Interest::READ, mode).expect("add");
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)], "{mode:?}");
        if mode != Mode::Level {
            assert_eq!(fixture.wait(), [], "{mode:?}");
        }
        fixture.calls();
        fixture.poller.reregister(7).expect("registered");
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)], "{mode:?}");
        // The change goes with the wait; a `Level` needs none.
        assert_eq!(fixture.changes(), [usize::from(mode != Mode::Level)]);
    }
}

#[test]
fn an_edge_drained_before_the_wait_is_not_reported() {
    let mut fixture = Fixture::new();
    fixture.add(A, 7, Interest::READ, Mode::Edge).expect("add");
    fixture.kernel().arrive(A, 3);
    fixture.kernel().drain(A);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_one_shot_reports_once_for_both_filters_together() {
    let mut fixture = Fixture::new();
    fixture
        .add(A, 7, Interest::BOTH, Mode::Oneshot)
        .expect("add");
    fixture.kernel().arrive(A, 3);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    fixture.kernel().make_room(A, 1);
    assert_eq!(
        fixture.wait(),
        [],
        "it was the other filter's turn to be silent"
    );
    assert_eq!(fixture.kernel().knotes(), []);
}

#[test]
fn a_one_shot_drained_before_the_wait_stays_armed() {
    let mut fixture = Fixture::new();
    fixture
        .add(A, 7, Interest::READ, Mode::Oneshot)
        .expect("add");
    fixture.kernel().arrive(A, 3);
    fixture.kernel().drain(A);
    assert_eq!(fixture.wait(), []);
    fixture.kernel().arrive(A, 1);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
}

#[test]
fn a_one_shot_drained_and_armed_again_is_silent() {
    let mut fixture = Fixture::new();
    fixture
        .add(A, 7, Interest::READ, Mode::Oneshot)
        .expect("add");
    fixture.kernel().arrive(A, 3);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    fixture.kernel().arrive(A, 3);
    fixture.kernel().drain(A);
    fixture.modify(7, Interest::READ);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_one_shot_split_by_a_small_buffer_reports_one_half() {
    let mut fixture = Fixture::new();
    fixture
        .add(A, 7, Interest::BOTH, Mode::Oneshot)
        .expect("add");
    fixture.kernel().arrive(A, 3);
    fixture.kernel().make_room(A, 1);
    assert_eq!(fixture.wait_with(1).len(), 1);
    assert_eq!(fixture.wait_with(1).len(), 0);
}

#[test]
fn the_wait_arms_a_modified_one_shot() {
    let mut fixture = Fixture::new();
    fixture
        .add(A, 7, Interest::BOTH, Mode::Oneshot)
        .expect("add");
    fixture.kernel().arrive(A, 3);
    fixture.wait();
    fixture.calls();
    fixture.modify(7, Interest::BOTH);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    assert_eq!(fixture.changes(), [2], "both look afresh");
    fixture.modify(7, Interest::WRITE);
    fixture.kernel().make_room(A, 1);
    assert_eq!(fixture.wait(), [(7, Ready::WRITABLE)]);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn the_next_wait_drops_a_fired_one_shot() {
    let mut fixture = Fixture::new();
    fixture
        .add(A, 7, Interest::READ, Mode::Oneshot)
        .expect("add");
    fixture.kernel().arrive(A, 3);
    fixture.wait();
    fixture.calls();
    assert_eq!(fixture.wait(), []);
    assert_eq!(fixture.changes(), [1], "dropped by the call that waits");
    fixture.poller.remove(7).expect("remove");
    assert_eq!(fixture.calls(), []);
}

#[test]
fn removing_a_fired_one_shot_takes_a_call() {
    let mut fixture = Fixture::new();
    fixture
        .add(A, 7, Interest::BOTH, Mode::Oneshot)
        .expect("add");
    fixture.kernel().arrive(A, 3);
    fixture.wait();
    fixture.poller.remove(7).expect("remove");
    assert_eq!(fixture.kernel().knotes(), []);
}

#[test]
fn both_filters_of_a_key_are_one_event() {
    let mut fixture = Fixture::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture
            .add(fd, key, Interest::BOTH, Mode::Level)
            .expect("add");
        fixture.kernel().make_room(fd, 1);
        fixture.kernel().arrive(fd, 1);
    }
    let both = Ready::READABLE | Ready::WRITABLE;
    let mut found = fixture.wait();
    found.sort_unstable_by_key(|event| event.0);
    assert_eq!(found, [(1, both), (2, both), (3, both)]);
}

#[test]
fn a_half_close_behind_data_reports_both() {
    for mode in MODES {
        let mut fixture = Fixture::new();
        fixture.add(A, 7, Interest::READ, mode).expect("add");
        fixture.kernel().arrive(A, 3);
        fixture.kernel().end(A);
        let events = fixture.wait_with(4);
        assert_eq!(events.len(), 1, "{mode:?}");
        assert_eq!(events[0].ready, Ready::READABLE | Ready::READ_CLOSED);
    }
}

#[test]
fn an_end_after_the_data_is_reported() {
    for mode in [Mode::Level, Mode::Edge] {
        let mut fixture = Fixture::new();
        fixture.add(A, 7, Interest::READ, mode).expect("add");
        fixture.kernel().arrive(A, 3);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
        fixture.kernel().drain(A);
        fixture.kernel().end(A);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE | Ready::READ_CLOSED)]);
    }
}

#[test]
fn a_hang_up_or_an_error_sets_the_side_of_the_interest() {
    let read = Ready::READABLE | Ready::READ_CLOSED;
    let write = Ready::WRITABLE | Ready::WRITE_CLOSED;
    for mode in MODES {
        for (interest, sides) in [
            (Interest::READ, read),
            (Interest::WRITE, write),
            (Interest::BOTH, read | write),
        ] {
            for (error, bit) in [(0, Ready::NONE), (54, Ready::ERROR)] {
                let mut fixture = Fixture::new();
                fixture.add(A, 7, interest, mode).expect("add");
                fixture.kernel().hang_up(A, error);
                assert_eq!(fixture.wait(), [(7, sides | bit)], "{mode:?} {interest:?}");
            }
        }
    }
}
