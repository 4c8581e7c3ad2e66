//! Bugs that are planted into the loop, and into how workers share, are found, each within a
//! hundred seeds.

use std::panic::{self, AssertUnwindSafe};

use evcore::{Bug, balancer, plant};
use evcore_sim::{Rng, World};

use crate::{live, setting::Setting, visitors::Manners};

/// Where a bug is planted.
#[derive(Clone, Copy, Debug)]
enum Place {
    Loop(Bug),
    Sharing(balancer::Bug),
}

use Place::{Loop, Sharing};

/// The bug, and the words of whoever finds it: so that it is known to be that one.
const BUGS: [(Place, &[&str]); 13] = [
    (Loop(Bug::AnyGeneration), &["which has ended"]),
    (
        Loop(Bug::TimersOutlive),
        &["not armed", "clears the queues"],
    ),
    (
        Loop(Bug::PostsOutlive),
        &["clears the queues", "is somebody else", "is late"],
    ),
    (Loop(Bug::EarlyTimers), &["is early by"]),
    (
        Loop(Bug::CarriedOverWaits),
        &["too long", "neither answered nor sent away"],
    ),
    (
        Loop(Bug::LockKept),
        &["a lock kept", "the accept lock was held"],
    ),
    (Loop(Bug::AcceptsUnbounded), &["accepts in a turn of"]),
    (Loop(Bug::BusyStaysIdle), &["and is not idle"]),
    (Loop(Bug::DoneEarly), &["given up after"]),
    (Loop(Bug::IdlePlaceKept), &["idle for the longest time"]),
    (Loop(Bug::PostLost), &["was posted, and had no step"]),
    (Loop(Bug::CallUnseen), &["nobody has listened for"]),
    (
        Sharing(balancer::Bug::LookLeftOut),
        &["nobody has listened for"],
    ),
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
fn found(bug: Place) -> Option<(u64, String)> {
    match bug {
        Loop(bug) => plant(Some(bug)),
        Sharing(bug) => balancer::plant(Some(bug)),
    }
    let setting = match bug {
        // In other settings so rare that a hundred seeds may not show it.
        Loop(Bug::CallUnseen) => Setting::calling,
        _ => Setting::faulty,
    };
    let found = (0..100).find_map(|seed| Some((seed, complaint(seed, setting)?)));
    plant(None);
    balancer::plant(None);
    found
}

fn complaint(seed: u64, setting: fn(&mut Rng) -> Setting) -> Option<String> {
    let world = World::new(seed);
    let run = || {
        let setting = setting(&mut world.rng());
        live(&world, setting, Manners::Any);
    };
    let panic = panic::catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    Some(text.unwrap_or_default())
}

#[test]
fn what_finds_a_call_unseen_finds_nothing_where_calls_are_seen() {
    let said = (0..100).find_map(|seed| Some((seed, complaint(seed, Setting::calling)?)));
    assert_eq!(said, None);
}
