//! The pollers and loops that are compared, and the calls by which they are measured.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU8;
use std::thread;
use std::time::Duration;

use evcore::balancer::Policy;
use evcore::{EventLoop, Mode};
use evcore_poller::{BackendKind, Poller};
use rustix::event::epoll::EventFlags;

use super::facade::{Facade, listening};
use super::ring_of_pairs::Ring;
use super::rust::{Bare, Mio, Ours, Polling, mode_on};
use crate::foreign::{self, Foreign, Functions};

/// Maximum number of events of one wait, for peers where that can be set.
pub(super) const BATCH: usize = 1024;

/// A poller that watches the near ends of socket pairs. The loops around `turn` and `watch_first`
/// are compiled for each peer.
pub(crate) trait PeerPoller {
    /// Waits once, and serves the reported events. Implementations are always inlined, so that the
    /// timeout is a constant of each loop. A peer in C can only poll without waiting.
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>);

    /// Stops watching the first descriptor if `starts` is false, or starts again. Peers in C do not
    /// implement this.
    fn watch_first(&mut self, starts: bool);

    /// Serves until no events are left.
    fn run(&mut self, ring: &mut Ring<'_>) {
        while !ring.is_over() {
            self.turn(None, ring);
        }
    }

    /// Stops watching the first descriptor and starts again, `times` times.
    fn toggle(&mut self, times: usize) {
        for _ in 0..times {
            self.watch_first(false);
            self.watch_first(true);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup {
    /// True if each descriptor has a timer, which is armed again whenever its pair is served.
    pub(super) timers: bool,
    /// True if an `EventLoop` reads the C library's clocks, whose readings are counted.
    pub(super) c_clock: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Peer {
    pub(super) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Bare(EventFlags),
    Mio,
    Polling,
    Poller(BackendKind),
    Loop(BackendKind),
    /// An `EventLoop` with a listener and a policy.
    Listening(Policy),
    /// An `EventLoop` with idle marks: bytes that show another process which connections are idle.
    Marked,
    InC(&'static Functions),
}

const MARKS: usize = 1 << 16;

use BackendKind::{Epoll, IoUring, Poll, Select};
use Kind::{InC, Listening, Loop};

/// The peers in Rust, the baseline first. The peers on `io_uring` come last, because the kernel
/// interrupts a thread once after its ring is closed.
const IN_RUST: [(&str, Kind); 15] = [
    ("bare epoll", Kind::Bare(EventFlags::IN)),
    (
        "bare epoll, edge",
        Kind::Bare(EventFlags::IN.union(EventFlags::ET)),
    ),
    ("mio", Kind::Mio),
    ("polling", Kind::Polling),
    ("Poller", Kind::Poller(Epoll)),
    ("Poller, poll", Kind::Poller(Poll)),
    ("Poller, select", Kind::Poller(Select)),
    ("EventLoop", Loop(Epoll)),
    ("EventLoop, off", Listening(Policy::Off)),
    ("EventLoop, mutex", Listening(Policy::mutex())),
    ("EventLoop, exclusive", Listening(Policy::exclusive())),
    ("EventLoop, least-loaded", Listening(Policy::least_loaded())),
    ("EventLoop, idle marks", Kind::Marked),
    ("Poller, io_uring", Kind::Poller(IoUring)),
    ("EventLoop, io_uring", Loop(IoUring)),
];

impl Peer {
    pub(super) fn create<'a>(
        &self,
        watched: &'a [OwnedFd],
        setup: Setup,
    ) -> Box<dyn PeerPoller + 'a> {
        let facade = |builder, mode| Box::new(Facade::new(builder, mode, watched, setup, |_| {}));
        match self.kind {
            Kind::Bare(flags) => Box::new(Bare::new(watched, flags)),
            Kind::Mio => Box::new(Mio::new(watched)),
            Kind::Polling => Box::new(Polling::new(watched)),
            Kind::Poller(kind) => Box::new(Ours::new(watched, kind)),
            Loop(kind) => facade(EventLoop::builder().poller(kind), mode_on(kind)),
            Listening(policy) => facade(listening(policy, watched.len()), Mode::Level),
            Kind::Marked => {
                let marks: Vec<_> = (0..MARKS).map(|_| AtomicU8::new(0)).collect();
                let mark = |ev: &mut EventLoop| ev.listeners().set_idle_marks(marks.leak());
                let (builder, mode) = (EventLoop::builder(), mode_on(Epoll));
                Box::new(Facade::new(builder, mode, watched, setup, mark))
            }
            InC(functions) => {
                let timers = if setup.timers { watched.len() } else { 0 };
                Box::new(Foreign::new(functions, watched, timers, false))
            }
        }
    }

    pub(super) fn has_timers(&self) -> bool {
        matches!(self.kind, Loop(_) | Listening(_) | Kind::Marked | InC(_))
    }

    /// Returns whether the peer is a loop with a policy, so that it can be late.
    pub(super) fn has_policy(&self) -> bool {
        matches!(self.kind, Listening(_))
    }

    /// Returns whether the peer is in C, so that its waits cannot be called one by one.
    pub(super) fn is_in_c(&self) -> bool {
        matches!(self.kind, InC(_))
    }

    /// Returns whether the peer's time is measured. Other peers are only counted.
    pub(super) fn is_timed(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Poller(Poll | Select) | Listening(_) | Kind::Marked
        )
    }

    /// Returns whether the peer takes part in measurements with `timers`, or without. The baseline
    /// takes part in both, although it has no timers.
    pub(super) fn takes_part(&self, timers: bool) -> bool {
        !timers || self.has_timers() || self.name == "bare epoll"
    }
}

/// The peers that are installed and that the kernel permits.
pub(super) fn peers() -> Vec<Peer> {
    // `BackendKind::usable` would start a thread, after which glibc's `read` and `write` take more
    // instructions.
    let permits_ring = Poller::with(IoUring).is_ok();
    // The closed ring interrupts this thread here, and not in a wait that is measured.
    thread::park_timeout(Duration::from_millis(50));
    let foreign = foreign::installed().into_iter();
    let foreign = foreign.filter(|(_, functions)| functions.watches());
    let foreign = foreign.map(|(name, functions)| (name, InC(functions)));
    let peers = IN_RUST.into_iter().chain(foreign);
    let on_ring = |kind| matches!(kind, Kind::Poller(IoUring) | Loop(IoUring));
    let peers = peers.filter(|(_, kind)| permits_ring || !on_ring(*kind));
    peers.map(|(name, kind)| Peer { name, kind }).collect()
}
