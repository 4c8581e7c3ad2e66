//! poll: every Unix. Level-triggered; the front keeps `Edge` and `Oneshot` by masking.
//!
//! A dense array for the kernel, and an index by id into it: adding and removing (swap-remove) are
//! O(1), a wait is O(registered), as poll itself is.

#![allow(unsafe_code, reason = "descriptors are borrowed by number")]

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};

use crate::{
    Abilities, Backend, Error, Events, Interest, Ready, Registration, Result, WakeChannel, Waker,
};

/// In `slots`: the id is not in the array.
const ABSENT: u32 = u32::MAX;

/// Where the waker is in the array, always.
const WAKE: usize = 0;

pub(super) struct Poll {
    wake: WakeChannel,
    // Invariant: `fds` and `keys` have the same length, at least 1; entry 0 is the waker.
    fds: Vec<PollFd<'static>>,
    keys: Vec<u64>,
    // Invariant: `slots[id]` is the place of id's entry in the two above, or `ABSENT`.
    slots: Vec<u32>,
    /// Where the next scan for readiness begins, so that a small event buffer starves nobody.
    scan_from: usize,
}

impl Poll {
    pub(super) fn new() -> Result<Self> {
        let wake = WakeChannel::new().map_err(|source| Error::Os {
            call: "opening the waker",
            source,
        })?;
        let fds = vec![poll_fd(wake.as_fd().as_raw_fd(), PollFlags::IN)];
        Ok(Self {
            wake,
            fds,
            keys: vec![u64::MAX],
            slots: Vec::new(),
            scan_from: 0,
        })
    }

    fn slot(&self, registration: &Registration) -> Option<usize> {
        let slot = *self.slots.get(registration.id())?;
        (slot != ABSENT).then_some(slot as usize)
    }

    fn push(&mut self, registration: &Registration) {
        let id = registration.id();
        if self.slots.len() <= id {
            self.slots.resize(id + 1, ABSENT);
        }
        self.slots[id] = u32::try_from(self.fds.len()).expect("ids end far below 2^32");
        self.fds
            .push(poll_fd(registration.fd, flags(registration.interest)));
        self.keys.push(registration.key);
    }

    fn take_out(&mut self, slot: usize) {
        debug_assert!(slot != WAKE, "the waker stays");
        self.slots[id_of(self.keys[slot])] = ABSENT;
        self.fds.swap_remove(slot);
        self.keys.swap_remove(slot);
        if let Some(&moved) = self.keys.get(slot) {
            self.slots[id_of(moved)] = u32::try_from(slot).expect("it was one before");
        }
    }

    /// Reports what the last call found: of `ready` entries, as many as there is room for.
    fn collect(&mut self, mut ready: usize, events: &mut Events) {
        if !self.fds[WAKE].revents().is_empty() {
            self.wake.drain();
            events.set_woken();
            ready -= 1;
        }
        let mut slot = self.scan_from;
        let mut left = self.fds.len();
        while left > 0 && ready > 0 && events.room() > 0 {
            if slot >= self.fds.len() {
                slot = 0;
            }
            left -= 1;
            let found = self.fds[slot].revents();
            if slot == WAKE || found.is_empty() {
                slot += 1;
                continue;
            }
            ready -= 1;
            events.push(self.keys[slot], readiness(found));
            self.fds[slot].clear_revents();
            if found.contains(PollFlags::NVAL) {
                // Closed without being removed: said once, then left alone. Another entry, not
                // yet looked at or from before `scan_from`, now stands in its place.
                self.take_out(slot);
            } else {
                slot += 1;
            }
        }
        self.scan_from = slot;
    }
}

impl Backend for Poll {
    fn name(&self) -> &'static str {
        "poll"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            edge: false,
            oneshot: false,
        }
    }

    fn add(&mut self, registration: &Registration) -> Result<()> {
        // poll itself would find a closed descriptor only in the wait, too late to tell the caller.
        rustix::io::fcntl_getfd(borrow(registration.fd)).map_err(Error::os("fcntl(F_GETFD)"))?;
        self.push(registration);
        Ok(())
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        match self.slot(registration) {
            Some(slot) => {
                self.fds[slot] = poll_fd(registration.fd, flags(registration.interest));
            }
            // Dropped as closed; if it still is, the next wait says so again.
            None => self.push(registration),
        }
        Ok(())
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        self.forget(registration);
        Ok(())
    }

    fn forget(&mut self, registration: &Registration) {
        if let Some(slot) = self.slot(registration) {
            self.take_out(slot);
        }
    }

    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.map(timespec);
        match rustix::event::poll(&mut self.fds, timeout.as_ref()) {
            Ok(ready) => self.collect(ready, events),
            Err(Errno::INTR) => return Err(Error::Interrupted),
            Err(errno) => return Err(Error::os("ppoll")(errno)),
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

/// What a closing peer looks like differs: Linux tells of a half-close by a flag of its own.
#[cfg(any(target_os = "linux", target_os = "android"))]
const READ_FLAGS: PollFlags = PollFlags::IN.union(PollFlags::RDHUP);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const READ_FLAGS: PollFlags = PollFlags::IN;

fn flags(interest: Interest) -> PollFlags {
    let mut flags = PollFlags::empty();
    if interest.contains(Interest::READ) {
        flags |= READ_FLAGS;
    }
    if interest.contains(Interest::WRITE) {
        flags |= PollFlags::OUT;
    }
    if interest.contains(Interest::PRIORITY) {
        flags |= PollFlags::PRI;
    }
    flags
}

fn readiness(found: PollFlags) -> Ready {
    let pairs = [
        (PollFlags::IN, Ready::READABLE),
        (PollFlags::OUT, Ready::WRITABLE),
        (PollFlags::PRI, Ready::PRIORITY),
        (PollFlags::ERR, Ready::ERROR),
        (PollFlags::NVAL, Ready::ERROR),
        (PollFlags::HUP, Ready::WRITE_CLOSED),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        (PollFlags::RDHUP, Ready::READ_CLOSED),
    ];
    pairs
        .into_iter()
        .filter(|(flag, _)| found.contains(*flag))
        .fold(Ready::NONE, |ready, (_, bit)| ready | bit)
}

fn timespec(timeout: Duration) -> Timespec {
    // Longer than can be told is as long as can be told.
    Timespec::try_from(timeout).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}

fn poll_fd(fd: RawFd, flags: PollFlags) -> PollFd<'static> {
    PollFd::from_borrowed_fd(borrow(fd), flags)
}

fn borrow(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the user keeps the descriptor open while it is registered (the waker's is ours).
    // Where it does not, poll says NVAL or means another file: a wrong watch, and no memory is
    // touched.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
