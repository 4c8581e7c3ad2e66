//! Many descriptors, and buffers that are too small for them.

use std::{collections::BTreeMap, io::Write};

use evcore_poller::{Events, Interest, Mode};

use crate::{
    ground::Crowd,
    stage::{READABLE, Stage, WRITABLE},
};

crate::scenarios! {
    one_descriptor,
    a_thousand_descriptors,
    five_thousand_descriptors,
    a_few_that_are_ready_among_many_that_are_not,
    a_small_buffer_starves_nobody,
    a_small_buffer_loses_no_one_shot,
    a_buffer_of_one_goes_round,
    a_crowd_leaves_in_any_order,
}

/// `count` of them, registered for writing under the keys from 0.
fn crowd(stage: &mut Stage, count: u64, mode: Mode) -> Crowd {
    let crowd = stage.ground.crowd(count);
    for (member, key) in crowd.members().into_iter().zip(0..) {
        stage.add(member, key, Interest::WRITE, mode);
    }
    crowd
}

/// `count`, or as many as select can watch beside what the other tests have open.
fn at_most(count: u64, stage: &Stage) -> u64 {
    if stage.ground.backend().has_sets() {
        count.min(200)
    } else {
        count
    }
}

fn all_report(stage: &mut Stage, count: u64) {
    let count = at_most(count, stage);
    let crowd = crowd(stage, count, Mode::Level);
    stage.events = Events::with_capacity(usize::try_from(count).expect("thousands"));
    let everybody: Vec<_> = (0..count).map(|key| (key, WRITABLE)).collect();
    for _ in 0..2 {
        // Compared before it is printed: it is long.
        assert!(stage.now() == everybody, "{}", stage.name);
        crowd.fill();
        stage.expect_nothing();
        crowd.drain();
    }
}

fn one_descriptor(stage: &mut Stage) {
    all_report(stage, 1);
}

fn a_thousand_descriptors(stage: &mut Stage) {
    all_report(stage, 1024);
}

fn five_thousand_descriptors(stage: &mut Stage) {
    all_report(stage, 5000);
}

fn a_few_that_are_ready_among_many_that_are_not(stage: &mut Stage) {
    let quiet = crowd(stage, at_most(1000, stage), Mode::Level);
    quiet.fill();
    let loud: Vec<_> = (1000..1003).map(|key| (key, stage.pair())).collect();
    for (key, (near, far)) in &loud {
        stage.add(far, *key, Interest::READ, Mode::Level);
        let mut near = near;
        near.write_all(b"a").expect("write");
    }
    stage.expect(&[(1000, READABLE), (1001, READABLE), (1002, READABLE)]);
}

fn a_small_buffer_starves_nobody(stage: &mut Stage) {
    const ROUNDS: u64 = 10;
    let count = at_most(1000, stage);
    let _crowd = crowd(stage, count, Mode::Level);
    let mut times = BTreeMap::new();
    for _ in 0..(count * ROUNDS).div_ceil(64) {
        for (key, _) in stage.now() {
            *times.entry(key).or_insert(0) += 1;
        }
    }
    let least = (0..count).map(|key| times.get(&key).copied().unwrap_or(0));
    assert!(
        least.min() >= Some(ROUNDS - 1),
        "{}: reported so many times: {times:?}",
        stage.name
    );
}

fn a_small_buffer_loses_no_one_shot(stage: &mut Stage) {
    let count = at_most(300, stage);
    let _crowd = crowd(stage, count, Mode::Oneshot);
    let mut reported: Vec<_> = (0..5).flat_map(|_| stage.now()).collect();
    reported.sort_unstable_by_key(|event| event.0);
    let everybody: Vec<_> = (0..count).map(|key| (key, WRITABLE)).collect();
    assert_eq!(reported, everybody, "{}: each once", stage.name);
    stage.expect_nothing();
}

fn a_buffer_of_one_goes_round(stage: &mut Stage) {
    let _crowd = crowd(stage, 5, Mode::Level);
    stage.events = Events::with_capacity(1);
    let mut keys: Vec<_> = (0..5).flat_map(|_| stage.now()).map(|it| it.0).collect();
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4], "{}", stage.name);
}

fn a_crowd_leaves_in_any_order(stage: &mut Stage) {
    let _crowd = crowd(stage, 60, Mode::Level);
    let mut present: Vec<_> = (0..60).map(|key| (key, WRITABLE)).collect();
    // 37 and 61 have no common divisor: a permutation of the places.
    for step in 0..60 {
        let (key, _) = present.remove(step * 37 % present.len());
        stage.remove(key);
        stage.expect(&present);
    }
}
