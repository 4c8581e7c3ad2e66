//! `evcore-poller`, by itself: it has no timers.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::time::Duration;

use evcore_poller::{BackendKind, Events, Interest, Mode, Poller};

use super::peer_poller::{BATCH, RustPoller, index};
use super::ring_of_pairs::Ring;

/// A poller, and what its last wait brought.
#[derive(Debug)]
pub(super) struct Ours {
    poller: Poller,
    events: Events,
}

impl Ours {
    pub(super) fn new(watched: &[OwnedFd], kind: BackendKind) -> Ours {
        let mut poller = Poller::with(kind).expect("there is a descriptor left");
        for (key, fd) in (0..).zip(watched) {
            let added = poller.add(fd, key, Interest::READ, mode_on(kind));
            added.expect("it is not watched yet");
        }
        Ours {
            poller,
            events: Events::bounded(BATCH),
        }
    }
}

/// `Level`, as the peers have. On `io_uring`, `Edge`: a `Level` there costs a request for each report,
/// and the benchmark reads all that there is.
pub(super) fn mode_on(kind: BackendKind) -> Mode {
    match kind {
        BackendKind::IoUring => Mode::Edge,
        _ => Mode::Level,
    }
}

impl RustPoller for Ours {
    #[inline(always)]
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>) {
        let waited = self.poller.wait(&mut self.events, timeout);
        waited.expect("no signal comes");
        for event in &self.events {
            ring.serve(index(event.key));
        }
    }

    fn watch_first(&mut self, starts: bool) {
        let interest = if starts {
            Interest::READ
        } else {
            Interest::NONE
        };
        // Seen through `black_box`, or the first change could be left out.
        let modified = self.poller.modify(black_box(0), black_box(interest));
        modified.expect("it is watched");
    }
}
