//! The scoreboard: the numbers that the processes of the server publish, in shared memory.

use std::{
    io, mem,
    sync::atomic::{Ordering, fence},
};

use evcore::{
    balancer::{self, WorkerGroup, WorkerId},
    clock::Clock,
};

use crate::{
    counters::{Counter, Counters, OF_CONNECTIONS, OF_TURN},
    metrics::{Metrics, Totals},
    phases::Phases,
    server_stats::{Number, ServerStats},
};

/// The shared memory: a slot for each worker that can run at the same time, and one for the master.
///
/// Create the scoreboard before the fork. A clone is another handle to the same memory.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    workers: balancer::Scoreboard<{ WorkerStats::LEN }>,
    /// The memory of each worker in bytes, which the master measures.
    memory: balancer::Scoreboard<1>,
    server: balancer::Scoreboard<{ ServerStats::LEN }>,
}

impl Scoreboard {
    /// The values of each slot, including slots without a worker.
    pub fn iter(&self) -> impl Iterator<Item = WorkerStats> {
        let slots = self.workers.iter();
        slots.map(|(slot, numbers)| self.with_memory(slot, WorkerStats::from_array(numbers)))
    }

    /// The numbers that a worker, or its predecessor in the same slot, has published.
    pub fn read(&self, id: WorkerId) -> WorkerStats {
        self.with_memory(id, WorkerStats::from_array(self.workers.read(id)))
    }

    fn with_memory(&self, id: WorkerId, mut stats: WorkerStats) -> WorkerStats {
        [stats.metrics.memory_bytes] = self.memory.read(id);
        stats
    }

    /// The numbers that the running worker of a slot has published; `None` if no worker runs there.
    ///
    /// The values of a slot are read one by one. If another worker has taken the slot meanwhile,
    /// the values may be of two workers, and are read again. A worker publishes its process id
    /// after all other values, and the id is set to 0 before the next worker starts.
    fn read_running(&self, id: WorkerId) -> Option<WorkerStats> {
        let mut before = self.read(id).metrics;
        loop {
            fence(Ordering::Acquire);
            let stats = self.read(id);
            fence(Ordering::Acquire);
            let after = self.read(id).metrics;
            if before.is_of_same_worker(&after) {
                return (after.pid != 0).then_some(stats);
            }
            before = after;
        }
    }

    /// Publishes all values of a worker. Only the worker itself may call this.
    pub fn publish(&self, id: WorkerId, stats: &WorkerStats) {
        self.workers.publish(id, &stats.to_array());
    }

    /// Publishes some values of a worker, each with its place in the slot.
    #[inline]
    pub fn update<const M: usize>(&self, id: WorkerId, numbers: [(usize, u64); M]) {
        self.workers.update(id, numbers);
    }

    /// Sets the gauges of a dead worker to 0.
    pub fn release_dead(&self, dead: WorkerId) {
        self.workers.release_dead(dead);
        self.memory.release_dead(dead);
    }

    /// Adds the scoreboard to a group, whose `release_dead` then sets the gauges of a dead worker
    /// to 0.
    #[must_use]
    pub fn add_to(&self, group: WorkerGroup) -> WorkerGroup {
        group
            .with_scoreboard(&self.workers)
            .with_scoreboard(&self.memory)
    }

    /// The numbers that the master has published.
    pub fn server(&self) -> ServerStats {
        ServerStats::from_array(self.server.read(master()))
    }

    /// Records that the server starts now. Before this call, the recorded start is 0.
    pub fn record_start(&self, clock: &Clock) {
        self.update_server(|server| server.set_start(clock));
    }

    /// Adds to a number of the server. Only the process that has called
    /// [`record_start`](Self::record_start) may call this.
    pub fn count(&self, number: Number, more: u64) {
        self.update_server(|server| server[number] += more);
    }

    /// Sets a number of the server. The same rule as for [`count`](Self::count) applies.
    pub fn set(&self, number: Number, value: u64) {
        self.update_server(|server| server[number] = value);
    }

    /// Measures the memory of each worker anew. The same rule as for [`count`](Self::count)
    /// applies.
    pub fn measure_memory(&self, resident_bytes: impl Fn(u64) -> Option<u64>) {
        for slot in (0..self.workers.workers()).map(WorkerId::from_slot) {
            let worker = self.read_running(slot);
            let bytes = worker.and_then(|worker| resident_bytes(worker.metrics.pid));
            self.memory.publish(slot, &[bytes.unwrap_or(0)]);
        }
    }

    /// Returns the values of all slots. A slot whose worker changes meanwhile counts as one without
    /// a running worker.
    fn snapshot(&self) -> impl Iterator<Item = WorkerStats> {
        let slots = (0..self.workers.workers()).map(WorkerId::from_slot);
        slots.map(|id| self.read_running(id).unwrap_or_else(|| self.read(id)))
    }

    fn update_server(&self, change: impl FnOnce(&mut ServerStats)) {
        let mut server = self.server();
        change(&mut server);
        self.server.publish(master(), &server.to_array());
    }
}

fn master() -> WorkerId {
    WorkerId::from_slot(0)
}

/// All numbers of the server at a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time of the numbers, in milliseconds of monotonic time.
    pub monotonic_ms: u64,
    /// The time of the numbers, in milliseconds since 1970.
    pub unix_ms: i64,
    /// The numbers of the master.
    pub server: ServerStats,
    /// The values of each slot, including slots without a worker.
    pub workers: Vec<WorkerStats>,
}

impl Snapshot {
    /// Returns the present numbers.
    pub fn of(scoreboard: &Scoreboard, clock: &Clock) -> Self {
        Self {
            monotonic_ms: clock.monotonic_ms(),
            unix_ms: clock.unix_ms(),
            server: scoreboard.server(),
            workers: scoreboard.snapshot().collect(),
        }
    }

    /// Reads the present numbers into this value, without an allocation.
    pub fn update(&mut self, scoreboard: &Scoreboard, clock: &Clock) {
        let mut workers = mem::take(&mut self.workers);
        workers.clear();
        workers.extend(scoreboard.snapshot());
        *self = Self {
            monotonic_ms: clock.monotonic_ms(),
            unix_ms: clock.unix_ms(),
            server: scoreboard.server(),
            workers,
        };
    }

    /// The slots of running workers.
    pub fn running(&self) -> impl Iterator<Item = &WorkerStats> {
        let slots = self.workers.iter();
        slots.filter(|stats| stats.metrics.pid != 0)
    }

    /// The sums over all workers, including those that have ended. Metrics and totals are not
    /// summed.
    pub fn sum(&self) -> WorkerStats {
        let none = WorkerStats::default();
        self.workers.iter().fold(none, |sum, stats| sum.plus(stats))
    }
}

/// The numbers that one worker publishes, or the sums over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Open connections.
    pub active: u64,
    /// The number of connections in each phase.
    pub phases: Phases,
    /// The metrics of the running worker.
    pub metrics: Metrics,
    /// The counts of the slot's workers so far.
    pub counters: Counters,
    /// The histograms of the slot's event loops so far.
    pub totals: Totals,
    /// The counters of the slot when its present worker started.
    pub at_start: Counters,
}

impl WorkerStats {
    /// Number of gauges. They come first in a slot, and go back to 0 when the worker dies. The
    /// other values are counters, which the next worker of the slot continues.
    const GAUGES: usize = Self::METRICS + Metrics::LEN;
    /// The number of values in a slot.
    pub const LEN: usize = Self::AT_START + Counters::LEN;

    // The places of single values in a slot.
    const ACTIVE: usize = 0;
    const PHASES: usize = 1;
    pub(crate) const METRICS: usize = Self::PHASES + Phases::LEN;
    const COUNTERS: usize = Self::GAUGES;
    const TOTALS: usize = Self::COUNTERS + Counters::LEN;
    const AT_START: usize = Self::TOTALS + Totals::LEN;

    /// Creates a scoreboard for this many workers.
    pub fn scoreboard(workers: usize) -> io::Result<Scoreboard> {
        Ok(Scoreboard {
            workers: balancer::Scoreboard::new(workers, Self::GAUGES)?,
            memory: balancer::Scoreboard::new(workers, 1)?,
            server: balancer::Scoreboard::new(1, 0)?,
        })
    }

    /// The sums over all workers, including those that have ended. Metrics and totals are not
    /// summed.
    pub fn sum_of(scoreboard: &Scoreboard) -> Self {
        scoreboard
            .iter()
            .fold(Self::default(), |sum, stats| sum.plus(&stats))
    }

    /// The slots of running workers.
    pub fn running(scoreboard: &Scoreboard) -> impl Iterator<Item = Self> {
        let slots = (0..scoreboard.workers.workers()).map(WorkerId::from_slot);
        slots.filter_map(|id| scoreboard.read_running(id))
    }

    /// The counters of only the present worker.
    pub fn since_start(&self) -> Counters {
        self.counters.since(&self.at_start)
    }

    /// The numbers of open connections, with their places in the slot.
    #[inline]
    pub(crate) fn connections(&self) -> [(usize, u64); 1 + Phases::LEN] {
        let phases = self.phases.to_array();
        std::array::from_fn(|at| match at.checked_sub(Self::PHASES) {
            Some(phase) => (at, phases[phase]),
            None => (Self::ACTIVE, self.active),
        })
    }

    /// The counter's place in the slot, and its value.
    #[inline]
    pub(crate) fn counter(&self, counter: Counter) -> (usize, u64) {
        (Self::COUNTERS + counter as usize, self.counters[counter])
    }

    /// The counters that are published once a turn (an iteration of the event loop), with their
    /// places in the slot.
    #[inline]
    pub(crate) fn counters_of_turn(&self) -> [(usize, u64); OF_TURN] {
        let counters = self.counters.of_turn();
        counters.map(|(at, count)| (Self::COUNTERS + at, count))
    }

    /// The counters of the connections, with their places in the slot.
    #[inline]
    pub(crate) fn counters_of_connections(&self) -> [(usize, u64); OF_CONNECTIONS] {
        let counters = self.counters.of_connections();
        counters.map(|(at, count)| (Self::COUNTERS + at, count))
    }

    /// The sums over all workers of each index, including those that have ended. The index is the
    /// place in the list.
    ///
    /// A slot is used by workers of one index only, and its counters stay, so no counter of the
    /// list goes back.
    pub fn by_index(scoreboard: &Scoreboard) -> Vec<Self> {
        let mut sums: Vec<Self> = Vec::new();
        for stats in scoreboard.iter() {
            let index = usize::try_from(stats.totals.index).unwrap_or_default();
            if sums.len() <= index {
                sums.resize(index + 1, Self::default());
            }
            let sum = &mut sums[index];
            *sum = sum.plus(&stats);
            for (gauge, more) in sum.metrics.gauges.iter_mut().zip(stats.metrics.gauges) {
                *gauge += more;
            }
            sum.metrics.memory_bytes += stats.metrics.memory_bytes;
            sum.totals.add(&stats.totals);
        }
        sums
    }

    /// Adds the connections and the counters.
    fn plus(mut self, other: &Self) -> Self {
        self.active += other.active;
        self.phases.add(&other.phases);
        self.counters.add(&other.counters);
        self
    }

    /// Converts to the values of a slot: gauges, then counters.
    pub fn to_array(self) -> [u64; Self::LEN] {
        let mut numbers = [0; Self::LEN];
        numbers[Self::ACTIVE] = self.active;
        numbers[Self::PHASES..Self::METRICS].copy_from_slice(&self.phases.to_array());
        numbers[Self::METRICS..Self::GAUGES].copy_from_slice(&self.metrics.to_array());
        numbers[Self::COUNTERS..Self::TOTALS].copy_from_slice(&self.counters.to_array());
        numbers[Self::TOTALS..Self::AT_START].copy_from_slice(&self.totals.to_array());
        numbers[Self::AT_START..].copy_from_slice(&self.at_start.to_array());
        numbers
    }

    /// Converts from the values of a slot.
    pub fn from_array(numbers: [u64; Self::LEN]) -> Self {
        Self {
            active: numbers[Self::ACTIVE],
            phases: Phases::from_array(std::array::from_fn(|at| numbers[Self::PHASES + at])),
            metrics: Metrics::from_array(std::array::from_fn(|at| numbers[Self::METRICS + at])),
            counters: Counters::from_array(std::array::from_fn(|at| numbers[Self::COUNTERS + at])),
            totals: Totals::from_array(std::array::from_fn(|at| numbers[Self::TOTALS + at])),
            at_start: Counters::from_array(std::array::from_fn(|at| numbers[Self::AT_START + at])),
        }
    }
}

/// Jain's fairness index of the shares: (Σx)² / (n · Σx²).
///
/// The index is 1/n if one of n has everything, and 1.0 if all shares are equal or zero. Source:
/// Jain, Chiu, Hawe: *A Quantitative Measure of Fairness and Discrimination for Resource Allocation
/// in Shared Computer Systems*, DEC-TR-301, 1984.
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
    // Rounding may give slightly more than 1.
    f64::min(sum * sum / (n * squares), 1.0)
}

#[cfg(test)]
mod tests {
    use evcore::balancer::Policy;
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
        let group = scoreboard.add_to(group);
        let mut stats = WorkerStats::from_array(std::array::from_fn(|at| at as u64 + 1));
        // The master publishes the memory separately.
        stats.metrics.memory_bytes = 0;
        let [one, two] = [0, 1].map(WorkerId::from_slot);
        scoreboard.publish(one, &stats);
        scoreboard.publish(two, &stats);
        group.release_dead(one);
        let left = WorkerStats {
            counters: stats.counters,
            totals: stats.totals,
            at_start: stats.at_start,
            ..WorkerStats::default()
        };
        assert_eq!(scoreboard.read(one), left);
        assert_eq!(scoreboard.read(two), stats);
        assert_eq!(
            WorkerStats::running(&scoreboard).collect::<Vec<_>>(),
            [stats]
        );
        assert_eq!(
            WorkerStats::sum_of(&scoreboard).counters[Counter::Accepted],
            2 * stats.counters[Counter::Accepted]
        );
        assert_eq!(WorkerStats::sum_of(&scoreboard).active, stats.active);
    }

    #[test]
    fn counters_of_a_worker_index_are_summed_over_its_slots() {
        let scoreboard = WorkerStats::scoreboard(4).expect("a page");
        // Two workers, and one more of index 0 after a reload. The last slot never had a worker.
        for (slot, index) in [(0, 0), (1, 1), (2, 0)] {
            let mut stats = WorkerStats::from_array(std::array::from_fn(|at| at as u64 + 1));
            stats.totals.index = index;
            scoreboard.publish(WorkerId::from_slot(slot), &stats);
        }
        let once = scoreboard.read(WorkerId::from_slot(1));
        let before = WorkerStats::by_index(&scoreboard);
        assert_eq!(before.len(), 2);
        let twice = once.counters.to_array().map(|count| 2 * count);
        assert_eq!(before[1].counters, once.counters);
        assert_eq!(before[0].counters.to_array(), twice);
        assert_eq!(
            before[0].totals.times[1].sum_ns,
            2 * once.totals.times[1].sum_ns
        );
        assert_eq!(before[0].active, 2 * once.active);
        scoreboard.release_dead(WorkerId::from_slot(0));
        let after = WorkerStats::by_index(&scoreboard);
        assert_eq!(after[0].totals, before[0].totals);
        assert_eq!(after[0].counters, before[0].counters);
        assert_eq!(after[0].active, once.active);
    }

    #[test]
    fn each_count_of_two_slots_is_in_the_sum_of_their_index() {
        let scoreboard = WorkerStats::scoreboard(3).expect("a page");
        for (slot, factor) in [(0, 1), (1, 1_000)] {
            let numbers = std::array::from_fn(|at| factor * (at as u64 + 1));
            let mut stats = WorkerStats::from_array(numbers);
            stats.totals.index = 0;
            scoreboard.publish(WorkerId::from_slot(slot), &stats);
        }
        let of_index = WorkerStats::by_index(&scoreboard)[0].to_array();
        let all = WorkerStats::sum_of(&scoreboard).to_array();
        let connections =
            (0..WorkerStats::METRICS).chain(WorkerStats::COUNTERS..WorkerStats::TOTALS);
        for at in connections.clone() {
            assert_eq!(all[at], 1_001 * (at as u64 + 1), "number {at} of {all:?}");
        }
        // The first of the totals is the index.
        for at in connections.chain(WorkerStats::TOTALS + 1..WorkerStats::AT_START) {
            assert_eq!(
                of_index[at],
                1_001 * (at as u64 + 1),
                "number {at} of {of_index:?}"
            );
        }
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
