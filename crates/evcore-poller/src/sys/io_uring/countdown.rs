//! The time that a wait has left. The clock is read only if needed.

use std::time::{Duration, Instant};

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

    /// Returns the time that is left; `None` if there is no limit. The first call starts the
    /// countdown.
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

    pub(super) fn is_zero(&self) -> bool {
        self.timeout == Some(Duration::ZERO)
    }

    /// Returns whether the timeout has passed. Starts the countdown if it has not started.
    pub(super) fn is_over(&mut self) -> bool {
        self.is_zero() || self.start() == Some(Duration::ZERO)
    }
}
