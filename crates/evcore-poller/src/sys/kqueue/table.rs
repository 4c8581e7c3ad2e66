//! What each id is to have in the kernel, what it has there, and what the kernel said of it.
//!
//! There is no queue of changes. A change is the difference of what is wanted and what is known to
//! be there, looked at when a wait begins: so what was taken back before is no difference, and
//! what a failed call did not make is still one. No call is made from this file.

use std::os::fd::RawFd;

use super::kernel::{Change, Event, Filter, Ident, filters, flag};
use crate::{EventSink, Interest, Mode, Ready, Registration};

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
    /// Ids of which the kernel may have to be told something.
    // Invariant: an id is here exactly if its row says `dirty`, so each is here at most once.
    dirty: Vec<u32>,
    /// Ids of which there is something to report, in the order of arrival.
    // Invariant: an id is here exactly if its row has `found` something, so each at most once.
    news: Vec<u32>,
    /// Knotes that nobody wants and that reported: to be dropped.
    // Invariant: empty when a wait has ended, since what it names may then be wanted again. It is
    // told in the same wait: a stray has taken the place of an event, so there is room.
    strays: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Row {
    key: u64,
    /// [`VACANT`]: there is no registration.
    fd: RawFd,
    /// What the kernel is to watch for.
    wanted: Interest,
    /// What it has a knote for.
    known: Interest,
    mode: Mode,
    dirty: bool,
    /// A `Oneshot` that has reported. Its knotes are there until the next change of the row.
    spent: bool,
    /// What the kernel said since the last report.
    found: Ready,
    available: Option<u32>,
}

/// No descriptor.
const VACANT: RawFd = -1;

impl Table {
    /// Enters what the kernel has just been told.
    pub(super) fn enter(&mut self, new: &Registration) {
        self.begin(new).known = new.interest;
    }

    /// Wants something else, and a one-shot again; or something for the first time.
    pub(super) fn modify(&mut self, new: &Registration) {
        let row = self.rows.get_mut(new.id());
        // One that wanted nothing may have ended, and another begun, without a word of the front's.
        let is_same = |row: &&mut Row| (row.key, row.fd, row.mode) == (new.key, new.fd, new.mode);
        match row.filter(is_same) {
            Some(row) => row.wanted = new.interest,
            None => self.begin(new).known = Interest::NONE,
        }
        if new.interest.is_empty() {
            self.forget_news(id_of(new));
        }
        self.touch(id_of(new));
    }

    /// A row for a registration. There may be that of one which wanted nothing in the end: of its
    /// end the front says nothing. (A knote that a failed call has left of it is a stray then.)
    fn begin(&mut self, new: &Registration) -> &mut Row {
        let id = new.id();
        if self.rows.len() <= id {
            self.rows.resize(id + 1, Row::VACANT);
        }
        let row = &mut self.rows[id];
        debug_assert!(row.wanted.is_empty(), "the front adds an id once");
        if !row.found.is_empty() {
            self.news.retain(|other| *other != id_of(new));
        }
        *row = Row {
            key: new.key,
            fd: new.fd,
            wanted: new.interest,
            mode: new.mode,
            // An id may still be in the list of the registration before.
            dirty: row.dirty,
            ..Row::VACANT
        };
        row
    }

    /// Ends a registration. Returns what the kernel has of it.
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

    /// Appends what the kernel is to be told.
    pub(super) fn changes(&mut self, changes: &mut Vec<Change>) {
        changes.append(&mut self.strays);
        for id in &self.dirty {
            self.rows[*id as usize].changes(*id, changes);
        }
    }

    /// The kernel was told.
    pub(super) fn settle(&mut self) {
        for id in self.dirty.drain(..) {
            let row = &mut self.rows[id as usize];
            row.dirty = false;
            row.spent = false;
            row.known = row.wanted;
        }
    }

    /// Takes in what the kernel said.
    pub(super) fn gather(&mut self, event: &Event) {
        match event.receipt() {
            None => self.gather_readiness(event),
            Some(Err(_)) if event.is_broken_pipe() => self.gather_broken_pipe(event),
            Some(Err(_)) => self.gather_refusal(event),
            Some(Ok(())) => {}
        }
    }

    /// Takes in that the kernel has no knote for writing, although that is wanted: the next wait
    /// asks again.
    pub(super) fn lack_writing(&mut self, registration: &Registration) {
        let id = id_of(registration);
        let row = &mut self.rows[id as usize];
        row.known = row.known - Interest::WRITE;
        self.touch(id);
    }

    /// What an earlier wait had no room for must not take the place of other news, once nothing is
    /// asked for any more.
    fn forget_news(&mut self, id: u32) {
        let row = &mut self.rows[id as usize];
        if !std::mem::replace(&mut row.found, Ready::NONE).is_empty() {
            row.available = None;
            self.news.retain(|news| *news != id);
        }
    }

    /// Whether a knote reported that nobody wants.
    pub(super) fn has_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// How many ids there is something to report of.
    pub(super) fn news(&self) -> usize {
        self.news.len()
    }

    /// Puts the first `count` that there is something to report of behind the others.
    pub(super) fn put_last(&mut self, count: usize) {
        self.news.rotate_left(count);
    }

    /// Reports as much as there is room for.
    pub(super) fn report(&mut self, events: &mut EventSink<'_>) {
        let count = events.remaining().min(self.news.len());
        for id in self.news.drain(..count) {
            let row = &mut self.rows[id as usize];
            let ready = std::mem::replace(&mut row.found, Ready::NONE);
            events.push_with_available(row.key, ready, row.available.take());
            // The knote of a broken pipe: what holds is to be reported by the next wait too.
            if row.mode == Mode::Level && row.known != row.wanted && !row.dirty {
                row.dirty = true;
                self.dirty.push(id);
            }
        }
    }

    fn gather_readiness(&mut self, event: &Event) {
        let side = event.filter.side();
        // There may be a knote although the kernel has said that there is none.
        let Some(row) = self.row_of(event, |row| row.known | row.wanted) else {
            // Its registration was forgotten, and the descriptor not closed after all.
            self.strays.push(Change {
                ident: event.ident,
                filter: event.filter,
                flags: flag::DELETE,
                id: event.id,
            });
            return;
        };
        if event.filter == Filter::Read {
            // Ready without a byte is an end or an error, which a read is to find: no hint.
            row.available = u32::try_from(event.data).ok().filter(|bytes| *bytes > 0);
        }
        row.known = if event.flags & flag::ONESHOT == 0 {
            row.known | side
        } else {
            row.known - side
        };
        self.spend(event.id);
        self.tell(event.id, readiness(event));
    }

    /// There is no knote, so this is what it would have reported.
    fn gather_broken_pipe(&mut self, event: &Event) {
        let side = event.filter.side();
        let Some(row) = self.row_of(event, |row| row.known) else {
            return;
        };
        row.known = row.known - side;
        self.spend(event.id);
        self.tell(event.id, Ready::WRITABLE | Ready::WRITE_CLOSED);
    }

    /// A `Oneshot` has reported: neither of its filters is to report again.
    fn spend(&mut self, id: u32) {
        let row = &mut self.rows[id as usize];
        if row.mode == Mode::Oneshot {
            row.wanted = Interest::NONE;
            row.spent = true;
            self.touch(id);
        }
    }

    /// What is refused to one filter ends its registration: it falls silent after the news.
    ///
    /// A knote that could not be dropped is not there, which is all that was asked.
    fn gather_refusal(&mut self, event: &Event) {
        let side = event.filter.side();
        let Some(row) = self.row_of(event, |row| row.known) else {
            return;
        };
        row.known = row.known - side;
        row.wanted = Interest::NONE;
        self.touch(event.id);
        self.tell(event.id, Ready::ERROR);
    }

    /// The row that an event is about, if the event's side is among `sides` of the row.
    fn row_of(&mut self, event: &Event, sides: impl Fn(&Row) -> Interest) -> Option<&mut Row> {
        let row = self.rows.get_mut(event.id as usize)?;
        let is_its = row.fd == event.ident.fd() && sides(row).contains(event.filter.side());
        is_its.then_some(row)
    }

    fn tell(&mut self, id: u32, ready: Ready) {
        let row = &mut self.rows[id as usize];
        if row.found.is_empty() {
            self.news.push(id);
        }
        row.found |= ready;
    }

    fn touch(&mut self, id: u32) {
        let row = &mut self.rows[id as usize];
        if !row.dirty {
            row.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Panics where an invariant does not hold.
    #[cfg(test)]
    pub(super) fn verify(&self) {
        assert!(self.strays.is_empty(), "no wait is under way");
        let count = |list: &[u32], id: usize| list.iter().filter(|it| **it as usize == id).count();
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
        available: None,
    };

    fn changes(&self, id: u32, changes: &mut Vec<Change>) {
        if self.wanted == self.known && !self.spent {
            return;
        }
        let missing = match self.mode {
            // A change of interest needs_scan at everything afresh, as on epoll.
            Mode::Edge => self.wanted,
            // So does arming again what has reported.
            Mode::Oneshot if self.spent => self.wanted,
            Mode::Level | Mode::Oneshot => self.wanted - self.known,
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
        Mode::Level => 0,
        Mode::Edge | Mode::Oneshot => flag::CLEAR,
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

/// The low half of the key, as the kernel is given it.
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
