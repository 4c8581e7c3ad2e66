//! A loop over epoll and nothing else: the baseline.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::retry_on_intr;

use super::peer_poller::{BATCH, RustPoller, index};
use super::ring_of_pairs::Ring;

/// The set, and what the last wait brought.
pub(super) struct Bare<'a> {
    watched: &'a [OwnedFd],
    set: OwnedFd,
    events: Vec<Event>,
    flags: EventFlags,
}

impl<'a> Bare<'a> {
    /// Level-triggered, or edge-triggered.
    pub(super) fn new(watched: &'a [OwnedFd], is_edge: bool) -> Bare<'a> {
        let edge = if is_edge {
            EventFlags::ET
        } else {
            EventFlags::empty()
        };
        let set = epoll::create(CreateFlags::CLOEXEC).expect("there is a descriptor left");
        let bare = Bare {
            watched,
            set,
            events: Vec::with_capacity(BATCH),
            flags: EventFlags::IN | edge,
        };
        for index in 0..watched.len() {
            bare.watch(index);
        }
        bare
    }

    fn watch(&self, index: usize) {
        let (fd, data) = (&self.watched[index], EventData::new_u64(index as u64));
        epoll::add(&self.set, fd, data, self.flags).expect("it is not watched yet");
    }
}

impl RustPoller for Bare<'_> {
    #[inline(always)]
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>) {
        self.events.clear();
        let timeout = timeout.map(|timeout| Timespec::try_from(timeout).expect("it is short"));
        // A ring that was closed before interrupts a wait.
        let wait = || {
            let places = spare_capacity(&mut self.events);
            epoll::wait(&self.set, places, timeout.as_ref()).map(|_| ())
        };
        retry_on_intr(wait).expect("it can wait");
        for event in &self.events {
            ring.serve(index(event.data.u64()));
        }
    }

    /// Removed and added: epoll reports hang-ups of what it watches for nothing.
    fn watch_first(&mut self, starts: bool) {
        if starts {
            self.watch(0);
        } else {
            epoll::delete(&self.set, &self.watched[0]).expect("it is watched");
        }
    }
}
