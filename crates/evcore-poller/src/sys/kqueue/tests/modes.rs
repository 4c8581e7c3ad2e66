//! What is reported, and how often.

use super::*;

const MODES: [Mode; 3] = [Mode::Level, Mode::Edge, Mode::Oneshot];

#[test]
fn level_is_reported_while_it_holds() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::READ, Mode::Level).expect("add");
    assert_eq!(stage.wait(), []);
    stage.kernel().arrive(A, 3);
    for _ in 0..3 {
        assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
    }
    stage.kernel().drain(A);
    assert_eq!(stage.wait(), []);
}

#[test]
fn an_edge_is_reported_once_for_each_arrival_and_rearming_is_free() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::READ, Mode::Edge).expect("add");
    stage.calls();
    for _ in 0..2 {
        stage.kernel().arrive(A, 3);
        assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
        assert_eq!(stage.wait(), []);
        stage.poller.rearm(7, Interest::READ).expect("registered");
        assert_eq!(stage.wait(), []);
    }
    assert_eq!(stage.changes(), [0; 6]);
}

#[test]
fn an_edge_whose_interest_changed_reports_all_that_holds_afresh() {
    let mut stage = Stage::new();
    stage.kernel().arrive(A, 3);
    stage.kernel().make_room(A, 1);
    stage.add(A, 7, Interest::READ, Mode::Edge).expect("add");
    assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
    stage.modify(7, Interest::BOTH);
    assert_eq!(stage.wait(), [(7, Ready::READABLE | Ready::WRITABLE)]);
    assert_eq!(stage.wait(), []);
    stage.modify(7, Interest::READ);
    assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
}

#[test]
fn an_edge_that_was_drained_before_the_wait_is_not_reported() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::READ, Mode::Edge).expect("add");
    stage.kernel().arrive(A, 3);
    stage.kernel().drain(A);
    assert_eq!(stage.wait(), []);
}

#[test]
fn a_one_shot_reports_once_for_both_filters_together() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::BOTH, Mode::Oneshot).expect("add");
    stage.kernel().arrive(A, 3);
    assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
    stage.kernel().make_room(A, 1);
    assert_eq!(
        stage.wait(),
        [],
        "it was the other filter's turn to be silent"
    );
    assert_eq!(stage.kernel().knotes(), []);
}

#[test]
fn a_one_shot_that_was_drained_before_the_wait_is_neither_reported_nor_spent() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::READ, Mode::Oneshot).expect("add");
    stage.kernel().arrive(A, 3);
    stage.kernel().drain(A);
    assert_eq!(stage.wait(), []);
    stage.kernel().arrive(A, 1);
    assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
}

#[test]
fn a_one_shot_that_was_drained_and_armed_before_the_wait_is_silent() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::READ, Mode::Oneshot).expect("add");
    stage.kernel().arrive(A, 3);
    assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
    stage.kernel().arrive(A, 3);
    stage.kernel().drain(A);
    stage.modify(7, Interest::READ);
    assert_eq!(stage.wait(), []);
}

#[test]
fn a_one_shot_that_is_cut_in_two_by_a_small_buffer_reports_one_half() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::BOTH, Mode::Oneshot).expect("add");
    stage.kernel().arrive(A, 3);
    stage.kernel().make_room(A, 1);
    assert_eq!(stage.wait_with(1).len(), 1);
    assert_eq!(stage.wait_with(1).len(), 0);
}

#[test]
fn a_one_shot_is_armed_by_modify_with_the_wait_itself() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::BOTH, Mode::Oneshot).expect("add");
    stage.kernel().arrive(A, 3);
    stage.wait();
    stage.calls();
    stage.modify(7, Interest::BOTH);
    assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
    assert_eq!(stage.changes(), [2], "both look afresh");
    stage.modify(7, Interest::WRITE);
    stage.kernel().make_room(A, 1);
    assert_eq!(stage.wait(), [(7, Ready::WRITABLE)]);
    assert_eq!(stage.wait(), []);
}

#[test]
fn a_one_shot_that_has_reported_goes_with_the_next_wait() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::READ, Mode::Oneshot).expect("add");
    stage.kernel().arrive(A, 3);
    stage.wait();
    stage.calls();
    assert_eq!(stage.wait(), []);
    assert_eq!(stage.changes(), [1], "dropped by the call that waits");
    stage.poller.remove(7).expect("remove");
    assert_eq!(stage.calls(), []);
}

#[test]
fn a_one_shot_that_has_just_reported_is_removed_by_a_call() {
    let mut stage = Stage::new();
    stage.add(A, 7, Interest::BOTH, Mode::Oneshot).expect("add");
    stage.kernel().arrive(A, 3);
    stage.wait();
    stage.poller.remove(7).expect("remove");
    assert_eq!(stage.kernel().knotes(), []);
}

#[test]
fn both_filters_of_a_key_are_one_event() {
    let mut stage = Stage::new();
    for (fd, key) in [(A, 1), (B, 2), (C, 3)] {
        stage
            .add(fd, key, Interest::BOTH, Mode::Level)
            .expect("add");
        stage.kernel().make_room(fd, 1);
        stage.kernel().arrive(fd, 1);
    }
    let both = Ready::READABLE | Ready::WRITABLE;
    let mut found = stage.wait();
    found.sort_unstable_by_key(|event| event.0);
    assert_eq!(found, [(1, both), (2, both), (3, both)]);
}

#[test]
fn the_bytes_that_can_be_read_are_told() {
    let mut stage = Stage::new();
    stage.add(A, 1, Interest::BOTH, Mode::Level).expect("add");
    stage.kernel().make_room(A, 9);
    assert_eq!(stage.wait_with(4)[0].available(), None, "nothing to read");
    stage.kernel().arrive(A, 3);
    assert_eq!(stage.wait_with(4)[0].available(), Some(3));
    stage.kernel().drain(A);
    assert_eq!(stage.wait_with(4)[0].available(), None, "said afresh");
    stage.kernel().end(A);
    assert_eq!(stage.wait_with(4)[0].available(), None, "read to meet it");
}

#[test]
fn a_half_close_with_data_pending_tells_both() {
    for mode in MODES {
        let mut stage = Stage::new();
        stage.add(A, 7, Interest::READ, mode).expect("add");
        stage.kernel().arrive(A, 3);
        stage.kernel().end(A);
        let events = stage.wait_with(4);
        assert_eq!(events.len(), 1, "{mode:?}");
        assert_eq!(events[0].ready, Ready::READABLE | Ready::READ_CLOSED);
        assert_eq!(events[0].available(), Some(3), "data before the end");
    }
}

#[test]
fn an_end_after_the_data_is_news() {
    for mode in [Mode::Level, Mode::Edge] {
        let mut stage = Stage::new();
        stage.add(A, 7, Interest::READ, mode).expect("add");
        stage.kernel().arrive(A, 3);
        assert_eq!(stage.wait(), [(7, Ready::READABLE)]);
        stage.kernel().drain(A);
        stage.kernel().end(A);
        assert_eq!(stage.wait(), [(7, Ready::READABLE | Ready::READ_CLOSED)]);
    }
}

#[test]
fn a_hang_up_or_an_error_alone_wakes_the_side_of_interest() {
    let read = Ready::READABLE | Ready::READ_CLOSED;
    let write = Ready::WRITABLE | Ready::WRITE_CLOSED;
    for mode in MODES {
        for (interest, sides) in [
            (Interest::READ, read),
            (Interest::WRITE, write),
            (Interest::BOTH, read | write),
        ] {
            for (error, bit) in [(0, Ready::NONE), (54, Ready::ERROR)] {
                let mut stage = Stage::new();
                stage.add(A, 7, interest, mode).expect("add");
                stage.kernel().hang_up(A, error);
                assert_eq!(stage.wait(), [(7, sides | bit)], "{mode:?} {interest:?}");
            }
        }
    }
}
