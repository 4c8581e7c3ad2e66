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
            let late = now().saturating_duration_since(due);
            let periods = late.as_nanos() / self.period.as_nanos() + 1;
            let step = u32::try_from(periods).map(|periods| self.period.saturating_mul(periods));
            let next = step.map_or(now(), |step| deadline_after(due, step));
            self.sleep.reset(next);
            due
        })
    }
}
