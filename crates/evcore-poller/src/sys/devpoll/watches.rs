//! The table of watched descriptors, by number, like the device's own, and the rows of it that must
//! be written. This file makes no system call.

use std::{ffi::c_short, os::fd::RawFd};

use super::kernel::{REMOVE, entry};
use crate::growth;

/// The watch of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) key: u64,
    pub(super) flags: c_short,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    /// The rows, by the number of the descriptor.
    rows: Vec<Row>,
    /// The numbers of the rows that must be written.
    // Invariant: exactly those that are `is_pending`, each once.
    pending: Vec<RawFd>,
    /// The number of descriptors that are watched.
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    key: u64,
    /// The flags; `None` if the descriptor is not watched.
    flags: Option<c_short>,
    /// True if the device may have an entry.
    is_written: bool,
    is_pending: bool,
}

impl Watches {
    /// Watches `fd`, which is not negative, or changes its flags.
    pub(super) fn enter(&mut self, fd: RawFd, key: u64, flags: c_short) {
        let index = usize::try_from(fd).expect("it is open, so it is a descriptor");
        growth::lengthen(&mut self.rows, index + 1, Row::VACANT);
        let row = &mut self.rows[index];
        debug_assert!(
            row.flags.is_none() || row.key == key,
            "the poller gives no descriptor two keys"
        );
        self.count += usize::from(row.flags.is_none());
        (row.key, row.flags) = (key, Some(flags));
        self.renew(fd);
    }

    /// Ends a watch, if it exists.
    pub(super) fn leave(&mut self, fd: RawFd, key: u64) {
        let Some(row) = self.row(fd) else { return };
        if row.flags.is_none() || row.key != key {
            return;
        }
        row.flags = None;
        self.count -= 1;
        self.renew(fd);
    }

    /// Writes the row of `fd` again.
    pub(super) fn renew(&mut self, fd: RawFd) {
        let Some(row) = self.row(fd) else { return };
        if !row.is_pending {
            row.is_pending = true;
            growth::push(&mut self.pending, fd);
        }
    }

    pub(super) fn get(&self, fd: RawFd) -> Option<Watch> {
        let row = self.rows.get(usize::try_from(fd).ok()?)?;
        let key = row.key;
        row.flags.map(|flags| Watch { key, flags })
    }

    /// Returns whether `fd` is watched under `key`.
    pub(super) fn holds(&self, fd: RawFd, key: u64) -> bool {
        self.get(fd).is_some_and(|watch| watch.key == key)
    }

    /// Returns the number of descriptors that are watched.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the number of pending rows to write next, at most `limit`. Returns `None` if none is
    /// pending.
    pub(super) fn pending(&self, limit: usize) -> Option<usize> {
        (!self.pending.is_empty()).then(|| self.pending.len().min(limit))
    }

    /// Adds the entries that must be written for the last `count` pending rows.
    pub(super) fn changes(&self, count: usize, changes: &mut Vec<libc::pollfd>) {
        for fd in &self.pending[self.pending.len() - count..] {
            let row = &self.rows[index(*fd)];
            if row.is_written {
                changes.push(entry(*fd, REMOVE));
            }
            changes.extend(row.flags.map(|flags| entry(*fd, flags)));
        }
    }

    /// Records that the last `count` pending rows were written.
    pub(super) fn mark_written(&mut self, count: usize) {
        for fd in self.pending.drain(self.pending.len() - count..) {
            let row = &mut self.rows[index(fd)];
            row.is_written = row.flags.is_some();
            row.is_pending = false;
        }
    }

    /// Ends the watch of the last pending row, because the device has refused it. Returns its key.
    ///
    /// Returns `None` if the row is a removal, which stays pending.
    pub(super) fn drop_refused(&mut self) -> Option<u64> {
        let fd = *self.pending.last()?;
        let row = &mut self.rows[index(fd)];
        row.flags.take()?;
        // The device may have kept the entry all the same. If the device reports it, it is removed.
        (row.is_written, row.is_pending) = (true, false);
        let key = row.key;
        self.count -= 1;
        self.pending.pop();
        Some(key)
    }

    fn row(&mut self, fd: RawFd) -> Option<&mut Row> {
        self.rows.get_mut(usize::try_from(fd).ok()?)
    }
}

/// The place of a row that exists.
fn index(fd: RawFd) -> usize {
    usize::try_from(fd).expect("rows have the numbers of descriptors")
}

#[cfg(test)]
impl Watches {
    /// Returns whether `key` is watched.
    pub(super) fn has(&self, key: u64) -> bool {
        let mut watched = self.rows.iter().filter(|row| row.flags.is_some());
        watched.any(|row| row.key == key)
    }

    /// Panics if an invariant does not hold.
    pub(super) fn verify(&self) {
        let watched = self.rows.iter().filter(|row| row.flags.is_some());
        assert_eq!(watched.count(), self.count);
        let pending = self.rows.iter().filter(|row| row.is_pending);
        assert_eq!(pending.count(), self.pending.len());
        for fd in &self.pending {
            let row = &self.rows[index(*fd)];
            assert!(row.is_pending, "descriptor {fd}: {row:?}");
        }
    }
}

impl Row {
    const VACANT: Self = Self {
        key: 0,
        flags: None,
        is_written: false,
        is_pending: false,
    };
}
