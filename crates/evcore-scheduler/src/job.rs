//! The handle of a job.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::jobs::Key;
use crate::thread::Shared;

/// A job of a [`Scheduler`](crate::Scheduler), to move it and to cancel it.
///
/// Adding a job returns one, and each run of the job gets one too.
/// Clones name the same job; dropping them all leaves it as it is.
/// A handle outlives its job without harm: then each call answers `false`.
///
/// # Example
///
/// A timeout that is put off whenever something is heard:
///
/// ```
/// use std::time::Duration;
///
/// use evcore_scheduler::Scheduler;
///
/// let scheduler = Scheduler::new()?;
/// let timeout = scheduler.after(Duration::from_secs(60), |_| panic!("nothing was heard"));
///
/// assert!(timeout.move_after(Duration::from_secs(90)));
/// assert!(timeout.cancel());
/// assert!(!timeout.cancel());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Job {
    shared: Arc<Shared>,
    key: Key,
}

impl Job {
    pub(crate) fn new(shared: Arc<Shared>, key: Key) -> Self {
        Self { shared, key }
    }

    /// Keeps the job from running again; returns whether it was to run.
    ///
    /// A run that is under way goes on to its end; from inside it, this ends the job.
    /// The closure is dropped here, or after the run that is under way.
    #[expect(
        clippy::must_use_candidate,
        reason = "it is called for what it does, and the answer is an aside"
    )]
    pub fn cancel(&self) -> bool {
        self.shared.cancel(self.key)
    }

    /// Has the job run next when `when` has come, at once if it has; returns whether there still is
    /// such a job.
    ///
    /// A periodic job counts its periods from there.
    /// From inside a job that runs once, this makes it run again; once it has returned without
    /// that, it is gone.
    #[expect(
        clippy::must_use_candidate,
        reason = "it is called for what it does, and the answer is an aside"
    )]
    pub fn move_to(&self, when: Instant) -> bool {
        self.shared.move_to(self.key, self.shared.tick_of(when))
    }

    /// Has the job run next when `delay` has passed; returns whether there still is such a job.
    ///
    /// As [`move_to`](Self::move_to), by a delay instead of a time. Any delay is allowed.
    #[expect(
        clippy::must_use_candidate,
        reason = "it is called for what it does, and the answer is an aside"
    )]
    pub fn move_after(&self, delay: Duration) -> bool {
        self.shared.move_to(self.key, self.shared.tick_after(delay))
    }

    /// Whether the job is to run, or to run again.
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
