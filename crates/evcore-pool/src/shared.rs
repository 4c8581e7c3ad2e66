//! The state that a pool shares with its threads: the jobs that wait, the results that are not
//! taken, and the rules that decide when a thread or the loop is woken.
//!
//! Each queued job notifies one thread. To notify only if the queue was empty is not enough: the
//! notified thread may not have taken the first job yet when a second one is queued.
//!
//! A thread that adds a result to an empty queue wakes the loop, after it has released the lock.
//! The loop takes the whole queue. So if there are results, the loop has been woken since it last
//! took some, or a thread is about to wake it.
//!
//! `tests/loom_pool.rs` includes this file and `sync.rs`, so this file uses no other file of the
//! crate. The fields are `pub(crate)`, because the test replaces single operations by wrong ones.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard};

/// A job, and the id that its result is returned with.
pub(crate) type Job<Id, T> = (Id, Box<dyn FnOnce() -> T + Send>);

/// The id of a job, and its result or the payload of its panic.
pub(crate) type JobResult<Id, T> = (Id, thread::Result<T>);

/// A job of a pool without threads. A call with `None` runs the job. A call with a payload makes
/// that payload the job's panic.
pub type SimulatedJob = Box<dyn FnOnce(Option<Box<dyn Any + Send>>) + Send>;

pub(crate) struct Shared<Id, T> {
    pub(crate) state: Mutex<State<Id, T>>,
    /// Notified when a job was queued or the pool was closed.
    pub(crate) work: Condvar,
    /// Notified when a thread has finished.
    pub(crate) finished: Condvar,
    pub(crate) wake: Box<dyn Fn() + Send + Sync>,
}

pub(crate) struct State<Id, T> {
    pub(crate) jobs: VecDeque<Job<Id, T>>,
    pub(crate) results: VecDeque<JobResult<Id, T>>,
    /// True if no job starts any more.
    // Invariant: once it is set, `jobs` is empty.
    pub(crate) closed: bool,
    /// True if the pool was dropped, so that no loop takes results.
    // Invariant: once it is set, `results` is empty.
    pub(crate) abandoned: bool,
    pub(crate) threads: usize,
    pub(crate) simulated: usize,
}

impl<Id, T> Shared<Id, T> {
    pub(crate) fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                results: VecDeque::new(),
                closed: false,
                abandoned: false,
                threads: 0,
                simulated: 0,
            }),
            work: Condvar::new(),
            finished: Condvar::new(),
            wake,
        }
    }

    /// Locks the state. No job runs, and none is dropped, under this lock, so a panic cannot leave
    /// the state half changed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<Id, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push_job(&self, job: Job<Id, T>) {
        self.lock().jobs.push_back(job);
        self.work.notify_one();
    }

    /// Waits for a job. Returns `None` if the pool is closed.
    pub(crate) fn next_job(&self) -> Option<Job<Id, T>> {
        let mut state = self.lock();
        while state.jobs.is_empty() && !state.closed {
            let woken = self.work.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.jobs.pop_front()
    }

    /// The body of a thread: runs jobs until the pool is closed.
    pub(crate) fn run_jobs(&self) {
        while let Some((id, job)) = self.next_job() {
            self.push_result((id, panic::catch_unwind(AssertUnwindSafe(job))));
        }
    }

    /// Queues a result, and wakes the loop if no other result was queued. Drops the result if the
    /// pool was dropped.
    pub(crate) fn push_result(&self, result: JobResult<Id, T>) {
        let mut state = self.lock();
        if state.abandoned {
            drop(state);
            return drop(result);
        }
        state.results.push_back(result);
        let is_first = state.results.len() == 1;
        drop(state);
        if is_first {
            (self.wake)();
        }
    }

    pub(crate) fn take_results(&self, batch: &mut VecDeque<JobResult<Id, T>>) {
        mem::swap(batch, &mut self.lock().results);
    }

    pub(crate) fn wake_for_results(&self) {
        if !self.lock().results.is_empty() {
            (self.wake)();
        }
    }

    /// Makes the threads finish after the jobs that they run. Returns the jobs that have not
    /// started, which the caller drops without the lock, and the number of simulated jobs that have
    /// not run.
    pub(crate) fn close(&self) -> (VecDeque<Job<Id, T>>, usize) {
        let mut state = self.lock();
        state.closed = true;
        let (jobs, simulated) = (mem::take(&mut state.jobs), mem::take(&mut state.simulated));
        drop(state);
        self.work.notify_all();
        (jobs, simulated)
    }

    /// Drops all results that come from now on. Returns the queued ones, which the caller drops
    /// without the lock.
    pub(crate) fn abandon(&self) -> VecDeque<JobResult<Id, T>> {
        let mut state = self.lock();
        state.abandoned = true;
        mem::take(&mut state.results)
    }

    /// Waits for at most `timeout`. Returns whether all threads have finished.
    pub(crate) fn wait_for_threads(&self, timeout: Duration) -> bool {
        // A timeout beyond the range of the clock never passes.
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        while state.threads > 0 {
            let left = deadline.map_or(Duration::MAX, |at| {
                at.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            let woken = self.finished.wait_timeout(state, left);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.threads == 0
    }
}

impl<Id: Send + 'static, T: Send + 'static> Shared<Id, T> {
    /// Returns a simulated job, whose call does nothing if the pool is closed by then.
    pub(crate) fn simulate(self: &Arc<Self>, (id, job): Job<Id, T>) -> SimulatedJob {
        self.lock().simulated += 1;
        let shared = Arc::clone(self);
        Box::new(move |panic| {
            let mut state = shared.lock();
            if state.closed {
                return;
            }
            state.simulated -= 1;
            drop(state);
            let result = panic.map_or_else(|| panic::catch_unwind(AssertUnwindSafe(job)), Err);
            shared.push_result((id, result));
        })
    }
}

/// Counts a thread until it has finished. If the thread cannot be started, dropping this value ends
/// the count.
pub(crate) struct Alive<Id, T>(pub(crate) Arc<Shared<Id, T>>);

impl<Id, T> Alive<Id, T> {
    pub(crate) fn new(shared: &Arc<Shared<Id, T>>) -> Self {
        shared.lock().threads += 1;
        Self(Arc::clone(shared))
    }
}

impl<Id, T> Drop for Alive<Id, T> {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.finished.notify_all();
    }
}
