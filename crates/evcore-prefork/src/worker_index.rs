//! The number of a worker in its generation.

use std::fmt;

/// The number of a worker in its generation, from 0 to one less than the number of workers.
///
/// A replacement has the index of the worker it replaces. During a reload an old worker and a new
/// one have the same index. So use it to choose what both can share, such as a listener. Use the
/// [slot](crate::Worker::slot) for state that each worker needs for itself, such as a line of
/// shared memory. A type of its own keeps an index from being used as a slot:
///
/// ```compile_fail,E0308
/// # fn doc(worker: &evcore_prefork::Worker) {
/// let slot: usize = worker.index(); // wrong: an old and a new worker would share the slot
/// # }
/// ```
///
/// ```
/// use evcore_prefork::Worker;
///
/// let worker = Worker::solo()?;
/// assert_eq!(worker.index().get(), 0);
/// assert_eq!(worker.index().to_string(), "0");
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerIndex(usize);

impl WorkerIndex {
    pub(crate) const fn new(index: usize) -> Self {
        Self(index)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Display for WorkerIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
