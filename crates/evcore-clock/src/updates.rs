//! The rule by which an event loop updates its clock: after every wait or, if a period is set, only
//! once per period, at a *tick*.
//!
//! With a period, the clock stands still between two ticks. So a wait for a timer ends at a tick,
//! and not at the timer's deadline. A timer is armed from the time that the clock shows. This time
//! may be behind by a period when a wait ends, so a loop adds [`lag_ns`](ClockUpdates::lag_ns) to
//! the deadline.

use std::time::Duration;

use crate::{
    clock::Clock,
    ticker::{Ticker, TickerError},
};

/// The rule by which a loop updates its [`Clock`]: after every wait, or once per period (nginx:
/// `timer_resolution`).
///
/// ```
/// use evcore_clock::{Clock, ClockUpdates, ManualTimeSource};
/// use std::time::Duration;
///
/// let time = ManualTimeSource::at(0);
/// let mut clock = Clock::with_source(time.clone());
/// let mut updates = ClockUpdates::by_source(Duration::from_millis(10))?;
/// updates.begin(&mut clock);
/// time.advance(Duration::from_millis(9)); // a wait that an event has ended
/// assert!(!updates.update(&mut clock, || false)?);
/// assert_eq!(clock.monotonic_ms(), 0);
/// assert_eq!(updates.wait_ends_at_ns(u64::MAX, &clock), 10_000_000);
/// time.advance(Duration::from_millis(1));
/// assert!(updates.update(&mut clock, || false)?);
/// assert_eq!(clock.monotonic_ms(), 10);
/// # Ok::<(), evcore_clock::TickerError>(())
/// ```
#[derive(Debug)]
pub struct ClockUpdates(Policy);

#[derive(Debug)]
enum Policy {
    EveryWait,
    Ticker(Ticker),
    Source { period_ns: u64 },
}

impl ClockUpdates {
    /// Updates the clock after every wait.
    #[must_use]
    pub const fn every_wait() -> Self {
        Self(Policy::EveryWait)
    }

    /// Updates the clock once per period: by a [`Ticker`], or [by the source](Self::by_source) on
    /// systems without tickers.
    ///
    /// # Errors
    ///
    /// The errors of [`Ticker::every`], except [`TickerError::Unsupported`].
    pub fn every(period: Duration) -> Result<Self, TickerError> {
        match Ticker::every(period) {
            Ok(ticker) => Ok(Self(Policy::Ticker(ticker))),
            Err(TickerError::Unsupported) => Self::by_source(period),
            Err(error) => Err(error),
        }
    }

    /// Updates the clock once per period. The clock's source is read after every wait, to find
    /// whether the period has ended. No wait goes beyond a tick. This is for simulated backends,
    /// because no descriptor becomes readable by simulated time.
    ///
    /// # Errors
    ///
    /// [`TickerError::Period`] if the period is zero or longer than [`Ticker::PERIOD_MAX`].
    pub fn by_source(period: Duration) -> Result<Self, TickerError> {
        if period.is_zero() || period > Ticker::PERIOD_MAX {
            return Err(TickerError::Period { period });
        }
        Ok(Self(Policy::Source {
            period_ns: whole_ns(period),
        }))
    }

    /// Returns the ticker, which the loop must register with its poller for reading,
    /// level-triggered; `None` if there is none.
    #[must_use]
    pub const fn ticker(&self) -> Option<&Ticker> {
        match &self.0 {
            Policy::Ticker(ticker) => Some(ticker),
            _ => None,
        }
    }

    /// Begins the first period by an update of the clock. Does nothing if every wait updates the
    /// clock.
    pub fn begin(&self, clock: &mut Clock) {
        if !self.is_every_wait() {
            clock.update();
        }
    }

    /// Returns whether every wait updates the clock.
    #[inline]
    #[must_use]
    pub const fn is_every_wait(&self) -> bool {
        matches!(self.0, Policy::EveryWait)
    }

    /// Returns the most nanoseconds that the clock may be behind when a wait ends. A loop adds them
    /// to each deadline, so that no timer is early.
    #[must_use]
    pub fn lag_ns(&self) -> u64 {
        match &self.0 {
            Policy::EveryWait => 0,
            Policy::Ticker(ticker) => whole_ns(ticker.period()),
            Policy::Source { period_ns } => *period_ns,
        }
    }

    /// Returns the time until which a wait may last if the next deadline is `due_ns`, on the scale
    /// of [`Clock::monotonic_ns`]. Both as the deadline and as the result, [`u64::MAX`] means
    /// "never". With a period, the result is 0 if the deadline has passed already.
    #[inline]
    #[must_use]
    pub fn wait_ends_at_ns(&self, due_ns: u64, clock: &Clock) -> u64 {
        match &self.0 {
            Policy::EveryWait => due_ns,
            // The clock stands still until a tick, so only a deadline at or before the shown time
            // is due.
            _ if due_ns <= clock.monotonic_ns() => 0,
            Policy::Ticker(_) => u64::MAX,
            Policy::Source { period_ns } => next_tick_ns(clock, *period_ns),
        }
    }

    /// Updates the clock after a wait if an update is due, and returns whether it was.
    /// `may_have_ticked` returns true if the poller may have reported the [ticker](Self::ticker).
    ///
    /// # Errors
    ///
    /// The errors of [`Ticker::acknowledge`].
    pub fn update(
        &mut self,
        clock: &mut Clock,
        may_have_ticked: impl FnOnce() -> bool,
    ) -> Result<bool, TickerError> {
        let ticked = match &mut self.0 {
            Policy::EveryWait => true,
            Policy::Ticker(ticker) => may_have_ticked() && ticker.acknowledge()? > 0,
            Policy::Source { period_ns } => {
                clock.monotonic_ns_now() >= next_tick_ns(clock, *period_ns)
            }
        };
        if ticked {
            clock.update();
        }
        Ok(ticked)
    }
}

/// Returns the end of the period that began with the clock's last update. So a late update delays
/// later ticks.
fn next_tick_ns(clock: &Clock, period_ns: u64) -> u64 {
    clock.monotonic_ns().saturating_add(period_ns)
}

/// Returns the period in nanoseconds. It is at most a day.
fn whole_ns(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use super::*;
    use crate::manual::ManualTimeSource;

    const MS: Duration = Duration::from_millis(1);
    const NEVER: u64 = u64::MAX;

    #[test]
    fn every_wait_updates_the_clock_and_ends_at_the_deadline() {
        let time = ManualTimeSource::at(0);
        let mut clock = Clock::with_source(time.clone());
        let mut updates = ClockUpdates::every_wait();
        time.advance(5 * MS);
        updates.begin(&mut clock);
        assert_eq!(clock.monotonic_ms(), 0, "the first wait updates the clock");
        assert!(updates.update(&mut clock, || panic!("no ticker")).unwrap());
        assert_eq!((clock.monotonic_ms(), updates.lag_ns()), (5, 0));
        for due_ns in [0, 7_000_000, NEVER] {
            assert_eq!(updates.wait_ends_at_ns(due_ns, &clock), due_ns);
        }
    }

    #[test]
    fn a_late_tick_of_the_source_delays_later_ticks() {
        let time = ManualTimeSource::at(0);
        let mut clock = Clock::with_source(time.clone());
        let mut updates = ClockUpdates::by_source(10 * MS).unwrap();
        assert_eq!(updates.lag_ns(), 10_000_000);
        updates.begin(&mut clock);
        time.advance(13 * MS);
        assert!(updates.update(&mut clock, || false).unwrap());
        time.advance(9 * MS);
        assert!(!updates.update(&mut clock, || true).unwrap());
        assert_eq!(clock.monotonic_ms(), 13);
        assert_eq!(updates.wait_ends_at_ns(NEVER, &clock), 23_000_000);
        assert_eq!(
            updates.wait_ends_at_ns(13_000_000, &clock),
            0,
            "the deadline is due"
        );
        clock.update(); // by a handler, between two waits
        assert_eq!(updates.wait_ends_at_ns(NEVER, &clock), 32_000_000);
    }

    #[test]
    fn a_period_out_of_range_is_refused() {
        for period in [Duration::ZERO, Ticker::PERIOD_MAX + Duration::from_nanos(1)] {
            for refused in [ClockUpdates::every(period), ClockUpdates::by_source(period)] {
                let refused = refused.unwrap_err();
                assert!(
                    matches!(refused, TickerError::Period { period: named } if named == period)
                );
            }
        }
    }
}
