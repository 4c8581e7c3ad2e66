//! The poll backend, for every Unix. A wait takes time in proportion to the number of
//! registrations, as poll itself does.
//!
//! The watches are a dense array of our own, which is passed to each call. A table indexed by
//! descriptor number has the place of each entry in the array, so adding and removing (swap-remove)
//! are O(1).
//!
//! - Each wait starts its search for ready entries behind the entry that was reported last, so
//!   nothing starves with a small buffer.
//! - A number that was closed is reported (`POLLNVAL`). A number that was never open would be
//!   reported in the same way. So `begin` checks that the number is open, and `add` refuses other
//!   numbers, as it does on epoll.
//! - `POLLHUP` and `POLLERR` are reported without a request. But macOS implements poll by kqueue's
//!   filters, and makes no filter for an entry that requests no readiness. So on macOS, once all
//!   sides of an `Edge` have reported, its end is not reported before a `rearm`. (The backend was
//!   not run on macOS.)
//! - Linux reports a half-close by a flag of its own. Elsewhere a read returns 0 bytes.

use std::{ffi::c_short, fmt, os::fd::RawFd, time::Duration};

use rustix::io::Errno;

use super::{
    PollLike,
    flags::entry,
    kernel::{Calls, Change, Kernel},
};
use crate::{
    error::{Error, Result},
    growth,
    sys::{poll_call, raw_fd},
};

/// The system calls of this backend. Tests implement them by a model.
pub(in crate::sys) trait Sys: fmt::Debug + Send {
    /// Checks that a file is open under `fd`, which is not -1.
    fn is_open(&self, fd: RawFd) -> Result<(), Errno>;

    /// Waits until an entry has something to report, and returns the number of such entries.
    /// `timeout` is at most 24 days; `None` waits without limit.
    fn poll(
        &mut self,
        array: &mut [libc::pollfd],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno>;
}

#[derive(Debug)]
pub(in crate::sys) struct System;

impl Sys for System {
    fn is_open(&self, fd: RawFd) -> Result<(), Errno> {
        raw_fd::is_open(fd)
    }

    fn poll(
        &mut self,
        array: &mut [libc::pollfd],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        poll_call::poll(array, timeout)
    }
}

/// The place of a number without an entry.
const ABSENT: u32 = u32::MAX;

#[derive(Debug)]
pub(in crate::sys) struct Poll<S> {
    sys: S,
    array: Vec<libc::pollfd>,
    // Invariant: the place of each number's entry in the array, or `ABSENT`.
    places: Vec<u32>,
    scan_from: usize,
    found: Vec<usize>,
}

pub(in crate::sys) fn open() -> Result<PollLike<Poll<System>>> {
    PollLike::over(Poll::over(System))
}

impl<S: Sys> Poll<S> {
    pub(in crate::sys) fn over(sys: S) -> Self {
        Self {
            sys,
            array: Vec::new(),
            places: Vec::new(),
            scan_from: 0,
            found: Vec::new(),
        }
    }

    fn enter(&mut self, fd: RawFd, flags: c_short) {
        growth::lengthen(&mut self.places, index(fd) + 1, ABSENT);
        match self.array.get_mut(self.places[index(fd)] as usize) {
            Some(present) => present.events = flags,
            None => {
                self.places[index(fd)] = place(self.array.len());
                growth::push(&mut self.array, entry(fd, flags));
            }
        }
    }

    fn remove(&mut self, fd: RawFd) {
        let vacated = std::mem::replace(&mut self.places[index(fd)], ABSENT) as usize;
        self.array.swap_remove(vacated);
        if let Some(moved) = self.array.get(vacated) {
            self.places[index(moved.fd)] = place(vacated);
        }
    }
}

impl<S: Sys> Kernel for Poll<S> {
    const NAME: &'static str = "poll";
    const CALLS: Calls = Calls {
        apply: "poll",
        wait: "poll",
    };
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const HALF_CLOSE: c_short = libc::POLLRDHUP;

    fn begin(&mut self, fd: RawFd, _: c_short) -> Result<bool> {
        let open = self.sys.is_open(fd);
        open.map(|()| false).map_err(Error::os("fcntl(F_GETFD)"))
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), Errno> {
        for change in changes {
            match change.flags {
                Some(flags) => self.enter(change.fd, flags),
                None => self.remove(change.fd),
            }
        }
        #[cfg(test)]
        self.verify();
        Ok(())
    }

    fn wait(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        let ready = self.sys.poll(&mut self.array, timeout)?.min(limit);
        let count = self.array.len();
        self.found.clear();
        let mut place = self.scan_from;
        // The loop ends, because at least `ready` entries have something to report.
        while self.found.len() < ready {
            place = if place < count { place } else { 0 };
            if self.array[place].revents != 0 {
                self.found.push(place);
            }
            place += 1;
        }
        self.scan_from = place;
        Ok(ready)
    }

    fn found(&self, index: usize) -> (RawFd, c_short) {
        let entry = self.array[self.found[index]];
        (entry.fd, entry.revents)
    }
}

#[cfg(test)]
impl<S> Poll<S> {
    fn verify(&self) {
        for (at, entry) in self.array.iter().enumerate() {
            assert_eq!(self.places[index(entry.fd)], place(at));
        }
        let present = self.places.iter().filter(|place| **place != ABSENT);
        assert_eq!(present.count(), self.array.len());
    }
}

fn index(fd: RawFd) -> usize {
    usize::try_from(fd).expect("it is open, so it is a descriptor")
}

fn place(index: usize) -> u32 {
    u32::try_from(index).expect("descriptors end far below 2^32")
}
