//! The side table: what each id asks for, and what the backend was told of it.
//!
//! Changes are only noted here; [`Registry::next_change`] says what is left of them when a wait
//! begins. Where the kernel has no `Edge` or `Oneshot`, what was reported is masked, and the
//! backend is asked for the rest: of a masked `Edge`, for its ends. No system call is made from this
//! file.

use std::{mem, os::fd::RawFd};

use crate::{
    Capabilities, Error, Event, Interest, MAX_ID, Mode, Ready, Registration, Result, asked::Asked,
    descriptors::Descriptors,
};

/// What the backend is to be told, so that it knows what it should.
#[derive(Debug)]
pub(crate) enum Change {
    Add(Registration),
    Modify(Registration),
    Remove(Registration),
}

impl Change {
    /// Whom it is about.
    pub(crate) fn key(&self) -> u64 {
        let (Self::Add(registration) | Self::Modify(registration) | Self::Remove(registration)) =
            self;
        registration.key
    }
}

#[derive(Debug)]
pub(crate) struct Registry {
    native: Capabilities,
    rows: Vec<Row>,
    // Invariant: those of the live rows, each of which has one of its own.
    descriptors: Descriptors,
    /// Whether events are to be looked at one by one: there are modes that are kept here, one-shots
    /// whose end is to be noted, or registrations that may report more than the backend was told.
    /// Never lowered again: who has one-shots goes on to have them, and a refusal is a rare
    /// mistake.
    looks: bool,
    /// Whether registrations have left without the kernel's word for it, so that it may report
    /// them.
    haunted: bool,
    /// The modes that need nothing here when they report.
    plain: [Mode; 2],
    /// Ids of which the backend may have to be told something.
    // Invariant: an id is here exactly if its row says `dirty`, so each is here at most once.
    dirty: Vec<u32>,
}

/// One row of the table.
#[derive(Clone, Debug)]
struct Row {
    /// [`VACANT`]: there is no registration.
    fd: RawFd,
    /// The high half of the key.
    tag: u32,
    /// What the caller asks.
    wanted: Interest,
    /// What the caller asked when the backend was last told.
    settled: Interest,
    /// What the backend was told; nothing where nobody is registered.
    // Invariant: what there is to report to `settled`, less what was masked when the backend was
    // last told; or nothing, where the backend refused.
    known: Asked,
    /// What was reported and is not to be reported again yet.
    // Invariant: empty where the kernel keeps the mode, but for a `Oneshot` that has reported.
    masked: Asked,
    mode: Mode,
    dirty: bool,
    /// The backend is to be told again, whether the interest has changed or not: its one-shot has
    /// fired, or an error may have been its word that it was refused.
    disarmed: bool,
    exclusive: bool,
}

/// No descriptor.
const VACANT: RawFd = -1;

impl Registry {
    pub(crate) fn new(native: Capabilities) -> Self {
        Self {
            native,
            rows: Vec::new(),
            descriptors: Descriptors::default(),
            looks: !(native.edge && native.oneshot),
            haunted: false,
            plain: [
                Mode::Level,
                if native.edge { Mode::Edge } else { Mode::Level },
            ],
            dirty: Vec::new(),
        }
    }

    pub(crate) fn native(&self) -> Capabilities {
        self.native
    }

    /// How many events of a wait, from the first, are to be looked at, whether they are
    /// [plain](Self::is_plain); fewer where the caller sees those of who is gone.
    pub(crate) fn suspects(&self, sees_gone: bool) -> usize {
        match (self.looks, self.haunted) {
            (false, false) => 0,
            // Where the first is somebody's, the gone are not alone, and so no reason to act.
            (false, true) if sees_gone => 1,
            _ => usize::MAX,
        }
    }

    /// From here on the kernel may report what is not registered any more.
    pub(crate) fn expect_ghosts(&mut self) {
        self.haunted = true;
    }

    /// From here on the kernel may report of a registration what it is not asked any more.
    pub(crate) fn expect_more_than_asked(&mut self) {
        self.looks = true;
    }

    /// Whether neither the id nor the descriptor is registered.
    pub(crate) fn check_vacant(&self, new: &Registration) -> Result<()> {
        let (key, fd) = (new.key, new.fd);
        let (id, _) = split(key);
        if id > MAX_ID {
            return Err(Error::IdTooLarge { key });
        }
        debug_assert_ne!(fd, VACANT, "a borrowed descriptor is never -1");
        match self.rows.get(id as usize) {
            Some(row) if row.is_live() => Err(Error::AlreadyRegistered { key }),
            _ if self.descriptors.contains(fd) => Err(Error::AlreadyWatched { fd }),
            _ => Ok(()),
        }
    }

    /// Enters what the backend was just told, and what must be vacant.
    pub(crate) fn insert(&mut self, registration: &Registration) {
        let (id, tag) = split(registration.key);
        let index = id as usize;
        if self.rows.len() <= index {
            self.rows.resize(index + 1, Row::VACANT);
        }
        self.descriptors.insert(registration.fd);
        self.looks |= registration.mode == Mode::Oneshot;
        let row = &mut self.rows[index];
        debug_assert!(!row.is_live(), "checked before the backend was told");
        *row = Row {
            fd: registration.fd,
            tag,
            wanted: registration.interest,
            settled: registration.interest,
            known: Asked::by(registration.interest),
            mode: registration.mode,
            exclusive: registration.exclusive,
            // An id may still be in the list of the registration before.
            dirty: row.dirty,
            ..Row::VACANT
        };
    }

    /// Ends a registration. Returns what the backend knows of it, if anything.
    pub(crate) fn take_out(&mut self, key: u64) -> Result<Option<Registration>> {
        let row = self.row(key)?;
        let asked = mem::take(&mut row.known);
        let known = row.registration(key, asked);
        row.fd = VACANT;
        self.descriptors.remove(known.fd);
        Ok((!asked.is_empty()).then_some(known))
    }

    pub(crate) fn modify(&mut self, key: u64, interest: Interest) -> Result<()> {
        let row = self.row(key)?;
        row.wanted = interest;
        if row.mode == Mode::Oneshot {
            row.disarmed |= !row.masked.is_empty();
            row.masked = Asked::NOTHING;
        }
        self.touch(key);
        Ok(())
    }

    #[inline]
    pub(crate) fn rearm(&mut self, key: u64, interest: Interest) -> Result<()> {
        let kept_here = !self.native.edge;
        let row = self.row(key)?;
        if kept_here && row.mode == Mode::Edge {
            let answered = Asked::by(interest - (interest - row.wanted));
            // A side that is not asked for just now is unmasked too: that interest may be taken back
            // before the wait. But the backend is told nothing for it: a change that was refused
            // would be refused, and reported, once more.
            row.masked = row.masked - answered - Asked::sides(interest);
            if !answered.is_empty() {
                self.touch(key);
            }
        }
        Ok(())
    }

    /// The next thing that the backend does not know yet. What was taken back is not among them.
    #[inline]
    pub(crate) fn next_change(&mut self) -> Option<Change> {
        while let Some(id) = self.dirty.pop() {
            let row = &mut self.rows[id as usize];
            row.dirty = false;
            if !row.is_live() {
                continue;
            }
            if let Some(change) = row.settle(id, self.native) {
                return Some(change);
            }
        }
        None
    }

    /// The backend refused: it knows nothing of the registration now.
    pub(crate) fn forget_known(&mut self, key: u64) {
        if let Ok(row) = self.row(key) {
            row.known = Asked::NOTHING;
        }
    }

    /// What is reported of a registration whose change the backend refused; nothing where nothing
    /// is asked any more.
    pub(crate) fn refusal(&mut self, key: u64) -> Option<Ready> {
        let wanted = self.row(key).ok()?.wanted;
        (!wanted.is_empty()).then_some(Ready::ERROR | Ready::answering(wanted))
    }

    /// The backend has forgotten everything: what it is to be told again, less the one-shots that
    /// have reported.
    pub(crate) fn begin_anew(&mut self) -> Vec<Registration> {
        self.haunted = false;
        let rows = self.rows.iter_mut().zip(0..);
        rows.filter(|(row, _)| row.is_live())
            .filter_map(|(row, id)| {
                row.known = row.known - row.masked;
                (!row.known.is_empty()).then(|| row.registration(row.key(id), row.known))
            })
            .collect()
    }

    /// Whether an event of `key` is somebody's, and needs nothing if it is not exceptional.
    #[inline]
    pub(crate) fn is_plain(&self, key: u64) -> bool {
        let (id, tag) = split(key);
        self.rows.get(id as usize).is_some_and(|row| {
            let is_known = row.tag == tag && !row.known.is_empty();
            is_known && self.plain.contains(&row.mode)
        })
    }

    /// Adds to an event what the kernel leaves to us: the sides that an error or a hang-up
    /// concerns, and the mask that keeps a mode which it does not have.
    ///
    /// Returns whether the event is anybody's. A kernel may report what is gone, where a duplicate
    /// of its descriptor is open: nothing is asked of that any more.
    pub(crate) fn complete(&mut self, event: &mut Event) -> bool {
        let native = self.native;
        let Ok(row) = self.row(event.key) else {
            return false;
        };
        if row.known.is_empty() {
            return false;
        }
        if event.ready.is_exceptional() {
            event.ready |= Ready::answering(row.wanted);
            row.disarmed |= native.batches_changes && event.ready.is_error();
        }
        let reported = match row.mode {
            Mode::Edge if !native.edge => {
                if event.ready.is_read_closed() {
                    // Behind an unanswered report the end comes alone. A read will not block: it
                    // returns what came before the end, or 0 bytes.
                    event.ready |= Ready::READABLE;
                }
                Asked::reported(event.ready, row.wanted)
            }
            Mode::Oneshot => Asked::by(row.wanted),
            _ => return true,
        };
        row.masked |= reported;
        if !(row.mode == Mode::Oneshot && native.oneshot) {
            self.touch(event.key);
        }
        true
    }

    #[inline]
    fn row(&mut self, key: u64) -> Result<&mut Row> {
        let (id, tag) = split(key);
        match self.rows.get_mut(id as usize) {
            Some(row) if row.is_live() && row.tag == tag => Ok(row),
            _ => Err(Error::NotRegistered { key }),
        }
    }

    #[inline]
    fn touch(&mut self, key: u64) {
        let (id, _) = split(key);
        let row = &mut self.rows[id as usize];
        if !row.dirty {
            row.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Panics where an invariant does not hold.
    #[cfg(test)]
    pub(crate) fn verify(&self) {
        let mut listed = vec![0; self.rows.len()];
        for id in &self.dirty {
            listed[*id as usize] += 1;
        }
        for (id, row) in self.rows.iter().enumerate() {
            assert_eq!(listed[id], usize::from(row.dirty), "id {id}: {row:?}");
            if !row.is_live() {
                assert!(row.known.is_empty(), "id {id}: {row:?}");
                continue;
            }
            let all = Asked::by(row.settled);
            assert!(all.contains(row.known), "id {id}: {row:?}");
            let kept_here = match row.mode {
                Mode::Level => false,
                Mode::Edge => !self.native.edge,
                Mode::Oneshot => true,
            };
            assert!(self.descriptors.contains(row.fd), "id {id}: {row:?}");
            assert!(kept_here || row.masked.is_empty(), "id {id}: {row:?}");
        }
    }
}

impl Row {
    const VACANT: Self = Self {
        fd: VACANT,
        tag: 0,
        wanted: Interest::NONE,
        settled: Interest::NONE,
        known: Asked::NOTHING,
        masked: Asked::NOTHING,
        mode: Mode::Level,
        dirty: false,
        disarmed: false,
        exclusive: false,
    };

    fn is_live(&self) -> bool {
        self.fd != VACANT
    }

    /// Takes the backend to be told, and says what it is to be told, if anything.
    fn settle(&mut self, id: u32, native: Capabilities) -> Option<Change> {
        if self.wanted != self.settled {
            // As where the kernel keeps the mode: a change of interest looks at everything afresh.
            self.masked = Asked::NOTHING;
        }
        let arm_again = mem::take(&mut self.disarmed) && (native.oneshot || native.batches_changes);
        let before = mem::replace(&mut self.known, Asked::by(self.wanted) - self.masked);
        self.settled = self.wanted;

        let key = self.key(id);
        match (before.is_empty(), self.known.is_empty()) {
            (true, true) => None,
            (false, false) if self.known == before && !arm_again => None,
            (true, false) if !native.batches_changes => {
                Some(Change::Add(self.registration(key, self.known)))
            }
            (false, true) if !native.batches_changes => {
                Some(Change::Remove(self.registration(key, before)))
            }
            _ => Some(Change::Modify(self.registration(key, self.known))),
        }
    }

    fn key(&self, id: u32) -> u64 {
        (u64::from(self.tag) << 32) | u64::from(id)
    }

    fn registration(&self, key: u64, asked: Asked) -> Registration {
        Registration {
            fd: self.fd,
            key,
            interest: asked.interest(),
            ends: asked.ends(),
            mode: self.mode,
            exclusive: self.exclusive,
        }
    }
}

/// A key's id and its tag.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
fn split(key: u64) -> (u32, u32) {
    (key as u32, (key >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_as_much_as_the_documentation_says() {
        assert_eq!(size_of::<Row>(), 16);
    }
}
