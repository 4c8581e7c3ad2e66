//! A hook that is called at regular times.

use std::time::{Duration, Instant};

/// The longest interval. The end of a longer one might overflow the clock.
const EVERY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// A hook, and the time at which it is due.
pub(crate) struct Interval<'a> {
    every: Duration,
    due: Instant,
    hook: Box<dyn FnMut() + 'a>,
}

impl<'a> Interval<'a> {
    pub(crate) fn new(every: Duration, now: Instant, hook: impl FnMut() + 'a) -> Self {
        let every = every.min(EVERY_MAX);
        Self {
            every,
            due: now + every,
            hook: Box::new(hook),
        }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Calls the hook once if it is due, even if it is late by several intervals.
    pub(crate) fn call_if_due(&mut self, now: Instant) {
        if now >= self.due {
            self.due = now + self.every;
            (self.hook)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::Cell;

    #[test]
    fn a_late_interval_is_called_once() {
        const EVERY: Duration = Duration::from_secs(10);
        let (calls, start) = (Cell::new(0), Instant::now());
        let mut interval = Interval::new(EVERY, start, || calls.set(calls.get() + 1));
        interval.call_if_due(start + EVERY - Duration::from_nanos(1));
        assert_eq!(calls.get(), 0);
        let late = start + EVERY * 7 / 2;
        interval.call_if_due(late);
        assert_eq!((calls.get(), interval.due()), (1, late + EVERY));
    }
}
