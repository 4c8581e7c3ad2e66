//! `Mode::Edge`: once a side, until it has met `WouldBlock` and was rearmed.

use std::io::{Read, Write};

use evcore_poller::{Interest, Mode};

use crate::{
    socket::{Drained, drain, fill},
    stage::{READABLE, Stage, WRITABLE},
};

crate::scenarios! {
    data_is_reported_once,
    a_partial_drain_is_silent,
    what_came_between_the_drain_and_the_rearm_is_reported,
    room_is_reported_again_after_it_was_used_up,
    one_side_that_was_not_rearmed_does_not_silence_the_other,
    a_change_of_interest_starts_afresh,
    a_change_that_is_taken_back_is_no_change,
    rearm_before_anything_was_reported_changes_nothing,
}

fn data_is_reported_once(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Edge);
    stage.expect_nothing();
    for _ in 0..3 {
        near.write_all(b"a").expect("write");
        stage.expect(&[(1, READABLE)]);
        stage.expect_nothing();
        assert_eq!(drain(&far), (1, Drained::Empty));
        stage.rearm(1, Interest::READ);
        stage.expect_nothing();
    }
}

fn a_partial_drain_is_silent(stage: &mut Stage) {
    let (mut near, mut far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Edge);
    near.write_all(b"ab").expect("write");
    stage.expect(&[(1, READABLE)]);
    far.read_exact(&mut [0]).expect("read");
    stage.expect_nothing();
    drain(&far);
    stage.rearm(1, Interest::READ);
    near.write_all(b"c").expect("write");
    stage.expect(&[(1, READABLE)]);
}

fn what_came_between_the_drain_and_the_rearm_is_reported(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Edge);
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE)]);
    drain(&far);
    near.write_all(b"b").expect("write");
    stage.rearm(1, Interest::READ);
    stage.expect(&[(1, READABLE)]);
}

fn room_is_reported_again_after_it_was_used_up(stage: &mut Stage) {
    let (near, far) = stage.pair();
    stage.add(&far, 1, Interest::WRITE, Mode::Edge);
    stage.expect(&[(1, WRITABLE)]);
    stage.expect_nothing();
    fill(&far);
    stage.rearm(1, Interest::WRITE);
    stage.expect_nothing();
    drain(&near);
    stage.expect(&[(1, WRITABLE)]);
    stage.expect_nothing();
}

fn one_side_that_was_not_rearmed_does_not_silence_the_other(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::BOTH, Mode::Edge);
    stage.expect(&[(1, WRITABLE)]);
    for _ in 0..2 {
        near.write_all(b"a").expect("write");
        // A kernel that keeps `Edge` itself says again that there is room.
        let trace = stage.now();
        assert!(
            matches!(trace[..], [(1, ready)] if ready.is_readable()),
            "{}: {trace:?}",
            stage.name
        );
        stage.expect_nothing();
        drain(&far);
        stage.rearm(1, Interest::READ);
    }
}

fn a_change_of_interest_starts_afresh(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Edge);
    stage.expect(&[(1, READABLE)]);
    stage.modify(1, Interest::BOTH);
    stage.expect(&[(1, READABLE | WRITABLE)]);
    stage.modify(1, Interest::NONE);
    stage.expect_nothing();
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE)]);
    stage.expect_nothing();
}

fn a_change_that_is_taken_back_is_no_change(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Edge);
    stage.expect(&[(1, READABLE)]);
    stage.modify(1, Interest::BOTH);
    stage.modify(1, Interest::READ);
    stage.expect_nothing();
}

fn rearm_before_anything_was_reported_changes_nothing(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Edge);
    stage.rearm(1, Interest::READ);
    stage.expect_nothing();
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE)]);
}
