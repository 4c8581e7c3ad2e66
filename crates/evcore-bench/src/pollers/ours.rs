//! `evcore-poller`, by itself: it has no timers.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evcore_poller::{BackendKind, Events, Interest, Mode, Poller};

use super::peer_poller::{BATCH, PeerPoller};
use super::ring::Ring;

/// A poller, and what its last wait brought.
#[derive(Debug)]
pub(super) struct Ours {
    poller: Poller,
    events: Events,
    mode: Mode,
}

impl Ours {
    pub(super) fn new(watched: &[OwnedFd], kind: BackendKind, mode: Mode) -> Ours {
        let mut poller = Poller::with(kind).expect("there is a descriptor left");
        for (key, fd) in (0..).zip(watched) {
            let added = poller.add(fd, key, Interest::READ, mode);
            added.expect("it is not watched yet");
        }
        Ours {
            poller,
            events: Events::with_capacity(BATCH),
            mode,
        }
    }

    /// As a server that has closed a connection, and left it to the kernel to forget it: from then
    /// on the poller checks whether each event is stale.
    pub(super) fn after_a_close(watched: &[OwnedFd]) -> Ours {
        let mut ours = Ours::new(watched, BackendKind::Epoll, Mode::Level);
        let key = u64::try_from(watched.len()).expect("it is a count");
        let (gone, _peer) = UnixStream::pair().expect("there are descriptors left");
        let added = ours.poller.add(&gone, key, Interest::READ, Mode::Level);
        added.expect("it is not watched yet");
        ours.poller.remove_before_close(key).expect("it is watched");
        ours
    }
}

impl PeerPoller for Ours {
    fn run(&mut self, ring: &mut Ring<'_>) {
        while !ring.is_over() {
            let waited = self.poller.wait(&mut self.events, None);
            waited.expect("no signal comes");
            for event in &self.events {
                ring.serve(index(event.key));
                if self.mode == Mode::Edge {
                    let rearmed = self.poller.rearm(event.key, Interest::READ);
                    rearmed.expect("it is watched");
                }
            }
        }
    }

    fn toggle(&mut self, times: usize) {
        for _ in 0..times {
            for interest in [Interest::NONE, Interest::READ] {
                // Seen through `black_box`, or the first change could be left out.
                let modified = self.poller.modify(black_box(0), black_box(interest));
                modified.expect("it is watched");
            }
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Option<usize> {
        let waited = self.poller.wait(&mut self.events, timeout);
        Some(waited.expect("no signal comes"))
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it was an index before")]
fn index(key: u64) -> usize {
    key as usize
}
