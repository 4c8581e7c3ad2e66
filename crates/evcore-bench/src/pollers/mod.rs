//! Pollers: libevent's benchmark, and stopping and starting.
//!
//! All peers serve the same bytes in the same pairs of sockets, one after the other.

mod bare;
mod c_clock;
mod count;
mod facade;
mod mio;
mod ours;
mod peer_poller;
mod peers;
mod polling;
mod ring_of_pairs;
mod turn;

#[cfg(test)]
mod tests;

use std::time::Duration;

use self::peer_poller::Setup;
use self::peers::Peer;
use crate::cpus::most_descriptors;
use crate::foreign;
use crate::report::Report;
use crate::run::{self, Run, ns_each};

pub(crate) use self::count::count;
pub(crate) use self::peer_poller::PeerPoller;
pub(crate) use self::ring_of_pairs::{Pairs, Ring};
pub(crate) use self::turn::measure as measure_turn;

/// How many pairs there are, and how many have a byte at the same time.
const PAIRS: [usize; 3] = [100, 1_000, 9_000];
const ACTIVE: [usize; 3] = [1, 100, 1_000];

/// How many bytes a round passes on.
const WRITES: usize = 40_000;

/// How often a round stops and starts.
const TOGGLES: usize = 1 << 17;

/// Measures the times of all peers.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    let most = most_descriptors();
    let mut peers = peers::peers();
    peers.retain(Peer::is_timed);
    record_versions(report);
    for n in PAIRS {
        if 2 * n > most {
            report.absent(
                &format!("{n} pairs"),
                "a process may not have as many descriptors",
            );
            continue;
        }
        let pairs = Pairs::open(n);
        for active in ACTIVE.into_iter().filter(|active| *active <= n) {
            for timers in [false, true] {
                let what = format!("pollers: {n} pairs, {}", table(active, timers));
                run.rounds(&what, || {
                    for peer in peers.iter().filter(|peer| peer.takes_part(timers)) {
                        let ns = pipes(peer, &pairs, active, timers, run.scaled(WRITES));
                        report.add(&table(active, timers), peer.name, &n.to_string(), ns);
                    }
                });
            }
        }
    }
    toggles(run, &peers, report);
}

fn record_versions(report: &mut Report) {
    run::crate_versions(report, &["mio", "polling"]);
    foreign::record_versions(&["libev", "libevent", "libuv"], report);
}

fn table(active: usize, timers: bool) -> String {
    let kind = if timers { "timers" } else { "pipes" };
    format!("{kind} {active}")
}

/// Nanoseconds an event; the setup is not in it.
fn pipes(peer: &Peer, pairs: &Pairs, active: usize, timers: bool, writes: usize) -> f64 {
    let setup = Setup {
        timers,
        ..Setup::default()
    };
    let mut poller = (peer.create)(&pairs.near, setup);
    if !peer.is_in_c {
        // A poller may register only now.
        poller.wait(Duration::ZERO, &mut Ring::idle(pairs));
    }
    let events = active + writes;
    let mut ring = Ring::start(pairs, active, events);
    let ns = ns_each(events, || poller.run(&mut ring));
    assert!(ring.is_over(), "{} has lost a byte", peer.name);
    ns
}

/// Stop and start of one descriptor, alone and with the calls that make each change known.
fn toggles(run: &Run, peers: &[Peer], report: &mut Report) {
    let pairs = Pairs::open(1);
    let times = run.scaled(TOGGLES);
    run.rounds("pollers: stop and start", || {
        for peer in peers {
            let mut poller = (peer.create)(&pairs.near, Setup::default());
            let toggle = ns_each(times, || poller.toggle(times));
            report.add("toggle", peer.name, "stop + start", toggle);
            let ring = &mut Ring::idle(&pairs);
            if !peer.is_in_c {
                poller.wait(Duration::ZERO, ring);
                let flush = flush(poller.as_mut(), ring, times / 10);
                report.add("toggle", peer.name, "each with its flush", flush);
            }
        }
    });
}

fn flush(poller: &mut dyn PeerPoller, ring: &mut Ring<'_>, times: usize) -> f64 {
    let waits = ns_each(times, || {
        for _ in 0..2 * times {
            poller.wait(Duration::ZERO, ring);
        }
    });
    ns_each(times, || poller.toggle_and_flush(times, ring)) - waits
}
