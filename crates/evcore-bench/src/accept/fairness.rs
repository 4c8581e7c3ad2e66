//! How even a distribution is.

use std::collections::BTreeMap;

/// How many connections each worker has, by its process id.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(BTreeMap<u32, u32>);

impl Shares {
    /// One more connection of a worker.
    pub(super) fn add(&mut self, worker: u32) {
        *self.0.entry(worker).or_default() += 1;
    }

    /// One connection less.
    pub(super) fn remove(&mut self, worker: u32) {
        *self.0.get_mut(&worker).expect("it has been added") -= 1;
    }

    /// Jain's index over `workers` workers, of which some may have none: 1 when all have the same,
    /// 1 / n when one of n has all. 1 for nothing at all.
    ///
    /// R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
    pub(super) fn jain(&self, workers: usize) -> f64 {
        let shares = || self.0.values().map(|share| f64::from(*share));
        let (sum, squares) = (shares().sum::<f64>(), shares().map(|n| n * n).sum::<f64>());
        if squares == 0.0 {
            return 1.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "a few workers")]
        let n = workers as f64;
        sum * sum / (n * squares)
    }

    /// The `n` workers that have the most.
    pub(super) fn greatest(&self, n: usize) -> Vec<u32> {
        let mut shares: Vec<(u32, u32)> =
            self.0.iter().map(|(pid, share)| (*share, *pid)).collect();
        shares.sort_unstable();
        shares.iter().rev().take(n).map(|(_, pid)| *pid).collect()
    }
}

impl FromIterator<u32> for Shares {
    fn from_iter<I: IntoIterator<Item = u32>>(workers: I) -> Shares {
        let mut shares = Shares::default();
        workers.into_iter().for_each(|worker| shares.add(worker));
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_alike_is_one_and_one_for_all_is_a_share() {
        let even: Shares = [7, 8, 7, 8].into_iter().collect();
        assert!((even.jain(2) - 1.0).abs() < 1e-9);
        assert!((even.jain(4) - 0.5).abs() < 1e-9);
        let one: Shares = [7, 7, 7].into_iter().collect();
        assert!((one.jain(8) - 0.125).abs() < 1e-9);
        assert!((Shares::default().jain(4) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn those_with_the_most_are_found_and_may_lose_it() {
        let mut shares: Shares = [1, 2, 2, 3, 3, 3].into_iter().collect();
        assert_eq!(shares.greatest(2), [3, 2]);
        shares.remove(3);
        shares.remove(3);
        assert_eq!(shares.greatest(1), [2]);
    }
}
