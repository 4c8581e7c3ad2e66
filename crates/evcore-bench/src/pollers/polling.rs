//! The crate `polling`, level-triggered as the others are; it has no timers.

#![allow(unsafe_code, reason = "its caller answers for the descriptors")]

use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};

use super::peer_poller::{BATCH, RustPoller};
use super::ring_of_pairs::Ring;

/// Its poller, and what its last wait brought.
#[derive(Debug)]
pub(super) struct Polling<'a> {
    watched: &'a [OwnedFd],
    poller: Poller,
    events: Events,
}

impl<'a> Polling<'a> {
    pub(super) fn new(watched: &'a [OwnedFd]) -> Polling<'a> {
        let poller = Poller::new().expect("there is a descriptor left");
        for (key, fd) in watched.iter().enumerate() {
            let (fd, interest) = (fd.as_raw_fd(), Event::readable(key));
            // SAFETY: they are borrowed for longer than the poller lives, so they stay open.
            let added = unsafe { poller.add_with_mode(fd, interest, PollMode::Level) };
            added.expect("it is not watched yet");
        }
        let batch = NonZeroUsize::new(BATCH).expect("it is not zero");
        Polling {
            watched,
            poller,
            events: Events::with_capacity(batch),
        }
    }
}

impl RustPoller for Polling<'_> {
    #[inline(always)]
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>) {
        self.events.clear();
        let waited = self.poller.wait(&mut self.events, timeout);
        waited.expect("no signal comes");
        for event in self.events.iter() {
            ring.serve(event.key);
        }
    }

    fn watch_first(&mut self, starts: bool) {
        let interest = if starts {
            Event::readable(0)
        } else {
            Event::none(0)
        };
        let modified = self
            .poller
            .modify_with_mode(&self.watched[0], interest, PollMode::Level);
        modified.expect("it is watched");
    }
}
