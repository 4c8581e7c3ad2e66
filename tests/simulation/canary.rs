//! Bugs that are planted into the loop are found, each within a hundred seeds.

use std::panic::{self, AssertUnwindSafe};

use evcore::{Bug, plant};
use evcore_sim::World;

use crate::{live, setting::Setting, visitors::Manners};

/// The bug, and the words of whoever finds it: so that it is known to be that one.
const BUGS: [(Bug, &[&str]); 7] = [
    (Bug::AnyGeneration, &["which has ended"]),
    (Bug::TimersOutlive, &["not armed", "clears the queues"]),
    (
        Bug::PostsOutlive,
        &["clears the queues", "is somebody else", "is late"],
    ),
    (Bug::EarlyTimers, &["is early by"]),
    (
        Bug::CarriedOverWaits,
        &["too long", "neither answered nor sent away"],
    ),
    (Bug::LockKept, &["a lock kept", "the accept lock was held"]),
    (Bug::AcceptsUnbounded, &["accepts in a turn of"]),
];

#[test]
fn each_planted_bug_is_found_within_a_hundred_seeds() {
    // What they say is not for whoever reads the tests' output.
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let found: Vec<_> = BUGS.map(|(bug, _)| found(bug)).into();
    panic::set_hook(loud);
    for ((bug, words), found) in BUGS.iter().zip(found) {
        let (seed, said) = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?}: seed {seed}: {said}");
        let known = words.iter().any(|words| said.contains(words));
        assert!(known, "{bug:?} was found as another: {said}");
    }
}

/// The first seed that finds it, and what it says.
fn found(bug: Bug) -> Option<(u64, String)> {
    plant(Some(bug));
    let found = (0..100).find_map(|seed| Some((seed, complaint(seed)?)));
    plant(None);
    found
}

fn complaint(seed: u64) -> Option<String> {
    let world = World::new(seed);
    let run = || {
        let setting = Setting::faulty(&mut world.rng());
        live(&world, setting, Manners::Any);
    };
    let panic = panic::catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    Some(text.unwrap_or_default())
}
