//! The time that a wait has left.

use std::time::{Duration, Instant};

/// The time that is left of a wait. The clock is read only if needed.
#[derive(Debug)]
pub(super) struct Countdown {
    timeout: Option<Duration>,
    start: Option<Instant>,
}

impl Countdown {
    pub(super) fn of(timeout: Option<Duration>) -> Self {
        let start = None;
        Self { timeout, start }
    }

    /// Starts the countdown on first use. Returns the time that is left.
    pub(super) fn start(&mut self) -> Option<Duration> {
        let timeout = self.timeout?;
        match self.start {
            Some(start) => Some(timeout.saturating_sub(start.elapsed())),
            None => {
                self.start = Some(Instant::now());
                Some(timeout)
            }
        }
    }

    /// Returns whether the timeout is zero.
    pub(super) fn is_zero(&self) -> bool {
        self.timeout == Some(Duration::ZERO)
    }

    /// Returns whether the timeout has passed. Starts the countdown on first use.
    pub(super) fn is_over(&mut self) -> bool {
        self.is_zero() || self.start() == Some(Duration::ZERO)
    }
}
