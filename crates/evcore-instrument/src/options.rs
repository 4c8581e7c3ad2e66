//! The choice of a loop's instruments.

use std::time::Duration;

/// Selects the [`Instruments`](crate::Instruments) of a loop. Default: none.
///
/// ```
/// use evcore_instrument::{InstrumentOptions, Instruments};
/// use std::time::Duration;
///
/// let options = InstrumentOptions::new()
///     .histograms(true)
///     .watchdog(Duration::from_millis(100))
///     .flight_recorder(1_000);
/// assert!(Instruments::<u8>::new(options).is_on());
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct InstrumentOptions {
    pub(crate) histograms: bool,
    pub(crate) watchdog: Option<Duration>,
    pub(crate) flight_records: usize,
    pub(crate) timed: bool,
}

impl InstrumentOptions {
    /// No instruments.
    pub const fn new() -> Self {
        Self {
            histograms: false,
            watchdog: None,
            flight_records: 0,
            timed: false,
        }
    }

    /// Keeps [`Histograms`](crate::Histograms) of the length of turns, the lateness of timers and the
    /// length of queues.
    ///
    /// They take 100 KiB. In `evcore` they take a reading of a clock and some 80 instructions for each
    /// turn, and 60 for each timer that expires. A turn takes 60 more if the number of events
    /// changed.
    pub const fn histograms(mut self, wanted: bool) -> Self {
        self.histograms = wanted;
        self
    }

    /// Reports turns that take longer than a limit, each with its longest step; `None` reports none.
    ///
    /// [`take_slow_turn`](crate::Instruments::take_slow_turn) returns the slowest of them, and
    /// [`slow_turns`](crate::Instruments::slow_turns) counts them. A clock is read for each step, which
    /// takes some 30 ns. With a limit of zero, every turn that takes any time is reported.
    ///
    /// Work between the last step and the next wait counts for the turn and for no step.
    /// A turn that does not end is not reported.
    pub fn watchdog(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.watchdog = limit.into();
        self
    }

    /// Keeps the last `records` records of the loop's actions, to be read after something went wrong; 0
    /// keeps none. They are allocated when the instruments are created.
    ///
    /// [`flight_records`](crate::Instruments::flight_records) returns them. In `evcore` they are turns
    /// with their lengths, steps, plans, the accept lock, tokens that begin and end, timers, posts, and
    /// stale events. A connection that sends a request makes four records in a turn or so, so a few
    /// hundred records cover the last turns of a busy loop.
    ///
    /// In `evcore` a record takes 24 bytes. The recorder costs some 220 instructions for each event, and
    /// some 550 for a turn with one event, as much as a watchdog. Each turn reads a clock when it ends.
    /// (With a `timer_resolution`, only turns that begin with a tick read it, and have a length.)
    pub const fn flight_recorder(mut self, records: usize) -> Self {
        self.flight_records = records;
        self
    }

    /// Times each turn whose beginning the loop passes in, even if no instrument keeps the result.
    /// [`end_turn`](crate::Instruments::end_turn) returns how long the turn took, for example for a log.
    pub const fn timed(mut self, wanted: bool) -> Self {
        self.timed = wanted;
        self
    }
}
