//! What a program reads of a loop's instruments.

use evcore_instrument::{FlightRecorder, Histograms};

use super::{InstrumentSet, record::Record, slow_turn::SlowTurn};
use crate::{Acceptor, EventLoop};

/// The instruments of a loop. [`EventLoop::instruments`] returns it, for one call.
///
/// ```
/// # use evcore::{EventLoop, InstrumentOptions, Timer};
/// # use std::time::Duration;
/// let instruments = InstrumentOptions::new().histograms(true);
/// let mut ev = EventLoop::builder().instruments(instruments).build()?;
/// let token = ev.add_unwatched()?;
/// ev.arm(token, Timer::READ, Duration::from_millis(1));
/// while ev.stats().expired == 0 {
///     ev.wait()?;
///     while ev.next_step().is_some() {}
/// }
/// let histograms = ev.instruments().histograms().expect("they are on");
/// assert_eq!(histograms.timer_lateness_ns().count(), 1);
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Debug)]
pub struct Instruments<'a> {
    set: Option<&'a mut InstrumentSet>,
}

impl<L: Acceptor> EventLoop<L> {
    /// The instruments that [`Builder::instruments`](crate::Builder::instruments) turned on:
    /// histograms, the slowest turn, and the last records.
    #[must_use]
    pub fn instruments(&mut self) -> Instruments<'_> {
        Instruments {
            set: self.instruments.as_deref_mut(),
        }
    }
}

impl<'a> Instruments<'a> {
    /// The distributions of the loop's figures: the length of turns, the lateness of timers, the
    /// length of queues. `None` if they are [off](crate::InstrumentOptions::histograms).
    #[must_use]
    pub fn histograms(self) -> Option<&'a Histograms> {
        self.set?.histograms.as_ref()
    }

    /// Empties the [histograms](Self::histograms), for example once a minute. It writes 100 KiB.
    ///
    /// The current turn is recorded when it ends.
    pub fn clear_histograms(self) {
        let histograms = self.set.and_then(|set| set.histograms.as_mut());
        if let Some(histograms) = histograms {
            histograms.clear();
        }
    }

    /// Takes the slowest of the turns that took longer than the limit of the
    /// [watchdog](crate::InstrumentOptions::watchdog) since the last call. `None` if there was none,
    /// or if there is no watchdog.
    ///
    /// A turn ends when the next wait begins, so call this after a wait.
    /// [`Stats::slow_turns`](crate::Stats::slow_turns) counts all slow turns.
    #[must_use]
    pub fn take_slow_turn(self) -> Option<SlowTurn> {
        self.set?.watchdog.as_mut()?.take_slow_turn()
    }

    /// The last records of what this loop did, the oldest first, for the log after something went
    /// wrong. Empty without a [flight recorder](crate::InstrumentOptions::flight_recorder).
    ///
    /// After a panic of a handler, read them where the unwinding ends, or in a destructor. (The loop
    /// belongs to one thread, so a panic hook cannot borrow it.)
    ///
    /// ```
    /// use evcore::{EventLoop, InstrumentOptions, Ready, Record};
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let instruments = InstrumentOptions::new().flight_recorder(100);
    /// let mut ev = EventLoop::builder().instruments(instruments).build()?;
    /// let token = ev.add_unwatched()?;
    /// ev.post(token, Ready::READABLE);
    ///
    /// let turn = catch_unwind(AssertUnwindSafe(|| {
    ///     ev.wait().expect("the loop can go on");
    ///     while let Some(_step) = ev.next_step() {
    ///         panic!("a bug in a handler");
    ///     }
    /// }));
    /// assert!(turn.is_err());
    /// for record in ev.instruments().flight_records() {
    ///     eprintln!("{record:?}");
    /// }
    /// let last = ev.instruments().flight_records().last();
    /// assert_eq!(last, Some(Record::Ready(token, Ready::READABLE)));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn flight_records(self) -> impl Iterator<Item = Record> {
        let recorder = self.set.and_then(|set| set.recorder.as_ref());
        recorder.into_iter().flat_map(FlightRecorder::iter).copied()
    }
}
