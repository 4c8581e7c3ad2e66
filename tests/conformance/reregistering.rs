//! `Poller::reregister`: everything that is ready is reported afresh.

use std::io::Write;

use evcore_poller::{Error, Interest, Mode};

use crate::{
    fixture::{Fixture, READABLE, WRITABLE},
    socket::drain,
};

crate::scenarios! {
    a_reregistered_edge_reports_everything_again,
    a_reregistered_oneshot_is_armed,
    a_reregistered_level_stays_as_it_is,
    a_reregistered_key_of_an_empty_interest_is_silent,
    a_key_that_is_not_registered_is_not_reregistered,
}

fn a_reregistered_edge_reports_everything_again(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::BOTH, Mode::Edge);
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE | WRITABLE)]);
    for _ in 0..3 {
        fixture.expect_nothing();
        fixture.reregister(1);
        fixture.expect(&[(1, READABLE | WRITABLE)]);
    }
    drain(&far);
    fixture.reregister(1);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.expect_nothing();
}

fn a_reregistered_oneshot_is_armed(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Oneshot);
    near.write_all(b"a").expect("write");
    for _ in 0..3 {
        fixture.expect(&[(1, READABLE)]);
        fixture.expect_nothing();
        fixture.reregister(1);
    }
    drain(&far);
    fixture.expect_nothing();
}

fn a_reregistered_level_stays_as_it_is(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    fixture.reregister(1);
    fixture.expect_nothing();
    near.write_all(b"a").expect("write");
    for _ in 0..2 {
        fixture.reregister(1);
        fixture.expect(&[(1, READABLE)]);
    }
}

fn a_reregistered_key_of_an_empty_interest_is_silent(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Edge);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.modify(1, Interest::NONE);
    fixture.reregister(1);
    fixture.expect_nothing();
    fixture.reregister(1);
    fixture.modify(1, Interest::WRITE);
    fixture.expect(&[(1, WRITABLE)]);
    fixture.expect_nothing();
}

fn a_key_that_is_not_registered_is_not_reregistered(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Edge);
    let other = fixture.poller.reregister(1 | (9 << 32));
    assert!(
        matches!(other, Err(Error::NotRegistered { .. })),
        "{}: {other:?}",
        fixture.name
    );
    fixture.expect(&[(1, WRITABLE)]);
    fixture.reregister(1);
    fixture.remove(1);
    fixture.expect_nothing();
}
