//! mio: always edge-triggered, and without timers.
//!
//! It asks that a socket be read until there is no more. Here each write is an edge of its own and
//! brings one byte, so one read a report is enough.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::peer_poller::{BATCH, RustPoller};
use super::ring_of_pairs::Ring;

/// mio's poller, and what its last wait brought.
#[derive(Debug)]
pub(super) struct Mio<'a> {
    watched: &'a [OwnedFd],
    poll: Poll,
    events: Events,
}

impl<'a> Mio<'a> {
    pub(super) fn new(watched: &'a [OwnedFd]) -> Mio<'a> {
        let mio = Mio {
            watched,
            poll: Poll::new().expect("there is a descriptor left"),
            events: Events::with_capacity(BATCH),
        };
        for index in 0..watched.len() {
            mio.watch(index);
        }
        mio
    }

    fn watch(&self, index: usize) {
        let number = self.watched[index].as_raw_fd();
        let registry = self.poll.registry();
        let added = registry.register(&mut SourceFd(&number), Token(index), Interest::READABLE);
        added.expect("it is not watched yet");
    }
}

impl RustPoller for Mio<'_> {
    #[inline(always)]
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>) {
        // A ring that was closed before interrupts a wait.
        while let Err(error) = self.poll.poll(&mut self.events, timeout) {
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        }
        for event in &self.events {
            ring.serve(event.token().0);
        }
    }

    /// Removed and added: it cannot watch for nothing.
    fn watch_first(&mut self, starts: bool) {
        if starts {
            return self.watch(0);
        }
        let number = self.watched[0].as_raw_fd();
        let removed = self.poll.registry().deregister(&mut SourceFd(&number));
        removed.expect("it is watched");
    }
}
