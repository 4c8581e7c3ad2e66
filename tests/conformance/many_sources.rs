//! Many descriptors, and event buffers that are too small for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
};

use evcore_poller::{Events, Interest, Mode};

use crate::{
    fixture::{Fixture, READABLE, WRITABLE},
    platform::ManySockets,
};

crate::scenarios! {
    one_descriptor,
    a_thousand_descriptors,
    five_thousand_descriptors,
    a_few_ready_among_many_idle,
    nothing_starves_with_a_small_buffer,
    all_are_seen_soon_if_all_become_ready_at_once,
    a_small_buffer_loses_no_one_shot,
    a_buffer_of_one_serves_all_in_turn,
    sources_are_removed_in_any_order,
}

/// Registers `count` sockets for writing, under the keys from 0.
fn many_sockets(fixture: &mut Fixture, count: u64, mode: Mode) -> ManySockets {
    let sockets = fixture.platform.many_sockets(count);
    for (member, key) in sockets.members().into_iter().zip(0..) {
        fixture.add(member, key, Interest::WRITE, mode);
    }
    sockets
}

/// Returns `count`, or fewer for select, which must also have room for the other tests'
/// descriptors.
fn at_most(count: u64, fixture: &Fixture) -> u64 {
    if fixture.platform.backend().has_sets() {
        count.min(200)
    } else {
        count
    }
}

fn all_report(fixture: &mut Fixture, count: u64) {
    let count = at_most(count, fixture);
    let sockets = many_sockets(fixture, count, Mode::Level);
    fixture.events = Events::bounded(usize::try_from(count).expect("thousands"));
    let all: Vec<_> = (0..count).map(|key| (key, WRITABLE)).collect();
    for _ in 0..2 {
        // `assert_eq!` would print both long lists.
        assert!(fixture.now() == all, "{}", fixture.name);
        sockets.fill();
        fixture.expect_nothing();
        sockets.drain();
    }
}

fn one_descriptor(fixture: &mut Fixture) {
    all_report(fixture, 1);
}

fn a_thousand_descriptors(fixture: &mut Fixture) {
    all_report(fixture, 1024);
}

fn five_thousand_descriptors(fixture: &mut Fixture) {
    all_report(fixture, 5000);
}

fn a_few_ready_among_many_idle(fixture: &mut Fixture) {
    let quiet = many_sockets(fixture, at_most(1000, fixture), Mode::Level);
    quiet.fill();
    let loud: Vec<_> = (1000..1003).map(|key| (key, fixture.pair())).collect();
    for (key, (near, far)) in &loud {
        fixture.add(far, *key, Interest::READ, Mode::Level);
        let mut near = near;
        near.write_all(b"a").expect("write");
    }
    fixture.expect(&[(1000, READABLE), (1001, READABLE), (1002, READABLE)]);
}

fn nothing_starves_with_a_small_buffer(fixture: &mut Fixture) {
    const ROUNDS: u64 = 10;
    let count = at_most(1000, fixture);
    let _crowd = many_sockets(fixture, count, Mode::Level);
    let mut times = BTreeMap::new();
    for _ in 0..(count * ROUNDS).div_ceil(64) {
        for (key, _) in fixture.now() {
            *times.entry(key).or_insert(0) += 1;
        }
    }
    let least = (0..count).map(|key| times.get(&key).copied().unwrap_or(0));
    assert!(
        least.min() >= Some(ROUNDS - 1),
        "{}: number of reports of each: {times:?}",
        fixture.name
    );
}

/// A backend must report new readiness before readiness that lasts.
fn all_are_seen_soon_if_all_become_ready_at_once(fixture: &mut Fixture) {
    const ROOM: u32 = 100;
    let count = at_most(1000, fixture);
    let sockets = many_sockets(fixture, count, Mode::Level);
    fixture.events = Events::bounded(ROOM as usize);
    sockets.fill();
    fixture.expect_nothing();
    sockets.drain();
    let enough = 2 * count.div_ceil(ROOM.into());
    let seen: BTreeSet<_> = (0..enough)
        .flat_map(|_| fixture.now())
        .map(|report| report.0)
        .collect();
    let (seen, name) = (seen.len() as u64, &fixture.name);
    assert!(
        seen == count,
        "{name}: {seen} of {count} after {enough} waits"
    );
}

fn a_small_buffer_loses_no_one_shot(fixture: &mut Fixture) {
    let count = at_most(300, fixture);
    let _crowd = many_sockets(fixture, count, Mode::Oneshot);
    let mut reported: Vec<_> = (0..5).flat_map(|_| fixture.now()).collect();
    reported.sort_unstable_by_key(|event| event.0);
    let all: Vec<_> = (0..count).map(|key| (key, WRITABLE)).collect();
    assert_eq!(reported, all, "{}: each once", fixture.name);
    fixture.expect_nothing();
}

fn a_buffer_of_one_serves_all_in_turn(fixture: &mut Fixture) {
    let _crowd = many_sockets(fixture, 5, Mode::Level);
    fixture.events = Events::bounded(1);
    let mut keys: Vec<_> = (0..5)
        .flat_map(|_| fixture.now())
        .map(|report| report.0)
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4], "{}", fixture.name);
}

fn sources_are_removed_in_any_order(fixture: &mut Fixture) {
    let _crowd = many_sockets(fixture, 60, Mode::Level);
    let mut present: Vec<_> = (0..60).map(|key| (key, WRITABLE)).collect();
    // The product spreads the removals over the list.
    for step in 0..60 {
        let (key, _) = present.remove(step * 37 % present.len());
        fixture.remove(key);
        fixture.expect(&present);
    }
}
