//! `Mode::Edge`: one report per side (reading or writing), until a call fails with `WouldBlock` and
//! the side is rearmed.

use std::io::{Read, Write};

use evcore_poller::{Interest, Mode};

use crate::{
    fixture::{Fixture, READABLE, WRITABLE},
    socket::{Drained, drain, fill},
};

crate::scenarios! {
    data_is_reported_once,
    a_partial_drain_gets_no_report,
    data_between_the_drain_and_the_rearm_is_reported,
    room_is_reported_again_after_it_was_used_up,
    one_side_that_was_not_rearmed_does_not_silence_the_other,
    a_change_of_interest_starts_afresh,
    a_change_that_is_taken_back_has_no_effect,
    rearm_before_anything_was_reported_changes_nothing,
}

fn data_is_reported_once(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Edge);
    fixture.expect_nothing();
    for _ in 0..3 {
        near.write_all(b"a").expect("write");
        fixture.expect(&[(1, READABLE)]);
        fixture.expect_nothing();
        assert_eq!(drain(&far), (1, Drained::Empty));
        fixture.rearm(1, Interest::READ);
        fixture.expect_nothing();
    }
}

fn a_partial_drain_gets_no_report(fixture: &mut Fixture) {
    let (mut near, mut far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Edge);
    near.write_all(b"ab").expect("write");
    fixture.expect(&[(1, READABLE)]);
    far.read_exact(&mut [0]).expect("read");
    fixture.expect_nothing();
    drain(&far);
    fixture.rearm(1, Interest::READ);
    near.write_all(b"c").expect("write");
    fixture.expect(&[(1, READABLE)]);
}

fn data_between_the_drain_and_the_rearm_is_reported(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Edge);
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE)]);
    drain(&far);
    near.write_all(b"b").expect("write");
    fixture.rearm(1, Interest::READ);
    fixture.expect(&[(1, READABLE)]);
}

fn room_is_reported_again_after_it_was_used_up(fixture: &mut Fixture) {
    let (near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Edge);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.expect_nothing();
    fill(&far);
    fixture.rearm(1, Interest::WRITE);
    fixture.expect_nothing();
    drain(&near);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.expect_nothing();
}

fn one_side_that_was_not_rearmed_does_not_silence_the_other(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::BOTH, Mode::Edge);
    fixture.expect(&[(1, WRITABLE)]);
    for _ in 0..2 {
        near.write_all(b"a").expect("write");
        // An edge-triggered kernel may report WRITABLE again together with the data.
        let trace = fixture.now();
        assert!(
            matches!(trace[..], [(1, ready)] if ready.is_readable()),
            "{}: {trace:?}",
            fixture.name
        );
        fixture.expect_nothing();
        drain(&far);
        fixture.rearm(1, Interest::READ);
    }
}

fn a_change_of_interest_starts_afresh(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Edge);
    fixture.expect(&[(1, READABLE)]);
    fixture.modify(1, Interest::BOTH);
    fixture.expect(&[(1, READABLE | WRITABLE)]);
    fixture.modify(1, Interest::NONE);
    fixture.expect_nothing();
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE)]);
    fixture.expect_nothing();
}

fn a_change_that_is_taken_back_has_no_effect(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Edge);
    fixture.expect(&[(1, READABLE)]);
    fixture.modify(1, Interest::BOTH);
    fixture.modify(1, Interest::READ);
    fixture.expect_nothing();
}

fn rearm_before_anything_was_reported_changes_nothing(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Edge);
    fixture.rearm(1, Interest::READ);
    fixture.expect_nothing();
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE)]);
}
