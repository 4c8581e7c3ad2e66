//! The pollers in Rust without timers: a loop over epoll and nothing else, which is the baseline; mio;
//! the crate `polling`; and `evcore-poller`.

#![allow(unsafe_code, reason = "`polling` trusts its caller")]

use std::hint::black_box;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use evcore_poller::{BackendKind, Events, Interest, Mode, Poller};
use mio::unix::SourceFd;
use polling::PollMode;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::retry_on_intr;

use super::peers::{BATCH, PeerPoller};
use super::ring_of_pairs::Ring;

/// The set, and what the last wait brought.
pub(super) struct Bare<'a> {
    watched: &'a [OwnedFd],
    set: OwnedFd,
    events: Vec<epoll::Event>,
    flags: EventFlags,
}

impl<'a> Bare<'a> {
    pub(super) fn new(watched: &'a [OwnedFd], flags: EventFlags) -> Bare<'a> {
        let bare = Bare {
            watched,
            set: epoll::create(CreateFlags::CLOEXEC).expect("there is a descriptor left"),
            events: Vec::with_capacity(BATCH),
            flags,
        };
        (0..watched.len()).for_each(|index| bare.watch(index));
        bare
    }

    fn watch(&self, index: usize) {
        let (fd, data) = (&self.watched[index], EventData::new_u64(index as u64));
        epoll::add(&self.set, fd, data, self.flags).expect("it is not watched yet");
    }
}

impl PeerPoller for Bare<'_> {
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
            return self.watch(0);
        }
        epoll::delete(&self.set, &self.watched[0]).expect("it is watched");
    }
}

/// mio's poller, and what its last wait brought. It is always edge-triggered.
///
/// It asks that a socket be read until there is no more. Here each write is an edge of its own and
/// brings one byte, so one read a report is enough.
pub(super) struct Mio<'a> {
    watched: &'a [OwnedFd],
    poll: mio::Poll,
    events: mio::Events,
}

impl<'a> Mio<'a> {
    pub(super) fn new(watched: &'a [OwnedFd]) -> Mio<'a> {
        let mio = Mio {
            watched,
            poll: mio::Poll::new().expect("there is a descriptor left"),
            events: mio::Events::with_capacity(BATCH),
        };
        (0..watched.len()).for_each(|index| mio.watch(index));
        mio
    }

    fn watch(&self, index: usize) {
        let number = self.watched[index].as_raw_fd();
        let (token, interest) = (mio::Token(index), mio::Interest::READABLE);
        let registry = self.poll.registry();
        let added = registry.register(&mut SourceFd(&number), token, interest);
        added.expect("it is not watched yet");
    }
}

impl PeerPoller for Mio<'_> {
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

/// The poller of `polling`, and what its last wait brought.
pub(super) struct Polling<'a> {
    watched: &'a [OwnedFd],
    poller: polling::Poller,
    events: polling::Events,
}

impl<'a> Polling<'a> {
    pub(super) fn new(watched: &'a [OwnedFd]) -> Polling<'a> {
        let poller = polling::Poller::new().expect("there is a descriptor left");
        for (key, fd) in watched.iter().enumerate() {
            let (fd, interest) = (fd.as_raw_fd(), polling::Event::readable(key));
            // SAFETY: they are borrowed for longer than the poller lives, so they stay open.
            let added = unsafe { poller.add_with_mode(fd, interest, PollMode::Level) };
            added.expect("it is not watched yet");
        }
        let batch = NonZeroUsize::new(BATCH).expect("it is not zero");
        Polling {
            watched,
            poller,
            events: polling::Events::with_capacity(batch),
        }
    }
}

impl PeerPoller for Polling<'_> {
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
        let (fd, interest) = (&self.watched[0], polling::Event::new(0, starts, false));
        let modified = self.poller.modify_with_mode(fd, interest, PollMode::Level);
        modified.expect("it is watched");
    }
}

/// A poller of `evcore-poller`, and what its last wait brought.
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
        let mut events = Events::bounded(BATCH);
        live(
            &mut poller,
            &mut events,
            mode_on(kind),
            watched.len() as u64,
        );
        Ours { poller, events }
    }
}

/// Ends a registration, as a poller in use has done before: what stays of it counts.
fn live(poller: &mut Poller, events: &mut Events, mode: Mode, free_key: u64) {
    let (near, _far) = UnixStream::pair().expect("descriptors are left");
    let added = poller.add(&near, free_key, Interest::READ, mode);
    added.expect("it is not watched yet");
    let removed = poller.remove_before_close(free_key);
    removed.expect("it is watched");
    drop(near);
    let waited = poller.wait(events, Some(Duration::ZERO));
    waited.expect("no signal comes");
}

/// `Level`, as the peers have. On `io_uring`, `Edge`: a `Level` there costs a request for each report,
/// and the benchmark reads all that there is.
pub(super) fn mode_on(kind: BackendKind) -> Mode {
    match kind {
        BackendKind::IoUring => Mode::Edge,
        _ => Mode::Level,
    }
}

/// The interest in a byte, or in nothing. Seen through `black_box`, or the first change of two could
/// be left out.
pub(super) fn read_if(starts: bool) -> Interest {
    black_box(if starts {
        Interest::READ
    } else {
        Interest::NONE
    })
}

impl PeerPoller for Ours {
    #[inline(always)]
    fn turn(&mut self, timeout: Option<Duration>, ring: &mut Ring<'_>) {
        let waited = self.poller.wait(&mut self.events, timeout);
        waited.expect("no signal comes");
        for event in &self.events {
            ring.serve(index(event.key));
        }
    }

    fn watch_first(&mut self, starts: bool) {
        let modified = self.poller.modify(black_box(0), read_if(starts));
        modified.expect("it is watched");
    }
}

/// A key that was an index into the watched descriptors before.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it was an index before")]
fn index(key: u64) -> usize {
    key as usize
}
