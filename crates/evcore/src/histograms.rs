//! What of a loop is measured, beside what is counted.

use crate::Histogram;

/// How the loop's figures were spread, since it was built or they were
/// [cleared](crate::EventLoop::clear_histograms).
///
/// They are always kept: recording takes one reading of a clock a turn, and some 60 instructions a
/// value, three values a turn and one for each timer that fires. In memory they take 100 KiB a
/// loop, all of it from the start.
///
/// ```
/// # use evcore::{EventLoop, Step, Timer};
/// # use std::time::Duration;
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// ev.arm(token, Timer::READ, Duration::from_millis(1));
/// while ev.stats().expired == 0 {
///     ev.wait()?;
///     while ev.next_step().is_some() {}
/// }
/// assert_eq!(ev.histograms().timer_lateness_ns().count(), 1);
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Histograms {
    turn_ns: Histogram,
    timer_lateness_ns: Histogram,
    events: Histogram,
    posted: Histogram,
}

/// The longest time that is told from longer ones: 73 minutes.
const NS_MAX: u64 = (1 << 42) - 1;

/// The longest queue that is told from longer ones.
const LENGTH_MAX: u64 = (1 << 20) - 1;

impl Histograms {
    pub(crate) fn new() -> Self {
        Self {
            turn_ns: Histogram::up_to(NS_MAX),
            timer_lateness_ns: Histogram::up_to(NS_MAX),
            events: Histogram::up_to(LENGTH_MAX),
            posted: Histogram::up_to(LENGTH_MAX),
        }
    }

    /// Takes note of what a turn began with.
    #[inline]
    pub(crate) fn turn_began(&mut self, events: usize, posted: u32) {
        self.events.record(events as u64);
        self.posted.record(u64::from(posted));
    }

    /// Takes note of how long a turn was.
    #[inline]
    pub(crate) fn turn_took(&mut self, ns: u64) {
        self.turn_ns.record(ns);
    }

    /// Takes note of how late a timer fired.
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

    /// How long turns took, in nanoseconds: from the end of a wait to the beginning of the next, so
    /// what you do after the last step is in it, and the wait is not.
    ///
    /// A turn is recorded when the next begins. A clock is read for it, just before the wait. With
    /// a [`timer_resolution`](crate::Builder::timer_resolution) you asked for fewer readings than
    /// that:
    /// then only the turns that begin with a tick are measured, unless there is a
    /// [`watchdog`](crate::Builder::watchdog), which measures all.
    #[must_use]
    pub fn turn_ns(&self) -> &Histogram {
        &self.turn_ns
    }

    /// How late timers fired, in nanoseconds: from the deadline to the time of the turn that fired
    /// them.
    ///
    /// The deadline is the millisecond to which the timer was rounded up. (With a
    /// [`timer_resolution`](crate::Builder::timer_resolution), to which it was put off, so that it
    /// would not be early.) What the handlers before it took within the turn is not in it: the time
    /// stands still there. That is what [`turn_ns`](Self::turn_ns) is for.
    #[must_use]
    pub fn timer_lateness_ns(&self) -> &Histogram {
        &self.timer_lateness_ns
    }

    /// How many events a wait brought.
    #[must_use]
    pub fn events(&self) -> &Histogram {
        &self.events
    }

    /// How many tokens were queued as posted when a turn began: left over, put off to it, or posted
    /// between the turns or by other threads.
    #[must_use]
    pub fn posted(&self) -> &Histogram {
        &self.posted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_take_100_kib() {
        let all = Histograms::new();
        let (times, lengths) = (all.turn_ns.ranges(), all.events.ranges());
        let bytes = 2 * (times + lengths) * size_of::<u64>();
        assert_eq!(bytes, 100 * 1024);
    }

    #[test]
    fn each_value_goes_to_its_own() {
        let mut all = Histograms::new();
        all.turn_began(1, 2);
        all.turn_took(3);
        all.timer_was_late(4);
        let greatest = [
            all.events(),
            all.posted(),
            all.turn_ns(),
            all.timer_lateness_ns(),
        ];
        assert_eq!(greatest.map(Histogram::max), [1, 2, 3, 4]);
        all.clear();
        let counts = [
            all.events(),
            all.posted(),
            all.turn_ns(),
            all.timer_lateness_ns(),
        ];
        assert_eq!(counts.map(Histogram::count), [0; 4]);
    }
}
