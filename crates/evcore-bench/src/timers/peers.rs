//! The peers.

use evcore_timer::{Coalesced, Lazy, TimerHeap, TimerQueue, TimerTree, TimerWheel};

use super::delay_queue::Delayed;
use super::hash_wheel::HashWheel;
use super::queue::PeerQueue;
use super::rust::{BTree, Nothing, Ours};
use crate::foreign::{CHANGELIST, Foreign, installed};

/// nginx's slack, in milliseconds.
const SLACK_MS: u64 = 300;

/// The name under which the loop itself is measured.
pub(super) const LOOP: &str = "loop";

/// Makes an empty queue for this many ids; `due` is as in `c/peer.h`.
type Create = Box<dyn Fn(usize, bool) -> Box<dyn PeerQueue>>;

/// A peer.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) create: Create,
}

impl Peer {
    fn new<C: PeerQueue + 'static>(name: &'static str, create: fn(usize) -> C) -> Peer {
        Peer {
            name,
            create: Box::new(move |ids, _| Box::new(create(ids))),
        }
    }

    fn ours<Q: TimerQueue + 'static>(name: &'static str, create: fn(usize) -> Ours<Q>) -> Peer {
        Peer::new(name, create)
    }

    /// Whether it is no queue.
    pub(super) fn is_loop(&self) -> bool {
        self.name == LOOP
    }
}

/// The installed peers: the loop itself first, then the baseline.
pub(super) fn peers() -> Vec<Peer> {
    let mut peers = vec![
        Peer::new(LOOP, |_| Nothing),
        Peer::new("BTreeSet", BTree::new),
        Peer::ours("TimerWheel", |ids| Ours(TimerWheel::with_capacity(ids))),
        Peer::ours("TimerTree", |ids| Ours(TimerTree::with_capacity(ids))),
        Peer::ours("TimerHeap", |ids| Ours(TimerHeap::with_capacity(ids))),
        Peer::ours("Lazy<TimerWheel>", |ids| {
            Ours(Lazy::with_capacity(TimerWheel::with_capacity(ids), ids))
        }),
        Peer::ours("Coalesced<TimerTree>", |ids| {
            Ours(Coalesced::new(TimerTree::with_capacity(ids), SLACK_MS))
        }),
        Peer::new("DelayQueue", Delayed::new),
        Peer::new("hash wheel", HashWheel::new),
    ];
    let foreign = installed()
        .into_iter()
        .filter(|(name, _)| *name != CHANGELIST);
    peers.extend(foreign.map(|(name, functions)| Peer {
        name,
        create: Box::new(move |ids, due| Box::new(Foreign::new(functions, &[], ids, due))),
    }));
    peers
}
