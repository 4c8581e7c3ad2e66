//! The reports of each mode.

use super::*;

#[test]
fn an_edge_is_reported_once_for_each_arrival() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::READ, Mode::Edge);
    fixture.calls();
    for _ in 0..2 {
        fixture.raise(A, IN);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
        assert_eq!(fixture.wait(), []);
        fixture.rearm(7, Interest::READ);
        assert_eq!(fixture.wait(), []);
    }
    assert_eq!(changes_by_call(&fixture), [0; 6]);
}

#[test]
fn an_edge_with_a_changed_interest_reports_afresh() {
    let mut fixture = fixture();
    fixture.raise(A, IN);
    fixture.raise(A, OUT);
    fixture.add(A, 7, Interest::READ, Mode::Edge);
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
        let mut fixture = fixture();
        fixture.raise(A, IN);
        fixture.add(A, 7, Interest::READ, mode);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)], "{mode:?}");
        if mode != Mode::Level {
            assert_eq!(fixture.wait(), [], "{mode:?}");
        }
        fixture.calls();
        fixture.poller.reregister(7).expect("registered");
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)], "{mode:?}");
        // The change goes with the wait; a `Level` needs none.
        assert_eq!(
            changes_by_call(&fixture),
            [usize::from(mode != Mode::Level)]
        );
    }
}

#[test]
fn an_edge_drained_before_the_wait_is_not_reported() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::READ, Mode::Edge);
    fixture.raise(A, IN);
    fixture.lower(A, IN);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_one_shot_reports_once_for_both_filters_together() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::BOTH, Mode::Oneshot);
    fixture.raise(A, IN);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    fixture.raise(A, OUT);
    assert_eq!(
        fixture.wait(),
        [],
        "the one-shot has fired for both filters"
    );
    assert_eq!(fixture.kernel().queue.knotes(), []);
}

#[test]
fn a_one_shot_drained_before_the_wait_stays_armed() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::READ, Mode::Oneshot);
    fixture.raise(A, IN);
    fixture.lower(A, IN);
    assert_eq!(fixture.wait(), []);
    fixture.raise(A, IN);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
}

#[test]
fn a_one_shot_drained_and_armed_again_is_silent() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::READ, Mode::Oneshot);
    fixture.raise(A, IN);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    fixture.raise(A, IN);
    fixture.lower(A, IN);
    fixture.modify(7, Interest::READ);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn a_one_shot_split_by_a_small_buffer_reports_one_half() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::BOTH, Mode::Oneshot);
    fixture.raise(A, IN);
    fixture.raise(A, OUT);
    assert_eq!(wait_with(&mut fixture, 1).len(), 1);
    assert_eq!(wait_with(&mut fixture, 1).len(), 0);
}

#[test]
fn the_wait_arms_a_modified_one_shot() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::BOTH, Mode::Oneshot);
    fixture.raise(A, IN);
    fixture.wait();
    fixture.calls();
    fixture.modify(7, Interest::BOTH);
    assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
    assert_eq!(
        changes_by_call(&fixture),
        [2],
        "both filters are evaluated afresh"
    );
    fixture.modify(7, Interest::WRITE);
    fixture.raise(A, OUT);
    assert_eq!(fixture.wait(), [(7, Ready::WRITABLE)]);
    assert_eq!(fixture.wait(), []);
}

#[test]
fn removing_a_fired_one_shot_drops_its_knotes() {
    let mut fixture = fixture();
    fixture.add(A, 7, Interest::BOTH, Mode::Oneshot);
    fixture.raise(A, IN);
    fixture.wait();
    fixture.remove(7);
    assert_eq!(fixture.kernel().queue.knotes(), []);
}

#[test]
fn both_filters_of_a_key_are_one_event() {
    let mut fixture = fixture();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        fixture.add(fd, key, Interest::BOTH, Mode::Level);
        fixture.raise(fd, OUT);
        fixture.raise(fd, IN);
    }
    let both = Ready::READABLE | Ready::WRITABLE;
    let mut found = fixture.wait();
    found.sort_unstable_by_key(|event| event.0);
    assert_eq!(found, [(1, both), (2, both), (3, both)]);
}

#[test]
fn a_half_close_behind_data_reports_both() {
    for mode in MODES {
        let mut fixture = fixture();
        fixture.add(A, 7, Interest::READ, mode);
        fixture.raise(A, IN);
        fixture.raise(A, libc::POLLRDHUP);
        let events = wait_with(&mut fixture, 4);
        assert_eq!(events.len(), 1, "{mode:?}");
        assert_eq!(events[0].1, Ready::READABLE | Ready::READ_CLOSED);
    }
}

#[test]
fn an_end_after_the_data_is_reported() {
    for mode in [Mode::Level, Mode::Edge] {
        let mut fixture = fixture();
        fixture.add(A, 7, Interest::READ, mode);
        fixture.raise(A, IN);
        assert_eq!(fixture.wait(), [(7, Ready::READABLE)]);
        fixture.lower(A, IN);
        fixture.raise(A, libc::POLLRDHUP);
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
            for (has_error, bit) in [(false, Ready::NONE), (true, Ready::ERROR)] {
                let mut fixture = fixture();
                fixture.add(A, 7, interest, mode);
                fixture.kernel().hang_up(A, has_error);
                assert_eq!(fixture.wait(), [(7, sides | bit)], "{mode:?} {interest:?}");
            }
        }
    }
}
