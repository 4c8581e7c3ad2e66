//! The peers.

use evcore_timer::{Coalesced, Lazy, TimerHeap, TimerQueue, TimerTree, TimerWheel};

use super::btree::BTree;
use super::delay_queue::Delayed;
#[cfg(any(peer_libev, peer_libevent, peer_libuv, peer_nginx_rbtree))]
use super::foreign::{self, Foreign, Functions};
use super::hash_wheel::HashWheel;
use super::nothing::Nothing;
use super::ours::Ours;
use super::queue::PeerQueue;

/// nginx's slack, in milliseconds.
const SLACK_MS: u64 = 300;

/// The name under which the loop itself is measured.
pub(super) const LOOP: &str = "loop";

/// Makes an empty queue for this many ids; `due` is as in `c/timers/peer.h`.
type Create = Box<dyn Fn(usize, bool) -> Box<dyn PeerQueue>>;

/// A peer.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// Where only the library itself knows it.
    pub(super) version: Option<String>,
    pub(super) create: Create,
}

impl Peer {
    fn new<C: PeerQueue + 'static>(name: &'static str, create: fn(usize) -> C) -> Peer {
        Peer {
            name,
            version: None,
            create: Box::new(move |ids, _| Box::new(create(ids))),
        }
    }

    fn ours<Q: TimerQueue + 'static>(name: &'static str, create: fn(usize) -> Ours<Q>) -> Peer {
        Peer::new(name, create)
    }

    #[cfg(any(peer_libev, peer_libevent, peer_libuv, peer_nginx_rbtree))]
    fn foreign(name: &'static str, functions: &'static Functions) -> Peer {
        Peer {
            name,
            version: Some(functions.version()),
            create: Box::new(move |ids, due| Box::new(Foreign::new(functions, ids, due))),
        }
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
    peers.extend(foreign());
    peers
}

/// Those in C that were found when this was built.
fn foreign() -> Vec<Peer> {
    vec![
        #[cfg(peer_libev)]
        Peer::foreign("libev", &foreign::libev_peer),
        #[cfg(peer_libevent)]
        Peer::foreign("libevent", &foreign::libevent_peer),
        #[cfg(peer_libuv)]
        Peer::foreign("libuv", &foreign::libuv_peer),
        #[cfg(peer_nginx_rbtree)]
        Peer::foreign("nginx's tree", &foreign::nginx_rbtree_peer),
        #[cfg(peer_nginx_rbtree)]
        Peer::foreign("nginx's tree, 300 ms", &foreign::nginx_rbtree_lazy_peer),
    ]
}
