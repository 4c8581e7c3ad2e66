//! The metrics of a worker's event loop.
//!
//! Reading the histograms takes some 100,000 instructions. So a worker reads them about once a
//! second, and not for each page that a client requests.

use evcore::{Acceptor, EventLoop, Histogram, clock::Clock};

use crate::{
    buckets::Buckets,
    counters::Counters,
    measures::{GAUGES, TIMES},
};

const HISTOGRAM_INTERVAL_MS: u64 = 1000;

/// The metrics of a running worker. The metrics of its replacement begin anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The process id; 0 if this slot of the scoreboard has no worker.
    pub pid: u64,
    /// The time when the worker started, in milliseconds of monotonic time.
    pub started_ms: u64,
    /// Resident memory in bytes, which the master measures; 0 for a thread.
    pub memory_bytes: u64,
    pub gauges: [u64; GAUGES.len()],
    pub times: [Distribution; TIMES.len()],
}

/// The sums of the histograms of all event loops that a slot has had. The slot's next worker
/// continues them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The index that all workers of the slot have.
    pub index: u64,
    pub times: [Buckets; TIMES.len()],
}

/// The distribution of a time, in nanoseconds. Except the maximum, the values are updated once a
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

#[derive(Debug)]
pub struct MetricsCollector {
    /// The counts of earlier workers of the slot.
    earlier: (Counters, Totals),
    /// The time when the histograms are read next, in milliseconds of monotonic time.
    read_at_ms: u64,
}

impl Metrics {
    pub const LEN: usize = Self::TIMES + TIMES.len() * Distribution::LEN;

    /// The places of the gauges and of the times in the array.
    const GAUGES: usize = 3;
    const TIMES: usize = Self::GAUGES + GAUGES.len();

    /// The metrics of a worker that starts now, in this process.
    pub fn new(clock: &Clock) -> Self {
        Self {
            pid: u64::from(std::process::id()),
            started_ms: clock.monotonic_ms(),
            ..Self::default()
        }
    }

    /// Returns whether both metrics belong to one worker. The start distinguishes threads, which
    /// share one process id.
    pub fn is_of_same_worker(&self, other: &Self) -> bool {
        (self.pid, self.started_ms) == (other.pid, other.started_ms)
    }

    pub fn to_array(self) -> [u64; Self::LEN] {
        let times = self.times.into_iter().flat_map(Distribution::to_array);
        let numbers = [self.pid, self.started_ms, self.memory_bytes];
        let numbers = numbers.into_iter().chain(self.gauges);
        array(numbers.chain(times))
    }

    /// The values that a turn (an iteration of the event loop) may change, with their places in the
    /// array. The other values change at most once a second.
    #[inline]
    pub fn of_turn(&self) -> [(usize, u64); GAUGES.len() + TIMES.len()] {
        std::array::from_fn(|at| match at.checked_sub(GAUGES.len()) {
            None => (Self::GAUGES + at, self.gauges[at]),
            Some(time) => {
                let start = Self::TIMES + time * Distribution::LEN;
                (start + Distribution::MAX, self.times[time].max_ns)
            }
        })
    }

    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        let mut values = values.into_iter();
        Self {
            pid: next(&mut values),
            started_ms: next(&mut values),
            memory_bytes: next(&mut values),
            gauges: array(&mut values),
            times: std::array::from_fn(|_| Distribution::from_array(array(&mut values))),
        }
    }
}

impl Totals {
    pub const LEN: usize = 1 + TIMES.len() * Buckets::LEN;

    pub fn add(&mut self, other: &Self) {
        for (time, more) in self.times.iter_mut().zip(&other.times) {
            time.add(more);
        }
    }

    pub fn to_array(self) -> [u64; Self::LEN] {
        let times = self.times.into_iter().flat_map(Buckets::to_array);
        array([self.index].into_iter().chain(times))
    }

    pub fn from_array(values: [u64; Self::LEN]) -> Self {
        let mut values = values.into_iter();
        Self {
            index: next(&mut values),
            times: std::array::from_fn(|_| Buckets::from_array(array(&mut values))),
        }
    }
}

/// Takes the next `N` numbers. There are enough, because the lengths of all parts add up to the
/// length of the slot.
fn array<const N: usize>(numbers: impl IntoIterator<Item = u64>) -> [u64; N] {
    let mut numbers = numbers.into_iter();
    std::array::from_fn(|_| next(&mut numbers))
}

fn next(numbers: &mut impl Iterator<Item = u64>) -> u64 {
    numbers.next().expect("as many numbers as places")
}

impl MetricsCollector {
    /// Creates a collector that continues the counts of earlier workers of the slot.
    pub fn new(earlier: (Counters, Totals)) -> Self {
        Self {
            earlier,
            read_at_ms: 0,
        }
    }

    /// Updates metrics, counters and totals at the end of a turn. Values that require a read of the
    /// histograms may be a second old. Returns whether this call has read the histograms.
    pub fn collect<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        (metrics, counters, totals): (&mut Metrics, &mut Counters, &mut Totals),
    ) -> bool {
        let stats = ev.stats();
        counters.collect(&self.earlier.0, &stats);
        metrics.gauges = GAUGES.map(|gauge| (gauge.source)(&stats));
        let now_ms = ev.clock().monotonic_ms();
        let Some(histograms) = ev.instruments().histograms() else {
            return false;
        };
        let is_time = self.is_time_to_read(now_ms);
        let mut has_read = false;
        for (at, time) in TIMES.iter().enumerate() {
            let histogram = (time.source)(histograms);
            let distribution = &mut metrics.times[at];
            distribution.max_ns = histogram.max();
            // After its first value, a histogram is read at once.
            let has_first = distribution.mean_ns == 0 && distribution.max_ns > 0;
            if is_time || has_first {
                let mean = distribution.read(histogram);
                totals.times[at].read(histogram, mean, &self.earlier.1.times[at]);
                has_read = true;
            }
        }
        has_read
    }

    /// Makes the next [`collect`](Self::collect) read the histograms in any case.
    pub fn read_next(&mut self) {
        self.read_at_ms = 0;
    }

    fn is_time_to_read(&mut self, now_ms: u64) -> bool {
        let is_time = now_ms >= self.read_at_ms;
        if is_time {
            self.read_at_ms = now_ms + HISTOGRAM_INTERVAL_MS;
        }
        is_time
    }
}

impl Distribution {
    const LEN: usize = 4;

    const MAX: usize = 3;

    fn to_array(self) -> [u64; Self::LEN] {
        [self.mean_ns, self.p50_ns, self.p99_ns, self.max_ns]
    }

    fn from_array([mean_ns, p50_ns, p99_ns, max_ns]: [u64; Self::LEN]) -> Self {
        Self {
            mean_ns,
            p50_ns,
            p99_ns,
            max_ns,
        }
    }

    /// Updates the values that require a read of the buckets. Returns the mean.
    fn read(&mut self, histogram: &Histogram) -> f64 {
        let mean = histogram.mean();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean of nanoseconds, none of them negative"
        )]
        // The mean is rounded up, so that it is 0 only if all values are 0.
        let mean_ns = mean.ceil() as u64;
        self.mean_ns = mean_ns;
        self.p50_ns = histogram.quantile(0.5);
        self.p99_ns = histogram.quantile(0.99);
        mean
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream, time::Duration};

    use evcore::{InstrumentOptions, Interest, Mode, Step, Timer, clock::ManualTimeSource};

    use super::*;
    use crate::counters::{Counter, ROWS};
    use crate::measures::TURN;

    #[test]
    fn metrics_survive_a_round_trip_through_an_array() {
        let values = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(Metrics::from_array(values).to_array(), values);
        for (at, value) in Metrics::from_array(values).of_turn() {
            assert_eq!(values[at], value);
        }
        let values = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(Totals::from_array(values).to_array(), values);
    }

    /// A loop on a clock that the test moves, and a function that runs a turn of a given length.
    fn timed_loop() -> (EventLoop, impl Fn(Duration, &mut EventLoop)) {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let ev = EventLoop::builder()
            .clock(clock)
            .instruments(InstrumentOptions::new().histograms(true))
            .build();
        let turn_of = move |time_taken, ev: &mut EventLoop| {
            // The second wait ends the first turn.
            ev.wait_at_most(Duration::ZERO).expect("it waits");
            time.advance(time_taken);
            ev.wait_at_most(Duration::ZERO).expect("it waits");
        };
        (ev.expect("a loop"), turn_of)
    }

    #[test]
    fn the_first_value_updates_mean_and_p99_at_once() {
        let (mut ev, turn_of) = timed_loop();
        let mut collector = MetricsCollector::new(Default::default());
        let mut metrics = Metrics::new(ev.clock());
        let (mut counters, mut totals) = Default::default();
        collector.collect(&mut ev, (&mut metrics, &mut counters, &mut totals));
        let none = (metrics.times[TURN].mean_ns, metrics.times[TURN].max_ns);
        assert_eq!(none, (0, 0), "no turn yet");
        turn_of(Duration::from_millis(5), &mut ev);
        collector.collect(&mut ev, (&mut metrics, &mut counters, &mut totals));
        let first = metrics.times[TURN];
        assert!(first.mean_ns > 0 && first.p99_ns > 0, "{first:?}");
        turn_of(Duration::from_millis(50), &mut ev);
        collector.collect(&mut ev, (&mut metrics, &mut counters, &mut totals));
        let second = metrics.times[TURN];
        assert_eq!(
            (second.mean_ns, second.p50_ns, second.p99_ns),
            (first.mean_ns, first.p50_ns, first.p99_ns)
        );
        assert!(second.max_ns > first.max_ns);
    }

    #[test]
    fn a_replacement_continues_the_totals_of_its_slot() {
        let (mut counters, mut totals) = (Counters::default(), Totals::default());
        let mut seen = (counters, totals);
        for _ in 0..3 {
            let (mut ev, turn_of) = timed_loop();
            let mut metrics = Metrics::new(ev.clock());
            let mut collector = MetricsCollector::new((counters, totals));
            for ms in [0, 2, 7, 1100] {
                turn_of(Duration::from_millis(ms), &mut ev);
                collector.read_next();
                collector.collect(&mut ev, (&mut metrics, &mut counters, &mut totals));
                let all = |(counters, totals): (Counters, Totals)| {
                    [&counters.to_array()[..], &totals.to_array()].concat()
                };
                let now = (counters, totals);
                for (before, after) in all(seen).into_iter().zip(all(now)) {
                    assert!(before <= after, "{seen:?} {now:?}");
                }
                assert!(seen.0[Counter::Turns] < counters[Counter::Turns]);
                seen = now;
            }
            assert_eq!(
                metrics.times[TURN].max_ns / 100_000_000,
                11,
                "the worker's own"
            );
        }
        let long = totals.times[TURN].to_array();
        assert_eq!(
            long[Buckets::LEN - 2],
            3,
            "one turn above a second each: {long:?}"
        );
        assert!(totals.times[TURN].sum_ns >= 3 * 1_100_000_000);
    }

    #[test]
    fn totals_are_the_sums_of_earlier_counts_and_the_loops() {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let ev = EventLoop::builder().clock(clock).build();
        let mut ev = ev.expect("a poller");
        let pairs = [(); 2].map(|()| UnixStream::pair().expect("a pair of sockets"));
        let tokens = pairs.each_ref().map(|(ours, theirs)| {
            (&mut &*theirs).write_all(b"x").expect("it is open");
            let token = ev.add(ours, Interest::READ, Mode::Edge);
            token.expect("it is not full")
        });
        let timer = ev.add_unwatched().expect("it is not full");
        ev.arm(timer, Timer::READ, Duration::from_millis(1));
        time.advance(Duration::from_millis(2));
        ev.wait_at_most(Duration::ZERO).expect("it waits");
        // One of two events becomes stale.
        while let Some(step) = ev.next_step() {
            if let Step::Ready(token, _) = step {
                let other = tokens.into_iter().find(|other| *other != token);
                assert!(ev.remove(other.expect("there are two")));
            }
        }
        let earlier = Counters::from_array(std::array::from_fn(|at| 1_000 * at as u64));
        let mut metrics = Metrics::new(ev.clock());
        let (mut counters, mut totals) = (earlier, Totals::default());
        MetricsCollector::new((earlier, totals))
            .collect(&mut ev, (&mut metrics, &mut counters, &mut totals));
        let stats = ev.stats();
        assert_eq!((stats.events, stats.stale, stats.expired), (2, 1, 1));
        assert!(stats.turns > 0);
        // The counts of connections and bytes are as before.
        let of_loop = [10_000 + stats.turns, 11_002, 12_001, 13_001];
        let others: [u64; 10] = std::array::from_fn(|at| 1_000 * at as u64);
        let expected = [&others[..], &of_loop].concat();
        assert_eq!(counters.to_array(), *expected);
        for (at, value) in counters
            .of_turn()
            .into_iter()
            .chain(counters.of_connections())
        {
            assert_eq!(value, expected[at]);
        }
        let published = counters.of_turn().len() + counters.of_connections().len();
        assert_eq!(published, ROWS.len(), "each is in one of the two");
    }

    #[test]
    fn each_total_of_another_slot_is_added() {
        let [mut sum, other] = [1, 1_000]
            .map(|factor| Totals::from_array(std::array::from_fn(|at| factor * (at as u64 + 1))));
        let before = sum;
        sum.add(&other);
        assert_eq!(sum.index, before.index);
        let numbers = sum.to_array();
        for (at, number) in numbers.into_iter().enumerate().skip(1) {
            assert_eq!(
                number,
                1_001 * (at as u64 + 1),
                "number {at} of {numbers:?}"
            );
        }
    }

    #[test]
    fn the_last_read_of_a_worker_does_not_wait_for_a_second() {
        let (mut ev, turn_of) = timed_loop();
        let mut collector = MetricsCollector::new(Default::default());
        let mut metrics = Metrics::new(ev.clock());
        let (mut counters, mut totals) = (Counters::default(), Totals::default());
        turn_of(Duration::from_millis(5), &mut ev);
        assert!(collector.collect(&mut ev, (&mut metrics, &mut counters, &mut totals)));
        let first = totals.times[TURN];
        turn_of(Duration::from_millis(7), &mut ev);
        assert!(!collector.collect(&mut ev, (&mut metrics, &mut counters, &mut totals)));
        assert_eq!(totals.times[TURN], first);
        collector.read_next();
        assert!(collector.collect(&mut ev, (&mut metrics, &mut counters, &mut totals)));
        assert!(totals.times[TURN].sum_ns >= first.sum_ns + 6_900_000);
    }

    #[test]
    fn histograms_are_read_at_once_and_then_once_a_second() {
        let mut collector = MetricsCollector::new(Default::default());
        let reads = [7, 999, 1007, 1008, 5000, 5999, 6000];
        let reads = reads.map(|now_ms| collector.is_time_to_read(now_ms));
        assert_eq!(reads, [true, false, true, false, true, false, true]);
    }
}
