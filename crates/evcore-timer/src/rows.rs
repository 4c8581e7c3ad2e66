//! Gives small numbers, the *rows* of a table, to the ids in use, so that the ids themselves need
//! not be dense.
//!
//! The timer tree and the timer heap have a row of their tables for each id, and name timers by
//! row. A run of adjacent ids has adjacent rows. As long as ids come into use one after the other,
//! each id is its own row. A run that is far ahead gets the next free rows, so that no rows are
//! allocated for the ids before it. From then on, new runs are looked up in a table.

use crate::blocks::SparseBlocks;
use crate::queue::assert_dense;

/// Number of ids in a run.
const RUN: u32 = 128;

/// Maximum number of runs to which one call gives rows. It is more than one, so that ids that come
/// into use nearly in order are their own rows.
const RUNS_MAX: u32 = 4;

/// Number of entries in a block of `firsts`: 1 KiB, for 32,768 ids.
const BLOCK: usize = 256;

/// The value for a run without rows, in place of its first row.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// The ids below this number are their own rows.
    // Invariant: a multiple of `RUN`.
    own: u32,
    /// The first row of each run whose ids are not their own rows, by run.
    firsts: SparseBlocks<u32, BLOCK>,
    /// The first id of each run, by `row / RUN`.
    ids: Vec<u32>,
}

impl Rows {
    pub(crate) fn with_capacity(ids: usize) -> Self {
        let mut rows = Self {
            own: 0,
            firsts: SparseBlocks::with_len(0, NONE),
            ids: Vec::new(),
        };
        while rows.len() < ids {
            rows.append_own();
        }
        rows
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len() * RUN as usize
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        if id < self.own {
            return Some(id);
        }
        self.find_listed(id)
    }

    #[inline]
    pub(crate) fn id(&self, row: u32) -> u32 {
        if row < self.own {
            return row;
        }
        self.ids[(row / RUN) as usize] + row % RUN
    }

    #[cold]
    #[inline(never)]
    fn find_listed(&self, id: u32) -> Option<u32> {
        let first = *self.firsts.get(id / RUN)?;
        (first != NONE).then(|| first + id % RUN)
    }

    /// Gives an id a row, if it has none, and returns the row.
    ///
    /// # Panics
    ///
    /// If the id is too high.
    #[inline(never)]
    pub(crate) fn admit(&mut self, id: u32) -> u32 {
        assert_dense(id);
        while self.may_append_own(id) {
            self.append_own();
        }
        match self.find(id) {
            Some(row) => row,
            None => self.list(id),
        }
    }

    /// Returns whether an id is near enough to become its own row.
    fn may_append_own(&self, id: u32) -> bool {
        let is_next = self.own as usize == self.len() && id >= self.own;
        is_next && (id - self.own) / RUN < RUNS_MAX
    }

    fn append_own(&mut self) {
        self.ids.push(self.own);
        self.own += RUN;
    }

    /// Gives the run of an id the next rows, and returns the id's row.
    fn list(&mut self, id: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "no more rows than ids")]
        let first = self.len() as u32;
        self.ids.push(id / RUN * RUN);
        self.firsts.admit(id / RUN, NONE);
        *self.firsts.at_mut(id / RUN) = first;
        first + id % RUN
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::queue::ID_MAX;

    #[test]
    fn ids_that_come_nearly_in_order_are_their_own_rows() {
        let mut rows = Rows::with_capacity(0);
        for id in [0, 1, 127, 128, 600, 500, 1_100] {
            assert_eq!(rows.admit(id), id);
        }
        assert_eq!((rows.own as usize, rows.len()), (1_152, 1_152));
    }

    #[test]
    fn a_far_id_takes_one_run() {
        let mut rows = Rows::with_capacity(1);
        assert_eq!((rows.find(127), rows.find(128)), (Some(127), None));
        assert_eq!(rows.admit(ID_MAX), 128 + 127);
        assert_eq!((rows.len(), rows.find(ID_MAX)), (256, Some(255)));
        assert_eq!((rows.id(127), rows.id(255)), (127, ID_MAX));
    }

    proptest! {
        #[test]
        fn each_id_keeps_a_row_of_its_own(
            ids in prop::collection::vec((0..5_000_u32, 0..4_u32), 0..100),
            capacity in 0..300_usize,
        ) {
            let mut rows = Rows::with_capacity(capacity);
            let mut ids_by_row = HashMap::new();
            for (id, far) in ids {
                let id = id + far * 10_000_000;
                let row = rows.admit(id);
                prop_assert!((row as usize) < rows.len());
                prop_assert_eq!(*ids_by_row.entry(row).or_insert(id), id);
            }
            for (row, id) in ids_by_row {
                prop_assert_eq!((rows.find(id), rows.id(row)), (Some(row), id));
            }
        }
    }
}
