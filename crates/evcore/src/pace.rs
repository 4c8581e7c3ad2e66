//! When the clock is updated: after every wait or, with a resolution, at its ticks alone.
//!
//! Between two ticks the loop does not know the time.
//! So a wait is not limited by what is due later than the time that is shown: the tick ends it.
//! And what is armed then may be armed later than the clock says, by a period at most: see
//! [`behind_ns`](Pace::behind_ns).

use std::time::Duration;

use evcore_clock::{Clock, Ticker, TickerError};
use evcore_poller::{Interest, Mode, Poller};

use crate::{Error, Result, batch::Batch, naming::TICKER_KEY};

/// What makes the clock move.
#[derive(Debug)]
pub(crate) enum Pace {
    /// Every wait.
    EveryWait,
    /// A descriptor that the poller watches.
    Ticker(Ticker),
    /// The source itself, asked after every wait; no wait goes beyond a tick.
    ///
    /// For backends that have no kernel behind them, whose time no descriptor knows, and for
    /// systems that have no such descriptor.
    Source {
        period_ns: u64,
        /// What the source said last.
        asked_ns: u64,
    },
}

impl Pace {
    /// The pace of a resolution; one whose clock is not moved by the kernel is `simulated`.
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
            asked_ns: 0,
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
            Self::Source { asked_ns, .. } => {
                clock.update();
                *asked_ns = clock.monotonic_ns();
            }
        }
        Ok(())
    }

    /// Whether the clock is updated after every wait, which then says no tick of it.
    #[inline]
    pub(crate) fn is_every_wait(&self) -> bool {
        matches!(self, Self::EveryWait)
    }

    /// How far the clock may be behind when something is armed, in nanoseconds: what a deadline
    /// must be later for, if it is not to be early.
    pub(crate) fn behind_ns(&self) -> u64 {
        match self {
            Self::EveryWait => 0,
            Self::Ticker(ticker) => whole_ns(ticker.period()),
            Self::Source { period_ns, .. } => *period_ns,
        }
    }

    /// How long to wait for something that is `due` after the time that the clock shows.
    #[inline]
    pub(crate) fn wait(&self, due: Option<Duration>, clock: &Clock) -> Option<Duration> {
        let now = due.filter(Duration::is_zero);
        match self {
            Self::EveryWait => due,
            Self::Ticker(_) => now,
            Self::Source {
                period_ns,
                asked_ns,
            } => now.or_else(|| {
                let tick_ns = next_tick_ns(clock, *period_ns);
                Some(Duration::from_nanos(tick_ns.saturating_sub(*asked_ns)))
            }),
        }
    }

    /// Updates the clock after a wait, if it is time to, and says whether there was a tick.
    #[inline]
    pub(crate) fn update(&mut self, clock: &mut Clock, batch: &Batch) -> Result<bool> {
        let ticked = match self {
            Self::EveryWait => {
                clock.update();
                return Ok(false);
            }
            // A full batch may have left the ticker out: then it is asked.
            Self::Ticker(ticker) => {
                (batch.is_full() || batch.has(TICKER_KEY)) && ticker.acknowledge()? > 0
            }
            Self::Source {
                period_ns,
                asked_ns,
            } => {
                *asked_ns = clock.read_now().monotonic_ns;
                *asked_ns >= next_tick_ns(clock, *period_ns)
            }
        };
        if ticked {
            clock.update();
        }
        Ok(ticked)
    }
}

/// The periods are counted from tick to tick: one that comes late puts off those after it.
fn next_tick_ns(clock: &Clock, period_ns: u64) -> u64 {
    clock.monotonic_ns().saturating_add(period_ns)
}

/// Of a time that is not above the most.
fn whole_ns(resolution: Duration) -> u64 {
    u64::try_from(resolution.as_nanos()).expect("a day is not too many nanoseconds")
}
