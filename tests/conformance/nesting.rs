//! A poller that watches another one through `Backend::descriptor`.

use std::io::Write;

use evcore_poller::{BackendKind, Interest, Mode};

use crate::{
    fixture::{Fixture, READABLE},
    socket::drain,
};

crate::scenarios! {
    the_descriptor_of_a_poller_is_lent_if_it_has_one;
    of kernels alone:
    a_nested_poller_is_readable_while_it_has_something_to_report,
}

fn the_descriptor_of_a_poller_is_lent_if_it_has_one(fixture: &mut Fixture) {
    let expected = fixture.platform.backend().has_descriptor();
    let lent = fixture.poller.backend().descriptor();
    assert_eq!(lent.is_some(), expected, "{}", fixture.name);
}

fn a_nested_poller_is_readable_while_it_has_something_to_report(fixture: &mut Fixture) {
    let mut outer = Fixture::of_kernel(BackendKind::Poll, "the outer poller");
    let (mut near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::NONE, Mode::Level);
    fixture.modify(1, Interest::READ);
    fixture.expect_nothing(); // passes the change to the kernel

    let Some(nested) = fixture.poller.backend().descriptor() else {
        return;
    };
    outer.add(&nested, 7, Interest::READ, Mode::Level);
    outer.expect_nothing();
    near.write_all(b"a").expect("write");
    outer.expect(&[(7, READABLE)]);
    fixture.expect(&[(1, READABLE)]);
    drain(&far);
    fixture.expect_nothing();
    outer.expect_nothing();
    fixture.poller.waker().wake();
    outer.expect(&[(7, READABLE)]);
}
