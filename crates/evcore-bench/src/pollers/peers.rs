//! The peers.

use std::os::fd::OwnedFd;

use evcore_poller::{BackendKind, Mode};

use super::bare::Bare;
use super::facade::Facade;
#[cfg(any(peer_libev, peer_libevent, peer_libuv))]
use super::foreign::{self, Foreign, Functions};
use super::listening::{self, POLICIES};
use super::mio::Mio;
use super::ours::Ours;
use super::peer_poller::{PeerPoller, Setup};
use super::polling::Polling;

/// The name of the baseline.
const BARE: &str = "bare epoll";

/// The most descriptors for those whose every wait goes through all.
const FEW: usize = 100;

/// Makes one that watches descriptors.
type Create = Box<dyn for<'a> Fn(&'a [OwnedFd], Setup) -> Box<dyn PeerPoller + 'a>>;

/// A peer.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// Where only the library itself knows it.
    pub(super) version: Option<String>,
    has_timers: bool,
    /// How many descriptors it is asked to watch.
    most: usize,
    pub(super) create: Create,
}

impl Peer {
    fn new(name: &'static str, create: Create) -> Peer {
        Peer {
            name,
            version: None,
            has_timers: false,
            most: usize::MAX,
            create,
        }
    }

    fn ours(name: &'static str, kind: BackendKind, mode: Mode) -> Peer {
        let most = if kind == BackendKind::Epoll {
            usize::MAX
        } else {
            FEW
        };
        Peer {
            most,
            ..Peer::new(
                name,
                Box::new(move |watched, _| Box::new(Ours::new(watched, kind, mode))),
            )
        }
    }

    #[cfg(any(peer_libev, peer_libevent, peer_libuv))]
    fn foreign(name: &'static str, functions: &'static Functions) -> Peer {
        Peer {
            version: Some(functions.version()),
            has_timers: true,
            ..Peer::new(
                name,
                Box::new(move |watched, setup| Box::new(Foreign::new(functions, watched, setup))),
            )
        }
    }

    /// Whether it is the one that the others are compared with.
    fn is_baseline(&self) -> bool {
        self.name == BARE
    }

    /// Whether a wait costs it the more, the more it watches.
    pub(super) fn looks_at_all(&self) -> bool {
        self.most == FEW
    }

    /// Whether it takes part with this many descriptors, with or without timers. The baseline takes
    /// part without timers of its own.
    pub(super) fn takes_part(&self, watched: usize, timers: bool) -> bool {
        watched <= self.most && (!timers || self.has_timers || self.is_baseline())
    }
}

/// The peers that are installed, the baseline first.
pub(super) fn peers() -> Vec<Peer> {
    let mut peers = vec![
        Peer::new(BARE, Box::new(|watched, _| Box::new(Bare::new(watched)))),
        Peer::ours("Poller", BackendKind::Epoll, Mode::Level),
        Peer::new(
            "Poller, after a close",
            Box::new(|watched, _| Box::new(Ours::after_a_close(watched))),
        ),
        Peer::ours("Poller, edge", BackendKind::Epoll, Mode::Edge),
        Peer::ours("Poller, poll", BackendKind::Poll, Mode::Level),
        Peer::ours("Poller, select", BackendKind::Select, Mode::Level),
        Peer {
            has_timers: true,
            ..Peer::new(
                "EventLoop",
                Box::new(|watched, setup| Box::new(Facade::new(watched, setup))),
            )
        },
        Peer::new(
            "EventLoop, after a close",
            Box::new(|watched, setup| Box::new(Facade::after_a_close(watched, setup))),
        ),
        Peer::new("mio", Box::new(|watched, _| Box::new(Mio::new(watched)))),
        Peer::new(
            "polling",
            Box::new(|watched, _| Box::new(Polling::new(watched))),
        ),
    ];
    peers.extend(POLICIES.map(|(name, policy)| Peer {
        has_timers: true,
        ..Peer::new(
            name,
            Box::new(move |watched, setup| {
                Box::new(listening::with_policy(watched, setup, policy))
            }),
        )
    }));
    peers.extend(foreign());
    peers
}

/// Those in C that were found when this was built.
fn foreign() -> Vec<Peer> {
    vec![
        #[cfg(peer_libev)]
        Peer::foreign("libev", &foreign::libev_poller),
        #[cfg(peer_libevent)]
        Peer::foreign("libevent", &foreign::libevent_poller),
        #[cfg(peer_libuv)]
        Peer::foreign("libuv", &foreign::libuv_poller),
    ]
}
