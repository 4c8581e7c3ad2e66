//! Times as numbers: nanoseconds and milliseconds on the scale of the loop's clock.

use std::time::Duration;

use evcore_clock::Clock;

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// A deadline that never arrives, in any unit.
pub(crate) const NEVER: u64 = u64::MAX;

/// The present time, read from the clock's source, because the clock stands still within an
/// iteration of the loop.
pub(crate) fn now(clock: &Clock) -> Duration {
    Duration::from_nanos(clock.monotonic_ns_now())
}

/// The nanoseconds since the beginning of the millisecond `due_ms`; 0 if it has not begun.
#[inline]
pub(crate) fn late_ns(now_ns: u64, due_ms: u64) -> u64 {
    now_ns.saturating_sub(due_ms.saturating_mul(NS_PER_MS))
}

pub(crate) fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

/// The time from now to a moment; `None` if that is [`NEVER`].
#[inline]
pub(crate) fn time_to(at_ns: u64, now_ns: u64) -> Option<Duration> {
    (at_ns != NEVER).then(|| Duration::from_nanos(at_ns.saturating_sub(now_ns)))
}

/// About half of the time to a moment, in whole seconds, computed cheaply. `None` if the moment is
/// [`NEVER`], has passed, or is less than 2.1 seconds or more than 292 years away.
#[inline]
pub(crate) fn rough_time_to(at_ns: u64, now_ns: u64) -> Option<Duration> {
    // A moment that has passed gives a negative number, and so `None`.
    #[expect(clippy::cast_possible_wrap, reason = "see above")]
    let seconds = at_ns.wrapping_sub(now_ns) as i64 >> 31;
    (seconds > 0).then_some(Duration::from_secs(seconds.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rough_time_is_at_most_half_of_the_time() {
        let seconds_to = |ms: u64| rough_time_to(ms * NS_PER_MS + 7, 7).map(|time| time.as_secs());
        let seconds = [0, 2_147, 2_148, 10_000, 60_000].map(seconds_to);
        assert_eq!(seconds, [None, None, Some(1), Some(4), Some(27)]);
        for passed_or_never in [0, 6, 7, NEVER] {
            assert_eq!(rough_time_to(passed_or_never, 7), None);
        }
    }

    #[test]
    fn lateness_counts_from_the_beginning_of_the_tick() {
        assert_eq!(late_ns(10_999_999, 10), 999_999);
        assert_eq!(late_ns(12_000_000, 10), 2_000_000);
        assert_eq!(late_ns(9_999_999, 10), 0, "a queue with slack may be early");
        assert_eq!(late_ns(u64::MAX, u64::MAX), 0);
    }
}
