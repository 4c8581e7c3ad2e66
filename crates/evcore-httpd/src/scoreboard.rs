//! The scoreboard: each worker's counters and metrics, in shared memory.

use std::io;

use crate::metrics::Metrics;

/// A slot for each worker that can run at the same time.
pub type Scoreboard = evcore::balancer::Scoreboard<{ WorkerStats::LEN }>;

/// What one worker publishes, or the sum over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Open connections.
    pub active: u64,
    /// Connections on which a request is being read.
    pub reading: u64,
    /// Connections on which a response is being written.
    pub writing: u64,
    /// Idle connections.
    pub waiting: u64,
    /// The metrics of the event loop.
    pub metrics: Metrics,
    /// Connections accepted so far.
    pub accepted: u64,
    /// Accepted connections that were served, not dropped because a resource was missing.
    pub handled: u64,
    /// Requests so far.
    pub requests: u64,
}

impl WorkerStats {
    /// The first values are gauges, which go back to 0 when the worker dies. The last three are
    /// counters, which stay.
    const GAUGES: usize = Self::METRICS + Metrics::LEN;
    /// The number of values in a slot.
    pub const LEN: usize = Self::GAUGES + 3;

    // The places of single values in a slot.
    pub(crate) const ACTIVE: usize = 0;
    pub(crate) const READING: usize = 1;
    pub(crate) const WRITING: usize = 2;
    pub(crate) const WAITING: usize = 3;
    pub(crate) const METRICS: usize = 4;
    pub(crate) const ACCEPTED: usize = Self::GAUGES;
    pub(crate) const HANDLED: usize = Self::GAUGES + 1;
    pub(crate) const REQUESTS: usize = Self::GAUGES + 2;

    /// Creates a scoreboard for this many workers.
    pub fn scoreboard(workers: usize) -> io::Result<Scoreboard> {
        Scoreboard::new(workers, Self::GAUGES)
    }

    /// The sums over all workers, including those that have ended. The metrics are not summed.
    pub fn sum_of(scoreboard: &Scoreboard) -> Self {
        let slots = scoreboard
            .iter()
            .map(|(_, numbers)| Self::from_array(numbers));
        slots.fold(Self::default(), |sum, stats| Self {
            active: sum.active + stats.active,
            reading: sum.reading + stats.reading,
            writing: sum.writing + stats.writing,
            waiting: sum.waiting + stats.waiting,
            accepted: sum.accepted + stats.accepted,
            handled: sum.handled + stats.handled,
            requests: sum.requests + stats.requests,
            ..sum
        })
    }

    /// The slots of running workers.
    pub fn running(scoreboard: &Scoreboard) -> impl Iterator<Item = Self> {
        let slots = scoreboard
            .iter()
            .map(|(_, numbers)| Self::from_array(numbers));
        slots.filter(|stats| stats.metrics.pid != 0)
    }

    /// Converts to the values of a slot: gauges, then counters.
    pub fn to_array(self) -> [u64; Self::LEN] {
        let mut numbers = [0; Self::LEN];
        numbers[Self::ACTIVE] = self.active;
        numbers[Self::READING] = self.reading;
        numbers[Self::WRITING] = self.writing;
        numbers[Self::WAITING] = self.waiting;
        numbers[Self::METRICS..Self::GAUGES].copy_from_slice(&self.metrics.to_array());
        numbers[Self::ACCEPTED] = self.accepted;
        numbers[Self::HANDLED] = self.handled;
        numbers[Self::REQUESTS] = self.requests;
        numbers
    }

    /// Converts from the values of a slot.
    pub fn from_array(numbers: [u64; Self::LEN]) -> Self {
        let metrics = std::array::from_fn(|at| numbers[Self::METRICS + at]);
        Self {
            active: numbers[Self::ACTIVE],
            reading: numbers[Self::READING],
            writing: numbers[Self::WRITING],
            waiting: numbers[Self::WAITING],
            metrics: Metrics::from_array(metrics),
            accepted: numbers[Self::ACCEPTED],
            handled: numbers[Self::HANDLED],
            requests: numbers[Self::REQUESTS],
        }
    }
}

/// Jain's fairness index of the shares: (Σx)² / (n · Σx²).
///
/// It is 1/n if one of n has everything, and 1.0 if all shares are equal or zero. Source: Jain, Chiu, Hawe: *A Quantitative Measure of Fairness and Discrimination for
/// Resource Allocation in Shared Computer Systems*, DEC-TR-301, 1984.
pub fn jain(shares: impl Iterator<Item = u64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        let share = share as f64;
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares == 0.0 {
        return 1.0;
    }
    // Rounding may give slightly more.
    f64::min(sum * sum / (n * squares), 1.0)
}

#[cfg(test)]
mod tests {
    use evcore::balancer::{Policy, WorkerGroup, WorkerId};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn worker_stats_survive_a_round_trip_through_an_array() {
        let numbers = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(WorkerStats::from_array(numbers).to_array(), numbers);
    }

    #[test]
    fn a_death_resets_the_gauges_and_keeps_the_counters() {
        let scoreboard = WorkerStats::scoreboard(2).expect("a page");
        let group = WorkerGroup::new(Policy::Off, 2).expect("a page");
        let group = group.with_scoreboard(&scoreboard);
        let numbers = std::array::from_fn(|at| at as u64 + 1);
        let [one, two] = [0, 1].map(WorkerId::from_slot);
        scoreboard.publish(one, &numbers);
        scoreboard.publish(two, &numbers);
        group.release_dead(one);
        let stats = WorkerStats::from_array(numbers);
        let left = WorkerStats {
            accepted: stats.accepted,
            handled: stats.handled,
            requests: stats.requests,
            ..WorkerStats::default()
        };
        assert_eq!(WorkerStats::from_array(scoreboard.read(one)), left);
        assert_eq!(scoreboard.read(two), numbers);
        assert_eq!(
            WorkerStats::running(&scoreboard).collect::<Vec<_>>(),
            [stats]
        );
        assert_eq!(
            WorkerStats::sum_of(&scoreboard).accepted,
            2 * stats.accepted
        );
        assert_eq!(WorkerStats::sum_of(&scoreboard).active, stats.active);
    }

    #[test]
    fn jains_index_of_one_busy_worker_in_four_is_a_quarter() {
        assert_eq!(jain([0, 0, 0, 7].into_iter()), 0.25);
        assert_eq!(jain([0; 4].into_iter()), 1.0);
        assert_eq!(jain([].into_iter()), 1.0);
    }

    proptest! {
        #[test]
        fn jains_index_is_between_one_nth_and_one(shares in prop::collection::vec(any::<u64>(), 1..20)) {
            let index = jain(shares.iter().copied());
            let least = 1.0 / shares.len() as f64;
            prop_assert!((least - 1e-9..=1.0).contains(&index), "{}", index);
        }

        #[test]
        fn jains_index_of_equal_shares_is_one(share: u64, n in 1_usize..20) {
            prop_assert!(jain(std::iter::repeat_n(share, n)) > 1.0 - 1e-9);
        }
    }
}
