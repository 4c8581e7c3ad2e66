//! The identity of a worker.

use std::{fmt, io, num::NonZeroU32};

/// The identity of a worker: its slot in the supervisor's table.
///
/// The accept lock, the worker group and the scoreboard all name a worker by its id. Two workers
/// that live at the same time must have different ids. A replacement takes the id of the worker
/// that it replaces.
///
/// ```
/// use evcore_balancer::WorkerId;
///
/// let id = WorkerId::from_slot(3);
/// assert_eq!(id.slot(), 3);
/// assert_eq!(id.to_string(), "worker 3");
/// ```
// It is not the process id, because threads share one, and the system reuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(NonZeroU32);

impl WorkerId {
    /// The worker in this slot. Slots count from 0.
    ///
    /// # Panics
    ///
    /// If the slot is `u32::MAX` or higher.
    #[must_use]
    pub fn from_slot(slot: usize) -> Self {
        let number = u32::try_from(slot).ok();
        let word = number.and_then(|number| NonZeroU32::MIN.checked_add(number));
        Self(word.expect("a slot is below u32::MAX"))
    }

    /// The slot of this worker.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The worker that a word in shared memory names; `None` if the word is empty.
    pub(crate) fn from_word(word: u32) -> Option<Self> {
        NonZeroU32::new(word).map(Self)
    }

    /// The word in shared memory that names this worker, never 0.
    pub(crate) const fn to_word(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.slot())
    }
}

pub(crate) const MAX_WORKERS: usize = 4096;

pub(crate) fn check_workers(what: &str, workers: usize) -> io::Result<()> {
    if (1..=MAX_WORKERS).contains(&workers) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("cannot make a {what} for {workers} workers: from 1 to {MAX_WORKERS} are possible"),
    ))
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_id_and_its_word_name_the_same_slot() {
        for slot in [0, 1, 4095, u32::MAX as usize - 1] {
            let id = WorkerId::from_slot(slot);
            assert_eq!(id.slot(), slot);
            assert_eq!(WorkerId::from_word(id.to_word()), Some(id));
        }
        assert_eq!(WorkerId::from_word(0), None);
    }

    #[test]
    #[should_panic(expected = "a slot is below u32::MAX")]
    fn a_slot_beyond_the_range_of_a_word_panics() {
        let _ = WorkerId::from_slot(u32::MAX as usize);
    }
}
