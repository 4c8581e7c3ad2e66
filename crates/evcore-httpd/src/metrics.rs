//! The metrics of a worker's event loop.

use evcore::{Acceptor, EventLoop, Histogram};

/// The least time between two reads of the histograms, which are slow to read.
const HISTOGRAM_INTERVAL_MS: u64 = 1000;

/// One worker's metrics since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The process id; 0 if the slot has no worker.
    pub pid: u64,
    /// The worker's index.
    pub index: u64,
    pub turns: u64,
    pub events: u64,
    pub stale: u64,
    /// The number of timers that are armed now.
    pub timers_armed: u64,
    pub timers_fired: u64,
    pub lateness: Distribution,
    pub turn: Distribution,
}

/// The distribution of a time, in nanoseconds. Mean and p99 are updated once a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    pub mean_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Collects a worker's metrics from its event loop.
#[derive(Debug, Default)]
pub struct MetricsCollector {
    /// When the histograms were read; `None` before the first time.
    read_at_ms: Option<u64>,
}

impl Metrics {
    /// The number of values.
    pub const LEN: usize = 13;

    /// Creates the metrics of the worker with this index in this process.
    pub fn new(index: usize) -> Self {
        Self {
            pid: u64::from(std::process::id()),
            index: index as u64,
            ..Self::default()
        }
    }

    pub fn to_array(self) -> [u64; Self::LEN] {
        let (lateness, turn) = (self.lateness, self.turn);
        let mut values = [
            self.pid,
            self.index,
            0,
            0,
            0,
            0,
            0,
            lateness.mean_ns,
            lateness.p99_ns,
            0,
            turn.mean_ns,
            turn.p99_ns,
            0,
        ];
        for (at, value) in self.of_turn() {
            values[at] = value;
        }
        values
    }

    /// The values that a turn may change, with their places in the array. The others change once a
    /// second.
    #[inline]
    pub fn of_turn(&self) -> [(usize, u64); 7] {
        [
            (2, self.turns),
            (3, self.events),
            (4, self.stale),
            (5, self.timers_armed),
            (6, self.timers_fired),
            (9, self.lateness.max_ns),
            (12, self.turn.max_ns),
        ]
    }

    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        let distribution = |at: usize| Distribution {
            mean_ns: values[at],
            p99_ns: values[at + 1],
            max_ns: values[at + 2],
        };
        Self {
            pid: values[0],
            index: values[1],
            turns: values[2],
            events: values[3],
            stale: values[4],
            timers_armed: values[5],
            timers_fired: values[6],
            lateness: distribution(7),
            turn: distribution(10),
        }
    }
}

impl MetricsCollector {
    /// Updates the metrics at the end of a turn. Means and quantiles may be a second old. Returns
    /// whether it has updated them too.
    pub fn collect<L: Acceptor>(&mut self, ev: &EventLoop<L>, metrics: &mut Metrics) -> bool {
        let stats = ev.stats();
        metrics.turns = stats.turns;
        metrics.events = stats.events;
        metrics.stale = stats.stale;
        metrics.timers_armed = ev.status().timers_armed as u64;
        metrics.timers_fired = stats.expired;
        let Some(histograms) = ev.histograms() else {
            return false;
        };
        let is_time = self.is_time_to_read(ev.clock().monotonic_ms());
        let mut has_read = false;
        for (distribution, histogram) in [
            (&mut metrics.lateness, histograms.timer_lateness_ns()),
            (&mut metrics.turn, histograms.turn_ns()),
        ] {
            distribution.max_ns = histogram.max();
            // The first values are shown at once.
            let has_first = distribution.mean_ns == 0 && distribution.max_ns > 0;
            if is_time || has_first {
                distribution.read(histogram);
                has_read = true;
            }
        }
        has_read
    }

    fn is_time_to_read(&mut self, now_ms: u64) -> bool {
        let last = self.read_at_ms;
        let is_time = last.is_none_or(|last| now_ms - last >= HISTOGRAM_INTERVAL_MS);
        if is_time {
            self.read_at_ms = Some(now_ms);
        }
        is_time
    }
}

impl Distribution {
    /// Updates what requires reading every bucket of the histogram.
    fn read(&mut self, histogram: &Histogram) {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean of nanoseconds, none of them negative"
        )]
        // Rounded up, so that it is 0 only if all values are.
        let mean_ns = histogram.mean().ceil() as u64;
        self.mean_ns = mean_ns;
        self.p99_ns = histogram.quantile(0.99);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evcore::clock::{Clock, ManualTimeSource};

    use super::*;

    #[test]
    fn metrics_survive_a_round_trip_through_an_array() {
        let values = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(Metrics::from_array(values).to_array(), values);
    }

    #[test]
    fn the_first_value_updates_mean_and_p99_at_once() {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let mut ev = EventLoop::builder()
            .clock(clock)
            .histograms(true)
            .build()
            .expect("a loop");
        let mut collector = MetricsCollector::default();
        let mut metrics = Metrics::new(0);
        collector.collect(&ev, &mut metrics);
        let none = (metrics.turn.mean_ns, metrics.turn.max_ns);
        assert_eq!(none, (0, 0), "no turn yet");
        let turn_of = |time_taken, ev: &mut EventLoop| {
            // The second wait ends the first turn.
            ev.poll(Some(Duration::ZERO)).expect("it waits");
            time.advance(time_taken);
            ev.poll(Some(Duration::ZERO)).expect("it waits");
        };
        turn_of(Duration::from_millis(5), &mut ev);
        collector.collect(&ev, &mut metrics);
        let first = metrics.turn;
        assert!(first.mean_ns > 0 && first.p99_ns > 0, "{first:?}");
        // The next read is a second later.
        turn_of(Duration::from_millis(50), &mut ev);
        collector.collect(&ev, &mut metrics);
        let second = metrics.turn;
        assert_eq!(
            (second.mean_ns, second.p99_ns),
            (first.mean_ns, first.p99_ns)
        );
        assert!(second.max_ns > first.max_ns);
    }

    #[test]
    fn histograms_are_read_at_once_and_then_once_a_second() {
        let mut collector = MetricsCollector::default();
        let reads = [0, 999, 1000, 1001, 5000, 5999, 6000];
        let reads = reads.map(|now_ms| collector.is_time_to_read(now_ms));
        assert_eq!(reads, [true, false, true, false, true, false, true]);
    }
}
