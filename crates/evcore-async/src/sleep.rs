//! A sleep: a token with a timer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::context;
use crate::registration::Registration;
use crate::slot::Slot;

/// Waits for the given time. In a task, the sleep ends in the next turn (iteration) of the loop at
/// the earliest, even if the time is zero.
///
/// The time counts from this call. The loop rounds the deadline up to a whole millisecond of its
/// clock, so the sleep does not end early.
///
/// # Panics
///
/// Outside a runtime. A poll panics outside the runtime of the first poll.
///
/// ```
/// use evcore_async::{Runtime, sleep};
/// use std::time::{Duration, Instant};
///
/// let began = Instant::now();
/// Runtime::new()?.block_on(sleep_5_ms())?;
/// assert!(began.elapsed() >= Duration::from_millis(5));
///
/// async fn sleep_5_ms() {
///     sleep(Duration::from_millis(5)).await;
/// }
/// # Ok::<(), evcore_async::Error>(())
/// ```
pub fn sleep(time: Duration) -> Sleep {
    sleep_until(deadline_after(now(), time))
}

/// Waits until a point in time on the loop's clock. In a simulation, compute the deadline from
/// [`now`].
///
/// # Panics
///
/// The first poll panics outside a runtime, and later ones outside the runtime of the first.
#[must_use = "a future does nothing unless it is polled"]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        registration: None,
    }
}

/// Reads the clock of the loop, which is simulated in a simulation.
///
/// # Panics
///
/// Outside a runtime.
#[must_use]
pub fn now() -> Instant {
    context::with(|lent| lent.now())
}

/// A future that ends at a point in time. [`sleep`] and [`sleep_until`] return it.
///
/// Once polled, a sleep is a token with a timer. [Moving](Self::reset) the sleep to a later time
/// costs one store in the loop's default timer queue.
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    deadline: Instant,
    /// `None` before the first poll.
    registration: Option<Registration>,
}

impl Sleep {
    /// The point in time at which the sleep ends.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Moves the end of the sleep to another point in time, even if the sleep has ended. A task
    /// that waits for the sleep keeps waiting.
    ///
    /// # Panics
    ///
    /// If the sleep was polled, and the call is made outside the runtime that polled it.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if let Some(registration) = &self.registration {
            registration.with_slot(|slot| {
                if let Slot::Sleep(event) = slot {
                    event.has_happened = false;
                }
            });
            arm(registration, deadline);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let registration = this.registration.get_or_insert_with(|| {
            let registration = Registration::new_sleep();
            arm(&registration, this.deadline);
            registration
        });
        registration.poll_event(cx)
    }
}

fn arm(registration: &Registration, deadline: Instant) {
    registration.assert_here();
    context::with(|lent| lent.arm(registration.token(), deadline));
}

/// Returns the point in time that is `time` after `from`, or some 30 years after `from` if the
/// system cannot represent that point.
pub(crate) fn deadline_after(from: Instant, time: Duration) -> Instant {
    from.checked_add(time)
        .unwrap_or_else(|| from + context::FAR)
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sleep").field(&self.deadline).finish()
    }
}
