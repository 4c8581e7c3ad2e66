//! Registering, changing and removing, also in the middle of a batch.

use std::{io::Write, os::unix::net::UnixStream};

use evcore_poller::{Error, Events, Interest, MAX_ID, Mode};

use crate::{
    fixture::{ERROR, Fixture, READABLE, WRITABLE},
    kernel,
};

crate::scenarios! {
    an_empty_interest_and_back_before_a_wait,
    an_empty_interest_and_back_across_waits,
    an_id_is_registered_once,
    a_descriptor_under_two_keys_is_refused,
    an_unregistered_key_cannot_be_removed,
    ids_above_the_limit_are_refused,
    a_key_removed_inside_a_batch_is_not_reported_again,
    a_descriptor_reused_in_a_batch_reports_under_its_new_key,
    a_change_that_the_kernel_refuses_is_an_error_event,
    refused_changes_do_not_starve_ready_descriptors,
    closed_descriptors_do_not_starve_ready_ones,
    a_buffer_has_room_for_an_event;
    of kernels alone:
    two_keys_watch_one_file_through_a_duplicate,
}

fn an_empty_interest_and_back_before_a_wait(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    fixture.modify(1, Interest::NONE);
    fixture.modify(1, Interest::READ);
    fixture.expect(&[(1, READABLE)]);
}

fn an_empty_interest_and_back_across_waits(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    for _ in 0..3 {
        fixture.modify(1, Interest::NONE);
        fixture.expect_nothing();
        fixture.modify(1, Interest::READ);
        fixture.expect(&[(1, READABLE)]);
    }
}

fn an_id_is_registered_once(fixture: &mut Fixture) {
    let ((_a, first), (_b, second)) = (fixture.pair(), fixture.pair());
    let (old, new) = (5, (9 << 32) | 5);
    fixture.add(&first, old, Interest::WRITE, Mode::Level);
    let again = fixture
        .poller
        .add(&second, new, Interest::WRITE, Mode::Level);
    assert!(
        matches!(again, Err(Error::AlreadyRegistered { key }) if key == new),
        "{}: {again:?}",
        fixture.name
    );
    fixture.expect(&[(old, WRITABLE)]);
    fixture.remove(old);
    fixture.add(&second, new, Interest::WRITE, Mode::Level);
    fixture.expect(&[(new, WRITABLE)]);
}

fn a_descriptor_under_two_keys_is_refused(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    for interest in [Interest::WRITE, Interest::NONE] {
        fixture.add(&far, 1, interest, Mode::Level);
        let again = fixture.poller.add(&far, 2, Interest::WRITE, Mode::Level);
        assert!(
            matches!(again, Err(Error::AlreadyWatched { .. })),
            "{}: {again:?}",
            fixture.name
        );
        fixture.remove(1);
    }
    fixture.add(&far, 2, Interest::WRITE, Mode::Level);
    fixture.expect(&[(2, WRITABLE)]);
}

fn an_unregistered_key_cannot_be_removed(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    let key = (1 << 32) | 7;
    fixture.add(&far, key, Interest::WRITE, Mode::Level);
    for unknown in [3, 7, (2 << 32) | 7] {
        let results = [
            fixture.poller.remove(unknown),
            fixture.poller.remove_before_close(unknown),
            fixture.poller.modify(unknown, Interest::READ),
            fixture.poller.rearm(unknown, Interest::READ),
        ];
        for result in results {
            assert!(
                matches!(result, Err(Error::NotRegistered { key }) if key == unknown),
                "{}: {result:?}",
                fixture.name
            );
        }
    }
    fixture.remove(key);
    assert!(
        fixture.poller.remove(key).is_err(),
        "{}: twice",
        fixture.name
    );
    fixture.expect_nothing();
}

fn ids_above_the_limit_are_refused(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    for key in [u64::from(MAX_ID) + 1, u64::from(u32::MAX), u64::MAX] {
        let refused = fixture.poller.add(&far, key, Interest::READ, Mode::Level);
        assert!(
            matches!(refused, Err(Error::IdTooLarge { .. })),
            "{}: {refused:?}",
            fixture.name
        );
    }
    let highest = (u64::from(u32::MAX) << 32) | u64::from(MAX_ID);
    fixture.add(&far, highest, Interest::WRITE, Mode::Level);
    fixture.expect(&[(highest, WRITABLE)]);
}

fn a_key_removed_inside_a_batch_is_not_reported_again(fixture: &mut Fixture) {
    let ((_a, first), (_b, second), (_c, third)) = (fixture.pair(), fixture.pair(), fixture.pair());
    for (key, end) in [(1, &first), (2, &second), (3, &third)] {
        fixture.add(end, key, Interest::WRITE, Mode::Level);
    }
    assert_eq!(fixture.now().len(), 3, "{}", fixture.name);
    fixture.remove(2);
    fixture.poller.remove_before_close(3).expect("registered");
    drop(third);
    fixture.expect(&[(1, WRITABLE)]);
}

fn a_descriptor_reused_in_a_batch_reports_under_its_new_key(fixture: &mut Fixture) {
    let (mut near, far) = fixture.pair();
    let (old, new) = ((1 << 32) | 4, (2 << 32) | 4);
    near.write_all(b"a").expect("write");
    fixture.add(&far, old, Interest::READ, Mode::Level);
    fixture.expect(&[(old, READABLE)]);

    // Another socket gets the number of the closed descriptor. The old and the new registration
    // have the same id and the same number.
    fixture.poller.remove_before_close(old).expect("registered");
    let (_quiet, far) = fixture.platform.succeed(far);
    fixture.add(&far, new, Interest::READ, Mode::Level);
    fixture.expect_nothing();
    assert!(fixture.poller.modify(old, Interest::BOTH).is_err());
    fixture.modify(new, Interest::BOTH);
    fixture.expect(&[(new, WRITABLE)]);
}

fn two_keys_watch_one_file_through_a_duplicate(fixture: &mut Fixture) {
    let (mut near, far) = kernel::pair();
    let twin: UnixStream = far.try_clone().expect("a duplicate");
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    fixture.add(&twin, 2, Interest::BOTH, Mode::Level);
    near.write_all(b"a").expect("write");
    fixture.expect(&[(1, READABLE), (2, READABLE | WRITABLE)]);
    fixture.remove(1);
    drop(far);
    fixture.expect(&[(2, READABLE | WRITABLE)]);
}

fn a_change_that_the_kernel_refuses_is_an_error_event(fixture: &mut Fixture) {
    let ((_near, lost), (_other, good)) = (fixture.pair(), fixture.pair());
    let lost = fixture.platform.with_a_number_of_its_own(lost, 0);
    fixture.add(&lost, 1, Interest::NONE, Mode::Level);
    fixture.add(&good, 2, Interest::WRITE, Mode::Level);
    drop(lost);
    fixture.modify(1, Interest::READ);
    // The wait without a timeout returns, and reports the ready descriptor, too.
    assert_eq!(
        fixture.wait(None),
        [(1, READABLE | ERROR), (2, WRITABLE)],
        "{}",
        fixture.name
    );
    fixture.expect(&[(2, WRITABLE)]);
    fixture.remove(1);
}

/// Before each wait, the kernel refuses as many changes as the buffer has room for events.
fn refused_changes_do_not_starve_ready_descriptors(fixture: &mut Fixture) {
    for capacity in 1..4 {
        let (_near, good) = fixture.pair();
        fixture.add(&good, 0, Interest::WRITE, Mode::Level);
        fixture.add_closed(5, 1..capacity + 1, Interest::NONE);
        let change = |fixture: &mut Fixture| {
            (1..=capacity).for_each(|key| fixture.modify(key, Interest::READ));
        };
        expect_neither_to_starve(fixture, capacity, change);
        (0..=capacity).for_each(|key| fixture.remove(key));
    }
}

/// The changed descriptors were closed while they were watched. Some kernels refuse such a change,
/// and others report the closed descriptor in the wait.
fn closed_descriptors_do_not_starve_ready_ones(fixture: &mut Fixture) {
    for capacity in 1..4 {
        let (_near, good) = fixture.pair();
        fixture.add(&good, 0, Interest::WRITE, Mode::Level);
        fixture.add_closed(2, 1..capacity + 1, Interest::READ);
        let mut interests = [Interest::BOTH, Interest::READ].into_iter().cycle();
        let change = |fixture: &mut Fixture| {
            let interest = interests.next().expect("it cycles");
            (1..=capacity).for_each(|key| fixture.modify(key, interest));
        };
        expect_neither_to_starve(fixture, capacity, change);
        // Removing a closed descriptor is an error on some backends.
        (0..=capacity).for_each(|key| drop(fixture.poller.remove(key)));
    }
}

/// Calls `change` before each of many waits with a small buffer. One of any two waits must report
/// key 0, which is ready. Each of the other keys must be reported, as an error, by one of any
/// `2 * (capacity + 1)` waits.
fn expect_neither_to_starve(
    fixture: &mut Fixture,
    capacity: u64,
    mut change: impl FnMut(&mut Fixture),
) {
    fixture.events = Events::bounded(usize::try_from(capacity).expect("a few"));
    let mut waits_without = vec![0; usize::try_from(capacity).expect("a few") + 1];
    for _ in 0..100 {
        change(fixture);
        let trace = fixture.now();
        for (key, waits) in (0..).zip(&mut waits_without) {
            let reported = trace.iter().find(|event| event.0 == key);
            *waits = if reported.is_some() { 0 } else { *waits + 1 };
            let limit = if key == 0 { 2 } else { 2 * (capacity + 1) };
            assert!(*waits < limit, "{}: {key} starves", fixture.name);
            if let Some((_, ready)) = reported {
                assert_eq!(ready.is_error(), key != 0, "{}: {trace:?}", fixture.name);
            }
        }
    }
}

fn a_buffer_has_room_for_an_event(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.events = Events::bounded(0);
    fixture.expect(&[(1, WRITABLE)]);
}
