//! `Mode::Oneshot`: once, and then nothing until `modify`.

use std::io::Write;

use evcore_poller::{Interest, Mode};

use crate::{
    socket::drain,
    stage::{READ_CLOSED, READABLE, Stage, WRITABLE, WRITE_CLOSED},
};

crate::scenarios! {
    it_reports_once_until_modify,
    one_side_silences_both,
    what_holds_when_it_is_armed_is_reported,
    rearm_does_not_arm_it,
    a_hang_up_waits_until_it_is_armed,
    modify_before_it_reported_does_not_double_it,
    nothing_and_back_arms_it,
}

fn it_reports_once_until_modify(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Oneshot);
    stage.expect_nothing();
    for _ in 0..3 {
        near.write_all(b"a").expect("write");
        stage.expect(&[(1, READABLE)]);
        drain(&far);
        near.write_all(b"b").expect("write");
        stage.expect_nothing();
        drain(&far);
        stage.modify(1, Interest::READ);
        stage.expect_nothing();
    }
}

fn one_side_silences_both(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::BOTH, Mode::Oneshot);
    stage.expect(&[(1, WRITABLE)]);
    near.write_all(b"a").expect("write");
    stage.expect_nothing();
}

fn what_holds_when_it_is_armed_is_reported(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Oneshot);
    stage.expect(&[(1, READABLE)]);
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE)]);
    stage.modify(1, Interest::BOTH);
    stage.expect(&[(1, READABLE | WRITABLE)]);
    stage.expect_nothing();
}

fn rearm_does_not_arm_it(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Oneshot);
    stage.expect(&[(1, READABLE)]);
    stage.rearm(1, Interest::READ);
    stage.expect_nothing();
}

fn a_hang_up_waits_until_it_is_armed(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Oneshot);
    stage.expect(&[(1, READABLE)]);
    drop(near);
    stage.expect_nothing();
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE | READ_CLOSED | WRITE_CLOSED)]);
    stage.expect_nothing();
}

fn modify_before_it_reported_does_not_double_it(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    stage.add(&far, 1, Interest::READ, Mode::Oneshot);
    stage.modify(1, Interest::BOTH);
    stage.modify(1, Interest::READ);
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE)]);
    stage.expect_nothing();
}

fn nothing_and_back_arms_it(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Oneshot);
    stage.expect(&[(1, READABLE)]);
    stage.modify(1, Interest::NONE);
    stage.expect_nothing();
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE)]);
    stage.expect_nothing();
}
