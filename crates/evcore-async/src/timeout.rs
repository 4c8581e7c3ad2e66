//! A time limit for a future.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::sleep::{Sleep, sleep};

/// Waits for a future, but not longer than the given time, which counts from this call. The future
/// is dropped when the [`Timeout`] is dropped.
///
/// # Errors
///
/// [`TimedOut`] if the time passes before the future ends.
///
/// # Panics
///
/// Outside a runtime.
///
/// ```
/// use evcore_async::{Runtime, TimedOut, timeout};
/// use std::{future::{pending, ready}, time::Duration};
///
/// Runtime::new()?.block_on(async {
///     let short = Duration::from_millis(1);
///     assert_eq!(timeout(short, ready(42)).await, Ok(42));
///     assert_eq!(timeout(short, pending::<()>()).await, Err(TimedOut));
/// })?;
/// # Ok::<(), evcore_async::Error>(())
/// ```
pub fn timeout<F: Future>(time: Duration, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep(time),
    }
}

pin_project! {
    /// A future with a time limit. [`timeout`] returns it.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, TimedOut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(this.sleep).poll(cx).map(|()| Err(TimedOut))
    }
}

/// The error of a [`timeout`] whose time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timeout has passed")]
pub struct TimedOut;

impl From<TimedOut> for io::Error {
    fn from(timed_out: TimedOut) -> Self {
        Self::new(io::ErrorKind::TimedOut, timed_out)
    }
}
