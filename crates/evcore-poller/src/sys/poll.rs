//! poll: every Unix. Level-triggered; the poller emulates `Edge` and `Oneshot` by masking.
//!
//! `POLLHUP` and `POLLERR` cannot be masked: every entry of the array reports them, even one that
//! asks for no readiness. When one of them was reported, the poller removes the entry until its
//! registration watches something again. (macOS' poll is made of kqueue's filters, and has none for
//! an entry that asks for no readiness. There, an end behind an unanswered `Edge` is silent. The
//! backend was not run there.)
//!
//! The kernel gets a dense array, and a table by id holds the places in it. Adding and removing
//! (swap-remove) are O(1). A wait is O(registered), as poll itself is.

use std::{
    ffi::c_short,
    fmt, mem,
    os::fd::{AsFd, AsRawFd, RawFd},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    chunked_wait::{LONGEST_IN_MS, chunked_wait},
    poll_flags,
    raw_fd::is_open,
};
use crate::{
    backend::{Backend, Capabilities, Registration},
    error::{Error, Result},
    event_sink::EventSink,
    growth,
    ready::Ready,
    waker::{WakeChannel, Waker},
};

pub(super) mod call;

/// A slot of an id that is not in the array.
const ABSENT: u32 = u32::MAX;

/// The waker's place in the array.
const WAKE: usize = 0;

pub(super) struct Poll {
    wake: WakeChannel,
    // Invariant: `fds` and `keys` have the same length, at least 1; entry 0 is the waker.
    fds: Vec<libc::pollfd>,
    keys: Vec<u64>,
    // Invariant: `slots[id]` is the place of the id in the two lists above, or `ABSENT`.
    slots: Vec<u32>,
    /// The place where the next scan for readiness begins, so that no entry starves with a small
    /// event buffer.
    scan_from: usize,
}

impl Poll {
    pub(super) fn new() -> Result<Self> {
        let wake = WakeChannel::new()?;
        let fds = vec![entry(wake.as_fd().as_raw_fd(), libc::POLLIN)];
        Ok(Self {
            wake,
            fds,
            keys: vec![u64::MAX],
            slots: Vec::new(),
            scan_from: WAKE + 1,
        })
    }

    fn slot(&self, registration: &Registration) -> Option<usize> {
        let slot = *self.slots.get(registration.id())?;
        (slot != ABSENT).then_some(slot as usize)
    }

    fn push(&mut self, registration: &Registration) {
        let id = registration.id();
        growth::lengthen(&mut self.slots, id + 1, ABSENT);
        self.slots[id] = u32::try_from(self.fds.len()).expect("ids end far below 2^32");
        growth::push(&mut self.fds, entry(registration.fd, flags(registration)));
        growth::push(&mut self.keys, registration.key);
    }

    fn remove_slot(&mut self, slot: usize) {
        debug_assert!(slot != WAKE, "the waker stays");
        self.slots[id_of(self.keys[slot])] = ABSENT;
        self.fds.swap_remove(slot);
        self.keys.swap_remove(slot);
        if let Some(&moved) = self.keys.get(slot) {
            self.slots[id_of(moved)] = u32::try_from(slot).expect("it was one before");
        }
    }

    /// Reports the entries that the last call found: as many of the `ready` ones as the buffer has
    /// room for.
    fn collect(&mut self, mut ready: usize, events: &mut EventSink<'_>) {
        if self.fds[WAKE].revents != 0 {
            self.wake.drain();
            events.set_woken();
            ready -= 1;
        }
        let mut slot = self.scan_from;
        // The loop ends, because `ready` entries have something to report, and each is reported
        // once.
        while ready > 0 && events.remaining() > 0 {
            if slot >= self.fds.len() {
                slot = WAKE + 1;
            }
            let found = mem::take(&mut self.fds[slot].revents);
            if found == 0 {
                slot += 1;
                continue;
            }
            ready -= 1;
            events.push(self.keys[slot], readiness(found));
            if found & libc::POLLNVAL != 0 {
                // The descriptor was closed without being removed. It is reported once, and then
                // dropped. The last entry takes its place, and comes next.
                self.remove_slot(slot);
            } else {
                slot += 1;
            }
        }
        // Later registrations take the places past the end, and come last.
        self.scan_from = if slot < self.fds.len() {
            slot
        } else {
            WAKE + 1
        };
    }
}

impl Backend for Poll {
    fn name(&self) -> &'static str {
        "poll"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn add(&mut self, registration: &Registration) -> Result<()> {
        if registration.fd == self.wake.as_fd().as_raw_fd() {
            // This is refused as on the other backends, where it would end the watch of the waker.
            return Err(Error::AlreadyWatched {
                fd: registration.fd,
            });
        }
        // This is only a check: poll would report a closed descriptor as an event of the wait,
        // while it is an error of `add` on every other backend. The call is cheaper than that of
        // epoll's `add`.
        is_open(registration.fd).map_err(Error::os("fcntl(F_GETFD)"))?;
        self.push(registration);
        Ok(())
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        match self.slot(registration) {
            Some(slot) => {
                self.fds[slot] = entry(registration.fd, flags(registration));
            }
            // The entry was dropped because its descriptor was closed. If it still is, the next
            // wait reports that again.
            None => self.push(registration),
        }
        Ok(())
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        self.remove_before_close(registration);
        Ok(())
    }

    fn remove_before_close(&mut self, registration: &Registration) {
        if let Some(slot) = self.slot(registration) {
            self.remove_slot(slot);
        }
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let ready = chunked_wait(timeout, LONGEST_IN_MS, |chunk| {
            call::poll(&mut self.fds, chunk)
        });
        match ready {
            Ok(ready) => self.collect(ready, &mut events),
            // A signal's handler has run.
            Err(Errno::INTR) => return Err(Error::Interrupted),
            Err(errno) => return Err(Error::os("poll")(errno)),
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll")
            .field("watched", &(self.fds.len() - 1))
            .finish_non_exhaustive()
    }
}

fn id_of(key: u64) -> usize {
    (key & 0xffff_ffff) as usize
}

/// Linux reports a half-close by a flag of its own. Elsewhere a read returns 0 bytes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const HALF_CLOSE: c_short = libc::POLLRDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const HALF_CLOSE: c_short = 0;

fn flags(registration: &Registration) -> c_short {
    let mut flags = poll_flags::asking(registration.interest);
    if registration.ends.is_read_closed() {
        flags |= HALF_CLOSE;
    }
    flags
}

fn readiness(found: c_short) -> Ready {
    let mut ready = poll_flags::readiness(found);
    if found & HALF_CLOSE != 0 {
        ready |= Ready::READ_CLOSED;
    }
    ready
}

fn entry(fd: RawFd, events: c_short) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Events, Interest, Mode};
    use proptest::prelude::*;
    use std::{collections::BTreeMap, os::unix::net::UnixStream};

    impl Poll {
        /// Panics if an invariant does not hold.
        fn verify(&self) {
            assert_eq!(self.fds.len(), self.keys.len());
            assert_eq!(self.keys[WAKE], u64::MAX);
            for (slot, key) in self.keys.iter().enumerate().skip(1) {
                assert_eq!(self.slots[id_of(*key)] as usize, slot);
            }
            let present = self.slots.iter().filter(|slot| **slot != ABSENT);
            assert_eq!(present.count(), self.keys.len() - 1);
        }
    }

    /// A registration for writing to `fd`.
    fn registration(fd: impl AsFd, key: u64) -> Registration {
        Registration {
            fd: fd.as_fd().as_raw_fd(),
            key,
            interest: Interest::WRITE,
            ends: Ready::WRITE_CLOSED | Ready::ERROR,
            mode: Mode::Level,
        }
    }

    fn wait(poll: &mut Poll, capacity: usize) -> Vec<(u64, Ready)> {
        let mut events = Events::bounded(capacity);
        poll.wait((&mut events).into(), Some(Duration::ZERO))
            .expect("poll");
        poll.verify();
        events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect()
    }

    proptest! {
        #[test]
        fn the_array_holds_what_was_added_and_not_removed(
            steps in prop::collection::vec((0u64..12, any::<bool>()), 0..60)
        ) {
            let mut poll = Poll::new().expect("poll");
            let eventfd = WakeChannel::new().expect("a channel");
            let mut oracle = BTreeMap::new();
            for (id, add) in steps {
                let registration = registration(&eventfd, id | (7 << 32));
                if add && !oracle.contains_key(&id) {
                    poll.add(&registration).expect("add");
                    oracle.insert(id, registration.key);
                } else if !add {
                    poll.remove(&registration).expect("remove");
                    oracle.remove(&id);
                }
                poll.verify();
            }
            // A channel can always be written to, so each entry of the array reports.
            let mut found = wait(&mut poll, 12);
            found.sort_unstable_by_key(|event| event.0);
            let expected: Vec<_> = oracle.values().map(|key| (*key, Ready::WRITABLE)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn no_entry_starves_with_a_small_buffer() {
        let mut poll = Poll::new().expect("poll");
        let eventfd = WakeChannel::new().expect("a channel");
        for key in 0..5 {
            poll.add(&registration(&eventfd, key)).expect("add");
        }
        let mut keys: Vec<_> = (0..5).map(|_| wait(&mut poll, 1)[0].0).collect();
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_closed_descriptor_is_reported_once() {
        let mut poll = Poll::new().expect("poll");
        let eventfd = WakeChannel::new().expect("a channel");
        // The number has no file, as if each of these had been closed. (Another test could reuse
        // the number of a descriptor that really was closed.)
        let closed = Registration {
            fd: RawFd::MAX,
            ..registration(&eventfd, 0)
        };
        for key in 0..6 {
            if key % 2 == 0 {
                poll.push(&Registration { key, ..closed });
            } else {
                poll.add(&registration(&eventfd, key)).expect("add");
            }
        }
        // The scan begins in the middle, so that an entry that was already reported takes another's
        // place.
        poll.scan_from = 4;
        let mut found = wait(&mut poll, 6);
        found.sort_unstable_by_key(|event| event.0);
        let ready = |key| {
            if key % 2 == 0 {
                Ready::ERROR
            } else {
                Ready::WRITABLE
            }
        };
        assert_eq!(found, [0, 1, 2, 3, 4, 5].map(|key| (key, ready(key))));
        assert_eq!(wait(&mut poll, 6).len(), 3, "reported once");
    }

    #[test]
    fn a_closed_descriptor_is_not_added() {
        let mut poll = Poll::new().expect("poll");
        let eventfd = WakeChannel::new().expect("a channel");
        let closed = Registration {
            fd: RawFd::MAX,
            ..registration(&eventfd, 0)
        };
        assert!(matches!(poll.add(&closed), Err(Error::Os { .. })));
        assert_eq!(wait(&mut poll, 6), []);
    }

    #[test]
    fn an_entry_that_watches_ends_reports_nothing_else() {
        let mut poll = Poll::new().expect("poll");
        let (near, far) = UnixStream::pair().expect("a pair");
        let masked = Registration {
            interest: Interest::NONE,
            ..registration(&near, 1)
        };
        poll.add(&masked).expect("add");
        assert_eq!(wait(&mut poll, 4), [], "there is room, which is masked");
        drop(far);
        for _ in 0..2 {
            assert_eq!(wait(&mut poll, 4), [(1, Ready::WRITE_CLOSED)]);
        }
        poll.remove(&masked).expect("remove");
        assert_eq!(wait(&mut poll, 4), []);
    }
}
