//! Stop and start of one descriptor: what a server does whose peer is too slow, or too quick.

use super::pairs::Pairs;
use super::peer_poller::Setup;
use super::peers::Peer;
use crate::record;
use crate::watch::{ROUNDS, ns_each};

/// How often a round does it.
const TIMES: usize = 1 << 17;

/// Measures the peers that use epoll, and prints the records.
pub(super) fn measure(peers: &[Peer]) {
    let pairs = Pairs::open(1);
    let peers: Vec<&Peer> = peers.iter().filter(|peer| !peer.looks_at_all()).collect();
    let mut figures: Vec<Vec<f64>> = peers.iter().map(|_| Vec::new()).collect();
    for round in 1..=ROUNDS {
        eprintln!("pollers: stop and start, round {round} of {ROUNDS}");
        for (peer, figures) in peers.iter().zip(&mut figures) {
            let mut poller = (peer.create)(&pairs.near, Setup::default());
            figures.push(ns_each(TIMES, || poller.toggle(TIMES)));
        }
    }
    for (peer, figures) in peers.iter().zip(&figures) {
        record::times("pollers/toggle", 1, peer.name, figures);
    }
}
