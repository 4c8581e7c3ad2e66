//! The instruments that measure and record a loop: the types of `evcore-instrument`, with the
//! records of this loop.

use crate::record::Record;

/// The instruments of a loop, which [`Builder::instruments`](crate::Builder::instruments) turns on:
/// histograms, the slowest turn, and the last records.
/// [`EventLoop::instruments`](crate::EventLoop::instruments) lends them.
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
pub type Instruments = evcore_instrument::Instruments<Record>;

/// A turn (iteration of the loop) that took longer than the limit of the watchdog, with a
/// [`Record`] of its longest step. The number of the turn is the one that
/// [`Stats::turns`](crate::Stats::turns) counts.
///
/// ```
/// use evcore::{
///     EventLoop, InstrumentOptions, Ready, Record,
///     clock::{Clock, ManualTimeSource},
/// };
/// use std::time::Duration;
///
/// let time = ManualTimeSource::new();
/// let clock = Clock::with_source(time.clone());
/// let mut ev = EventLoop::builder()
///     .clock(clock)
///     .instruments(InstrumentOptions::new().watchdog(Duration::from_millis(100)))
///     .build()?;
/// let token = ev.add_unwatched()?;
/// ev.post(token, Ready::READABLE);
///
/// ev.wait()?;
/// while let Some(_step) = ev.next_step() {
///     time.advance(Duration::from_secs(3)); // what a handler must not do
/// }
/// ev.post(token, Ready::READABLE);
/// ev.wait()?;
/// let slow = ev.instruments().take_slow_turn().expect("the last turn was");
/// assert_eq!(slow.took, Duration::from_secs(3));
/// assert_eq!(slow.longest.unwrap().kind, Record::Ready(token, Ready::READABLE));
/// # Ok::<(), evcore::Error>(())
/// ```
pub type SlowTurn = evcore_instrument::SlowTurn<Record>;

/// True if the feature `tracing` is on, so that records are always made.
pub(crate) const TRACES: bool = cfg!(feature = "tracing");
