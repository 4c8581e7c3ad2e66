//! The arrival times of clients: fixed beforehand, whatever becomes of the clients that came
//! before.
//!
//! A load that waits for a response before the next client has fewer clients, and so fewer that
//! wait, the slower the server is.

use std::time::{Duration, Instant};

/// Clients that arrive at this rate.
#[derive(Debug)]
pub(super) struct Arrivals {
    every: Duration,
    next_at: Instant,
}

impl Arrivals {
    /// The first comes when the interval has passed for the first time.
    pub(super) fn since(start: Instant, every: Duration) -> Arrivals {
        Arrivals {
            every,
            next_at: start + every,
        }
    }

    /// How long it is until the next; none if it is late.
    pub(super) fn time_left(&self, now: Instant) -> Duration {
        self.next_at.saturating_duration_since(now)
    }

    /// Whether the next is due; then that one has come. Each that is late is due by itself.
    #[must_use]
    pub(super) fn come(&mut self, now: Instant) -> bool {
        let is_due = self.next_at <= now;
        if is_due {
            self.next_at += self.every;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(4);

    #[test]
    fn looking_does_not_put_the_next_off() {
        let start = Instant::now();
        let mut arrivals = Arrivals::since(start, EVERY);
        for ms in 0..4 {
            let now = start + Duration::from_millis(ms);
            assert_eq!(arrivals.time_left(now), Duration::from_millis(4 - ms));
            assert!(!arrivals.come(now));
        }
        assert!(arrivals.come(start + EVERY));
    }

    #[test]
    fn who_is_late_comes_and_the_times_stay_as_they_were() {
        let start = Instant::now();
        let mut arrivals = Arrivals::since(start, EVERY);
        let late = start + Duration::from_millis(13);
        let mut come = 0;
        while arrivals.come(late) {
            come += 1;
            assert!(come <= 3, "no more than there were times");
        }
        assert_eq!(come, 3);
        assert_eq!(arrivals.time_left(late), Duration::from_millis(3));
    }
}
