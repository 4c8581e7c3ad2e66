//! The living workers of a master, by slot (the place of a worker in the master's table).

use std::{collections::BTreeMap, os::fd::BorrowedFd};

use crate::{
    slot::Slot,
    spawn::{Child, End},
};

/// The workers of a master. Dropping this, after an error or a panic in a hook, kills them.
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

    pub(crate) fn all(&self) -> impl Iterator<Item = (Slot, &C)> {
        self.all.iter().map(|(slot, entry)| (*slot, &entry.child))
    }

    pub(crate) fn in_row(&self, row: usize) -> impl Iterator<Item = (Slot, &C)> {
        let all = self.all.iter().filter(move |(slot, _)| slot.row == row);
        all.map(|(&slot, entry)| (slot, &entry.child))
    }

    /// The descriptors on which workers will report that they serve.
    pub(crate) fn ready_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let awaited = self.all.values().filter(|entry| !entry.is_ready);
        awaited.filter_map(|entry| entry.child.ready_fd())
    }

    pub(crate) fn take_ready(&mut self, mut report: impl FnMut(Slot, &C)) {
        for (&slot, entry) in self.all.iter_mut().filter(|(_, entry)| !entry.is_ready) {
            entry.is_ready = entry.child.is_ready();
            if entry.is_ready {
                report(slot, &entry.child);
            }
        }
    }

    /// Removes a worker that has ended, and returns it. `None` if no remaining worker has ended.
    ///
    /// First calls `report` if, since the last [`take_ready`](Self::take_ready), the worker has
    /// reported that it serves.
    pub(crate) fn take_ended(&mut self, report: impl FnOnce(Slot, &C)) -> Option<(Slot, C, End)> {
        let end = |(&slot, entry): (&Slot, &mut Entry<C>)| Some((slot, entry.child.try_wait()?));
        let (slot, end) = self.all.iter_mut().find_map(end)?;
        let Entry {
            mut child,
            is_ready,
        } = self.all.remove(&slot)?;
        if !is_ready && child.is_ready() {
            report(slot, &child);
        }
        Some((slot, child, end))
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<C> {
        Some(self.all.remove(&slot)?.child)
    }

    /// Forgets the siblings of a forked worker without killing them, and closes its copies of their
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::{ExitCause, Stop, Successor};

    #[derive(Debug)]
    struct Ended {
        served: bool,
    }

    impl Child for Ended {
        fn pid(&self) -> Option<NonZeroU32> {
            None
        }

        fn stop(&self, _: Stop) {}

        fn replace(&self, _: Successor) {}

        fn kill(&self) {}

        fn reopen(&self) {}

        fn is_ready(&mut self) -> bool {
            self.served
        }

        fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn try_wait(&mut self) -> Option<End> {
            let (cause, stop) = (ExitCause::Unknown, None);
            Some(End { cause, stop })
        }

        fn wait(&mut self) {}
    }

    const SLOT: Slot = Slot { row: 0, index: 0 };

    /// Number of times that a reaped worker is reported as ready, with or without an earlier check.
    fn reports_of(served: bool, was_checked_before: bool) -> usize {
        let mut children = Children::new();
        children.insert(SLOT, Ended { served });
        let mut reports = 0;
        if was_checked_before {
            children.take_ready(|_, _| reports += 1);
        }
        assert!(children.take_ended(|_, _| reports += 1).is_some());
        assert!(children.take_ended(|_, _| reports += 1).is_none());
        reports
    }

    #[test]
    fn a_worker_that_ends_right_after_its_report_is_ready_first() {
        assert_eq!(reports_of(true, false), 1);
    }

    #[test]
    fn a_worker_that_ends_is_ready_at_most_once() {
        assert_eq!(reports_of(true, true), 1);
        assert_eq!(reports_of(false, false), 0);
    }
}
