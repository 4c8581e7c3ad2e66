//! The table of watched descriptors. It is indexed by descriptor number, as the kernel's own table
//! is. A list has the rows whose changes the kernel may not have yet. This file makes no system
//! call.

use std::{ffi::c_short, os::fd::RawFd};

use super::kernel::Change;
use crate::growth;

/// The key of the waker's watch. Its low half is above `MAX_ID`, so it is not a registration's.
pub(super) const WAKE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) key: u64,
    pub(super) flags: c_short,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    rows: Vec<Row>,
    /// The descriptor numbers of the rows that may be due (see `Row::is_due`).
    // Invariant: it has exactly the rows that are marked `is_listed`, each once.
    pending: Vec<RawFd>,
    /// Number of watched descriptors, including the waker's.
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    key: u64,
    /// The flags; `None` if the descriptor is not watched.
    flags: Option<c_short>,
    /// True if the kernel may have a watch.
    is_kept: bool,
    /// True if the kernel's watch may differ from this row.
    // Invariant: true only if the row is listed.
    is_due: bool,
    is_listed: bool,
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
        let is_kept = row.is_kept;
        self.renew(fd, is_kept);
    }

    /// Ends a watch. Returns whether the kernel may have it.
    pub(super) fn leave(&mut self, fd: RawFd, key: u64) -> bool {
        if !self.holds(fd, key) {
            return false;
        }
        let row = &mut self.rows[index(fd)];
        row.flags = None;
        self.count -= 1;
        let is_kept = row.is_kept;
        self.renew(fd, is_kept);
        is_kept
    }

    /// Records whether the kernel may have a watch of `fd`. Makes the row of `fd` due if the row or
    /// the kernel has a watch.
    pub(super) fn renew(&mut self, fd: RawFd, is_kept: bool) {
        let Some(row) = self.row(fd) else { return };
        row.is_kept = is_kept;
        row.is_due = is_kept || row.flags.is_some();
        if row.is_due && !row.is_listed {
            row.is_listed = true;
            growth::push(&mut self.pending, fd);
        }
    }

    /// Records that the kernel has the row of `fd` as it is.
    pub(super) fn mark_applied(&mut self, fd: RawFd) {
        let row = &mut self.rows[index(fd)];
        (row.is_kept, row.is_due) = (row.flags.is_some(), false);
    }

    pub(super) fn get(&self, fd: RawFd) -> Option<Watch> {
        let row = self.rows.get(usize::try_from(fd).ok()?)?;
        let key = row.key;
        row.flags.map(|flags| Watch { key, flags })
    }

    pub(super) fn holds(&self, fd: RawFd, key: u64) -> bool {
        self.get(fd).is_some_and(|watch| watch.key == key)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns an upper bound on the number of the kernel's watches, including watches that are not
    /// in this table any more.
    pub(super) fn numbers(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of pending rows to apply next, at most `limit`; `None` if none is
    /// pending.
    pub(super) fn pending(&self, limit: usize) -> Option<usize> {
        (!self.pending.is_empty()).then(|| self.pending.len().min(limit))
    }

    /// Returns the changes that the last `count` pending rows need.
    pub(super) fn changes(&self, count: usize) -> impl Iterator<Item = Change> {
        let last = &self.pending[self.pending.len() - count..];
        let rows = last.iter().map(|fd| (*fd, &self.rows[index(*fd)]));
        rows.filter(|(_, row)| row.is_due).map(|(fd, row)| Change {
            fd,
            is_kept: row.is_kept,
            flags: row.flags,
        })
    }

    pub(super) fn pop_applied(&mut self, count: usize) {
        for _ in 0..count {
            let fd = self.pending.pop().expect("this many are pending");
            self.rows[index(fd)].is_listed = false;
            self.mark_applied(fd);
        }
    }

    /// Ends the watch of the last pending row, because the kernel has refused it. Returns the key
    /// of the row.
    ///
    /// A removal, or the row of the waker, stays pending, and the result is `None`.
    pub(super) fn pop_refused(&mut self) -> Option<u64> {
        let fd = *self.pending.last()?;
        let row = &mut self.rows[index(fd)];
        let key = row.key;
        if row.flags.is_none() || key == WAKE {
            return None;
        }
        // The kernel may have kept the watch nevertheless. If the kernel reports it, the watch is
        // removed.
        *row = Row {
            is_kept: true,
            ..Row::VACANT
        };
        self.count -= 1;
        self.pending.pop();
        Some(key)
    }

    fn row(&mut self, fd: RawFd) -> Option<&mut Row> {
        self.rows.get_mut(usize::try_from(fd).ok()?)
    }
}

fn index(fd: RawFd) -> usize {
    usize::try_from(fd).expect("rows have the numbers of descriptors")
}

#[cfg(test)]
impl Watches {
    pub(super) fn has(&self, key: u64) -> bool {
        let mut watched = self.rows.iter().filter(|row| row.flags.is_some());
        watched.any(|row| row.key == key)
    }

    pub(super) fn verify(&self) {
        let watched = self.rows.iter().filter(|row| row.flags.is_some());
        assert_eq!(watched.count(), self.count);
        let listed = self.rows.iter().filter(|row| row.is_listed);
        assert_eq!(listed.count(), self.pending.len());
        for fd in &self.pending {
            let row = &self.rows[index(*fd)];
            assert!(row.is_listed, "descriptor {fd}: {row:?}");
        }
        for row in self.rows.iter().filter(|row| !row.is_listed) {
            assert!(!row.is_due, "{row:?}");
        }
    }
}

impl Row {
    const VACANT: Self = Self {
        key: 0,
        flags: None,
        is_kept: false,
        is_due: false,
        is_listed: false,
    };
}
