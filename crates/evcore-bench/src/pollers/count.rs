//! One operation, repeated, for callgrind or strace to count.

use std::time::Duration;

use super::peers::{Peer, Setup, peers};
use super::ring_of_pairs::{Pairs, Ring};
use crate::cpus::most_descriptors;

/// The ring whose instructions are counted.
const PAIRS: usize = 200;

/// A timeout that is no whole number of milliseconds.
const SHORT: Duration = Duration::from_nanos(1_000_001);

/// Runs the operation that the words name. Returns whether there is such an operation.
pub(crate) fn count(words: &[&str]) -> bool {
    let [what, kind, name, times, ref rest @ ..] = words[..] else {
        return false;
    };
    let peer = peers().into_iter().find(|peer| peer.name == name);
    let (Some(peer), Ok(times)) = (peer, times.parse()) else {
        return false;
    };
    // Valgrind cannot run the system's clock.
    let clock: Option<fn() -> _> = Some(c_clock);
    most_descriptors();
    match (what, kind, rest) {
        ("pipes", "plain" | "timers", [active]) => pipes(&peer, kind == "timers", times, active),
        ("toggle", "one", []) => {
            let pairs = Pairs::open(1);
            let timers = false;
            peer.create(&pairs.near, Setup { timers, clock })
                .toggle(times);
            true
        }
        ("wait", "none", []) => waits(&peer, None, times),
        ("wait", "zero", []) => waits(&peer, Some(Duration::ZERO), times),
        ("wait", "short", []) => waits(&peer, Some(SHORT), times),
        _ => false,
    }
}

fn pipes(peer: &Peer, timers: bool, events: usize, active: &str) -> bool {
    let active = active.parse().unwrap_or(0);
    let is_possible = (1..=PAIRS).contains(&active) && active <= events;
    if !peer.takes_part(timers) || !is_possible {
        return false;
    }
    let pairs = Pairs::open(PAIRS);
    let c_clock = true;
    let mut poller = peer.create(&pairs.near, Setup { timers, c_clock });
    poller.run(&mut Ring::start(&pairs, active, events));
    true
}

/// Waits; without a timeout each time for a byte that was just written, and else for nothing.
fn waits(peer: &Peer, timeout: Option<Duration>, times: usize) -> bool {
    let pairs = Pairs::open(1);
    let mut poller = peer.create(&pairs.near, Setup::default());
    for _ in 0..times {
        match timeout {
            Some(_) => poller.turn(timeout, &mut Ring::idle(&pairs)),
            None => poller.run(&mut Ring::start(&pairs, 1, 1)),
        }
    }
    true
}
