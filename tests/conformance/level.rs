//! `Mode::Level`: readiness is reported in every wait while it lasts.

use std::io::{Read, Write};

use evcore_poller::{Interest, Mode};

use crate::{
    fixture::{Fixture, READABLE, WRITABLE},
    socket::{drain, fill},
};

crate::scenarios! {
    reading_is_reported_while_there_is_data,
    writing_is_reported_while_there_is_room,
    both_sides_are_reported_in_one_event,
    only_the_interest_is_reported,
    events_carry_all_of_the_key,
}

fn reading_is_reported_while_there_is_data(fixture: &mut Fixture) {
    let (mut near, mut far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    fixture.expect_nothing();

    near.write_all(b"ab").expect("write");
    fixture.expect(&[(1, READABLE)]);
    fixture.expect(&[(1, READABLE)]);

    far.read_exact(&mut [0]).expect("read");
    fixture.expect(&[(1, READABLE)]);
    far.read_exact(&mut [0]).expect("read");
    fixture.expect_nothing();
}

fn writing_is_reported_while_there_is_room(fixture: &mut Fixture) {
    let (near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.expect(&[(1, WRITABLE)]);

    let written = fill(&far);
    fixture.expect_nothing();
    assert_eq!(drain(&near).0, written);
    fixture.expect(&[(1, WRITABLE)]);
}

fn both_sides_are_reported_in_one_event(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::BOTH, Mode::Level);
    fixture.expect(&[(1, WRITABLE)]);
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE | WRITABLE)]);
    fill(&far);
    fixture.expect(&[(1, READABLE)]);
}

fn only_the_interest_is_reported(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE)]);
    fixture.modify(1, Interest::NONE);
    fixture.expect_nothing();
}

fn events_carry_all_of_the_key(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    let key = 0xdead_beef_0000_0007;
    fixture.add(&far, key, Interest::WRITE, Mode::Level);
    fixture.expect(&[(key, WRITABLE)]);
}
