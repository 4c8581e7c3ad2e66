//! Ticks at a fixed rate.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::sleep::{Sleep, deadline_after, now, sleep_until};

/// Returns a source of ticks, one in each `period`. The first tick is due one period from now.
///
/// # Panics
///
/// If the period is zero. Outside a runtime.
///
/// ```
/// use evcore_async::{Runtime, interval};
/// use std::time::{Duration, Instant};
///
/// Runtime::new()?.block_on(async {
///     let began = Instant::now();
///     let mut ticks = interval(Duration::from_millis(2));
///     for _ in 0..3 {
///         ticks.tick().await;
///     }
///     assert!(began.elapsed() >= Duration::from_millis(6));
/// })?;
/// # Ok::<(), evcore_async::Error>(())
/// ```
#[must_use]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period");
    let sleep = sleep_until(deadline_after(now(), period));
    Interval { sleep, period }
}

/// A source of ticks at a fixed rate. [`interval`] returns it.
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick, and returns its due time.
    ///
    /// A tick that becomes due while no task waits is kept for the next call. If several ticks are
    /// due at a call, the call returns the first and skips the others. Later ticks are a whole
    /// number of periods after the first.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls [`tick`](Self::tick).
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let due = self.sleep.deadline();
        Pin::new(&mut self.sleep).poll(cx).map(|()| {
            self.sleep.reset(tick_after(now(), due, self.period));
            due
        })
    }
}

/// The first tick after `now`, in a series of ticks of which one is at `due`.
fn tick_after(now: Instant, due: Instant, period: Duration) -> Instant {
    let late = now.saturating_duration_since(due);
    let since_tick_ns = late.as_nanos() % period.as_nanos();
    let since_tick = u64::try_from(since_tick_ns).map_or(late, Duration::from_nanos);
    deadline_after(now.max(due), period - since_tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_stay_a_whole_number_of_periods_apart() {
        let due = Instant::now();
        for (period_ns, late_ns, next_ns) in [
            (10, 0, 10),
            (10, 9, 10),
            (10, 10, 20),
            (10, 100_000_000_003, 100_000_000_010), // more than u32::MAX periods
            (1_000_000_000, 1, 1_000_000_000),
        ] {
            let [period, late, next] = [period_ns, late_ns, next_ns].map(Duration::from_nanos);
            assert_eq!(tick_after(due + late, due, period), due + next);
        }
    }
}
