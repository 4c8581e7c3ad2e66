//! Histograms of an event loop: the length of its turns, the lateness of its timers, and the
//! numbers of events and of posted steps.
//!
//! A turn is one iteration of the loop. A posted step is one that waits in the loop's own queue.

use std::mem;

use crate::histogram::Histogram;

/// The distributions of a loop's figures since they were created or [cleared](Self::clear).
///
/// A loop of `evcore` records the figures itself. A loop of your own records the figures that it
/// has. The distribution of a figure that is never recorded stays empty.
///
/// ```
/// use evcore_instrument::Histograms;
///
/// let mut histograms = Histograms::new();
/// histograms.turn_began(3, 0); // events and posted steps
/// histograms.timer_was_late(200_000);
/// histograms.turn_took(50_000);
/// assert_eq!(histograms.events().max(), 3);
/// assert_eq!(histograms.turn_ns().count(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Histograms {
    turn_ns: Histogram,
    timer_lateness_ns: Histogram,
    events: Lengths,
    posted: Lengths,
}

/// A distribution of lengths (of the list of events, and of the posted queue). Recording the same
/// length again costs only a comparison and an addition.
#[derive(Clone, Debug)]
struct Lengths {
    counts: Histogram,
    /// The last length. `counts` does not include its last `repeats` occurrences yet.
    last: u64,
    repeats: u64,
}

/// The limit of the times, in nanoseconds: 73 minutes.
const NS_MAX: u64 = (1 << 42) - 1;

const LENGTH_MAX: u64 = (1 << 20) - 1;

impl Histograms {
    /// Creates empty histograms. They take 100 KiB.
    #[must_use]
    pub fn new() -> Self {
        Self {
            turn_ns: Histogram::up_to(NS_MAX),
            timer_lateness_ns: Histogram::up_to(NS_MAX),
            events: Lengths::new(),
            posted: Lengths::new(),
        }
    }

    /// Records the number of events and the number of posted steps that a turn began with.
    ///
    /// Costs a few instructions if both numbers are the same as in the turn before, and some 60 for
    /// each number that differs.
    #[inline]
    pub fn turn_began(&mut self, events: usize, posted: usize) {
        self.events.record(events as u64);
        self.posted.record(posted as u64);
    }

    /// Records the length of a turn, in nanoseconds.
    #[inline]
    pub fn turn_took(&mut self, ns: u64) {
        self.turn_ns.record(ns);
    }

    /// Records how late a timer expired, in nanoseconds.
    #[inline]
    pub fn timer_was_late(&mut self, ns: u64) {
        self.timer_lateness_ns.record(ns);
    }

    /// Empties all histograms, for example once a minute. The call writes 100 KiB.
    pub fn clear(&mut self) {
        self.turn_ns.clear();
        self.timer_lateness_ns.clear();
        self.events.clear();
        self.posted.clear();
    }

    /// The length of turns in nanoseconds.
    ///
    /// In `evcore`, a turn lasts from the end of a wait to the beginning of the next one, and
    /// includes the work after its last step. It is recorded when the next wait begins. With a
    /// `timer_resolution`, the loop updates its clock only at a tick, once in each resolution. A
    /// turn that begins without a tick is measured only if there is a watchdog, which reads the
    /// clock itself.
    #[must_use]
    pub fn turn_ns(&self) -> &Histogram {
        &self.turn_ns
    }

    /// The lateness of timers in nanoseconds.
    ///
    /// In `evcore`, the lateness is the time from a timer's deadline to the turn in which the timer
    /// expired. The deadline is rounded up to a whole millisecond, and a `timer_resolution` makes
    /// it later by one resolution. The clock stands still during a turn, so the time that earlier
    /// handlers of the same turn took is not included; see [`turn_ns`](Self::turn_ns).
    #[must_use]
    pub fn timer_lateness_ns(&self) -> &Histogram {
        &self.timer_lateness_ns
    }

    /// The number of events of a wait. Copies 14 KiB.
    #[must_use]
    pub fn events(&self) -> Histogram {
        self.events.histogram()
    }

    /// The number of posted steps when a turn began. Copies 14 KiB.
    ///
    /// In `evcore`, these are the posted steps that the turn before did not reach or has deferred,
    /// and the steps posted since then by the program or by other threads. A turn that holds the
    /// accept lock while a client waits first posts its own events, so these are included.
    #[must_use]
    pub fn posted(&self) -> Histogram {
        self.posted.histogram()
    }
}

impl Default for Histograms {
    fn default() -> Self {
        Self::new()
    }
}

impl Lengths {
    fn new() -> Self {
        Self {
            counts: Histogram::up_to(LENGTH_MAX),
            last: 0,
            repeats: 0,
        }
    }

    #[inline]
    fn record(&mut self, length: u64) {
        if length != self.last {
            self.begin(length);
        }
        self.repeats += 1;
    }

    /// Counts the occurrences of the last length, and begins to count those of another one.
    #[inline(never)]
    fn begin(&mut self, length: u64) {
        let last = mem::replace(&mut self.last, length);
        self.counts.record_n(last, mem::take(&mut self.repeats));
    }

    fn histogram(&self) -> Histogram {
        let mut counts = self.counts.clone();
        counts.record_n(self.last, self.repeats);
        counts
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.repeats = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_histograms_take_100_kib() {
        let all = Histograms::new();
        let (times, lengths) = (all.turn_ns.ranges(), all.events().ranges());
        let bytes = 2 * (times + lengths) * size_of::<u64>();
        assert_eq!(bytes, 100 * 1024);
    }

    #[test]
    fn each_figure_goes_to_its_own_histogram() {
        let mut all = Histograms::new();
        all.turn_began(1, 2);
        all.turn_took(3);
        all.timer_was_late(4);
        let each = |all: &Histograms, figure: fn(&Histogram) -> u64| {
            let lengths = [figure(&all.events()), figure(&all.posted())];
            (
                lengths,
                [all.turn_ns(), all.timer_lateness_ns()].map(figure),
            )
        };
        assert_eq!(each(&all, Histogram::max), ([1, 2], [3, 4]));
        all.clear();
        assert_eq!(each(&all, Histogram::count), ([0; 2], [0; 2]));
    }

    #[test]
    fn repeated_lengths_are_counted_like_others() {
        let mut lengths = Lengths::new();
        let mut expected = Histogram::up_to(LENGTH_MAX);
        for length in [3, 3, 0, 0, 0, 7, 300, 300, 7] {
            lengths.record(length);
            expected.record(length);
            let (shown, expected) = (lengths.histogram(), &expected);
            assert_eq!(
                (shown.count(), shown.min(), shown.max()),
                (expected.count(), expected.min(), expected.max())
            );
            for length in [0, 3, 7, LENGTH_MAX] {
                let figure = shown.count_at_most(length);
                assert_eq!(figure, expected.count_at_most(length), "{length}");
            }
        }
    }
}
