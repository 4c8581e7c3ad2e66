//! Registering, changing and removing, also in the middle of a batch.

use std::{io::Write, os::unix::net::UnixStream};

use evcore_poller::{Error, Events, Interest, MAX_ID, Mode};

use crate::{
    kernel,
    stage::{ERROR, READABLE, Stage, WRITABLE},
};

crate::scenarios! {
    nothing_and_back_within_a_wait,
    nothing_and_back_over_waits,
    an_id_is_registered_once,
    a_descriptor_under_two_keys_is_refused,
    what_is_not_registered_cannot_be_removed,
    ids_above_the_limit_are_refused,
    what_is_removed_inside_a_batch_is_not_reported_again,
    a_descriptor_reused_inside_a_batch_reports_under_its_new_key,
    a_change_that_the_kernel_refuses_is_an_error_event,
    refused_changes_do_not_starve_what_is_ready,
    closed_descriptors_do_not_starve_what_is_ready,
    a_buffer_of_no_capacity_is_refused;
    of kernels alone:
    two_keys_watch_one_file_through_a_duplicate,
}

fn nothing_and_back_within_a_wait(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Level);
    stage.modify(1, Interest::NONE);
    stage.modify(1, Interest::READ);
    stage.expect(&[(1, READABLE)]);
}

fn nothing_and_back_over_waits(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Level);
    for _ in 0..3 {
        stage.modify(1, Interest::NONE);
        stage.expect_nothing();
        stage.modify(1, Interest::READ);
        stage.expect(&[(1, READABLE)]);
    }
}

fn an_id_is_registered_once(stage: &mut Stage) {
    let ((_a, first), (_b, second)) = (stage.pair(), stage.pair());
    let (old, new) = (5, (9 << 32) | 5);
    stage.add(&first, old, Interest::WRITE, Mode::Level);
    let again = stage.poller.add(&second, new, Interest::WRITE, Mode::Level);
    assert!(
        matches!(again, Err(Error::AlreadyRegistered { key }) if key == new),
        "{}: {again:?}",
        stage.name
    );
    stage.expect(&[(old, WRITABLE)]);
    stage.remove(old);
    stage.add(&second, new, Interest::WRITE, Mode::Level);
    stage.expect(&[(new, WRITABLE)]);
}

fn a_descriptor_under_two_keys_is_refused(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    for interest in [Interest::WRITE, Interest::NONE] {
        stage.add(&far, 1, interest, Mode::Level);
        let again = stage.poller.add(&far, 2, Interest::WRITE, Mode::Level);
        assert!(
            matches!(again, Err(Error::AlreadyWatched { .. })),
            "{}: {again:?}",
            stage.name
        );
        stage.remove(1);
    }
    stage.add(&far, 2, Interest::WRITE, Mode::Level);
    stage.expect(&[(2, WRITABLE)]);
}

fn what_is_not_registered_cannot_be_removed(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    let key = (1 << 32) | 7;
    stage.add(&far, key, Interest::WRITE, Mode::Level);
    for unknown in [3, 7, (2 << 32) | 7] {
        let results = [
            stage.poller.remove(unknown),
            stage.poller.remove_before_close(unknown),
            stage.poller.modify(unknown, Interest::READ),
            stage.poller.rearm(unknown, Interest::READ),
        ];
        for result in results {
            assert!(
                matches!(result, Err(Error::NotRegistered { key }) if key == unknown),
                "{}: {result:?}",
                stage.name
            );
        }
    }
    stage.remove(key);
    assert!(stage.poller.remove(key).is_err(), "{}: twice", stage.name);
    stage.expect_nothing();
}

fn ids_above_the_limit_are_refused(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    for key in [u64::from(MAX_ID) + 1, u64::from(u32::MAX), u64::MAX] {
        let refused = stage.poller.add(&far, key, Interest::READ, Mode::Level);
        assert!(
            matches!(refused, Err(Error::IdTooLarge { .. })),
            "{}: {refused:?}",
            stage.name
        );
    }
    let highest = (u64::from(u32::MAX) << 32) | u64::from(MAX_ID);
    stage.add(&far, highest, Interest::WRITE, Mode::Level);
    stage.expect(&[(highest, WRITABLE)]);
}

fn what_is_removed_inside_a_batch_is_not_reported_again(stage: &mut Stage) {
    let ((_a, first), (_b, second), (_c, third)) = (stage.pair(), stage.pair(), stage.pair());
    for (key, end) in [(1, &first), (2, &second), (3, &third)] {
        stage.add(end, key, Interest::WRITE, Mode::Level);
    }
    assert_eq!(stage.now().len(), 3, "{}", stage.name);
    stage.remove(2);
    stage.poller.remove_before_close(3).expect("registered");
    drop(third);
    stage.expect(&[(1, WRITABLE)]);
}

fn a_descriptor_reused_inside_a_batch_reports_under_its_new_key(stage: &mut Stage) {
    let (mut near, far) = stage.pair();
    let (old, new) = ((1 << 32) | 4, (2 << 32) | 4);
    near.write_all(b"a").expect("write");
    stage.add(&far, old, Interest::READ, Mode::Level);
    stage.expect(&[(old, READABLE)]);

    // Closed, and at once the number of another socket: id and number are those of before.
    stage.poller.remove_before_close(old).expect("registered");
    let (_quiet, far) = stage.ground.succeed(far);
    stage.add(&far, new, Interest::READ, Mode::Level);
    stage.expect_nothing();
    assert!(stage.poller.modify(old, Interest::BOTH).is_err());
    stage.modify(new, Interest::BOTH);
    stage.expect(&[(new, WRITABLE)]);
}

fn two_keys_watch_one_file_through_a_duplicate(stage: &mut Stage) {
    let (mut near, far) = kernel::pair();
    let twin: UnixStream = far.try_clone().expect("a duplicate");
    stage.add(&far, 1, Interest::READ, Mode::Level);
    stage.add(&twin, 2, Interest::BOTH, Mode::Level);
    near.write_all(b"a").expect("write");
    stage.expect(&[(1, READABLE), (2, READABLE | WRITABLE)]);
    stage.remove(1);
    drop(far);
    stage.expect(&[(2, READABLE | WRITABLE)]);
}

fn a_change_that_the_kernel_refuses_is_an_error_event(stage: &mut Stage) {
    let ((_near, lost), (_other, good)) = (stage.pair(), stage.pair());
    let lost = stage.ground.with_a_number_of_its_own(lost, 0);
    stage.add(&lost, 1, Interest::NONE, Mode::Level);
    stage.add(&good, 2, Interest::WRITE, Mode::Level);
    drop(lost);
    stage.modify(1, Interest::READ);
    // It does not wait, although it may, and the others are heard.
    assert_eq!(
        stage.wait(None),
        [(1, READABLE | ERROR), (2, WRITABLE)],
        "{}",
        stage.name
    );
    stage.expect(&[(2, WRITABLE)]);
    stage.remove(1);
}

/// Each turn, as many changes are refused as the buffer holds, and what was refused is asked again.
fn refused_changes_do_not_starve_what_is_ready(stage: &mut Stage) {
    for capacity in 1..4 {
        let (_near, good) = stage.pair();
        stage.add(&good, 0, Interest::WRITE, Mode::Level);
        stage.add_closed(5, 1..capacity + 1, Interest::NONE);
        let ask = |stage: &mut Stage| {
            (1..=capacity).for_each(|key| stage.modify(key, Interest::READ));
        };
        expect_neither_to_starve(stage, capacity, ask);
        (0..=capacity).for_each(|key| stage.remove(key));
    }
}

/// As above. Here backends differ: some refuse such a change, others find out in the wait.
fn closed_descriptors_do_not_starve_what_is_ready(stage: &mut Stage) {
    for capacity in 1..4 {
        let (_near, good) = stage.pair();
        stage.add(&good, 0, Interest::WRITE, Mode::Level);
        stage.add_closed(2, 1..capacity + 1, Interest::READ);
        let mut interests = [Interest::BOTH, Interest::READ].into_iter().cycle();
        let ask = |stage: &mut Stage| {
            let interest = interests.next().expect("for ever");
            (1..=capacity).for_each(|key| stage.modify(key, interest));
        };
        expect_neither_to_starve(stage, capacity, ask);
        // Whether it is an error to remove what is closed is up to the backend.
        (0..=capacity).for_each(|key| drop(stage.poller.remove(key)));
    }
}

/// Waits many times with a small buffer, after an `ask` each time: of any two waits one reports
/// what is ready, which is key 0, and of as many as there are keys, one reports each of the others.
fn expect_neither_to_starve(stage: &mut Stage, capacity: u64, mut ask: impl FnMut(&mut Stage)) {
    stage.events = Events::with_capacity(usize::try_from(capacity).expect("a few"));
    let mut waits_without = vec![0; usize::try_from(capacity).expect("a few") + 1];
    for _ in 0..100 {
        ask(stage);
        let trace = stage.now();
        for (key, waits) in (0..).zip(&mut waits_without) {
            let reported = trace.iter().find(|event| event.0 == key);
            *waits = if reported.is_some() { 0 } else { *waits + 1 };
            let limit = if key == 0 { 2 } else { 2 * (capacity + 1) };
            assert!(*waits < limit, "{}: {key} starves", stage.name);
            if let Some((_, ready)) = reported {
                assert_eq!(ready.is_error(), key != 0, "{}: {trace:?}", stage.name);
            }
        }
    }
}

fn a_buffer_of_no_capacity_is_refused(stage: &mut Stage) {
    let refused = stage.poller.wait(&mut Events::with_capacity(0), None);
    assert!(
        matches!(refused, Err(Error::NoRoom)),
        "{}: {refused:?}",
        stage.name
    );
}
