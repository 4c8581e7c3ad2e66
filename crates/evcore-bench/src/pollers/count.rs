//! One operation, repeated, for callgrind or strace to count.

use std::time::Duration;

use super::peer_poller::{LoopClock, Setup};
use super::peers::{Peer, peer};
use super::ring_of_pairs::{self, Pairs, Ring};
use crate::cpus::most_descriptors;

/// The ring whose instructions are counted, and how many pairs are active unless a last word gives
/// another number.
const PAIRS: usize = 200;
const ACTIVE: usize = 100;

/// A timeout that is no whole number of milliseconds.
const SHORT: Duration = Duration::from_nanos(1_000_001);

/// Runs the operation that the words name. Returns whether there is such an operation.
pub(crate) fn count(words: &[&str]) -> bool {
    let (what, kind, name, times, active) = match words[..] {
        [what, kind, name, times] => (what, kind, name, times, Some(ACTIVE)),
        [what, kind, name, times, active] => (what, kind, name, times, active.parse().ok()),
        _ => return false,
    };
    most_descriptors();
    let (Some(peer), Ok(times), Some(active)) = (peer(name), times.parse(), active) else {
        return false;
    };
    let peer = &peer;
    match (what, kind) {
        ("pipes", "plain") => pipes(peer, false, times, active),
        ("pipes", "timers") => pipes(peer, true, times, active),
        ("toggle", "one") => toggle(peer, times),
        ("wait", "none") => waits_for_a_byte(peer, times),
        ("wait", "zero") => waits(peer, Duration::ZERO, times),
        ("wait", "short") => waits(peer, SHORT, times),
        _ => false,
    }
}

fn pipes(peer: &Peer, timers: bool, events: usize, active: usize) -> bool {
    let is_possible = (1..=PAIRS).contains(&active) && active <= events;
    if !peer.takes_part(1, timers) || !is_possible {
        return false;
    }
    let pairs = Pairs::open(PAIRS);
    let setup = Setup {
        timers,
        clock: LoopClock::UnderValgrind,
    };
    let mut poller = (peer.create)(&pairs.near, setup);
    poller.run(&mut Ring::start(&pairs, active, events));
    true
}

fn toggle(peer: &Peer, times: usize) -> bool {
    let pairs = Pairs::open(1);
    (peer.create)(&pairs.near, Setup::default()).toggle(times);
    true
}

/// Waits without limit, each time for a byte that was just written, and reads it.
fn waits_for_a_byte(peer: &Peer, times: usize) -> bool {
    let pairs = Pairs::open(1);
    let mut poller = (peer.create)(&pairs.near, Setup::default());
    (0..times).all(|_| {
        ring_of_pairs::write_byte(&pairs.far[0]);
        let events = poller.wait(None);
        ring_of_pairs::read_byte(&pairs.near[0]);
        events == Some(1)
    })
}

/// Waits where nothing comes.
fn waits(peer: &Peer, timeout: Duration, times: usize) -> bool {
    let pairs = Pairs::open(1);
    let mut poller = (peer.create)(&pairs.near, Setup::default());
    (0..times).all(|_| poller.wait(Some(timeout)) == Some(0))
}
