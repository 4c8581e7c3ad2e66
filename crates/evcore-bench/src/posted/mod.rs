//! The queues of posted work, and the inbox from other threads.

mod inbox;
mod queue;

use crate::record;
use crate::watch::{ROUNDS, ns_each};

/// Operations of a round.
const OPERATIONS: usize = 1 << 18;

/// A name, and a function that makes this many operations.
struct Peer {
    name: &'static str,
    round: Box<dyn FnMut(usize)>,
}

impl Peer {
    fn new(name: &'static str, round: impl FnMut(usize) + 'static) -> Peer {
        Peer {
            name,
            round: Box::new(round),
        }
    }
}

/// Measures all, and prints the records.
pub(crate) fn measure() {
    for batch in [1, 64, 1_024] {
        take_turns("posted/queue", batch, queue::peers(batch));
        take_turns("posted/inbox", batch, inbox::peers(batch));
    }
}

fn take_turns(workload: &str, batch: usize, mut peers: Vec<Peer>) {
    eprintln!("{workload}: {batch} at a time");
    let mut figures: Vec<Vec<f64>> = peers.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (peer, figures) in peers.iter_mut().zip(&mut figures) {
            figures.push(ns_each(OPERATIONS, || (peer.round)(OPERATIONS)));
        }
    }
    for (peer, figures) in peers.iter().zip(&figures) {
        record::times(workload, batch, peer.name, figures);
    }
}
