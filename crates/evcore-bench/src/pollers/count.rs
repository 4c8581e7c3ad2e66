//! Repeats one operation, for a tool such as callgrind to count.

use std::time::Duration;

use super::peers::{Peer, Setup, peers};
use super::ring_of_pairs::{Pairs, Ring};
use crate::cpus::most_descriptors;

const PAIRS: usize = 200;

/// A timeout that is not a whole number of milliseconds.
const SHORT: Duration = Duration::from_nanos(1_000_001);

/// Runs the operation that the arguments name. Returns whether there is such an operation.
pub(crate) fn count(words: &[&str]) -> bool {
    let [what, kind, name, times, ref rest @ ..] = words[..] else {
        return false;
    };
    let peer = peers().into_iter().find(|peer| peer.name == name);
    let (Some(peer), Ok(times)) = (peer, times.parse()) else {
        return false;
    };
    let timers = kind == "timers";
    // valgrind can run the C library's clock, but not rustix's.
    let setup = Setup {
        timers,
        c_clock: true,
    };
    most_descriptors();
    match (what, kind, rest) {
        ("pipes", "plain" | "timers", [active]) => return pipes(&peer, setup, times, active),
        ("toggle", "one", []) => peer.create(&Pairs::open(1).near, setup).toggle(times),
        ("wait", "none", []) => waits(&peer, setup, None, times),
        ("wait", "zero", []) => waits(&peer, setup, Some(Duration::ZERO), times),
        ("wait", "short", []) => waits(&peer, setup, Some(SHORT), times),
        _ => return false,
    }
    true
}

fn pipes(peer: &Peer, setup: Setup, events: usize, active: &str) -> bool {
    let active = active.parse().unwrap_or(0);
    let is_possible = (1..=PAIRS).contains(&active) && active <= events;
    if !peer.takes_part(setup.timers) || !is_possible {
        return false;
    }
    let pairs = Pairs::open(PAIRS);
    if peer.has_policy() {
        // callgrind translates code when the code first runs. On a slow machine this makes turns
        // (iterations of the event loop) so long that the worker counts as late for a second. In
        // this second, it decides anew in each turn whether to accept. So another loop runs the
        // code first.
        let mut first = peer.create(&pairs.near, setup);
        first.run(&mut Ring::start(&pairs, active, events.min(PAIRS)));
    }
    let mut poller = peer.create(&pairs.near, setup);
    poller.run(&mut Ring::start(&pairs, active, events));
    true
}

/// Waits repeatedly. Without a timeout, each wait is for a byte that was just written; with one, no
/// byte comes.
fn waits(peer: &Peer, setup: Setup, timeout: Option<Duration>, times: usize) {
    let pairs = Pairs::open(1);
    let mut poller = peer.create(&pairs.near, setup);
    for _ in 0..times {
        match timeout {
            Some(_) => poller.turn(timeout, &mut Ring::idle(&pairs)),
            None => poller.run(&mut Ring::start(&pairs, 1, 1)),
        }
    }
}
