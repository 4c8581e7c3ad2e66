//! The place of a worker in the supervisor's table.

/// The limit on workers, as in nginx. A greater number is likely a mistake.
pub(crate) const WORKERS_MAX: usize = 1024;

/// A place in the table of workers, which has a row for each generation. No two living workers
/// share a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) row: usize,
    pub(crate) index: usize,
}

impl Slot {
    /// The slot as one number, below `workers` times `GENERATIONS_MAX`.
    pub(crate) fn number(self, workers: usize) -> usize {
        self.row * workers + self.index
    }
}
