//! select: every Unix but illumos. Level-triggered; the front keeps `Edge` and `Oneshot` by
//! masking.
//!
//! It watches descriptors below 1024 alone, and a wait costs with the highest of them. It says that
//! a read or a write will not block, and no more: what else there is to tell (the end of the
//! stream, a hang-up, an error) the read or the write itself tells. `SO_ERROR` is not asked, since
//! whoever asks it takes the error away from the one whom it concerns. So it cannot be asked for ends
//! alone either: a registration that asks for no readiness is not in the sets.

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
    Backend, Capabilities, Error, EventSink, Interest, Ready, Registration, Result, WakeChannel,
    Waker,
};

/// In `rows`: nobody has registered this descriptor.
const VACANT: Row = Row {
    key: u64::MAX,
    found: Ready::NONE,
};

pub(super) struct Select {
    wake: WakeChannel,
    wake_fd: usize,
    /// What is asked. `select` overwrites what it is given, which is a copy.
    asked: Sets,
    // Invariant: one for each descriptor up to the highest in `asked`, the waker's included.
    rows: Vec<Row>,
    /// Where the next report begins, so that a small event buffer starves nobody.
    report_from: usize,
    /// Whether the next wait that finds closed descriptors reports them behind what is ready.
    ready_first: bool,
}

/// A descriptor, by its number.
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
        let mut asked = Sets::new();
        asked.ask(fd, Interest::READ);
        Ok(Self {
            wake,
            wake_fd,
            asked,
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
        self.asked.ask(fd, registration.interest);
        if registration.interest.is_empty() {
            self.take_out(place);
        }
        Ok(())
    }

    fn take_out(&mut self, place: usize) {
        debug_assert!(place != self.wake_fd, "the waker stays");
        self.asked.ask(number_of(place), Interest::NONE);
        self.rows[place] = VACANT;
        while self.rows.len() > self.wake_fd + 1 && self.rows.last() == Some(&VACANT) {
            self.rows.pop();
        }
    }

    /// Asks the kernel, and notes what it has found. The waker is dealt with.
    fn ask(&mut self, events: &mut EventSink<'_>, timeout: Option<Duration>) -> Result<(), Errno> {
        let mut found = Sets::new();
        chunked_wait(timeout, LONGEST_IN_MS, |piece| {
            found.clone_from(&self.asked);
            found.select(piece)
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

    /// Reports what was found, as far as there is room; the rest holds in the next wait too.
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

    /// Reports what was closed, and what is ready beside it: there is news, so nothing is waited for.
    ///
    /// In turn, one or the other goes first. Otherwise, if as many are closed each time as there is
    /// room for, nothing else would ever be reported.
    fn report_beside_closed(&mut self, events: &mut EventSink<'_>) {
        let ready_first = self.ready_first;
        self.ready_first = !ready_first;
        if ready_first {
            let asked = self.asked.clone();
            for place in 0..self.rows.len() {
                if self.is_closed(place) {
                    self.asked.ask(number_of(place), Interest::NONE);
                }
            }
            self.report_ready(events);
            self.asked = asked;
            self.report_closed(events);
        } else {
            self.report_closed(events);
            self.report_ready(events);
        }
    }

    /// Reports what is ready now. What fails will fail again in the next wait, if it lasts.
    fn report_ready(&mut self, events: &mut EventSink<'_>) {
        if self.ask(events, Some(Duration::ZERO)).is_ok() {
            self.report(events);
        }
    }

    /// Whether this place is taken by a descriptor that was closed.
    fn is_closed(&self, place: usize) -> bool {
        self.rows[place] != VACANT && is_open(number_of(place)) == Err(Errno::BADF)
    }

    /// Reports, once, what was closed without being removed, and lets go of it (nginx: repair).
    ///
    /// One such descriptor fails every call for all, and the kernel does not say which it is.
    fn report_closed(&mut self, events: &mut EventSink<'_>) {
        for place in 0..self.rows.len() {
            if events.remaining() == 0 {
                return;
            }
            // Taking out the last row shortens the table.
            if place < self.rows.len() && self.is_closed(place) {
                events.push(self.rows[place].key, Ready::ERROR);
                self.take_out(place);
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
        // Checked as on poll, and for the same reason. A number that is out of range is refused first:
        // nothing is asked of it.
        let place = place(registration.fd).ok_or_else(|| beyond(registration.fd, false))?;
        if place == self.wake_fd {
            // The sets hold a number once: the waker would be deaf.
            return Err(Error::AlreadyWatched {
                fd: registration.fd,
            });
        }
        is_open(registration.fd).map_err(Error::os("fcntl(F_GETFD)"))?;
        self.enter(registration)
    }

    /// One that was dropped as closed comes back; if it still is, the next wait says so again.
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
            self.take_out(place);
        }
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        match self.ask(&mut events, timeout) {
            Ok(()) => self.report(&mut events),
            Err(Errno::INTR) => return Err(Error::Interrupted),
            Err(Errno::BADF) => {
                self.report_beside_closed(&mut events);
                if events.events().is_empty() && !events.events().was_woken() {
                    // It was closed when the kernel looked, and is open now that we do: another
                    // thread closes what is registered here.
                    return Err(Error::os("select")(Errno::BADF));
                }
            }
            Err(errno) => return Err(Error::os("select")(errno)),
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

/// Where a descriptor is in the table, if the sets hold it.
fn place(fd: RawFd) -> Option<usize> {
    usize::try_from(fd).ok().filter(|place| *place < SIZE)
}

/// The descriptor of a place.
fn number_of(place: usize) -> RawFd {
    RawFd::try_from(place).expect("places end at the size of the sets")
}

fn beyond(fd: RawFd, of_waker: bool) -> Error {
    Error::BeyondSets {
        fd,
        limit: number_of(SIZE),
        of_waker,
    }
}

#[cfg(test)]
mod tests;
