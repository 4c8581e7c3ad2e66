//! The poller's own table of its registrations (the side table): for each one, the interest, and
//! the part of the interest that the backend watches.
//!
//! Changes are only recorded here. When a wait begins, [`Registry::next_change`] returns those that
//! were not undone. If the kernel has no `Edge` or `Oneshot`, the table *masks* reported sides: the
//! backend watches only the other sides and, for an `Edge`, the ends (half-close, hang-up and
//! error). This file makes no system call.

use std::{mem, os::fd::RawFd};

use crate::{
    backend::{Capabilities, Registration},
    error::{Error, Result},
    event::Event,
    events::Events,
    fd_set::FdSet,
    growth,
    id::MAX_ID,
    interest::{Interest, Mode},
    ready::Ready,
    watch_set::WatchSet,
};

#[derive(Debug)]
pub(crate) enum Change {
    Add(Registration),
    Modify(Registration),
    Reregister(Registration),
    Remove(Registration),
}

impl Change {
    pub(crate) fn key(&self) -> u64 {
        let (Self::Add(registration)
        | Self::Modify(registration)
        | Self::Reregister(registration)
        | Self::Remove(registration)) = self;
        registration.key
    }
}

#[derive(Debug)]
pub(crate) struct Registry {
    capabilities: Capabilities,
    /// The key of each live row. The keys are kept apart from the rows, because each event is
    /// compared with one of them.
    // Invariant: `NO_KEY` if the row is vacant. There are as many keys as `rows`.
    keys: Vec<u64>,
    rows: Vec<Row>,
    // Invariant: these are the descriptors of the live rows, and each belongs to one row only.
    descriptors: FdSet,
    /// True if the kernel may still report registrations that were removed. Only a [rebuilt
    /// set](Self::begin_rebuild) clears it, because no call shows whether a duplicate of a closed
    /// descriptor is open.
    may_report_stale: bool,
    /// Flags of the events that a wait must [complete](Self::complete) before it returns: errors
    /// and hang-ups, or all flags after [`expect_unrequested`](Self::expect_unrequested).
    // The field is as wide as epoll's flags, with which it is compared.
    to_complete: u32,
    /// Ids whose row may differ from the backend's registration.
    // Invariant: an id is here exactly if its row is `dirty`, so each is here at most once.
    dirty: Vec<u32>,
    /// True if work may be needed before the next wait.
    // Invariant: set if a row is dirty, or was refused and not reported.
    needs_attention: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The descriptor; [`VACANT`] if there is no registration.
    fd: RawFd,
    wanted: Interest,
    /// The caller's interest when the row was last passed on to the backend.
    synced: Interest,
    /// The watch set of the backend; empty if the row is vacant.
    // Invariant: the watch set of `synced` without what was masked then; or empty, if the backend
    // refused it.
    in_backend: WatchSet,
    /// The sides and ends that were reported, and must not be reported again yet.
    // Invariant: empty if the kernel has the mode, except for a `Oneshot` that has reported.
    masked: WatchSet,
    mode: Mode,
    dirty: bool,
    renewal: Renewal,
}

/// The reason to pass a row to the backend even if its interest has not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Renewal {
    #[default]
    Unneeded,
    /// The one-shot has fired, or an error event may have been a refusal.
    Disarmed,
    /// The caller has requested another report of lasting readiness.
    Requested,
}

const VACANT: RawFd = -1;

/// The value of a vacant row in place of a key. No key is equal to it, because its low half is
/// above [`MAX_ID`].
const NO_KEY: u64 = u64::MAX;

impl Registry {
    pub(crate) fn new(capabilities: Capabilities) -> Self {
        let mut registry = Self {
            capabilities,
            keys: Vec::new(),
            rows: Vec::new(),
            descriptors: FdSet::default(),
            may_report_stale: false,
            to_complete: Ready::EXCEPTIONAL.bits().into(),
            dirty: Vec::new(),
            needs_attention: false,
        };
        if !(capabilities.edge && capabilities.oneshot) {
            registry.expect_unrequested();
        }
        registry
    }

    #[inline]
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Returns whether a wait may return its only event, which has this `key`, as it is: the event
    /// needs no completion (see [`complete`](Self::complete)), and is not stale.
    #[inline]
    pub(crate) fn is_plain(&self, key: u64, flags: u32) -> bool {
        flags & self.to_complete == 0 && self.is_registered(key)
    }

    /// Returns whether a wait may return these events as they are.
    ///
    /// If stale events alone were returned, they would end every later wait too. So the first event
    /// is checked even in a raw buffer.
    #[inline]
    pub(crate) fn are_plain(&self, events: &Events) -> bool {
        !(events.has_any(self.to_complete) || self.may_report_stale && self.has_stale(events))
    }

    #[inline(never)]
    fn has_stale(&self, events: &Events) -> bool {
        let mut keys = events.keys();
        let first = keys.next();
        first.is_some_and(|key| !self.is_registered(key))
            || !events.is_raw() && keys.any(|key| !self.is_registered(key))
    }

    /// Records that the kernel, if it watches files, may report registrations that were removed.
    #[inline]
    pub(crate) fn expect_stale(&mut self) {
        self.may_report_stale = self.capabilities.watches_files;
    }

    /// Lets waits complete every event from now on, to update masks, and to drop events of
    /// registrations whose interest has become empty.
    ///
    /// This is never undone. The reasons for it last (the kernel lacks a mode, or the program uses
    /// one-shots) or are rare (the kernel has refused a change).
    pub(crate) fn expect_unrequested(&mut self) {
        self.to_complete = Ready::all().bits().into();
    }

    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        self.needs_attention
    }

    pub(crate) fn end_attention(&mut self) {
        debug_assert!(self.dirty.is_empty(), "all were passed on");
        self.needs_attention = false;
    }

    #[inline]
    pub(crate) fn has_room(&self, new: &Registration) -> bool {
        new.id() < self.rows.len() && self.descriptors.has_room(new.fd)
    }

    pub(crate) fn make_room(&mut self, new: &Registration) -> Result<()> {
        if id_of(new.key) > MAX_ID as usize {
            return Err(Error::IdTooLarge { key: new.key });
        }
        growth::lengthen(&mut self.keys, new.id() + 1, NO_KEY);
        growth::lengthen(&mut self.rows, new.id() + 1, Row::VACANT);
        self.descriptors.make_room(new.fd);
        Ok(())
    }

    /// Enters a registration for which there is [room](Self::has_room), unless its id or its
    /// descriptor is registered.
    #[inline(always)] // so that the registration is not copied
    pub(crate) fn insert(&mut self, new: &Registration) -> Result<()> {
        let id = id_of(new.key);
        if self.keys[id] != NO_KEY {
            return Err(Error::AlreadyRegistered { key: new.key });
        }
        debug_assert_ne!(new.fd, VACANT, "a borrowed descriptor is never -1");
        if !self.descriptors.insert(new.fd) {
            return Err(Error::AlreadyWatched { fd: new.fd });
        }
        self.keys[id] = new.key;
        let row = &mut self.rows[id];
        *row = Row {
            fd: new.fd,
            wanted: new.interest,
            synced: new.interest,
            in_backend: WatchSet::of(new.interest),
            mode: new.mode,
            // The previous registration of this id may have left it among the dirty ids.
            dirty: row.dirty,
            ..Row::VACANT
        };
        if new.mode == Mode::Oneshot {
            self.expect_unrequested();
        }
        Ok(())
    }

    #[inline(always)] // so that the row is not copied
    pub(crate) fn take(&mut self, key: u64) -> Option<Row> {
        if !self.is_registered(key) {
            return None;
        }
        let id = id_of(key);
        self.keys[id] = NO_KEY;
        let row = self.rows.get_mut(id)?;
        // The descriptor is removed first, so that no part of the row is live across that call.
        self.descriptors.remove(row.fd);
        let ended = row.clone();
        row.in_backend = WatchSet::EMPTY;
        row.fd = VACANT;
        Some(ended)
    }

    pub(crate) fn modify(&mut self, key: u64, interest: Interest) -> Result<()> {
        let row = self.row(key)?;
        row.wanted = interest;
        if row.mode == Mode::Oneshot {
            if !row.masked.is_empty() {
                row.disarm();
            }
            row.masked = WatchSet::EMPTY;
        }
        self.mark_dirty(key);
        Ok(())
    }

    pub(crate) fn reregister(&mut self, key: u64) -> Result<()> {
        let row = self.row(key)?;
        // Each wait evaluates a `Level` again anyway.
        if row.mode != Mode::Level {
            row.renewal = Renewal::Requested;
            self.mark_dirty(key);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn rearm(&mut self, key: u64, interest: Interest) -> Result<()> {
        let is_emulated = !self.capabilities.edge;
        let row = self.row(key)?;
        if is_emulated && row.mode.is_edge() {
            let answered = WatchSet::of(interest - (interest - row.wanted));
            // A side outside of the present interest is unmasked too, because the change that has
            // removed the side may be undone before the wait. But such a side alone does not mark
            // the row as dirty, because a refused registration would be passed on, refused and
            // reported again.
            row.masked = row.masked - answered - WatchSet::sides_of(interest);
            if !answered.is_empty() {
                self.mark_dirty(key);
            }
        }
        Ok(())
    }

    /// Returns the next change that the backend needs. A change that was undone is left out.
    #[inline]
    pub(crate) fn next_change(&mut self) -> Option<Change> {
        while let Some(id) = self.dirty.pop() {
            let row = &mut self.rows[id as usize];
            row.dirty = false;
            if !row.is_live() {
                continue;
            }
            if let Some(change) = row.sync(self.keys[id as usize], self.capabilities) {
                return Some(change);
            }
        }
        None
    }

    /// Records that the backend has refused the registration, and so does not watch it.
    pub(crate) fn clear_in_backend(&mut self, key: u64) {
        if let Ok(row) = self.row(key) {
            row.in_backend = WatchSet::EMPTY;
        }
        self.needs_attention = true;
    }

    /// Returns the readiness to report for a registration whose change the backend has refused;
    /// `None` if its interest is empty.
    pub(crate) fn refusal(&mut self, key: u64) -> Option<Ready> {
        let wanted = self.row(key).ok()?.wanted;
        (!wanted.is_empty()).then_some(Ready::ERROR | Ready::answering(wanted))
    }

    /// Returns the registrations to add to a backend that was just reset: all that it should watch,
    /// except one-shots that have reported.
    pub(crate) fn begin_rebuild(&mut self) -> Vec<Registration> {
        self.may_report_stale = false;
        let rows = self.rows.iter_mut().zip(&self.keys);
        rows.filter(|(row, _)| row.is_live())
            .filter_map(|(row, key)| {
                row.in_backend = row.in_backend - row.masked;
                row.is_in_backend().then(|| row.known(*key))
            })
            .collect()
    }

    #[inline]
    fn is_registered(&self, key: u64) -> bool {
        self.keys.get(id_of(key)) == Some(&key)
    }

    /// Completes an event: adds the sides that an error or a hang-up concerns, and updates the mask
    /// of the row. Returns false if the event must be dropped, because the backend should not watch
    /// its registration.
    pub(crate) fn complete(&mut self, event: &mut Event) -> bool {
        let capabilities = self.capabilities;
        let Ok(row) = self.row(event.key) else {
            return false;
        };
        if !row.is_in_backend() {
            return false;
        }
        if event.ready.is_exceptional() {
            event.ready |= Ready::answering(row.wanted);
            if capabilities.batches_changes && event.ready.is_error() {
                row.disarm();
            }
        }
        let reported = match row.mode {
            mode if mode.is_edge() && !capabilities.edge => {
                if event.ready.is_read_closed() {
                    // After an unanswered report the end comes without `READABLE`. A read does not
                    // block, because it returns the data before the end, or 0 bytes.
                    event.ready |= Ready::READABLE;
                }
                WatchSet::reported(event.ready, row.wanted)
            }
            Mode::Oneshot => WatchSet::of(row.wanted),
            _ => return true,
        };
        row.masked |= reported;
        if !(row.mode == Mode::Oneshot && capabilities.oneshot) {
            self.mark_dirty(event.key);
        }
        true
    }

    #[inline]
    fn row(&mut self, key: u64) -> Result<&mut Row> {
        self.row_mut(key).ok_or(Error::NotRegistered { key })
    }

    #[inline]
    fn row_mut(&mut self, key: u64) -> Option<&mut Row> {
        if !self.is_registered(key) {
            return None;
        }
        self.rows.get_mut(id_of(key))
    }

    #[inline]
    fn mark_dirty(&mut self, key: u64) {
        let row = &mut self.rows[id_of(key)];
        if !row.dirty {
            row.dirty = true;
            growth::push(&mut self.dirty, low_half(key));
            self.needs_attention = true;
        }
    }

    #[cfg(test)]
    pub(crate) fn verify(&self) {
        assert!(self.needs_attention || self.dirty.is_empty());
        let mut listed = vec![0; self.rows.len()];
        for id in &self.dirty {
            listed[*id as usize] += 1;
        }
        for (id, row) in self.rows.iter().enumerate() {
            assert_eq!(listed[id], usize::from(row.dirty), "id {id}: {row:?}");
            let holds_key = id_of(self.keys[id]) == id;
            assert_eq!(holds_key, row.is_live(), "id {id}: {row:?}");
            if !row.is_live() {
                assert!(row.in_backend.is_empty(), "id {id}: {row:?}");
                continue;
            }
            let all = WatchSet::of(row.synced);
            assert!(all.contains(row.in_backend), "id {id}: {row:?}");
            let is_emulated = match row.mode {
                Mode::Level | Mode::Exclusive => false,
                Mode::Edge | Mode::ExclusiveEdge => !self.capabilities.edge,
                Mode::Oneshot => true,
            };
            assert!(self.descriptors.contains(row.fd), "id {id}: {row:?}");
            assert!(is_emulated || row.masked.is_empty(), "id {id}: {row:?}");
        }
    }
}

impl Row {
    const VACANT: Self = Self {
        fd: VACANT,
        wanted: Interest::NONE,
        synced: Interest::NONE,
        in_backend: WatchSet::EMPTY,
        masked: WatchSet::EMPTY,
        mode: Mode::Level,
        dirty: false,
        renewal: Renewal::Unneeded,
    };

    fn is_live(&self) -> bool {
        self.fd != VACANT
    }

    /// Records that the backend may have stopped watching the registration.
    fn disarm(&mut self) {
        if self.renewal == Renewal::Unneeded {
            self.renewal = Renewal::Disarmed;
        }
    }

    /// Marks the row as passed to the backend, and returns the change that this needs, if any.
    fn sync(&mut self, key: u64, capabilities: Capabilities) -> Option<Change> {
        let renewal = mem::take(&mut self.renewal);
        if self.wanted != self.synced || renewal == Renewal::Requested {
            // As in a kernel that has the mode, everything that is ready is reported again after a
            // change of interest.
            self.masked = WatchSet::EMPTY;
        }
        let arm_again = match renewal {
            Renewal::Unneeded => false,
            Renewal::Disarmed => capabilities.oneshot || capabilities.batches_changes,
            Renewal::Requested => true,
        };
        let before = mem::replace(
            &mut self.in_backend,
            WatchSet::of(self.wanted) - self.masked,
        );
        self.synced = self.wanted;

        match (before.is_empty(), self.in_backend.is_empty()) {
            (true, true) => None,
            (false, false) if self.in_backend == before && !arm_again => None,
            (true, false) if !capabilities.batches_changes => {
                Some(Change::Add(self.registration(key, self.in_backend)))
            }
            (false, true) if !capabilities.batches_changes => {
                Some(Change::Remove(self.registration(key, before)))
            }
            _ if renewal == Renewal::Requested => {
                Some(Change::Reregister(self.registration(key, self.in_backend)))
            }
            _ => Some(Change::Modify(self.registration(key, self.in_backend))),
        }
    }

    #[inline]
    pub(crate) fn is_in_backend(&self) -> bool {
        !self.in_backend.is_empty()
    }

    #[inline]
    pub(crate) fn known(&self, key: u64) -> Registration {
        self.registration(key, self.in_backend)
    }

    #[inline]
    fn registration(&self, key: u64, watched: WatchSet) -> Registration {
        Registration {
            fd: self.fd,
            key,
            interest: watched.interest(),
            ends: watched.ends(),
            mode: self.mode,
        }
    }
}

#[inline]
fn id_of(key: u64) -> usize {
    low_half(key) as usize
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half of 64 bits")]
fn low_half(key: u64) -> u32 {
    key as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_takes_20_bytes_as_documented() {
        assert_eq!(size_of::<Row>() + size_of::<u64>(), 20);
    }
}
