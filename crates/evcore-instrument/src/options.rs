//! The options that select the instruments of an event loop. A turn is one iteration of that loop.

use std::time::Duration;

/// Selects the [`Instruments`](crate::Instruments) of a loop. By default, all are off.
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
    /// Creates options that turn no instrument on.
    pub const fn new() -> Self {
        Self {
            histograms: false,
            watchdog: None,
            flight_records: 0,
            timed: false,
        }
    }

    /// Keeps [`Histograms`](crate::Histograms) of the loop's figures. Default: off.
    ///
    /// They take 100 KiB. In `evcore` each turn reads a clock and takes some 80 instructions more,
    /// and each timer that expires takes 60. A turn takes another 60 if its number of events
    /// differs from that of the turn before, and 60 if its number of posted steps does.
    pub const fn histograms(mut self, wanted: bool) -> Self {
        self.histograms = wanted;
        self
    }

    /// Turns on a watchdog, which finds turns that take longer than `limit`. `None` turns it off.
    ///
    /// [`take_slow_turn`](crate::Instruments::take_slow_turn) returns the slowest of these turns
    /// with its longest step, and [`slow_turns`](crate::Instruments::slow_turns) counts them. With
    /// a limit of zero, every turn that takes any time is slow. A turn that does not end is not
    /// found.
    ///
    /// A clock is read for each step. Each read takes some 30 ns. Work between the last step and
    /// the next wait counts for the turn and for no step.
    pub fn watchdog(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.watchdog = limit.into();
        self
    }

    /// Keeps the last `records` records of the loop's actions, to be read after something went
    /// wrong; 0 keeps none. Their memory is allocated when the instruments are created.
    ///
    /// [`flight_records`](crate::Instruments::flight_records) returns them. In `evcore` its enum
    /// `Record` lists the actions. A connection that sends a request makes about four records in a
    /// turn, so a few hundred records cover the last turns of a busy loop.
    ///
    /// In `evcore` a record takes 24 bytes. The recorder costs some 550 instructions for a turn
    /// with one event, and some 220 for each further event; a watchdog costs about as much. Each
    /// turn reads a clock when it ends. (With a `timer_resolution` and no watchdog, only turns that
    /// begin with an update of the loop's clock read a clock at their end and have a length.)
    pub const fn flight_recorder(mut self, records: usize) -> Self {
        self.flight_records = records;
        self
    }

    /// Times each turn whose beginning the loop passes in, even if every instrument is off.
    /// [`end_turn`](crate::Instruments::end_turn) returns how long the turn took, for example for a
    /// log.
    pub const fn timed(mut self, wanted: bool) -> Self {
        self.timed = wanted;
        self
    }
}
