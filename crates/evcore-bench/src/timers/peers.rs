//! The timer queues that are compared.

use evcore_timer::{Coalesced, Lazy, TimerHeap, TimerTree, TimerWheel};

use super::queue::PeerQueue;
use super::rust::{BTree, Delayed, HashWheel, Nothing};
use crate::foreign::{CHANGELIST, Foreign, installed};

/// nginx's slack in milliseconds: it ignores smaller moves of a deadline.
const SLACK_MS: u64 = 300;

/// The name under which the measuring loop itself is measured.
pub(super) const LOOP: &str = "loop";

/// Makes an empty queue for this many ids. `due` is described in `c/peer.h`.
type Create = Box<dyn Fn(usize, bool) -> Box<dyn PeerQueue>>;

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

    pub(super) fn is_loop(&self) -> bool {
        self.name == LOOP
    }

    /// Returns whether the peer can serve turns: its time can be set, and it can report the next
    /// deadline.
    pub(super) fn has_turns(&self) -> bool {
        !self.is_loop() && (self.create)(1, false).turns(&[], false)
    }
}

/// The installed peers. The measuring loop is first, and the baseline second.
pub(super) fn peers() -> Vec<Peer> {
    let mut peers = vec![
        Peer::new(LOOP, |_| Nothing),
        Peer::new("BTreeSet", BTree::new),
        Peer::new("TimerWheel", TimerWheel::with_capacity),
        Peer::new("TimerTree", TimerTree::with_capacity),
        Peer::new("TimerHeap", TimerHeap::with_capacity),
        Peer::new("Lazy<TimerWheel>", |ids| {
            Lazy::with_capacity(TimerWheel::with_capacity(ids), ids)
        }),
        Peer::new("Coalesced<TimerTree>", |ids| {
            Coalesced::new(TimerTree::with_capacity(ids), SLACK_MS)
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
