//! libevent's benchmark, without timers and with one re-armed for each event.

use super::pairs::Pairs;
use super::peer_poller::Setup;
use super::peers::Peer;
use super::ring::Ring;
use crate::record;
use crate::watch::{ROUNDS, ns_each};

/// How many pairs there are.
const PAIRS: [usize; 3] = [100, 1_000, 9_000];

/// How many of them have a byte at the same time.
const ACTIVE: [usize; 3] = [1, 100, 1_000];

/// How many bytes a round passes on.
const WRITES: usize = 50_000;

/// One way to run it.
#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    pairs: &'a Pairs,
    active: usize,
    timers: bool,
}

/// Measures all, and prints the records.
pub(super) fn measure(peers: &[Peer], most_descriptors: usize) {
    for n in PAIRS {
        if 2 * n > most_descriptors {
            eprintln!("pollers: no {n} pairs, for want of descriptors");
            continue;
        }
        let pairs = Pairs::open(n);
        for active in ACTIVE.into_iter().filter(|active| *active <= n) {
            for timers in [false, true] {
                let case = Case {
                    pairs: &pairs,
                    active,
                    timers,
                };
                case.measure(peers);
            }
        }
    }
}

impl Case<'_> {
    /// Peers take turns, so that what the machine does meanwhile meets all of them.
    fn measure(self, peers: &[Peer]) {
        let n = self.pairs.near.len();
        let takes_part = |peer: &&Peer| peer.takes_part(n, self.timers);
        let peers: Vec<&Peer> = peers.iter().filter(takes_part).collect();
        let mut figures: Vec<Vec<f64>> = peers.iter().map(|_| Vec::new()).collect();
        eprintln!(
            "pollers: {n} pairs, {} active, {}",
            self.active,
            self.kind()
        );
        for _ in 0..ROUNDS {
            for (peer, figures) in peers.iter().zip(&mut figures) {
                figures.push(self.round(peer));
            }
        }
        let workload = format!("pollers/{}/{}", self.kind(), self.active);
        for (peer, figures) in peers.iter().zip(&figures) {
            record::times(&workload, n, peer.name, figures);
        }
    }

    /// Nanoseconds an event. That it is made, and learns of all pairs, is not in it.
    fn round(self, peer: &Peer) -> f64 {
        let setup = Setup {
            timers: self.timers,
            ..Setup::default()
        };
        let mut poller = (peer.create)(&self.pairs.near, setup);
        let events = self.active + WRITES;
        let mut ring = Ring::start(self.pairs, self.active, events);
        let ns = ns_each(events, || poller.run(&mut ring));
        assert!(ring.is_over(), "{} has lost a byte", peer.name);
        ns
    }

    fn kind(self) -> &'static str {
        if self.timers { "timers" } else { "pipes" }
    }
}
