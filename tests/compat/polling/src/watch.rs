//! Our poller for a caller that names registrations by descriptor, and the tables that this needs.
//!
//! A caller of `polling` may give two descriptors one key, may change a key, and uses all bits of a
//! key. So the id in our poller is the descriptor itself, which is small and unique. The caller's
//! key is looked up when an event comes. The high half of our key is a generation, so an event that
//! outlived its registration finds nothing.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    time::Duration,
};

use evcore_poller::Mode;

use crate::{Event, Events, PollMode, under_test};

#[derive(Debug)]
pub(crate) struct Watch {
    poller: evcore_poller::Poller,
    rows: HashMap<RawFd, Row>,
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// The key in our poller.
    ours: u64,
    /// The caller's key.
    theirs: usize,
    mode: Mode,
}

impl Watch {
    pub(crate) fn new(poller: evcore_poller::Poller) -> Self {
        Self {
            poller,
            rows: HashMap::new(),
            generation: 0,
        }
    }

    pub(crate) fn poller(&self) -> &evcore_poller::Poller {
        &self.poller
    }

    /// Begins to watch. Our poller makes no system call for an empty interest, so the kernel may
    /// refuse only a later interest, by an event.
    pub(crate) fn add(
        &mut self,
        fd: BorrowedFd<'_>,
        interest: Event,
        mode: PollMode,
    ) -> io::Result<()> {
        let mode = mode.ours(self.poller.backend().capabilities())?;
        if self.rows.contains_key(&fd.as_raw_fd()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.insert(fd, interest, mode)
    }

    pub(crate) fn modify(
        &mut self,
        fd: BorrowedFd<'_>,
        interest: Event,
        mode: PollMode,
    ) -> io::Result<()> {
        let mode = mode.ours(self.poller.backend().capabilities())?;
        let row = self.row(fd)?;
        if mode == row.mode && mode != Mode::Edge {
            row.theirs = interest.key;
            let ours = row.ours;
            return Ok(self.poller.modify(ours, interest.interest())?);
        }
        // A registration's mode in our poller cannot change. Also, our `Edge` reports lasting
        // readiness only after a change of the interest, but `polling` reports it after every
        // `modify`.
        self.delete(fd)?;
        self.insert(fd, interest, mode)
    }

    pub(crate) fn delete(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let ours = self.row(fd)?.ours;
        self.rows.remove(&fd.as_raw_fd());
        Ok(self.poller.remove(ours)?)
    }

    /// Waits, and appends the events with the caller's keys.
    pub(crate) fn wait(
        &mut self,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let waited = self.poller.wait(&mut events.raw, timeout);
        under_test::count_a_wait(self.poller.backend().name());
        waited?;
        for position in 0..events.raw.len() {
            let event = events.raw.get(position).expect("below the length");
            if let Some(theirs) = self.theirs(event.key) {
                events.push(Event::reported(theirs, event.ready));
            }
        }
        Ok(())
    }

    fn insert(&mut self, fd: BorrowedFd<'_>, interest: Event, mode: Mode) -> io::Result<()> {
        self.generation = self.generation.wrapping_add(1);
        let ours = (u64::from(self.generation) << 32) | u64::from(id(fd.as_raw_fd()));
        self.poller.add(&fd, ours, interest.interest(), mode)?;
        let row = Row {
            ours,
            theirs: interest.key,
            mode,
        };
        self.rows.insert(fd.as_raw_fd(), row);
        Ok(())
    }

    fn row(&mut self, fd: BorrowedFd<'_>) -> io::Result<&mut Row> {
        let row = self.rows.get_mut(&fd.as_raw_fd());
        row.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The caller's key, if the registration still lives.
    fn theirs(&self, ours: u64) -> Option<usize> {
        let fd = RawFd::try_from(ours & u64::from(u32::MAX)).ok()?;
        let row = self.rows.get(&fd).filter(|row| row.ours == ours)?;
        Some(row.theirs)
    }
}

fn id(fd: RawFd) -> u32 {
    u32::try_from(fd).expect("a descriptor that is open is not negative")
}
