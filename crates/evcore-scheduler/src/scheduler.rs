//! Jobs at their time, on a thread of their own.
//!
//! For programs without an event loop: like Go's timers, a thread beside the program runs them.
//! The thread sleeps until the earliest job is due, is woken when an earlier one is added, and
//! sleeps for good when there is none; it never polls.
//! Jobs run one after the other, outside the lock: a job may take its time, and it may add, move
//! and cancel jobs, itself included.
//!
//! There is no pool: a job that takes long should hand its work to one.

#[cfg(all(test, not(evcore_loom)))]
mod tests;

use std::{
    any::Any,
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Job,
    jobs::Schedule,
    sync::{JoinHandle, spawn, this_thread},
    thread::{self, Shared},
};

/// A background thread that runs closures at their time.
///
/// # What may be relied on
///
/// - No job runs early, and jobs run in the order of the times they are due, equal ones as they
///   were added.
/// - A periodic job runs once however many of its periods were missed, and then keeps to its grid,
///   as Go's tickers do.
/// - A job that panics is reported and cancelled; the thread and the other jobs go on.
/// - Dropping the scheduler waits for the job that is running, drops the others unrun, and joins
///   the thread. Dropped from inside a job it does not wait for itself: the thread ends after that
///   job.
///
/// Times are monotonic ([`Instant`]), so that a change of the wall clock moves no job.
/// A time more than 584 years ahead does not come.
///
/// # Example
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// use evcore_scheduler::Scheduler;
///
/// let scheduler = Scheduler::new()?;
/// let (ticks, seen) = mpsc::channel();
/// let mut left = 3;
/// scheduler.every(Duration::from_millis(1), move |job| {
///     ticks.send(left).unwrap();
///     left -= 1;
///     if left == 0 {
///         job.cancel(); // drops the closure, and with it the sender
///     }
/// });
/// assert_eq!(seen.iter().collect::<Vec<_>>(), [3, 2, 1]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a scheduler that is dropped runs nothing"]
pub struct Scheduler {
    shared: Arc<Shared>,
    /// Taken when it is dropped.
    thread: Option<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts the thread.
    ///
    /// A job's panic is reported by the panic hook alone, which by default prints it.
    ///
    /// # Errors
    ///
    /// Where the operating system refuses a thread.
    pub fn new() -> io::Result<Self> {
        Self::with_panic_handler(|_, _| {})
    }

    /// Starts the thread, and has it call `report` with each job that panicked and what it panicked
    /// with.
    ///
    /// The panic hook is called as well.
    /// `report` runs on the thread, outside the lock; if it panics itself, that is ignored.
    ///
    /// # Errors
    ///
    /// Where the operating system refuses a thread.
    pub fn with_panic_handler(
        report: impl FnMut(&Job, Box<dyn Any + Send>) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new());
        let body = thread::body(Arc::clone(&shared), report);
        let thread = spawn("evcore-scheduler", body)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Runs a job once, when `when` has come; at once if it has.
    ///
    /// The job may have itself run again by [`Job::move_to`] or [`Job::move_after`].
    /// Dropping the returned handle leaves the job as it is.
    pub fn at(&self, when: Instant, job: impl FnMut(&Job) + Send + 'static) -> Job {
        self.add(Schedule::Once(self.shared.tick_of(when)), job)
    }

    /// Runs a job once, when `delay` has passed.
    ///
    /// The job may have itself run again by [`Job::move_to`] or [`Job::move_after`].
    /// Dropping the returned handle leaves the job as it is.
    pub fn after(&self, delay: Duration, job: impl FnMut(&Job) + Send + 'static) -> Job {
        self.add(Schedule::Once(self.shared.tick_after(delay)), job)
    }

    /// Runs a job each time that `period` has passed, first in one `period` from now.
    ///
    /// Dropping the returned handle leaves the job as it is.
    ///
    /// # Panics
    ///
    /// Where `period` is zero.
    pub fn every(&self, period: Duration, job: impl FnMut(&Job) + Send + 'static) -> Job {
        assert!(
            !period.is_zero(),
            "the period is zero: the job would never stop running"
        );
        let schedule = Schedule::Every {
            first: self.shared.tick_after(period),
            period: nanoseconds(period),
        };
        self.add(schedule, job)
    }

    /// How many jobs are to run, the running one included where it is to run again.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether no job is to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add(&self, schedule: Schedule, job: impl FnMut(&Job) + Send + 'static) -> Job {
        let key = self.shared.add(schedule, Box::new(job));
        Job::new(Arc::clone(&self.shared), key)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.stop();
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.thread().id() != this_thread() {
            // It contains the panics of all jobs, so it has none to tell.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("jobs", &self.len())
            .finish_non_exhaustive()
    }
}

/// Nanoseconds, the scheduler's ticks; at most `u64::MAX`.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
