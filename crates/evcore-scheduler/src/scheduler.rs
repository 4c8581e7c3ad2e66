//! A background thread that runs jobs at their time, for programs without an event loop.
//!
//! The thread sleeps until the earliest job is due, and without a limit if there is no job. Adding
//! or moving a job wakes the thread only if that job is due before the sleep ends. Jobs run one
//! after another, outside the lock, so a job may add, move and cancel jobs, including itself.
//!
//! A long job delays the others, so it should hand its work to another thread.

#[cfg(all(test, not(evcore_loom)))]
mod tests;

use std::{
    any::Any,
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    job::{Job, Run},
    jobs::{Schedule, assert_period},
    manual::ManualTime,
    shared::{Shared, nanoseconds},
    sync::{JoinHandle, spawn, this_thread},
    thread,
};

/// A background thread that runs closures at their time, once or periodically.
///
/// # Guarantees
///
/// - No job runs early. Jobs run in the order of their times. Jobs with equal times run in the
///   order in which they got these times: when they were added or moved, or, if they are periodic,
///   when they last ran.
/// - A periodic job that missed several of its times runs once for all of them. Its later times do
///   not shift. (Go's tickers do the same.)
/// - A job that panics is reported and cancelled; the thread and the other jobs continue.
/// - Dropping the scheduler waits for the running job, drops the others, and joins the thread. If a
///   job drops the scheduler, the drop does not wait, and the thread ends after that job.
///
/// Times are monotonic ([`Instant`]), so a change of the wall clock does not move a job. (On
/// Apple systems, a job may be late if the wall clock is set back, because `parking_lot` waits by
/// that clock there. This crate was not run on Apple systems.)
/// A job more than 584 years ahead never runs.
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
    shared: Arc<Shared<Run>>,
    /// `None` after the thread was joined or detached, and if the time is manual.
    thread: Option<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts the thread.
    ///
    /// The panic of a job is reported only by the panic hook, which prints it by default.
    ///
    /// # Errors
    ///
    /// If the operating system refuses to start a thread.
    pub fn new() -> io::Result<Self> {
        Self::with_panic_handler(|_, _| {})
    }

    /// Starts the thread, which calls `report` with each job that panics and with its panic
    /// payload.
    ///
    /// The panic hook is called as well. `report` runs on the thread, outside the lock; a panic in
    /// `report` is ignored.
    ///
    /// # Errors
    ///
    /// If the operating system refuses to start a thread.
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

    /// Creates a scheduler without a thread, for tests. Its time stands still, and
    /// [`ManualTime::advance`] moves it and runs the jobs.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
    /// use std::time::Duration;
    ///
    /// use evcore_scheduler::Scheduler;
    ///
    /// const HOUR: Duration = Duration::from_secs(3_600);
    ///
    /// /// The program: it counts the hours.
    /// fn start(scheduler: &Scheduler) -> Arc<AtomicU32> {
    ///     let hours = Arc::new(AtomicU32::new(0));
    ///     let counter = Arc::clone(&hours);
    ///     scheduler.every(HOUR, move |_| _ = counter.fetch_add(1, Relaxed));
    ///     hours
    /// }
    ///
    /// let (scheduler, mut time) = Scheduler::manual();
    /// let hours = start(&scheduler);
    /// time.advance(24 * HOUR);
    /// assert_eq!(hours.load(Relaxed), 24);
    /// ```
    pub fn manual() -> (Self, ManualTime) {
        let shared = Arc::new(Shared::manual());
        let time = ManualTime::new(Arc::clone(&shared));
        let thread = None;
        (Self { shared, thread }, time)
    }

    /// The present time: [`Instant::now`], or the time of the [`ManualTime`]. A program that adds
    /// delays to this time to call [`at`](Self::at) can be tested without waiting.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.now()
    }

    /// Runs a job once, at `when`, or immediately if `when` has passed.
    ///
    /// The job runs again if it moves itself by [`Job::move_to`] or [`Job::move_after`].
    /// Dropping the returned handle does not cancel the job.
    ///
    /// # Panics
    ///
    /// If 2²⁷ jobs are scheduled already.
    pub fn at(&self, when: Instant, job: impl FnMut(&Job) + Send + 'static) -> Job {
        self.add(Schedule::Once(self.shared.tick_of(when)), job)
    }

    /// Runs a job once, after `delay`.
    ///
    /// The job runs again if it moves itself by [`Job::move_to`] or [`Job::move_after`].
    /// Dropping the returned handle does not cancel the job.
    ///
    /// # Panics
    ///
    /// If 2²⁷ jobs are scheduled already.
    pub fn after(&self, delay: Duration, job: impl FnMut(&Job) + Send + 'static) -> Job {
        self.add(Schedule::Once(self.shared.tick_after(delay)), job)
    }

    /// Runs a job once per `period`, for the first time one `period` from now.
    ///
    /// [`Job::set_period`] gives the job another period.
    /// Dropping the returned handle does not cancel the job.
    ///
    /// # Panics
    ///
    /// If `period` is zero, or if 2²⁷ jobs are scheduled already.
    pub fn every(&self, period: Duration, job: impl FnMut(&Job) + Send + 'static) -> Job {
        assert_period(period);
        let schedule = Schedule::Every {
            first: self.shared.tick_after(period),
            period: nanoseconds(period),
        };
        self.add(schedule, job)
    }

    /// The number of scheduled jobs, including the running one if it will run again.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Returns whether no job is scheduled.
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
        if self.shared.is_manual() {
            return thread::drop_jobs(&self.shared);
        }
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.thread().id() != this_thread() {
            // The thread does not panic, because it catches the panics of the jobs.
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
