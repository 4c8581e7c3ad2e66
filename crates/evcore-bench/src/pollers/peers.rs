//! The peers.

use evcore_poller::BackendKind;

use super::bare::Bare;
use super::facade::Facade;
use super::foreign;
use super::listening::{self, POLICIES};
use super::mio::Mio;
use super::ours::Ours;
use super::peer_poller::Create;
use super::polling::Polling;

/// The baseline.
pub(super) const BARE: &str = "bare epoll";

/// The most descriptors for those whose every wait goes through all.
const FEW: usize = 200;

/// A peer.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) has_timers: bool,
    /// How many descriptors it watches.
    most: usize,
    pub(super) create: Create,
}

impl Peer {
    fn new(name: &'static str, create: Create) -> Peer {
        Peer {
            name,
            has_timers: false,
            most: usize::MAX,
            create,
        }
    }

    fn ours(name: &'static str, kind: BackendKind) -> Peer {
        let create: Create = Box::new(move |watched, _| Box::new(Ours::new(watched, kind)));
        let mut peer = Peer::new(name, create);
        if kind != BackendKind::Epoll {
            peer.most = FEW;
        }
        peer
    }

    pub(super) fn with_timers(name: &'static str, create: Create) -> Peer {
        Peer {
            has_timers: true,
            ..Peer::new(name, create)
        }
    }

    /// Whether it listens with a policy, which is counted and not timed.
    pub(super) fn listens(&self) -> bool {
        POLICIES.iter().any(|(name, _)| *name == self.name)
    }

    /// Whether a wait costs it the more, the more it watches.
    pub(super) fn scans(&self) -> bool {
        self.most == FEW
    }

    /// Whether it takes part with this many descriptors, with or without timers. The baseline takes
    /// part without timers of its own.
    pub(super) fn takes_part(&self, watched: usize, timers: bool) -> bool {
        watched <= self.most && (!timers || self.has_timers || self.name == BARE)
    }
}

/// The peers that are installed, the baseline first.
pub(super) fn peers() -> Vec<Peer> {
    let mut peers = vec![
        Peer::new(BARE, Box::new(|watched, _| Box::new(Bare::new(watched)))),
        Peer::new("mio", Box::new(|watched, _| Box::new(Mio::new(watched)))),
        Peer::new(
            "polling",
            Box::new(|watched, _| Box::new(Polling::new(watched))),
        ),
        Peer::ours("Poller", BackendKind::Epoll),
        Peer::ours("Poller, poll", BackendKind::Poll),
        Peer::ours("Poller, select", BackendKind::Select),
        Peer::with_timers(
            "EventLoop",
            Box::new(|watched, setup| Box::new(Facade::new(watched, setup))),
        ),
    ];
    peers.extend(POLICIES.map(|(name, policy)| {
        Peer::with_timers(
            name,
            Box::new(move |watched, setup| {
                Box::new(listening::with_policy(watched, setup, policy))
            }),
        )
    }));
    peers.extend(foreign::peers());
    peers
}

/// The peer of this name.
pub(super) fn peer(name: &str) -> Option<Peer> {
    peers().into_iter().find(|peer| peer.name == name)
}
