//! A wait that brings one event, among few descriptors and among as many as there can be.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::peer_poller::Setup;
use super::peers::Peer;
use crate::record;
use crate::watch::{ROUNDS, ns_each};

/// The peers that report persistent readiness again, and can wait once.
const PEERS: [&str; 4] = ["bare epoll", "Poller", "Poller, poll", "polling"];

const FEW: usize = 10;
const MANY: usize = 19_000;

/// How often a round waits; less often where each wait goes through all.
const WAITS: usize = 50_000;
const LONG_WAITS: usize = 100;

/// Measures all, and prints the records.
pub(super) fn measure(peers: &[Peer], most_descriptors: usize) {
    let descriptors = first_ready(MANY.min(most_descriptors));
    let sizes = [FEW, descriptors.len()];
    let takes_part = |peer: &&Peer| PEERS.contains(&peer.name);
    let peers: Vec<&Peer> = peers.iter().filter(takes_part).collect();
    let mut figures: Vec<[Vec<f64>; 2]> = peers.iter().map(|_| Default::default()).collect();
    for round in 1..=ROUNDS {
        eprintln!("pollers: {sizes:?} watched, round {round} of {ROUNDS}");
        for (peer, figures) in peers.iter().zip(&mut figures) {
            for (size, figures) in sizes.into_iter().zip(figures) {
                figures.push(round_among(&descriptors[..size], peer));
            }
        }
    }
    for (peer, figures) in peers.iter().zip(&figures) {
        for (size, figures) in sizes.into_iter().zip(figures) {
            record::times("pollers/watched", size, peer.name, figures);
        }
    }
}

/// Descriptors of which only the first is readable, and stays so.
fn first_ready(n: usize) -> Vec<OwnedFd> {
    let counts = std::iter::once(1).chain(std::iter::repeat(0));
    let open = |count| eventfd(count, EventfdFlags::NONBLOCK).expect("there are descriptors left");
    counts.take(n).map(open).collect()
}

/// Nanoseconds a wait.
fn round_among(descriptors: &[OwnedFd], peer: &Peer) -> f64 {
    let mut poller = (peer.create)(descriptors, Setup::default());
    let waits = if peer.looks_at_all() {
        LONG_WAITS
    } else {
        WAITS
    };
    ns_each(waits, || {
        for _ in 0..waits {
            let events = poller.wait(Some(Duration::ZERO));
            assert_eq!(events, Some(1), "{}", peer.name);
        }
    })
}
