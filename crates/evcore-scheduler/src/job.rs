//! The handle of a job, which is a closure that the scheduler runs at a given time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{
    jobs::{Key, assert_period},
    shared::{Shared, nanoseconds},
};

pub(crate) type Run = Box<dyn FnMut(&Job) + Send>;

/// A handle that moves or cancels a job of a [`Scheduler`](crate::Scheduler), or changes the job's
/// period.
///
/// Adding a job returns a handle, and each run of the job gets one as well. Clones refer to the
/// same job, and dropping all handles does not cancel the job. After the job has ended, the methods
/// return false.
///
/// # Example
///
/// A timeout, which a program moves to a later time at every message:
///
/// ```
/// use std::time::Duration;
///
/// use evcore_scheduler::Scheduler;
///
/// let scheduler = Scheduler::new()?;
/// let timeout = scheduler.after(Duration::from_secs(60), |_| panic!("no message for a minute"));
///
/// assert!(timeout.move_after(Duration::from_secs(90)));
/// assert!(timeout.cancel());
/// assert!(!timeout.cancel());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Job {
    shared: Arc<Shared<Run>>,
    key: Key,
}

impl Job {
    pub(crate) fn new(shared: Arc<Shared<Run>>, key: Key) -> Self {
        Self { shared, key }
    }

    /// Cancels the job, and returns whether it was scheduled.
    ///
    /// A run in progress (in which the job may cancel itself) continues to its end, and is the last
    /// one. The closure is dropped by this call, or after the run in progress.
    #[expect(clippy::must_use_candidate, reason = "mostly called for its effect")]
    pub fn cancel(&self) -> bool {
        self.shared.cancel(self.key)
    }

    /// Moves the next run of the job to `when`, or to now if `when` has passed. Returns false if
    /// the job has ended.
    ///
    /// A periodic job counts its periods from `when`. A job that was added to run once can move
    /// itself to run again; if it returns without moving itself, it has ended.
    #[expect(clippy::must_use_candidate, reason = "mostly called for its effect")]
    pub fn move_to(&self, when: Instant) -> bool {
        self.shared.move_to(self.key, self.shared.tick_of(when))
    }

    /// Moves the next run of the job to `delay` from now, as [`move_to`](Self::move_to) does.
    /// Returns false if the job has ended.
    #[expect(clippy::must_use_candidate, reason = "mostly called for its effect")]
    pub fn move_after(&self, delay: Duration) -> bool {
        self.shared.move_to(self.key, self.shared.tick_after(delay))
    }

    /// Gives the job a period: its next run comes one `period` from now, and further runs follow
    /// once per `period`. Returns false if the job has ended.
    ///
    /// The call replaces the period of a periodic job, and makes a job periodic that was added to
    /// run once. A job may set its own period while it runs.
    ///
    /// # Panics
    ///
    /// If `period` is zero.
    ///
    /// # Example
    ///
    /// A job that looks for mail, and runs less often while there is none:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use evcore_scheduler::Scheduler;
    ///
    /// # fn has_mail() -> bool { false }
    /// let scheduler = Scheduler::new()?;
    /// let mut period = Duration::from_secs(1);
    /// scheduler.every(period, move |job| {
    ///     let wanted = if has_mail() { Duration::from_secs(1) } else { Duration::from_secs(60) };
    ///     if wanted != period {
    ///         period = wanted;
    ///         job.set_period(period);
    ///     }
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "mostly called for its effect")]
    pub fn set_period(&self, period: Duration) -> bool {
        assert_period(period);
        let first = self.shared.tick_after(period);
        self.shared.set_period(self.key, first, nanoseconds(period))
    }

    /// Returns whether the job will run, or run again.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        self.shared.is_scheduled(self.key)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("scheduled", &self.is_scheduled())
            .finish_non_exhaustive()
    }
}
