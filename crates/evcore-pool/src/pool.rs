//! The part of a thread pool that an event loop uses: it submits jobs, and takes their results.
//!
//! The pool counts the jobs from their submission until their results are taken. So one bound
//! limits the sum of waiting jobs, running jobs and results, and there is room for each result.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, mem, thread};

use crate::shared::{Alive, JobResult, Shared, SimulatedJob};
use crate::sync::Builder;

/// Threads that run blocking jobs for an event loop, such as resolving a name or reading a file.
///
/// Each job has an id, with which its result is returned: a loop's token, or any other small
/// copyable value. When results have arrived, the pool wakes the loop. Then call
/// [`next_result`](Self::next_result) until it returns `None`. Several results may come with one
/// wake-up.
///
/// Jobs start in the order in which they were submitted. With several threads, results may come in
/// another order. All jobs of a pool return the same type, which may be an enum.
///
/// A worker process makes its pool after the fork, because a fork does not copy threads.
///
/// # When it wakes
///
/// A batch is all results that [`next_result`](Self::next_result) returns before it returns `None`.
/// The pool calls `wake` when a result arrives and no other result waits, and at the end of a batch
/// if results have arrived meanwhile. It holds no lock during the call, which it makes on one of
/// its threads or on the loop's thread. `wake` must not panic. If the loop is not waiting during
/// the call, the wake-up must end its next wait, as mio's `Waker`, a byte in a pipe and
/// [`Thread::unpark`](thread::Thread::unpark) do. The loop takes results after each wake-up, before
/// it waits again. A wake-up may come without results.
///
/// # Cost
///
/// A job takes one allocation for its closure, and wakes one idle thread. The loop holds a lock for
/// a short time to submit the job. The thread takes the lock twice to run the job. A batch of
/// results takes the lock twice. Results that come before the loop takes them share one wake-up of
/// the loop.
///
/// # Dropping
///
/// Dropping a pool is a [shutdown](Self::shutdown) that does not wait: the running jobs continue to
/// their end, and their results are dropped on their threads.
///
/// # Examples
///
/// A loop that waits for descriptors, and has no waker of its own, is woken by a byte in a pipe:
///
/// ```
/// use evcore_pool::Pool;
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// let (mut woken, wake) = UnixStream::pair()?;
/// wake.set_nonblocking(true)?; // a pipe that is full has woken the loop already
/// let mut pool = Pool::new(2, 100, move || _ = (&wake).write(&[1]))?;
/// assert!(pool.submit("motd", || std::fs::read("/etc/motd").is_ok()).is_ok());
///
/// while !pool.is_empty() {
///     woken.read(&mut [0; 64])?; // a loop waits for all its descriptors here
///     while let Some((id, result)) = pool.next_result() {
///         println!("{id} was read: {}", result.expect("the job does not panic"));
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Pool<Id, T> {
    shared: Arc<Shared<Id, T>>,
    batch: VecDeque<JobResult<Id, T>>,
    /// True from the first result of a batch until `next_result` has returned `None`.
    in_batch: bool,
    jobs: usize,
    /// 0 after a shutdown.
    limit: usize,
    /// Gets each job if the pool has no threads.
    simulator: Option<Box<dyn FnMut(SimulatedJob) + Send>>,
}

impl<Id: Copy + Send + 'static, T: Send + 'static> Pool<Id, T> {
    /// Starts `threads` threads. `wake` ends the wait of the loop that takes the results: see
    /// [When it wakes](#when-it-wakes).
    ///
    /// The pool holds at most `limit` jobs: those that wait, those that run, and those whose
    /// results are not taken. Nothing is reserved for them.
    ///
    /// # Errors
    ///
    /// If the system refuses to start a thread. The threads that were already started end.
    ///
    /// # Panics
    ///
    /// If `threads` or `limit` is 0.
    pub fn new(
        threads: usize,
        limit: usize,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        assert!(threads > 0, "a pool must have at least one thread");
        let pool = Self::without_threads(limit, wake);
        for number in 0..threads {
            // If this fails, `drop` ends the threads that were started.
            pool.start_thread(number)?;
        }
        Ok(pool)
    }

    /// Creates a pool without threads. `simulator` gets each job, and calls it at the time at which
    /// the job ends.
    #[doc(hidden)] // Only simulators need it.
    pub fn simulated(
        limit: usize,
        wake: impl Fn() + Send + Sync + 'static,
        simulator: impl FnMut(SimulatedJob) + Send + 'static,
    ) -> Self {
        let mut pool = Self::without_threads(limit, wake);
        pool.simulator = Some(Box::new(simulator));
        pool
    }

    fn without_threads(limit: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        assert!(limit > 0, "a pool must hold at least one job");
        Self {
            shared: Arc::new(Shared::new(Box::new(wake))),
            batch: VecDeque::new(),
            in_batch: false,
            jobs: 0,
            limit,
            simulator: None,
        }
    }

    fn start_thread(&self, number: usize) -> io::Result<()> {
        let alive = Alive::new(&self.shared);
        Builder::new()
            .name(format!("pool-{number}"))
            .spawn(move || alive.0.run_jobs())?;
        Ok(())
    }

    /// Queues a job for the next thread that is free. Never waits.
    ///
    /// If the job panics, the panic is its result, and the thread goes on with the next job. (The
    /// panic hook still runs, which by default prints a message. With `panic = "abort"` the process
    /// ends.)
    ///
    /// # Errors
    ///
    /// Hands the job back if the pool holds as many jobs as its limit, or after a
    /// [shutdown](Self::shutdown).
    pub fn submit<F>(&mut self, id: Id, job: F) -> Result<(), F>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        if self.jobs >= self.limit {
            return Err(job);
        }
        self.jobs += 1;
        match &mut self.simulator {
            None => self.shared.push_job((id, Box::new(job))),
            Some(simulator) => simulator(self.shared.simulate((id, Box::new(job)))),
        }
        Ok(())
    }
}

impl<Id, T> Pool<Id, T> {
    /// Returns the next result with the id of its job, or `None` at the end of a batch.
    ///
    /// Call this after each wake-up until it returns `None`. Results that arrive meanwhile belong
    /// to the next batch, so that a pool cannot keep its loop busy. They wake the loop again.
    ///
    /// `Err` is the payload of a panic, as from [`JoinHandle::join`](thread::JoinHandle::join).
    pub fn next_result(&mut self) -> Option<(Id, thread::Result<T>)> {
        if self.batch.is_empty() && !self.in_batch {
            self.shared.take_results(&mut self.batch);
        }
        let next = self.batch.pop_front();
        if next.is_some() {
            self.in_batch = true;
            self.jobs -= 1;
        } else if mem::take(&mut self.in_batch) {
            // Results that arrived meanwhile have woken the loop, but a program that left its last
            // batch early may have used up that wake-up.
            self.shared.wake_for_results();
        }
        next
    }

    /// The number of jobs whose results are not taken. It counts towards the limit.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs
    }

    /// Returns whether [`len`](Self::len) is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// Drops the jobs that have not started, and waits for those that run, but not longer than
    /// `timeout`. Returns whether all threads have finished.
    ///
    /// No job can be submitted any more. The results of the jobs that have run can still be taken.
    /// A thread that is not finished at the timeout ends after its job, or with the process.
    ///
    /// To wait for all jobs without blocking the loop, first run the loop until the pool is
    /// [empty](Self::is_empty).
    pub fn shutdown(&mut self, timeout: Duration) -> bool {
        self.limit = 0;
        let (not_started, simulated) = self.shared.close();
        self.jobs -= not_started.len() + simulated;
        // Dropped before the wait, because a running job may wait for such a drop.
        drop(not_started);
        self.shared.wait_for_threads(timeout)
    }
}

impl<Id, T> Drop for Pool<Id, T> {
    fn drop(&mut self) {
        drop(self.shared.close());
        drop(self.shared.abandon());
    }
}

impl<Id, T> fmt::Debug for Pool<Id, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("len", &self.jobs)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
