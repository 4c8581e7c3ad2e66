//! When the clock is updated: after every wait or, with a resolution, at its ticks only.
//!
//! Between two ticks the clock stands still.
//! So the deadline of a timer does not limit a wait: the tick ends it.
//! A timer is armed from the time that the clock shows, which may be behind by at most one period:
//! [`lag_ns`](UpdatePolicy::lag_ns) is added to its deadline.

use std::time::Duration;

use evcore_clock::{Clock, Ticker, TickerError};
use evcore_poller::{Interest, Mode, Poller};

use crate::{
    Error, Result,
    batch::Batch,
    keys::TICKER_KEY,
    timers::{NEVER, whole_ns},
};

/// What makes the loop update its clock.
#[derive(Debug)]
pub(crate) enum UpdatePolicy {
    EveryWait,
    /// A descriptor that the poller watches.
    Ticker(Ticker),
    /// The clock's source, read after every wait; no wait goes beyond a tick.
    ///
    /// For backends without a kernel, whose time no descriptor follows, and for systems without a
    /// ticker.
    Source {
        period_ns: u64,
        /// The last reading.
        read_ns: u64,
    },
}

impl UpdatePolicy {
    /// The policy for a resolution. A `simulated` backend does not use the kernel's time.
    pub(crate) fn new(resolution: Option<Duration>, simulated: bool) -> Result<Self> {
        let Some(resolution) = resolution else {
            return Ok(Self::EveryWait);
        };
        if resolution.is_zero() || resolution > Ticker::PERIOD_MAX {
            return Err(Error::Resolution { resolution });
        }
        if simulated {
            return Ok(Self::by_source(resolution));
        }
        match Ticker::every(resolution) {
            Ok(ticker) => Ok(Self::Ticker(ticker)),
            Err(TickerError::Unsupported) => Ok(Self::by_source(resolution)),
            Err(error) => Err(error.into()),
        }
    }

    fn by_source(resolution: Duration) -> Self {
        Self::Source {
            period_ns: whole_ns(resolution),
            read_ns: 0,
        }
    }

    /// Begins the first period.
    pub(crate) fn begin(&mut self, clock: &mut Clock, poller: &mut Poller) -> Result<()> {
        match self {
            Self::EveryWait => {}
            Self::Ticker(ticker) => {
                poller.add(ticker, TICKER_KEY, Interest::READ, Mode::Level)?;
                clock.update();
            }
            Self::Source { read_ns, .. } => {
                clock.update();
                *read_ns = clock.monotonic_ns();
            }
        }
        Ok(())
    }

    /// Whether every wait updates the clock.
    #[inline]
    pub(crate) fn is_every_wait(&self) -> bool {
        matches!(self, Self::EveryWait)
    }

    /// How far the clock may be behind, in nanoseconds. A deadline is later by this, so that it is
    /// never early.
    pub(crate) fn lag_ns(&self) -> u64 {
        match self {
            Self::EveryWait => 0,
            Self::Ticker(ticker) => whole_ns(ticker.period()),
            Self::Source { period_ns, .. } => *period_ns,
        }
    }

    /// When a wait ends for the next deadline, `due_ns`; [`NEVER`] if it does not.
    #[inline]
    pub(crate) fn wait_ends_at_ns(&self, due_ns: u64, clock: &Clock) -> u64 {
        match self {
            Self::EveryWait => due_ns,
            // The clock stands still until a tick, so a deadline counts from the time that it shows.
            _ if due_ns <= clock.monotonic_ns() => 0,
            Self::Ticker(_) => NEVER,
            Self::Source { period_ns, .. } => next_tick_ns(clock, *period_ns),
        }
    }

    /// Updates the clock within a turn.
    pub(crate) fn update_now(&mut self, clock: &mut Clock) {
        clock.update();
        if let Self::Source { read_ns, .. } = self {
            *read_ns = clock.monotonic_ns();
        }
    }

    /// Updates the clock after a wait if it is time to, and returns whether it did.
    pub(crate) fn update(&mut self, clock: &mut Clock, batch: &Batch) -> Result<bool> {
        let ticked = match self {
            Self::EveryWait => true,
            // A full batch may have left out the ticker's event.
            Self::Ticker(ticker) => {
                (batch.is_full() || batch.has(|key| key == TICKER_KEY)) && ticker.acknowledge()? > 0
            }
            Self::Source { period_ns, read_ns } => {
                *read_ns = clock.monotonic_ns_now();
                *read_ns >= next_tick_ns(clock, *period_ns)
            }
        };
        if ticked {
            clock.update();
        }
        Ok(ticked)
    }
}

/// The end of the period that the last tick began; a tick that is late delays those after it.
fn next_tick_ns(clock: &Clock, period_ns: u64) -> u64 {
    clock.monotonic_ns().saturating_add(period_ns)
}
