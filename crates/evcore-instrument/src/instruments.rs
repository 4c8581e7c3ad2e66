//! All instruments of an event loop: histograms, a watchdog and a flight recorder. If nothing is
//! on, a call costs one comparison.
//!
//! A turn is one iteration of the loop, and a step is one event that it handles.

use crate::{
    flight_recorder::FlightRecorder, histograms::Histograms, options::InstrumentOptions,
    slow_turn::SlowTurn, watchdog::Watchdog,
};

/// The instruments of a loop that its [options](InstrumentOptions) turn on.
///
/// `R` is the type of a record in the flight recorder. The watchdog uses the same type to name the
/// kind of a step. If nothing is on, each call is a comparison. Times are nanoseconds of a
/// monotonic clock.
///
/// ```
/// use evcore_instrument::{InstrumentOptions, Instruments};
/// use std::time::{Duration, Instant};
///
/// let options = InstrumentOptions::new().watchdog(Duration::ZERO).flight_recorder(10);
/// let mut instruments = Instruments::new(options);
/// let start = Instant::now();
/// let now_ns = || start.elapsed().as_nanos() as u64;
/// let began_ns = now_ns(); // the end of a wait
/// instruments.begin_turn((2, 0), Some(began_ns), now_ns, || 0);
/// for event in ["readable", "expired"] {
///     instruments.time_step(now_ns(), Some(event));
///     instruments.record(event); // and handle it
/// }
/// instruments.end_turn(now_ns);
/// assert!(instruments.take_slow_turn().is_some());
/// assert!(instruments.flight_records().eq(["readable", "expired"]));
/// ```
#[derive(Debug)]
pub struct Instruments<R>(Option<Box<Set<R>>>);

#[derive(Debug)]
struct Set<R> {
    histograms: Option<Histograms>,
    watchdog: Option<Watchdog<R>>,
    recorder: Option<FlightRecorder<R>>,
    /// The time at which the current turn began, if the turn is timed.
    began_ns: Option<u64>,
}

/// The methods that the loop calls.
impl<R> Instruments<R> {
    /// Creates the instruments that the options turn on.
    #[must_use]
    pub fn new(options: InstrumentOptions) -> Self {
        let records = options.flight_records;
        let set = Set {
            histograms: options.histograms.then(Histograms::new),
            watchdog: options.watchdog.map(Watchdog::new),
            recorder: (records > 0).then(|| FlightRecorder::with_capacity(records)),
            began_ns: None,
        };
        let is_on = set.measures() || set.recorder.is_some() || options.timed;
        Self(is_on.then(|| Box::new(set)))
    }

    /// Returns whether any instrument is on, or turns are [timed](InstrumentOptions::timed).
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether histograms or a watchdog are on.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.0.as_ref().is_some_and(|set| set.measures())
    }

    /// Returns whether a watchdog times each step.
    #[must_use]
    pub fn times_steps(&self) -> bool {
        self.0.as_ref().is_some_and(|set| set.watchdog.is_some())
    }

    /// Returns whether a flight recorder keeps records.
    #[must_use]
    pub fn keeps_records(&self) -> bool {
        self.0.as_ref().is_some_and(|set| set.recorder.is_some())
    }

    /// Begins a turn with these numbers of events and of posted steps.
    ///
    /// `began_ns` is the time of the turn's beginning if the loop has read it. If it is `None`, the
    /// turn is timed only if there is a watchdog, for which `read_ns` is called. `unix_ms`
    /// returns the time of day in milliseconds since 1970-01-01T00:00:00 UTC, and is called only if
    /// there is a watchdog.
    #[inline]
    pub fn begin_turn(
        &mut self,
        (events, posted): (usize, usize),
        began_ns: Option<u64>,
        read_ns: impl FnOnce() -> u64,
        unix_ms: impl FnOnce() -> i64,
    ) {
        let Some(set) = &mut self.0 else {
            return;
        };
        if let Some(histograms) = &mut set.histograms {
            histograms.turn_began(events, posted);
        }
        set.began_ns = began_ns;
        if let Some(watchdog) = &mut set.watchdog {
            let began_ns = *set.began_ns.get_or_insert_with(read_ns);
            watchdog.begin_turn(began_ns, unix_ms());
        }
    }

    /// Ends the turn. Returns the present time and how long the turn took.
    ///
    /// Returns `None` without a call of `read_ns` if the turn is not timed.
    #[inline]
    pub fn end_turn(&mut self, read_ns: impl FnOnce() -> u64) -> Option<(u64, u64)> {
        let set = self.0.as_mut()?;
        let began_ns = set.began_ns.take()?;
        let now_ns = read_ns();
        let took_ns = now_ns.saturating_sub(began_ns);
        if let Some(histograms) = &mut set.histograms {
            histograms.turn_took(took_ns);
        }
        if let Some(watchdog) = &mut set.watchdog {
            watchdog.end_turn(now_ns);
        }
        Some((now_ns, took_ns))
    }

    /// Ends the current step, and begins `next`, if there is one. Has no effect without a watchdog.
    pub fn time_step(&mut self, now_ns: u64, next: Option<R>) {
        let watchdog = self.0.as_mut().and_then(|set| set.watchdog.as_mut());
        match (watchdog, next) {
            (Some(watchdog), Some(next)) => watchdog.begin_step(now_ns, next),
            (Some(watchdog), None) => watchdog.end_step(now_ns),
            (None, _) => {}
        }
    }

    /// Keeps a record, if there is a flight recorder.
    #[inline]
    pub fn record(&mut self, record: R) {
        if let Some(recorder) = self.0.as_mut().and_then(|set| set.recorder.as_mut()) {
            recorder.push(record);
        }
    }

    /// Records how late a timer expired. `late_ns` is called only if there are histograms.
    #[inline]
    pub fn timer_was_late(&mut self, late_ns: impl FnOnce() -> u64) {
        if let Some(histograms) = self.0.as_mut().and_then(|set| set.histograms.as_mut()) {
            histograms.timer_was_late(late_ns());
        }
    }
}

/// The methods with which a program reads the instruments.
impl<R> Instruments<R> {
    /// The distributions of the loop's figures. `None` if they are
    /// [off](InstrumentOptions::histograms).
    #[must_use]
    pub fn histograms(&self) -> Option<&Histograms> {
        self.0.as_ref()?.histograms.as_ref()
    }

    /// Empties the [histograms](Self::histograms), for example once a minute. The call writes 100
    /// KiB.
    ///
    /// The length of the current turn is recorded as usual when the turn ends. Its numbers of
    /// events and of posted steps are lost.
    pub fn clear_histograms(&mut self) {
        let histograms = self.0.as_mut().and_then(|set| set.histograms.as_mut());
        if let Some(histograms) = histograms {
            histograms.clear();
        }
    }

    /// Takes the slowest of the turns that took longer than the limit of the
    /// [watchdog](InstrumentOptions::watchdog) since the last call. `None` if there was none, or if
    /// there is no watchdog.
    ///
    /// In `evcore` a turn ends when the next wait begins. So call this method after that wait to
    /// get the turn before it.
    pub fn take_slow_turn(&mut self) -> Option<SlowTurn<R>> {
        self.0.as_mut()?.watchdog.as_mut()?.take_slow_turn()
    }

    /// The number of turns that took longer than the watchdog's limit; 0 without a watchdog.
    #[must_use]
    pub fn slow_turns(&self) -> u64 {
        let watchdog = self.0.as_ref().and_then(|set| set.watchdog.as_ref());
        watchdog.map_or(0, Watchdog::slow_turns)
    }

    /// The last records of the loop's actions, the oldest first, for the log after something went
    /// wrong. Empty without a [flight recorder](InstrumentOptions::flight_recorder).
    ///
    /// After a panic of a handler, read them where the unwinding ends, or in a destructor. (A loop
    /// belongs to one thread, so a panic hook cannot borrow it.)
    pub fn flight_records(&self) -> impl Iterator<Item = R>
    where
        R: Copy,
    {
        let recorder = self.0.as_ref().and_then(|set| set.recorder.as_ref());
        recorder.into_iter().flat_map(FlightRecorder::iter).copied()
    }
}

impl<R> Set<R> {
    fn measures(&self) -> bool {
        self.histograms.is_some() || self.watchdog.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Makes a turn of two steps. Returns the result of `end_turn`, and whether `begin_turn` has
    /// read the clock.
    fn turn(
        instruments: &mut Instruments<char>,
        began_ns: Option<u64>,
    ) -> (Option<(u64, u64)>, bool) {
        let mut was_read = false;
        let read_ns = || {
            was_read = true;
            20
        };
        instruments.begin_turn((2, 1), began_ns, read_ns, || 7);
        for (now_ns, step) in [(30, 'a'), (35, 'b')] {
            instruments.time_step(now_ns, Some(step));
            instruments.record(step);
        }
        instruments.time_step(90, None);
        (instruments.end_turn(|| 100), was_read)
    }

    #[test]
    fn without_options_nothing_is_measured_and_no_clock_is_read() {
        let mut off = Instruments::new(InstrumentOptions::new());
        assert!(!off.is_on());
        assert_eq!(turn(&mut off, Some(10)), (None, false));
        off.timer_was_late(|| panic!("the lateness is not wanted"));
        off.clear_histograms();
        assert!(off.histograms().is_none() && off.take_slow_turn().is_none());
        assert_eq!((off.slow_turns(), off.flight_records().count()), (0, 0));
    }

    #[test]
    fn histograms_measure_turns_whose_beginning_is_known() {
        let mut set = Instruments::new(InstrumentOptions::new().histograms(true));
        assert!(set.measures() && !set.times_steps() && !set.keeps_records());
        assert_eq!(turn(&mut set, Some(10)), (Some((100, 90)), false));
        assert_eq!(turn(&mut set, None), (None, false));
        set.timer_was_late(|| 3);
        let histograms = set.histograms().unwrap();
        assert_eq!(
            (histograms.turn_ns().count(), histograms.turn_ns().max()),
            (1, 90)
        );
        assert_eq!(
            (histograms.events().count(), histograms.posted().max()),
            (2, 1)
        );
        assert_eq!(histograms.timer_lateness_ns().max(), 3);
        set.clear_histograms();
        assert_eq!(set.histograms().unwrap().events().count(), 0);
    }

    #[test]
    fn a_watchdog_reads_the_clock_if_the_loop_has_not() {
        let options = InstrumentOptions::new().watchdog(Duration::from_nanos(79));
        let mut set = Instruments::new(options);
        assert!(set.measures() && set.times_steps());
        assert_eq!(turn(&mut set, None), (Some((100, 80)), true));
        let slow = set.take_slow_turn().unwrap();
        assert_eq!(
            (slow.began_unix_ms, slow.steps, set.slow_turns()),
            (7, 2, 1)
        );
        assert_eq!(slow.longest.unwrap().kind, 'b');
        assert_eq!(turn(&mut set, Some(21)), (Some((100, 79)), false));
        assert_eq!(set.slow_turns(), 1, "not beyond the limit");
    }

    #[test]
    fn turns_are_timed_without_an_instrument() {
        let mut set = Instruments::new(InstrumentOptions::new().timed(true));
        assert!(set.is_on() && !set.measures() && !set.keeps_records());
        assert_eq!(turn(&mut set, Some(10)), (Some((100, 90)), false));
        assert_eq!(turn(&mut set, None), (None, false));
    }

    #[test]
    fn a_recorder_alone_keeps_records_and_times_turns() {
        let mut set = Instruments::new(InstrumentOptions::new().flight_recorder(3));
        assert!(set.keeps_records() && !set.measures());
        assert_eq!(turn(&mut set, Some(10)), (Some((100, 90)), false));
        turn(&mut set, Some(10));
        assert!(set.flight_records().eq(['b', 'a', 'b']));
    }
}
