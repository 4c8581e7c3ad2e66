//! The pollers in Rust without timers: a loop over epoll and nothing else, which is the baseline;
//! mio; the crate `polling`; and `evcore-poller`.

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
        // An `io_uring` that was closed earlier may interrupt the wait.
        let wait = || {
            let places = spare_capacity(&mut self.events);
            epoll::wait(&self.set, places, timeout.as_ref()).map(|_| ())
        };
        retry_on_intr(wait).expect("it can wait");
        for event in &self.events {
            ring.serve(index(event.data.u64()));
        }
    }

    /// Removes or adds the descriptor, because epoll reports hang-ups even without interest.
    fn watch_first(&mut self, starts: bool) {
        if starts {
            return self.watch(0);
        }
        epoll::delete(&self.set, &self.watched[0]).expect("it is watched");
    }
}

/// mio's poller, and the events of its last wait. It is always edge-triggered.
///
/// mio requires that a socket be read until it is empty. Here each write makes an edge of its own
/// and brings one byte, so one read per report is enough.
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
        // An `io_uring` that was closed earlier may interrupt the wait.
        while let Err(error) = self.poll.poll(&mut self.events, timeout) {
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        }
        for event in &self.events {
            ring.serve(event.token().0);
        }
    }

    /// Removes or adds the descriptor, because mio cannot watch without interest.
    fn watch_first(&mut self, starts: bool) {
        if starts {
            return self.watch(0);
        }
        let number = self.watched[0].as_raw_fd();
        let removed = self.poll.registry().deregister(&mut SourceFd(&number));
        removed.expect("it is watched");
    }
}

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
            // SAFETY: the descriptors are borrowed for longer than the poller lives, so they stay
            // open.
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
        begin_and_end_some(
            &mut poller,
            &mut events,
            mode_on(kind),
            watched.len() as u64,
        );
        Ours { poller, events }
    }
}

/// Adds and removes one registration, as every poller in use has done, because the state that this
/// leaves costs time.
fn begin_and_end_some(poller: &mut Poller, events: &mut Events, mode: Mode, free_key: u64) {
    let (near, _far) = UnixStream::pair().expect("descriptors are left");
    let added = poller.add(&near, free_key, Interest::READ, mode);
    added.expect("it is not watched yet");
    let removed = poller.remove_before_close(free_key);
    removed.expect("it is watched");
    drop(near);
    let waited = poller.wait(events, Some(Duration::ZERO));
    waited.expect("no signal comes");
}

/// The mode on a backend: `Level`, as for most other peers. On `io_uring` it is `Edge`, because
/// `Level` costs a request for each report there, and the benchmark reads all bytes.
pub(super) fn mode_on(kind: BackendKind) -> Mode {
    match kind {
        BackendKind::IoUring => Mode::Edge,
        _ => Mode::Level,
    }
}

/// Interest in reading if `starts` is true, otherwise none. Without `black_box` the compiler could
/// leave out the first of two changes.
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

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it was an index before")]
fn index(key: u64) -> usize {
    key as usize
}
