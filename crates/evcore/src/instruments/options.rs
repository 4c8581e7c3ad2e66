//! Which instruments a loop has.

use std::time::Duration;

/// Which instruments a loop has. Default: none.
///
/// [`Builder::instruments`](crate::Builder::instruments) takes it, and
/// [`EventLoop::instruments`](crate::EventLoop::instruments) reads the instruments. A loop without
/// any has a comparison for each wait and for each call that would make a record, and none for each
/// step.
///
/// ```
/// use evcore::{EventLoop, InstrumentOptions};
/// use std::time::Duration;
///
/// let instruments = InstrumentOptions::new()
///     .histograms(true)
///     .watchdog(Duration::from_millis(100))
///     .flight_recorder(1_000);
/// let mut ev = EventLoop::builder().instruments(instruments).build()?;
/// ev.handle().wake();
/// ev.wait()?;
/// assert_eq!(ev.instruments().histograms().unwrap().events().count(), 1);
/// assert_eq!(ev.instruments().take_slow_turn(), None, "no turn is over yet");
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct InstrumentOptions {
    pub(super) histograms: bool,
    pub(super) watchdog: Option<Duration>,
    pub(super) flight_records: usize,
}

impl InstrumentOptions {
    /// No instruments.
    pub const fn new() -> Self {
        Self {
            histograms: false,
            watchdog: None,
            flight_records: 0,
        }
    }

    /// Keeps [`Histograms`](crate::Histograms) of the length of turns, the lateness of timers and the
    /// length of queues.
    ///
    /// They take 100 KiB, a reading of a clock and some 80 instructions for each turn, and 60 for each
    /// timer that expires. A turn whose number of events is not that of the turn before takes 60 more.
    pub const fn histograms(mut self, wanted: bool) -> Self {
        self.histograms = wanted;
        self
    }

    /// Reports turns that take longer than a limit, each with its longest step; `None` reports none.
    ///
    /// [`take_slow_turn`](crate::Instruments::take_slow_turn) returns the slowest of them, and
    /// [`Stats::slow_turns`](crate::Stats::slow_turns) counts them. A clock is read for each step,
    /// which takes some 30 ns. With a limit of zero, every turn that takes any time is reported.
    ///
    /// What you do between the last step and the next wait counts for the turn and for no step. A
    /// turn that does not end is not reported.
    pub fn watchdog(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.watchdog = limit.into();
        self
    }

    /// Keeps the last `records` of what the loop does, for the time after something went wrong; 0
    /// keeps none.
    ///
    /// [`flight_records`](crate::Instruments::flight_records) returns them: turns with their lengths,
    /// steps, plans, the accept lock, tokens that begin and end, timers, posts, and stale events. A
    /// connection that sends a request makes four records in a turn or so, so a few hundred records
    /// cover the last turns of a busy loop.
    ///
    /// A record takes 24 bytes, which are allocated when the loop is built. An event takes some 220
    /// instructions more than without a recorder, and a turn with one event some 550, as with a
    /// watchdog. Each turn reads a clock when it ends. (With a
    /// [`timer_resolution`](crate::Builder::timer_resolution), only turns that begin with a tick do,
    /// and have a [length](crate::Record::TurnEnded).)
    pub const fn flight_recorder(mut self, records: usize) -> Self {
        self.flight_records = records;
        self
    }
}
