//! The last two minutes of the server, in shared memory: a ring of samples of the scoreboard (the
//! numbers that master and workers publish), one sample a second.
//!
//! One process writes: the master, or the server if it has no master. Any worker can read, so a
//! dashboard that is opened during an incident shows how the incident began.

use std::{
    io,
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
};

use evcore::{
    balancer::{self, WorkerId},
    clock::Clock,
};

use crate::{
    counters::Counters,
    metrics::{Metrics, Totals},
    phases::Phases,
    scoreboard::{Scoreboard, Snapshot, WorkerStats},
    server_stats::ServerStats,
};

/// Number of samples.
pub const SAMPLES: usize = 120;

/// The shortest time between two samples, in milliseconds. It is a little less than the interval of
/// the master, because rounding may make the master early.
const INTERVAL_MS: u64 = 990;

const LEN: usize = 2 + Phases::LEN + Metrics::LEN + 2 * Counters::LEN;

/// The id of the row with the head of a sample: its number, its time and the numbers of the server.
/// The rows of the workers follow it.
fn head() -> WorkerId {
    WorkerId::from_slot(0)
}

// The places of the words in a head. `ServerStats` is at the end.
const NUMBER: usize = 0;
const MONOTONIC_MS: usize = 1;
const UNIX_MS: usize = 2;
const SERVER: usize = 3;

/// A ring of samples. A clone is another handle to the same memory.
#[derive(Clone, Debug)]
pub struct History {
    ring: Arc<[balancer::Scoreboard<LEN>]>,
}

#[derive(Debug)]
pub struct Sampler {
    history: History,
    scoreboard: Scoreboard,
    snapshot: Snapshot,
    /// Number of the next sample; the first one is 1.
    number: u64,
    /// The time of the next sample, in milliseconds of monotonic time.
    due_ms: u64,
}

impl History {
    /// Creates a ring for this many slots of workers. A slot that is in use takes some 45 KiB in
    /// the whole ring.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new(slots: usize) -> io::Result<Self> {
        let ring = (0..SAMPLES).map(|_| balancer::Scoreboard::new(slots + 1, 0));
        let ring = ring.collect::<io::Result<_>>()?;
        Ok(Self { ring })
    }

    /// Passes the samples to `show`, the oldest first, without a sample that is being written. Only
    /// one [`Snapshot`] is in memory at a time.
    pub fn for_each(&self, mut show: impl FnMut(&Snapshot)) {
        let number = |sample: &balancer::Scoreboard<LEN>| sample.read(head())[NUMBER];
        let mut ring: Vec<_> = self.ring.iter().map(|at| (number(at), at)).collect();
        ring.sort_unstable_by_key(|(number, _)| *number);
        for (number, sample) in ring {
            // A sample that was replaced meanwhile is left out, because it is now the newest one.
            if let Some((_, snapshot)) = read(sample).filter(|(read, _)| *read == number) {
                show(&snapshot);
            }
        }
    }
}

/// Reads a sample, and returns it with its number. Returns `None` if the sample was never written,
/// or is being written.
fn read(sample: &balancer::Scoreboard<LEN>) -> Option<(u64, Snapshot)> {
    let first = sample.read(head());
    fence(Ordering::Acquire);
    let workers = sample
        .iter()
        .skip(1)
        .map(|(_, row)| from_row(row))
        .collect();
    fence(Ordering::Acquire);
    let is_whole = first[NUMBER] != 0 && sample.read(head())[NUMBER] == first[NUMBER];
    let snapshot = Snapshot {
        monotonic_ms: first[MONOTONIC_MS],
        unix_ms: i64::try_from(first[UNIX_MS]).unwrap_or(i64::MAX),
        server: ServerStats::from_array(std::array::from_fn(|at| first[SERVER + at])),
        workers,
    };
    is_whole.then_some((first[NUMBER], snapshot))
}

impl Sampler {
    /// Creates a sampler of this scoreboard. Only one may exist at a time.
    pub fn new(history: History, scoreboard: Scoreboard, clock: &Clock) -> Self {
        Self {
            history,
            snapshot: Snapshot::of(&scoreboard, clock),
            scoreboard,
            number: 1,
            due_ms: 0,
        }
    }

    /// Adds a sample, unless the last one was taken less than about a second ago.
    pub fn sample(&mut self, clock: &Clock) {
        if clock.monotonic_ms() < self.due_ms {
            return;
        }
        self.due_ms = clock.monotonic_ms() + INTERVAL_MS;
        let at = usize::try_from(self.number % SAMPLES as u64).expect("below 120");
        let sample = &self.history.ring[at];
        self.snapshot.update(&self.scoreboard, clock);
        let snapshot = &self.snapshot;
        // From here until the number is written, readers leave the sample out.
        sample.update(head(), [(NUMBER, 0)]);
        fence(Ordering::Release);
        for (slot, stats) in snapshot.workers.iter().enumerate() {
            sample.publish(WorkerId::from_slot(slot + 1), &to_row(stats));
        }
        let mut first = [0; LEN];
        first[MONOTONIC_MS] = snapshot.monotonic_ms;
        first[UNIX_MS] = snapshot.unix_ms.unsigned_abs();
        first[SERVER..SERVER + ServerStats::LEN].copy_from_slice(&snapshot.server.to_array());
        sample.publish(head(), &first);
        fence(Ordering::Release);
        sample.update(head(), [(NUMBER, self.number)]);
        self.number += 1;
    }
}

fn to_row(stats: &WorkerStats) -> [u64; LEN] {
    let mut row = [0; LEN];
    let numbers = [stats.active, stats.totals.index];
    let phases = stats.phases.to_array();
    let metrics = stats.metrics.to_array();
    let counters = stats.counters.to_array();
    let parts = numbers
        .iter()
        .chain(&phases)
        .chain(&metrics)
        .chain(&counters);
    for (word, number) in row.iter_mut().zip(parts.chain(&stats.at_start.to_array())) {
        *word = *number;
    }
    row
}

fn from_row(row: [u64; LEN]) -> WorkerStats {
    let [active, index] = [row[0], row[1]];
    let phases = 2;
    let metrics = phases + Phases::LEN;
    let counters = metrics + Metrics::LEN;
    let at_start = counters + Counters::LEN;
    WorkerStats {
        active,
        phases: Phases::from_array(std::array::from_fn(|at| row[phases + at])),
        metrics: Metrics::from_array(std::array::from_fn(|at| row[metrics + at])),
        counters: Counters::from_array(std::array::from_fn(|at| row[counters + at])),
        at_start: Counters::from_array(std::array::from_fn(|at| row[at_start + at])),
        totals: Totals {
            index,
            ..Totals::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evcore::clock::ManualTimeSource;

    use super::*;

    fn snapshots(history: &History) -> Vec<Snapshot> {
        let mut snapshots = Vec::new();
        history.for_each(|snapshot| snapshots.push(snapshot.clone()));
        snapshots
    }

    #[test]
    fn a_row_has_all_numbers_but_the_histograms() {
        let row = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(to_row(&from_row(row)), row);
    }

    #[test]
    fn the_ring_keeps_the_last_two_minutes() {
        let time = ManualTimeSource::at(1_764_000_000);
        let mut clock = Clock::with_source(time.clone());
        let scoreboard = WorkerStats::scoreboard(2).expect("a page");
        let history = History::new(2).expect("pages");
        let mut sampler = Sampler::new(history.clone(), scoreboard.clone(), &clock);
        assert!(snapshots(&history).is_empty());
        for second in 1..=130 {
            time.advance(Duration::from_secs(1));
            clock.update();
            let stats = WorkerStats {
                active: second,
                ..WorkerStats::default()
            };
            scoreboard.publish(WorkerId::from_slot(1), &stats);
            sampler.sample(&clock);
            // Less than a second has passed since the last sample.
            sampler.sample(&clock);
        }
        let snapshots = snapshots(&history);
        let active = snapshots.iter().map(|snapshot| snapshot.workers[1].active);
        assert!(active.eq(11..=130));
        let times = snapshots.iter().map(|snapshot| snapshot.unix_ms / 1000);
        assert!(times.eq(1_764_000_011..=1_764_000_130));
    }

    #[test]
    fn a_sample_that_is_being_written_is_left_out() {
        let clock = Clock::with_source(ManualTimeSource::at(1_764_000_000));
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let history = History::new(1).expect("pages");
        Sampler::new(history.clone(), scoreboard, &clock).sample(&clock);
        assert_eq!(snapshots(&history).len(), 1);
        history.ring[1].update(head(), [(NUMBER, 0)]);
        assert!(snapshots(&history).is_empty());
    }
}
