//! Sets of CPUs, and CPU affinity.

use std::fmt;

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
use crate::cpu_set as imp;
use crate::error::Result;

/// A set of CPUs, by number.
///
/// ```
/// use evcore_prefork::Cpus;
///
/// let cpus: Cpus = [6, 0, 1, 2].into_iter().collect();
/// assert_eq!(cpus.to_string(), "0-2,6");
/// assert!(cpus.contains(6));
/// assert_eq!(cpus.len(), 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Cpus {
    // Invariant: the numbers ascend, without duplicates.
    numbers: Vec<usize>,
}

impl Cpus {
    /// The CPUs that this thread may use. A cpuset, a container or `taskset` may leave fewer than
    /// the machine has.
    ///
    /// # Errors
    ///
    /// [`Error::NoAffinity`](crate::Error::NoAffinity) if the system has no CPU affinity (Linux,
    /// Android and FreeBSD have it; this was not run on FreeBSD). [`Error::Os`](crate::Error::Os)
    /// if the call fails.
    ///
    /// ```
    /// use evcore_prefork::{Cpus, Error};
    ///
    /// match Cpus::allowed() {
    ///     Ok(cpus) => assert!(!cpus.is_empty()),
    ///     Err(error) => assert!(matches!(error, Error::NoAffinity)),
    /// }
    /// ```
    pub fn allowed() -> Result<Self> {
        imp::allowed().map(|numbers| Self { numbers })
    }

    /// Runs this thread, and the threads that it starts, on these CPUs.
    pub(crate) fn pin(&self) -> Result<()> {
        imp::pin(&self.numbers)
    }

    /// Returns whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.numbers.binary_search(&cpu).is_ok()
    }

    /// The number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.numbers.iter().copied()
    }
}

/// Takes numbers in any order, and drops duplicates.
impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut numbers: Vec<_> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self { numbers }
    }
}

/// Prints the numbers in the kernel's form: `0-2,6`.
impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.numbers.chunk_by(|one, next| one + 1 == *next);
        for (at, run) in runs.enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match *run {
                [] => {}
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod imp {
    use crate::error::{Error, Result};

    pub(super) fn allowed() -> Result<Vec<usize>> {
        Err(Error::NoAffinity)
    }

    pub(super) fn pin(_: &[usize]) -> Result<()> {
        Err(Error::NoAffinity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::Error;

    #[test]
    fn consecutive_cpus_are_written_as_a_range() {
        let written = |cpus: &[usize]| cpus.iter().copied().collect::<Cpus>().to_string();
        assert_eq!(written(&[]), "");
        assert_eq!(written(&[3]), "3");
        assert_eq!(written(&[4, 3]), "3-4");
        assert_eq!(written(&[9, 0, 1, 2, 5, 2]), "0-2,5,9");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_may_use_only_its_cpus() {
        let pinned = std::thread::spawn(|| {
            let before = Cpus::allowed().unwrap();
            let last: Cpus = before.iter().last().into_iter().collect();
            last.pin().unwrap();
            (last, Cpus::allowed().unwrap())
        });
        let (requested, got) = pinned.join().unwrap();
        assert_eq!(requested, got);
        assert_eq!(got.len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_empty_set_is_refused() {
        let nowhere = Cpus::default().pin();
        assert!(matches!(nowhere, Err(Error::Os { .. })));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_cpu_that_does_not_exist_is_refused_without_a_panic() {
        for far in [1023, 1024, 5000, 1 << 20] {
            let beyond = Cpus::from_iter([far]).pin();
            assert!(matches!(beyond, Err(Error::Os { .. })), "{far}");
        }
    }
}
