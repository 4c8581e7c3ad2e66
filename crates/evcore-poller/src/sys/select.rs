//! The select backend, for every Unix except illumos and Solaris. It is level-triggered, and the
//! poller emulates `Edge` and `Oneshot` by masking: after a report, it stops watching the reported
//! side of an `Edge`, or all sides of a `Oneshot`.
//!
//! It watches only descriptors below 1024, and the cost of a wait grows with the highest of them.
//! It reports that a read or a write does not block, and nothing else. The read or the write itself
//! returns the end of the stream, a hang-up or an error. This backend does not read `SO_ERROR`,
//! because reading it clears the error, which the user's own call should return. A hang-up or an
//! error cannot be watched for alone, because a registration without an interest is in no set.

mod sets;

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, RawFd},
    time::Duration,
};

use rustix::io::Errno;

use self::sets::{SIZE, Sets};
use super::{
    chunked_wait::{LONGEST_IN_MS, chunked_wait},
    raw_fd::is_open,
};
use crate::{
    backend::{Backend, Capabilities, Registration},
    error::{Error, Result},
    event_sink::EventSink,
    interest::Interest,
    ready::Ready,
    waker::{WakeChannel, Waker},
};

const VACANT: Row = Row {
    key: u64::MAX,
    found: Ready::NONE,
};

pub(super) struct Select {
    wake: WakeChannel,
    wake_fd: usize,
    /// The descriptors to watch. `select` overwrites its sets, so it gets a copy.
    watched: Sets,
    // Invariant: there is a row for each descriptor up to the highest in `watched`, including the
    // waker's.
    rows: Vec<Row>,
    /// The place at which the next report begins, so that no row starves with a small event buffer.
    report_from: usize,
    /// True if the next wait that finds closed descriptors reports them after the ready ones.
    ready_first: bool,
}

/// A row of the table. Its index is the number of its descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Row {
    key: u64,
    // Invariant: empty between two waits.
    found: Ready,
}

impl Select {
    pub(super) fn new() -> Result<Self> {
        let wake = WakeChannel::new()?;
        let fd = wake.as_fd().as_raw_fd();
        let wake_fd = place(fd).ok_or_else(|| beyond(fd, true))?;
        let mut watched = Sets::new();
        watched.set(fd, Interest::READ);
        Ok(Self {
            wake,
            wake_fd,
            watched,
            rows: vec![VACANT; wake_fd + 1],
            report_from: 0,
            ready_first: false,
        })
    }

    fn enter(&mut self, registration: &Registration) -> Result<()> {
        let fd = registration.fd;
        let place = place(fd).ok_or_else(|| beyond(fd, false))?;
        if self.rows.len() <= place {
            self.rows.resize(place + 1, VACANT);
        }
        self.rows[place].key = registration.key;
        self.watched.set(fd, registration.interest);
        if registration.interest.is_empty() {
            self.remove_row(place);
        }
        Ok(())
    }

    fn remove_row(&mut self, place: usize) {
        debug_assert!(place != self.wake_fd, "the waker stays");
        self.watched.set(number_of(place), Interest::NONE);
        self.rows[place] = VACANT;
        while self.rows.len() > self.wake_fd + 1 && self.rows.last() == Some(&VACANT) {
            self.rows.pop();
        }
    }

    /// Makes the call, and records in the rows what it has found. Reports a wake.
    fn call(&mut self, events: &mut EventSink<'_>, timeout: Option<Duration>) -> Result<(), Errno> {
        let mut found = Sets::new();
        chunked_wait(timeout, LONGEST_IN_MS, |chunk| {
            found.clone_from(&self.watched);
            found.select(chunk)
        })?;
        for (place, bit) in found.iter().filter_map(|(fd, bit)| Some((place(fd)?, bit))) {
            self.rows[place].found |= bit;
        }
        if !std::mem::take(&mut self.rows[self.wake_fd].found).is_empty() {
            self.wake.drain();
            events.set_woken();
        }
        Ok(())
    }

    /// Reports the readiness that was found, while there is room. The next wait finds the rest
    /// again.
    fn report(&mut self, events: &mut EventSink<'_>) {
        let count = self.rows.len();
        let start = self.report_from.min(count);
        for place in (start..count).chain(0..start) {
            let row = &mut self.rows[place];
            let found = std::mem::take(&mut row.found);
            if found.is_empty() {
                continue;
            }
            if events.remaining() == 0 {
                self.report_from = place;
                break;
            }
            events.push(row.key, found);
        }
        for row in &mut self.rows {
            row.found = Ready::NONE;
        }
    }

    /// Reports closed descriptors, and others that are ready now, without waiting.
    ///
    /// Closed descriptors and ready ones come first in alternate waits. Otherwise, if each wait
    /// found as many closed descriptors as fit, no ready descriptor would ever be reported.
    fn report_with_closed(&mut self, events: &mut EventSink<'_>) {
        let ready_first = self.ready_first;
        self.ready_first = !ready_first;
        if ready_first {
            let watched = self.watched.clone();
            for place in 0..self.rows.len() {
                if self.is_closed(place) {
                    self.watched.set(number_of(place), Interest::NONE);
                }
            }
            self.report_ready(events);
            self.watched = watched;
            self.report_closed(events);
        } else {
            self.report_closed(events);
            self.report_ready(events);
        }
    }

    /// Reports present readiness. If an error lasts, a later wait returns it.
    fn report_ready(&mut self, events: &mut EventSink<'_>) {
        if self.call(events, Some(Duration::ZERO)).is_ok() {
            self.report(events);
        }
    }

    fn is_closed(&self, place: usize) -> bool {
        self.rows[place] != VACANT && is_open(number_of(place)) == Err(Errno::BADF)
    }

    /// Reports each descriptor that was closed without being removed, once, and drops it (as
    /// nginx's `ngx_select_repair_fd_sets` does).
    ///
    /// One such descriptor makes every call fail, and the kernel does not report which one it is.
    fn report_closed(&mut self, events: &mut EventSink<'_>) {
        for place in 0..self.rows.len() {
            if events.remaining() == 0 {
                return;
            }
            // Removing the last row shortens the table.
            if place < self.rows.len() && self.is_closed(place) {
                events.push(self.rows[place].key, Ready::ERROR);
                self.remove_row(place);
            }
        }
    }
}

impl Backend for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn add(&mut self, registration: &Registration) -> Result<()> {
        // As on poll and epoll, a number without an open file is refused. A number that is out of
        // range is refused first.
        let place = place(registration.fd).ok_or_else(|| beyond(registration.fd, false))?;
        if place == self.wake_fd {
            // The sets hold a number once, so this would end the watch of the waker.
            return Err(Error::AlreadyWatched {
                fd: registration.fd,
            });
        }
        is_open(registration.fd).map_err(Error::os("fcntl(F_GETFD)"))?;
        self.enter(registration)
    }

    /// Changes the interest. A descriptor that was dropped because it was closed is entered again.
    /// If it is still closed, the next wait reports that again.
    fn modify(&mut self, registration: &Registration) -> Result<()> {
        self.enter(registration)
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        self.remove_before_close(registration);
        Ok(())
    }

    fn remove_before_close(&mut self, registration: &Registration) {
        let Some(place) = place(registration.fd) else {
            return;
        };
        let row = self.rows.get(place);
        if row.is_some_and(|row| row.key == registration.key) {
            self.remove_row(place);
        }
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        match self.call(&mut events, timeout) {
            Ok(()) => self.report(&mut events),
            // A registered descriptor was closed. The call then looks at no descriptor.
            Err(Errno::BADF) => {
                self.report_with_closed(&mut events);
                if events.events().is_empty() && !events.events().was_woken() {
                    // A descriptor was closed during the call and is open now, because another
                    // thread closes registered descriptors.
                    return Err(Error::os("select")(Errno::BADF));
                }
            }
            Err(errno) => return Err(Error::of_wait("select", errno)),
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

impl fmt::Debug for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = self.rows.iter().filter(|row| **row != VACANT);
        f.debug_struct("Select")
            .field("watched", &watched.count())
            .finish_non_exhaustive()
    }
}

/// Returns the row of a descriptor, if the sets can hold it.
fn place(fd: RawFd) -> Option<usize> {
    usize::try_from(fd).ok().filter(|place| *place < SIZE)
}

fn number_of(place: usize) -> RawFd {
    RawFd::try_from(place).expect("places end at the size of the sets")
}

fn beyond(fd: RawFd, of_waker: bool) -> Error {
    Error::BeyondSets {
        fd,
        limit: number_of(SIZE),
        of_waker,
        available: super::AVAILABLE,
    }
}

#[cfg(test)]
mod tests;
