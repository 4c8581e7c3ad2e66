//! Descriptors of other kinds, and descriptors that are no more.

use std::{fs::File, io::Write};

use evcore_poller::{Error, Interest, Mode};

use crate::stage::{ERROR, READABLE, Stage, WRITABLE, pair, with_a_number_of_its_own};

crate::scenarios! {
    a_regular_file_is_refused_or_always_ready,
    a_closed_descriptor_blinds_none_of_a_hundred,
    a_forgotten_descriptor_is_silent_after_its_close,
}

/// Here backends differ: epoll takes only what can tell of its readiness.
fn a_regular_file_is_refused_or_always_ready(stage: &mut Stage) {
    let file = File::open(std::env::current_exe().expect("this program")).expect("readable");
    match stage.poller.add(&file, 1, Interest::READ, Mode::Level) {
        Ok(()) => stage.expect(&[(1, READABLE)]),
        Err(Error::NotPollable { kind, .. }) => {
            assert_eq!(kind, stage.kind);
            stage.expect_nothing();
        }
        Err(error) => panic!("{}: {error}", stage.name),
    }
}

/// Here backends differ: epoll forgets what is closed, poll tells of it once.
fn a_closed_descriptor_blinds_none_of_a_hundred(stage: &mut Stage) {
    let good: Vec<_> = (0..100).map(|_| pair()).collect();
    let lost = with_a_number_of_its_own(pair().0, stage.kind, 1);
    stage.events = evcore_poller::Events::with_capacity(128);
    for ((near, far), key) in good.iter().zip(0..) {
        stage.add(far, key, Interest::READ, Mode::Level);
        let mut near = near;
        near.write_all(b"a").expect("write");
        if key == 50 {
            stage.add(&lost, 1000, Interest::READ, Mode::Level);
        }
    }
    drop(lost);

    let all_good: Vec<_> = (0..100).map(|key| (key, READABLE)).collect();
    let mut first = stage.now();
    if first.last() == Some(&(1000, READABLE | ERROR)) {
        first.pop();
    }
    assert_eq!(first, all_good, "{}", stage.name);
    for _ in 0..3 {
        stage.expect(&all_good);
    }
    // Whether it is an error to remove it is up to the backend; it is gone all the same.
    let _ = stage.poller.remove(1000);
    assert!(stage.poller.remove(1000).is_err());
    stage.expect(&all_good);
}

fn a_forgotten_descriptor_is_silent_after_its_close(stage: &mut Stage) {
    let ((_near, far), (_other, stays)) = (pair(), pair());
    stage.add(&far, 1, Interest::WRITE, Mode::Level);
    stage.add(&stays, 2, Interest::WRITE, Mode::Level);
    stage.expect(&[(1, WRITABLE), (2, WRITABLE)]);
    stage.poller.forget(1).expect("registered");
    drop(far);
    stage.expect(&[(2, WRITABLE)]);
}
