//! Which CPUs there are to use, and staying on some of them.

use std::fmt;

use crate::Result;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
use crate::cpu_set as imp;

/// CPUs, by their numbers.
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
    // Invariant: ascending, each once.
    numbers: Vec<usize>,
}

impl Cpus {
    /// The CPUs that this thread may use, which are not all that there are where a cpuset, a
    /// container or `taskset` leaves it fewer.
    ///
    /// # Errors
    ///
    /// [`Error::NoAffinity`](crate::Error::NoAffinity) where the system has no such notion (it has
    /// on Linux, and on FreeBSD, where this was not run), [`Error::Os`](crate::Error::Os) if it
    /// does not tell.
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
        imp::allowed()
    }

    /// Keeps this thread, and the threads that it starts, on these CPUs.
    pub(crate) fn stay(&self) -> Result<()> {
        imp::stay(self)
    }

    /// Whether `cpu` is one of them.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.numbers.binary_search(&cpu).is_ok()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.numbers.iter().copied()
    }
}

/// In any order; what comes twice is there once.
impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut numbers: Vec<_> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self { numbers }
    }
}

/// As the kernel writes such lists: `0-2,6`.
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
    use super::{Cpus, Result};
    use crate::Error;

    pub(super) fn allowed() -> Result<Cpus> {
        Err(Error::NoAffinity)
    }

    pub(super) fn stay(_: &Cpus) -> Result<()> {
        Err(Error::NoAffinity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::Error;

    #[test]
    fn runs_are_written_by_their_ends() {
        let written = |cpus: &[usize]| cpus.iter().copied().collect::<Cpus>().to_string();
        assert_eq!(written(&[]), "");
        assert_eq!(written(&[3]), "3");
        assert_eq!(written(&[4, 3]), "3-4");
        assert_eq!(written(&[9, 0, 1, 2, 5, 2]), "0-2,5,9");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_stays_where_it_is_told_to() {
        // In a thread of its own, for the others are to go where they like.
        let stayed = std::thread::spawn(|| {
            let before = Cpus::allowed().unwrap();
            let last: Cpus = before.iter().last().into_iter().collect();
            last.stay().unwrap();
            (last, Cpus::allowed().unwrap())
        });
        let (asked, got) = stayed.join().unwrap();
        assert_eq!(asked, got);
        assert_eq!(got.len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nobody_can_stay_nowhere() {
        let nowhere = Cpus::default().stay();
        assert!(matches!(nowhere, Err(Error::Os { .. })));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_cpu_far_beyond_all_that_there_are_is_refused_and_no_panic() {
        for far in [1023, 1024, 5000, 1 << 20] {
            let beyond = Cpus::from_iter([far]).stay();
            assert!(matches!(beyond, Err(Error::Os { .. })), "{far}");
        }
    }
}
