//! The table of watched descriptors, by number, like the port's own. This file makes no system call.

use std::{ffi::c_int, os::fd::RawFd};

use crate::growth;

/// A descriptor that has reported, and must be associated again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub(super) fd: RawFd,
    pub(super) key: u64,
    pub(super) flags: c_int,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    /// The rows, by the number of the descriptor.
    rows: Vec<Row>,
    /// The descriptors that have reported since the last wait began. Some may be removed by now, or
    /// associated again.
    // Invariant: each row that is `Spent` is here.
    spent: Vec<RawFd>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    key: u64,
    /// The flags, as those of poll.
    flags: c_int,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The descriptor is not watched.
    Vacant,
    /// The descriptor is associated, unless it was closed.
    Associated,
    /// The descriptor's event was delivered, which has ended its association.
    Spent,
}

impl Watches {
    /// Records that `fd` was associated.
    pub(super) fn enter(&mut self, fd: RawFd, key: u64, flags: c_int) {
        let index = usize::try_from(fd).expect("the kernel associated it, so it is a descriptor");
        growth::lengthen(&mut self.rows, index + 1, Row::VACANT);
        let row = &mut self.rows[index];
        debug_assert!(
            row.state == State::Vacant || row.key == key,
            "the poller gives no descriptor two keys"
        );
        *row = Row {
            key,
            flags,
            state: State::Associated,
        };
    }

    /// Ends a watch. Returns whether it has an association to end.
    pub(super) fn leave(&mut self, fd: RawFd, key: u64) -> bool {
        match self.row(fd) {
            Some(row) if row.key == key => {
                let before = std::mem::replace(&mut row.state, State::Vacant);
                before == State::Associated
            }
            _ => false,
        }
    }

    /// Records that the event of `fd` was delivered. Returns its key, unless it was removed.
    pub(super) fn spend(&mut self, fd: RawFd) -> Option<u64> {
        let row = self.row(fd)?;
        if row.state != State::Associated {
            return None;
        }
        row.state = State::Spent;
        let key = row.key;
        growth::push(&mut self.spent, fd);
        Some(key)
    }

    /// The next descriptor to associate again. It counts as associated from here on.
    pub(super) fn next_spent(&mut self) -> Option<Spent> {
        while let Some(fd) = self.spent.pop() {
            match self.row(fd) {
                Some(row) if row.state == State::Spent => {
                    row.state = State::Associated;
                    let (key, flags) = (row.key, row.flags);
                    return Some(Spent { fd, key, flags });
                }
                _ => {}
            }
        }
        None
    }

    fn row(&mut self, fd: RawFd) -> Option<&mut Row> {
        self.rows.get_mut(usize::try_from(fd).ok()?)
    }
}

#[cfg(test)]
impl Watches {
    /// Returns whether `key` is watched.
    pub(super) fn holds(&self, key: u64) -> bool {
        let mut live = self.rows.iter().filter(|row| row.state != State::Vacant);
        live.any(|row| row.key == key)
    }

    /// Panics if an invariant does not hold.
    pub(super) fn verify(&self) {
        for (index, row) in self.rows.iter().enumerate() {
            if row.state == State::Spent {
                let fd = RawFd::try_from(index).expect("a descriptor");
                assert!(self.spent.contains(&fd), "descriptor {fd}: {row:?}");
            }
        }
    }
}

impl Row {
    const VACANT: Self = Self {
        key: 0,
        flags: 0,
        state: State::Vacant,
    };
}
