//! Pollers: libevent's benchmark, and the cost of stopping and starting to watch.
//!
//! All *peers* (the pollers and loops that are compared) serve the same bytes in the same pairs of
//! sockets, one after the other.

mod c_clock;
mod count;
mod facade;
mod peers;
mod ring_of_pairs;
mod rust;
mod turn;

#[cfg(test)]
mod tests;

use std::time::Duration;

use self::peers::{Peer, Setup};
use crate::cpus::most_descriptors;
use crate::foreign;
use crate::report::Report;
use crate::run::{Run, ns_each};

pub(crate) use self::count::count;
pub(crate) use self::peers::PeerPoller;
pub(crate) use self::ring_of_pairs::{Pairs, Ring};
pub(crate) use self::turn::measure as measure_turn;

/// Numbers of pairs, and numbers of pairs that have a byte at the same time.
const PAIRS: [usize; 3] = [100, 1_000, 9_000];
const ACTIVE: [usize; 3] = [1, 100, 1_000];

/// Number of bytes that a round passes on.
const WRITES: usize = 30_000;

const TOGGLES: usize = 1 << 17;

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let mut peers = peers::peers();
    peers.retain(Peer::is_timed);
    foreign::record_absent(report);
    for n in PAIRS {
        if 2 * n > most_descriptors() {
            report.absent(
                &format!("{n} pairs"),
                "there may not be as many descriptors",
            );
            continue;
        }
        let pairs = Pairs::open(n);
        for active in ACTIVE.into_iter().filter(|active| *active <= n) {
            for (kind, timers) in [("pipes", false), ("timers", true)] {
                let table = format!("{kind} {active}");
                run.rounds(&format!("pollers: {n} pairs, {table}"), || {
                    for peer in peers.iter().filter(|peer| peer.takes_part(timers)) {
                        let ns = pipes(peer, &pairs, active, timers, run.scaled(WRITES));
                        report.add(&table, peer.name, &n.to_string(), ns);
                    }
                });
            }
        }
    }
    toggles(run, &peers, report);
}

/// Nanoseconds per event, without the setup.
fn pipes(peer: &Peer, pairs: &Pairs, active: usize, timers: bool, writes: usize) -> f64 {
    let c_clock = false;
    let mut poller = peer.create(&pairs.near, Setup { timers, c_clock });
    // Some pollers register only at their first wait.
    poller.turn(Some(Duration::ZERO), &mut Ring::idle(pairs));
    let events = active + writes;
    let mut ring = Ring::start(pairs, active, events);
    let ns = ns_each(events, || poller.run(&mut ring));
    assert!(ring.is_over(), "{} has lost a byte", peer.name);
    ns
}

/// Measures the cost of stopping and starting to watch one descriptor: first the changes alone, and
/// then each change with a wait, which passes the change to the kernel. The cost of a wait without
/// a change is subtracted.
fn toggles(run: &Run, peers: &[Peer], report: &mut Report) {
    let pairs = Pairs::open(1);
    let (times, now) = (run.scaled(TOGGLES), Some(Duration::ZERO));
    let (flushes, ring) = (times / 10, &mut Ring::idle(&pairs));
    run.rounds("pollers: stop and start", || {
        for peer in peers {
            let mut poller = peer.create(&pairs.near, Setup::default());
            let toggle = ns_each(times, || poller.toggle(times));
            report.add("toggle", peer.name, "stop + start", toggle);
            if peer.is_in_c() {
                continue;
            }
            poller.turn(now, ring);
            let waits = ns_each(flushes, || {
                (0..2 * flushes).for_each(|_| poller.turn(now, ring));
            });
            let both = ns_each(flushes, || {
                for at in 0..2 * flushes {
                    poller.watch_first(at % 2 == 1);
                    poller.turn(now, ring);
                }
            });
            report.add("toggle", peer.name, "each with its flush", both - waits);
        }
    });
}
