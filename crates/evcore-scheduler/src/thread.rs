//! The thread that sleeps and runs, and what it shares with those who add jobs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::job::Job;
use crate::jobs::{Jobs, Key, Run, Schedule};
use crate::scheduler::nanoseconds;
use crate::sync::{Condvar, Mutex, MutexGuard, now};

/// What is due, and how to wake the thread.
#[derive(Debug)]
pub(crate) struct Shared {
    jobs: Mutex<Jobs>,
    wake: Condvar,
    /// Tick 0.
    start: Instant,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            jobs: Mutex::new(Jobs::default()),
            wake: Condvar::default(),
            start: now(),
        }
    }

    pub(crate) fn add(&self, schedule: Schedule, run: Run) -> Key {
        self.change(|jobs| jobs.add(schedule, run))
    }

    pub(crate) fn move_to(&self, key: Key, tick: u64) -> bool {
        self.change(|jobs| jobs.move_to(key, tick))
    }

    pub(crate) fn cancel(&self, key: Key) -> bool {
        let (was_armed, _run) = self.jobs.lock().cancel(key);
        was_armed
    }

    pub(crate) fn stop(&self) {
        self.change(Jobs::stop);
    }

    pub(crate) fn is_scheduled(&self, key: Key) -> bool {
        self.jobs.lock().is_scheduled(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.lock().len()
    }

    /// Ticks are nanoseconds from the start; what lies before it is tick 0.
    pub(crate) fn tick_of(&self, when: Instant) -> u64 {
        nanoseconds(when.saturating_duration_since(self.start))
    }

    /// The tick when `delay` has passed; the last one, if it is beyond that.
    pub(crate) fn tick_after(&self, delay: Duration) -> u64 {
        self.tick_of(now()).saturating_add(nanoseconds(delay))
    }

    /// Changes the jobs, and wakes the thread if it must not sleep on.
    fn change<T>(&self, change: impl FnOnce(&mut Jobs) -> T) -> T {
        let mut jobs = self.jobs.lock();
        let answer = change(&mut jobs);
        if jobs.oversleeps() {
            self.wake.notify_one();
        }
        answer
    }

    /// Sleeps until a job is due; `None` when it is time to stop.
    fn next_due(&self) -> Option<(Key, Run)> {
        let mut jobs = self.jobs.lock();
        while !jobs.is_stopping() {
            let due = jobs.take_due(self.tick_of(now()));
            if due.is_some() {
                return due;
            }
            jobs = self.sleep(jobs);
        }
        None
    }

    /// Sleeps until the next deadline or a call, and sometimes less.
    fn sleep<'a>(&'a self, mut jobs: MutexGuard<'a, Jobs>) -> MutexGuard<'a, Jobs> {
        let end = jobs.fall_asleep().and_then(|tick| self.instant_of(tick));
        let mut jobs = match end {
            Some(end) => self.wake.wait_until(jobs, end),
            None => self.wake.wait(jobs),
        };
        jobs.wake_up();
        jobs
    }

    /// `None` where it is beyond what an `Instant` can tell.
    fn instant_of(&self, tick: u64) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(tick))
    }
}

/// What the thread does: jobs as they come due, until it is told to stop.
pub(crate) fn body(
    shared: Arc<Shared>,
    mut report: impl FnMut(&Job, Box<dyn Any + Send>) + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    move || {
        while let Some((key, mut run)) = shared.next_due() {
            let job = Job::new(Arc::clone(&shared), key);
            let ran = contain(|| run(&job));
            let over = shared.jobs.lock().put_back(key, run, ran.is_err());
            // Its captures are the user's too, and may panic when dropped.
            let dropped = contain(|| drop(over));
            for panic in [ran, dropped].into_iter().filter_map(Result::err) {
                let _ = contain(|| report(&job, panic));
            }
        }
        let unrun = shared.jobs.lock().take_all();
        for slot in unrun {
            let _ = contain(|| drop(slot));
        }
    }
}

/// Runs the user's code; its panic is an error.
fn contain(code: impl FnOnce()) -> Result<(), Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(code))
}
