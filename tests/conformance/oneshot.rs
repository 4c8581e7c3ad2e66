//! `Mode::Oneshot`: one report, and then none until `modify`.

use std::io::Write;

use evcore_poller::{Interest, Mode};

use crate::{
    fixture::{Fixture, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED},
    socket::drain,
};

crate::scenarios! {
    a_one_shot_fires_once_until_modify,
    one_side_of_a_one_shot_disarms_both,
    arming_reports_what_is_already_ready,
    rearm_does_not_arm_a_one_shot,
    a_hang_up_waits_until_it_is_armed,
    modify_before_the_report_does_not_double_it,
    an_empty_interest_and_back_arms_a_one_shot,
}

fn a_one_shot_fires_once_until_modify(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Oneshot);
    fixture.expect_nothing();
    for _ in 0..3 {
        near.write_all(b"a").expect("write");
        fixture.expect(&[(1, READABLE)]);
        drain(&far);
        near.write_all(b"b").expect("write");
        fixture.expect_nothing();
        drain(&far);
        fixture.modify(1, Interest::READ);
        fixture.expect_nothing();
    }
}

fn one_side_of_a_one_shot_disarms_both(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::BOTH, Mode::Oneshot);
    fixture.expect(&[(1, WRITABLE)]);
    near.write_all(b"a").expect("write");
    fixture.expect_nothing();
}

fn arming_reports_what_is_already_ready(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Oneshot);
    fixture.expect(&[(1, READABLE)]);
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE)]);
    fixture.modify(1, Interest::BOTH);
    fixture.expect(&[(1, READABLE | WRITABLE)]);
    fixture.expect_nothing();
}

fn rearm_does_not_arm_a_one_shot(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Oneshot);
    fixture.expect(&[(1, READABLE)]);
    fixture.rearm(1, Interest::READ);
    fixture.expect_nothing();
}

fn a_hang_up_waits_until_it_is_armed(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Oneshot);
    fixture.expect(&[(1, READABLE)]);
    drop(near);
    fixture.expect_nothing();
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE | READ_CLOSED | WRITE_CLOSED)]);
    fixture.expect_nothing();
}

fn modify_before_the_report_does_not_double_it(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Oneshot);
    fixture.modify(1, Interest::BOTH);
    fixture.modify(1, Interest::READ);
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE)]);
    fixture.expect_nothing();
}

fn an_empty_interest_and_back_arms_a_one_shot(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Oneshot);
    fixture.expect(&[(1, READABLE)]);
    fixture.modify(1, Interest::NONE);
    fixture.expect_nothing();
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE)]);
    fixture.expect_nothing();
}
