//! The living workers of a master, by slot.

use std::{collections::BTreeMap, os::fd::BorrowedFd};

use crate::{
    lifecycle::Slot,
    spawn::{Child, End},
};

/// If the master leaves early, by an error or by a panic in a hook, its workers are killed.
#[derive(Debug)]
pub(crate) struct Children<C: Child> {
    all: BTreeMap<Slot, Entry<C>>,
}

#[derive(Debug)]
struct Entry<C> {
    child: C,
    is_ready: bool,
}

impl<C: Child> Children<C> {
    pub(crate) fn new() -> Self {
        let all = BTreeMap::new();
        Self { all }
    }

    pub(crate) fn insert(&mut self, slot: Slot, child: C) {
        let is_ready = false;
        self.all.insert(slot, Entry { child, is_ready });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.all.values().map(|entry| &entry.child)
    }

    pub(crate) fn in_row(&self, row: usize) -> impl Iterator<Item = (Slot, &C)> {
        let all = self.all.iter().filter(move |(slot, _)| slot.row == row);
        all.map(|(&slot, entry)| (slot, &entry.child))
    }

    /// What to watch for workers that report that they serve.
    pub(crate) fn ready_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let awaited = self.all.values().filter(|entry| !entry.is_ready);
        awaited.filter_map(|entry| entry.child.ready_fd())
    }

    /// Calls `report` for each worker that newly serves.
    pub(crate) fn take_ready(&mut self, mut report: impl FnMut(Slot, &C)) {
        for (&slot, entry) in self.all.iter_mut().filter(|(_, entry)| !entry.is_ready) {
            entry.is_ready = entry.child.is_ready();
            if entry.is_ready {
                report(slot, &entry.child);
            }
        }
    }

    /// Removes a worker that has ended. None: no other has.
    pub(crate) fn take_ended(&mut self) -> Option<(Slot, C, End)> {
        let end = |(&slot, entry): (&Slot, &mut Entry<C>)| Some((slot, entry.child.try_wait()?));
        let (slot, end) = self.all.iter_mut().find_map(end)?;
        Some((slot, self.remove(slot)?, end))
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<C> {
        Some(self.all.remove(&slot)?.child)
    }

    /// In a forked worker: forgets its siblings, which are not its own to end, and closes their
    /// liveness pipes.
    pub(crate) fn forget(mut self) {
        self.all.clear();
    }
}

impl<C: Child> Drop for Children<C> {
    fn drop(&mut self) {
        self.iter().for_each(C::kill);
        for entry in self.all.values_mut() {
            entry.child.wait();
        }
    }
}
