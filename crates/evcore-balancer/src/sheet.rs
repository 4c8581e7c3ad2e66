//! Numbers of the application's own, a row a worker in shared memory, beside those of the board.
//!
//! As on a [`Board`](crate::Board): each row has one writer, whose stores cost no more than stores,
//! and anybody may read at any time. What the numbers mean is known to the application alone.

use std::{
    array, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{board::check_workers, shared::Shared};

/// `N` numbers for each worker, which all workers of a server can read.
///
/// A clone is another handle to the same sheet. It is made before the fork and shared with every
/// process forked from then on; between threads it works as well. A row begins at a cache line and
/// shares it with no other.
///
/// ```
/// use evcore_balancer::Sheet;
///
/// # fn main() -> std::io::Result<()> {
/// let sheet = Sheet::<2>::shared(4)?; // before the fork
///
/// // In worker 3, once a turn:
/// let mut row = sheet.row(3);
/// row.publish(&[1000, 17]);
///
/// // Anywhere:
/// assert_eq!(sheet.read(3), [1000, 17]);
/// assert_eq!(sheet.read(0), [0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sheet<const N: usize> {
    rows: Arc<Shared<Words<N>>>,
}

impl<const N: usize> Sheet<N> {
    /// A sheet for `workers` workers, from 1 to [`Board::MAX_WORKERS`](crate::Board::MAX_WORKERS);
    /// all numbers are 0. `N` is from 1 to 512, which is checked when the program is compiled.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for no or too many workers; else the operating
    /// system's, if it has no memory to map.
    pub fn shared(workers: usize) -> io::Result<Self> {
        const { assert!(N > 0 && N <= 512, "a row has from 1 to 512 numbers") };
        check_workers("sheet", workers)?;
        Ok(Self {
            rows: Arc::new(Shared::new(workers)?),
        })
    }

    /// The row of worker `index`, for that worker to write to.
    ///
    /// # Panics
    ///
    /// If there is no worker `index`; so do the other methods that take an index.
    #[must_use]
    pub fn row(&self, index: usize) -> Row<N> {
        self.words(index);
        Row {
            sheet: self.clone(),
            index,
        }
    }

    /// The numbers of worker `index`. Each is one that was written; they may be of two moments.
    ///
    /// # Panics
    ///
    /// If there is no worker `index`.
    #[must_use]
    pub fn read(&self, index: usize) -> [u64; N] {
        let words = self.words(index);
        array::from_fn(|at| words.0[at].load(Relaxed))
    }

    /// Sets the numbers of worker `index` to 0: for the parent, after the worker has ended and
    /// before its replacement starts.
    ///
    /// # Panics
    ///
    /// If there is no worker `index`.
    pub fn clear(&self, index: usize) {
        self.words(index).store(&[0; N]);
    }

    /// How many workers the sheet has rows for.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.rows.len()
    }

    fn words(&self, index: usize) -> &Words<N> {
        let workers = self.workers();
        assert!(
            index < workers,
            "no worker {index} on a sheet for {workers}"
        );
        &self.rows[index]
    }
}

/// A worker's own row of a [`Sheet`].
///
/// Only one worker may write to a row: two would overwrite each other's numbers.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let sheet = evcore_balancer::Sheet::<1>::shared(1)?;
/// let mut row = sheet.row(0);
/// row.publish(&[7]);
/// assert_eq!(sheet.read(0), [7]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Row<const N: usize> {
    sheet: Sheet<N>,
    index: usize,
}

impl<const N: usize> Row<N> {
    /// Shows the numbers to all. `N` plain stores.
    pub fn publish(&mut self, numbers: &[u64; N]) {
        self.sheet.words(self.index).store(numbers);
    }
}

/// A row as it lies in memory: in cache lines of its own, so that workers do not slow each other.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Words<const N: usize>([AtomicU64; N]);

const _: () = assert!(size_of::<Words<9>>() == 128, "rows are whole cache lines");

impl<const N: usize> Words<N> {
    fn store(&self, numbers: &[u64; N]) {
        for (word, number) in self.0.iter().zip(numbers) {
            word.store(*number, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_a_worker_publishes_is_what_others_read() {
        let sheet = Sheet::<9>::shared(3).unwrap();
        let numbers = array::from_fn(|at| at as u64 + 1);
        thread::scope(|scope| {
            scope.spawn(|| sheet.row(1).publish(&numbers));
        });
        assert_eq!(sheet.read(1), numbers);
        assert_eq!((sheet.read(0), sheet.read(2)), ([0; 9], [0; 9]));
    }

    #[test]
    fn clearing_a_row_leaves_the_others() {
        let sheet = Sheet::<2>::shared(2).unwrap();
        sheet.row(0).publish(&[1, 2]);
        sheet.row(1).publish(&[3, 4]);
        sheet.clear(0);
        assert_eq!((sheet.read(0), sheet.read(1)), ([0, 0], [3, 4]));
    }

    #[test]
    fn a_sheet_for_nobody_or_for_too_many_is_refused() {
        for workers in [0, 4097, usize::MAX] {
            let error = Sheet::<1>::shared(workers).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("a sheet for"), "{error}");
        }
        assert_eq!(Sheet::<512>::shared(2).unwrap().workers(), 2);
    }

    #[test]
    #[should_panic(expected = "no worker 2 on a sheet for 2")]
    fn a_row_that_is_not_there_cannot_be_had() {
        let _ = Sheet::<1>::shared(2).unwrap().row(2);
    }
}
