//! The CPUs that each worker runs on.

use crate::cpus::Cpus;

/// The CPUs of each worker, by its index.
///
/// ```
/// use evcore_prefork::{Affinity, Cpus};
///
/// let spread = Affinity::one_each(&Cpus::from_iter([0, 2]));
/// assert_eq!([0, 1, 2].map(|worker| spread.of(worker).to_string()), ["0", "2", "0"]);
///
/// let halves = Affinity::from_cpus([Cpus::from_iter(0..4), Cpus::from_iter(4..8)]);
/// assert_eq!([0, 1, 2].map(|worker| halves.of(worker).to_string()), ["0-3", "4-7", "4-7"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    // Invariant: not empty, and no set in it is empty.
    sets: Vec<Cpus>,
    beyond: Beyond,
}

/// The rule for a worker whose index is past the last set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    StartsAgain,
    RepeatsTheLast,
}

impl Affinity {
    /// Runs each worker on one CPU, in ascending order. If there are more workers than CPUs, the
    /// order starts again.
    ///
    /// # Panics
    ///
    /// If `cpus` is empty.
    #[must_use]
    pub fn one_each(cpus: &Cpus) -> Self {
        assert!(!cpus.is_empty(), "an affinity needs at least one CPU");
        Self {
            sets: cpus.iter().map(|cpu| Cpus::from_iter([cpu])).collect(),
            beyond: Beyond::StartsAgain,
        }
    }

    /// Runs the n-th worker on the n-th set. All further workers get the last set.
    ///
    /// # Panics
    ///
    /// If `sets` is empty, or if one of them is empty.
    #[must_use]
    pub fn from_cpus(sets: impl Into<Vec<Cpus>>) -> Self {
        let sets = sets.into();
        assert!(
            !sets.is_empty(),
            "an affinity needs at least one set of CPUs"
        );
        assert!(
            !sets.iter().any(Cpus::is_empty),
            "a worker needs at least one CPU"
        );
        Self {
            sets,
            beyond: Beyond::RepeatsTheLast,
        }
    }

    /// The CPUs of the worker with this index.
    #[must_use]
    pub fn of(&self, worker: usize) -> &Cpus {
        let count = self.sets.len();
        let at = match self.beyond {
            Beyond::StartsAgain => worker % count,
            Beyond::RepeatsTheLast => worker.min(count - 1),
        };
        &self.sets[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "at least one CPU"]
    fn one_each_of_no_cpus_is_refused() {
        let _ = Affinity::one_each(&Cpus::default());
    }

    #[test]
    #[should_panic = "at least one set"]
    fn an_affinity_without_a_set_is_refused() {
        let _ = Affinity::from_cpus([]);
    }

    #[test]
    #[should_panic = "a worker needs"]
    fn an_affinity_with_an_empty_set_is_refused() {
        let _ = Affinity::from_cpus([Cpus::from_iter([0]), Cpus::default()]);
    }
}
