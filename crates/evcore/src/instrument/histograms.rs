//! The distributions of a loop's figures.

use std::mem;

use crate::Histogram;

/// The distributions of the loop's figures since it was built, or since they were
/// [cleared](crate::EventLoop::clear_histograms).
///
/// A loop keeps them if [`Builder::histograms`](crate::Builder::histograms) turns them on. The cost
/// is documented there.
///
/// ```
/// # use evcore::{EventLoop, Step, Timer};
/// # use std::time::Duration;
/// let mut ev = EventLoop::builder().histograms(true).build()?;
/// let token = ev.add_unwatched()?;
/// ev.arm(token, Timer::READ, Duration::from_millis(1));
/// while ev.stats().expired == 0 {
///     ev.wait()?;
///     while ev.next_step().is_some() {}
/// }
/// assert_eq!(ev.histograms().unwrap().timer_lateness_ns().count(), 1);
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Histograms {
    turn_ns: Histogram,
    timer_lateness_ns: Histogram,
    events: Lengths,
    posted: Lengths,
}

/// A distribution of lengths, most of which are equal to the one before. Such a length costs an
/// addition.
#[derive(Clone, Debug)]
struct Lengths {
    counts: Histogram,
    /// The last length, and how many times it came in a row. `counts` lacks these.
    last: u64,
    repeats: u64,
}

/// Longer times count as this: 73 minutes.
const NS_MAX: u64 = (1 << 42) - 1;

/// Longer queues count as this.
const LENGTH_MAX: u64 = (1 << 20) - 1;

impl Histograms {
    pub(crate) fn new() -> Self {
        Self {
            turn_ns: Histogram::up_to(NS_MAX),
            timer_lateness_ns: Histogram::up_to(NS_MAX),
            events: Lengths::new(),
            posted: Lengths::new(),
        }
    }

    /// Records what a turn began with.
    #[inline]
    pub(crate) fn turn_began(&mut self, events: usize, posted: u32) {
        self.events.record(events as u64);
        self.posted.record(u64::from(posted));
    }

    /// Records the length of a turn.
    #[inline]
    pub(crate) fn turn_took(&mut self, ns: u64) {
        self.turn_ns.record(ns);
    }

    /// Records how late a timer expired.
    #[inline]
    pub(crate) fn timer_was_late(&mut self, ns: u64) {
        self.timer_lateness_ns.record(ns);
    }

    pub(crate) fn clear(&mut self) {
        self.turn_ns.clear();
        self.timer_lateness_ns.clear();
        self.events.clear();
        self.posted.clear();
    }

    /// The length of turns in nanoseconds, from the end of a wait to the beginning of the next. It
    /// includes what you do after the last step, and not the wait.
    ///
    /// A turn is recorded when the next one begins. With a
    /// [`timer_resolution`](crate::Builder::timer_resolution), only turns that begin with a tick are
    /// measured, because the others do not read the clock. A [`watchdog`](crate::Builder::watchdog)
    /// measures all.
    #[must_use]
    pub fn turn_ns(&self) -> &Histogram {
        &self.turn_ns
    }

    /// The lateness of timers in nanoseconds, from the deadline to the time of the turn in which
    /// they expired.
    ///
    /// The deadline is the millisecond to which the timer was rounded up. (With a
    /// [`timer_resolution`](crate::Builder::timer_resolution), the one to which it was put off so
    /// that it is not early.) Earlier handlers of the same turn are not included, because the time
    /// stands still during a turn; see [`turn_ns`](Self::turn_ns).
    #[must_use]
    pub fn timer_lateness_ns(&self) -> &Histogram {
        &self.timer_lateness_ns
    }

    /// The number of events of a wait. Copies 14 KiB.
    #[must_use]
    pub fn events(&self) -> Histogram {
        self.events.histogram()
    }

    /// The number of posted tokens when a turn began: left over, put off to it, or posted between
    /// the turns or by other threads. Copies 14 KiB.
    #[must_use]
    pub fn posted(&self) -> Histogram {
        self.posted.histogram()
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

    /// Counts the repeated length, and begins with another one.
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
    fn all_of_them_take_100_kib() {
        let all = Histograms::new();
        let (times, lengths) = (all.turn_ns.ranges(), all.events().ranges());
        let bytes = 2 * (times + lengths) * size_of::<u64>();
        assert_eq!(bytes, 100 * 1024);
    }

    #[test]
    fn each_value_goes_to_its_own() {
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
