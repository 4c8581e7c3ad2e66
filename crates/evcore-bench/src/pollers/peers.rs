//! The peers.

use std::thread;
use std::time::Duration;

use evcore_poller::{BackendKind, Poller};

use super::bare::Bare;
use super::facade::{self, Facade, POLICIES};
use super::mio::Mio;
use super::ours::Ours;
use super::peer_poller::Create;
use super::polling::Polling;
use crate::foreign::{self, Foreign};

/// The baseline.
pub(super) const BARE: &str = "bare epoll";

/// A peer.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) has_timers: bool,
    /// Whether a wait costs it the more, the more it watches.
    pub(super) scans: bool,
    /// Whether it listens with a policy.
    pub(super) listens: bool,
    /// It has no wait of its own to call.
    pub(super) is_in_c: bool,
    has_ring: bool,
    pub(super) create: Create,
}

impl Peer {
    fn new(name: &'static str, create: Create) -> Peer {
        Peer {
            name,
            has_timers: false,
            scans: false,
            listens: false,
            is_in_c: false,
            has_ring: false,
            create,
        }
    }

    fn ours(name: &'static str, kind: BackendKind) -> Peer {
        let create: Create = Box::new(move |watched, _| Box::new(Ours::new(watched, kind)));
        let scans = matches!(kind, BackendKind::Poll | BackendKind::Select);
        Peer {
            scans,
            ..Peer::new(name, create)
        }
    }

    fn with_timers(name: &'static str, create: Create) -> Peer {
        Peer {
            has_timers: true,
            ..Peer::new(name, create)
        }
    }

    /// Whether its time is measured. The others are only counted.
    pub(super) fn is_timed(&self) -> bool {
        !self.scans && !self.listens
    }

    /// Whether it takes part with or without timers. The baseline takes part without timers of its
    /// own.
    pub(super) fn takes_part(&self, timers: bool) -> bool {
        !timers || self.has_timers || self.name == BARE
    }
}

/// The peers that are installed and that the kernel permits, the baseline first.
pub(super) fn peers() -> Vec<Peer> {
    let mut peers = installed();
    if !permits_ring() {
        peers.retain(|peer| !peer.has_ring);
    }
    peers
}

/// Whether the kernel permits an `io_uring`.
///
/// Not [`BackendKind::usable`]: it starts a thread, and from then on glibc's `read` and `write` take
/// some 45 instructions more each.
fn permits_ring() -> bool {
    let permits = Poller::with(BackendKind::IoUring).is_ok();
    // When a ring is closed, the kernel interrupts its thread once: here, and in no wait that counts.
    thread::park_timeout(Duration::from_millis(50));
    permits
}

fn installed() -> Vec<Peer> {
    let mut peers = vec![
        Peer::new(
            BARE,
            Box::new(|watched, _| Box::new(Bare::new(watched, false))),
        ),
        Peer::new(
            "bare epoll, edge",
            Box::new(|watched, _| Box::new(Bare::new(watched, true))),
        ),
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
    peers.extend(POLICIES.map(|(name, policy)| Peer {
        listens: true,
        ..Peer::with_timers(
            name,
            Box::new(move |watched, setup| Box::new(facade::with_policy(watched, setup, policy))),
        )
    }));
    // Behind the others in Rust, for the same reason.
    let ring = [
        Peer::ours("Poller, io_uring", BackendKind::IoUring),
        Peer::with_timers(
            "EventLoop, io_uring",
            Box::new(|watched, setup| Box::new(Facade::on(BackendKind::IoUring, watched, setup))),
        ),
    ];
    peers.extend(ring.map(|peer| Peer {
        has_ring: true,
        ..peer
    }));
    let foreign = foreign::installed()
        .into_iter()
        .filter(|(_, it)| it.watches());
    peers.extend(foreign.map(|(name, functions)| {
        let create: Create = Box::new(move |watched, setup| {
            let timers = if setup.timers { watched.len() } else { 0 };
            Box::new(Foreign::new(functions, watched, timers, false))
        });
        Peer {
            is_in_c: true,
            ..Peer::with_timers(name, create)
        }
    }));
    peers
}

/// The peer of this name.
pub(super) fn peer(name: &str) -> Option<Peer> {
    installed().into_iter().find(|peer| peer.name == name)
}
