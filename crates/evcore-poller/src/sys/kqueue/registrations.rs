//! The kqueue backend's table of registrations. For each id it has the wanted state, the kernel's
//! present state, and the kernel's report that no wait has returned yet.
//!
//! The table has no queue of changes. A change is the difference between the wanted state and the
//! kernel's present state, computed when a wait begins. So a change that was undone is left out,
//! and a change that a failed call did not apply is made again. This file makes no system call.

use std::os::fd::RawFd;

use super::kernel::{Change, Event, Filter, Ident, filters, flag};
use crate::{
    backend::Registration,
    event_sink::EventSink,
    growth,
    interest::{Interest, Mode},
    ready::Ready,
};

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
    /// The ids whose rows may differ from the kernel's state.
    // Invariant: an id is here exactly if its row is `dirty`, so each is here at most once.
    dirty: Vec<u32>,
    /// The ids that have something to report, in the order of arrival.
    // Invariant: an id is here exactly if its row has `found` something, so each at most once.
    news: Vec<u32>,
    /// Changes that drop strays: knotes without a registration, which have reported. (A knote is
    /// the kernel's watch of one side of a descriptor.)
    // Invariant: empty when a wait has ended, because a new registration may want the same knote
    // then. The wait that finds the strays also applies these changes. There is room for them,
    // because each stray has taken the place of an event.
    strays: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Row {
    key: u64,
    /// The descriptor; [`VACANT`] without a registration.
    fd: RawFd,
    /// The interest that the kernel should have.
    wanted: Interest,
    /// The interest for which the kernel has knotes.
    known: Interest,
    mode: Mode,
    dirty: bool,
    /// True if the knotes exist, and must be made again, because a `Oneshot` has fired or the
    /// caller wants another report.
    spent: bool,
    /// The readiness that the kernel has reported, and that no wait has returned yet.
    found: Ready,
}

const VACANT: RawFd = -1;

impl Table {
    /// Enters a registration that the kernel has just accepted.
    pub(super) fn enter(&mut self, new: &Registration) {
        self.begin(new).known = new.interest;
    }

    /// Changes the wanted interest of a registration, and arms a one-shot again. Enters the
    /// registration if it is new, and returns whether it is.
    pub(super) fn modify(&mut self, new: &Registration) -> bool {
        let row = self.rows.get_mut(new.id());
        // A registration may begin without a call, because its interest is empty.
        let is_same = |row: &&mut Row| (row.key, row.fd, row.mode) == (new.key, new.fd, new.mode);
        let row = row.filter(is_same);
        let is_new = row.is_none();
        match row {
            Some(row) => row.wanted = new.interest,
            None => self.begin(new).known = Interest::NONE,
        }
        self.drop_unwanted_reports(id_of(new), new.interest);
        self.mark_dirty(id_of(new));
        is_new
    }

    /// Makes the knotes again, which evaluates the descriptor afresh.
    pub(super) fn renew(&mut self, registration: &Registration) {
        if registration.mode != Mode::Level {
            self.rows[registration.id()].spent = true;
        }
    }

    /// Begins the row of a registration. If a failed call has left a knote of an earlier one, that
    /// knote is now a stray.
    fn begin(&mut self, new: &Registration) -> &mut Row {
        let id = new.id();
        growth::lengthen(&mut self.rows, id + 1, Row::VACANT);
        let row = &mut self.rows[id];
        debug_assert!(row.wanted.is_empty(), "the poller adds an id once");
        if !row.found.is_empty() {
            self.news.retain(|other| *other != id_of(new));
        }
        *row = Row {
            key: new.key,
            fd: new.fd,
            wanted: new.interest,
            mode: new.mode,
            // The previous registration of this id may have left it among the dirty ids.
            dirty: row.dirty,
            ..Row::VACANT
        };
        row
    }

    /// Ends a registration. Returns the interest for which the kernel has knotes.
    pub(super) fn leave(&mut self, old: &Registration) -> Interest {
        let id = id_of(old);
        let Some(row) = self.rows.get_mut(old.id()) else {
            return Interest::NONE;
        };
        let vacant = Row {
            dirty: row.dirty,
            ..Row::VACANT
        };
        let row = std::mem::replace(row, vacant);
        if !row.found.is_empty() {
            self.news.retain(|other| *other != id);
        }
        row.known
    }

    pub(super) fn changes(&mut self, changes: &mut Vec<Change>) {
        changes.append(&mut self.strays);
        for id in &self.dirty {
            self.rows[*id as usize].changes(*id, changes);
        }
    }

    /// Records that the kernel has received all changes.
    pub(super) fn mark_applied(&mut self) {
        for id in self.dirty.drain(..) {
            let row = &mut self.rows[id as usize];
            row.dirty = false;
            row.spent = false;
            row.known = row.wanted;
        }
    }

    pub(super) fn collect(&mut self, event: &Event) {
        match event.receipt() {
            None => self.collect_readiness(event),
            Some(Err(_)) if event.is_broken_pipe() => self.collect_broken_pipe(event),
            Some(Err(_)) => self.collect_refusal(event),
            Some(Ok(())) => {}
        }
    }

    /// Records that the kernel has no knote for writing, although it is wanted. The next wait tries
    /// again.
    pub(super) fn mark_write_missing(&mut self, registration: &Registration) {
        let id = id_of(registration);
        let row = &mut self.rows[id as usize];
        row.known -= Interest::WRITE;
        self.mark_dirty(id);
    }

    /// Drops unreported news that is out of date, because it must not take the place of other
    /// events: readiness that includes a side that is not watched any more, and the refusal of a
    /// change that is made again. The kernel reports afresh a side that is still watched.
    fn drop_unwanted_reports(&mut self, id: u32, interest: Interest) {
        let row = &mut self.rows[id as usize];
        if row.found.is_empty() {
            return;
        }
        // A socket's error comes with an end; a refusal does not.
        let is_end = row.found.is_read_closed() || row.found.is_write_closed();
        let refusal = if is_end { Ready::NONE } else { Ready::ERROR };
        row.found = Ready::from_bits_truncate(row.found.bits() & !refusal.bits());
        if row.found.is_empty() || interest.is_empty() || !interest.contains(row.found.answered()) {
            row.found = Ready::NONE;
            self.news.retain(|news| *news != id);
        }
    }

    pub(super) fn has_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// Returns the number of ids that have something to report.
    pub(super) fn news(&self) -> usize {
        self.news.len()
    }

    /// Puts the first `count` ids that have something to report behind the others.
    pub(super) fn put_last(&mut self, count: usize) {
        self.news.rotate_left(count);
    }

    pub(super) fn report(&mut self, events: &mut EventSink<'_>) {
        let count = events.remaining().min(self.news.len());
        for id in self.news.drain(..count) {
            let row = &mut self.rows[id as usize];
            let ready = std::mem::replace(&mut row.found, Ready::NONE);
            events.push(row.key, ready);
            // A broken pipe has no knote. The next wait must report it too.
            if row.mode == Mode::Level && row.known != row.wanted && !row.dirty {
                row.dirty = true;
                growth::push(&mut self.dirty, id);
            }
        }
    }

    fn collect_readiness(&mut self, event: &Event) {
        let side = event.filter.side();
        // A knote may exist although the kernel has refused it.
        let Some(row) = self.row_of(event, |row| row.known | row.wanted) else {
            // The registration was removed before a close, and the descriptor was not closed.
            self.strays.push(Change {
                ident: event.ident,
                filter: event.filter,
                flags: flag::DELETE,
                id: event.id,
            });
            return;
        };
        row.known = if event.flags & flag::ONESHOT == 0 {
            row.known | side
        } else {
            row.known - side
        };
        self.spend(event.id);
        self.note(event.id, readiness(event));
    }

    /// Reports a hang-up, because the kernel refuses a knote for a pipe without a reader.
    fn collect_broken_pipe(&mut self, event: &Event) {
        let side = event.filter.side();
        let Some(row) = self.row_of(event, |row| row.known) else {
            return;
        };
        row.known -= side;
        self.spend(event.id);
        self.note(event.id, Ready::WRITABLE | Ready::WRITE_CLOSED);
    }

    /// Disarms a `Oneshot` that has fired, because neither of its filters may report again.
    fn spend(&mut self, id: u32) {
        let row = &mut self.rows[id as usize];
        if row.mode == Mode::Oneshot {
            row.wanted = Interest::NONE;
            row.spent = true;
            self.mark_dirty(id);
        }
    }

    /// Ends the watch of a registration if a filter was refused. The registration reports the
    /// error, and then nothing.
    ///
    /// If dropping a knote was refused, the knote does not exist, as intended.
    fn collect_refusal(&mut self, event: &Event) {
        let side = event.filter.side();
        let Some(row) = self.row_of(event, |row| row.known) else {
            return;
        };
        row.known -= side;
        row.wanted = Interest::NONE;
        self.mark_dirty(event.id);
        self.note(event.id, Ready::ERROR);
    }

    /// Returns the row of an event, if the event's side is among `sides` of the row.
    fn row_of(&mut self, event: &Event, sides: impl Fn(&Row) -> Interest) -> Option<&mut Row> {
        let row = self.rows.get_mut(event.id as usize)?;
        let is_its = row.fd == event.ident.fd() && sides(row).contains(event.filter.side());
        is_its.then_some(row)
    }

    fn note(&mut self, id: u32, ready: Ready) {
        let row = &mut self.rows[id as usize];
        if row.found.is_empty() {
            growth::push(&mut self.news, id);
        }
        row.found |= ready;
    }

    fn mark_dirty(&mut self, id: u32) {
        let row = &mut self.rows[id as usize];
        if !row.dirty {
            row.dirty = true;
            growth::push(&mut self.dirty, id);
        }
    }

    #[cfg(test)]
    pub(super) fn verify(&self) {
        assert!(self.strays.is_empty(), "no wait is under way");
        let count =
            |list: &[u32], id: usize| list.iter().filter(|listed| **listed as usize == id).count();
        for (id, row) in self.rows.iter().enumerate() {
            assert_eq!(count(&self.dirty, id), usize::from(row.dirty), "id {id}");
            assert_eq!(count(&self.news, id), usize::from(!row.found.is_empty()));
            assert!(row.fd != VACANT || row.wanted.is_empty() && row.known.is_empty());
        }
    }
}

impl Row {
    const VACANT: Self = Self {
        key: 0,
        fd: VACANT,
        wanted: Interest::NONE,
        known: Interest::NONE,
        mode: Mode::Level,
        dirty: false,
        spent: false,
        found: Ready::NONE,
    };

    fn changes(&self, id: u32, changes: &mut Vec<Change>) {
        if self.wanted == self.known && !self.spent {
            return;
        }
        let missing = match self.mode {
            // A change of interest reports everything afresh, as on epoll.
            Mode::Edge | Mode::ExclusiveEdge => self.wanted,
            // Arming a one-shot that has fired does so too.
            Mode::Oneshot if self.spent => self.wanted,
            Mode::Level | Mode::Exclusive | Mode::Oneshot => self.wanted - self.known,
        };
        changes.extend(drops(self.fd, id, self.known - self.wanted));
        changes.extend(makes(self.fd, id, missing, self.mode));
    }
}

/// The changes that make knotes.
pub(super) fn makes(
    fd: RawFd,
    id: u32,
    interest: Interest,
    mode: Mode,
) -> impl Iterator<Item = Change> {
    let how = match mode {
        Mode::Level | Mode::Exclusive => 0,
        Mode::Edge | Mode::ExclusiveEdge | Mode::Oneshot => flag::CLEAR,
    };
    filters(interest).map(move |filter| Change {
        ident: Ident::new(fd),
        filter,
        flags: flag::ADD | how,
        id,
    })
}

/// The changes that drop knotes.
pub(super) fn drops(fd: RawFd, id: u32, interest: Interest) -> impl Iterator<Item = Change> {
    filters(interest).map(move |filter| Change {
        ident: Ident::new(fd),
        filter,
        flags: flag::DELETE,
        id,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the low half of 64 bits")]
pub(super) const fn id_of(registration: &Registration) -> u32 {
    registration.key as u32
}

fn readiness(event: &Event) -> Ready {
    let (side, end) = match event.filter {
        Filter::Read => (Ready::READABLE, Ready::READ_CLOSED),
        Filter::Write => (Ready::WRITABLE, Ready::WRITE_CLOSED),
    };
    if event.flags & flag::EOF == 0 {
        return side;
    }
    let error = if event.fflags == 0 {
        Ready::NONE
    } else {
        Ready::ERROR
    };
    side | end | error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_takes_few_bytes_at_any_number_of_them() {
        let mut table = Table::default();
        for id in 0..20_000 {
            let new = Registration {
                fd: 7,
                key: id,
                interest: Interest::READ,
                ends: Ready::NONE,
                mode: Mode::Level,
            };
            table.enter(&new);
            table.modify(&new);
            let count = table.rows.len();
            let rows = table.rows.capacity() * size_of::<Row>();
            let dirty = table.dirty.capacity() * size_of::<u32>();
            // The limit is 24 and 4 bytes, and a quarter more.
            assert!(
                count < 16 || (rows + dirty).div_ceil(count) <= 35,
                "{count}"
            );
        }
    }
}
