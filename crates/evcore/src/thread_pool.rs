//! Threads for jobs that block, whose results come back through a loop.
//!
//! A lock and two condition variables hand jobs to the threads. An inbox brings the results back, and
//! wakes the loop. The loop's side counts the jobs from their submission until their results are
//! taken, so one bound limits both the queue and the inbox, and the inbox has room for each result.

use std::{
    any::Any,
    collections::VecDeque,
    fmt, io, mem,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use evcore_posted::{Inbox, Sender};
use evcore_token::Token;

use crate::{Acceptor, EventLoop, Handle};

/// Threads that run blocking jobs beside a loop, such as resolving a name or reading a file.
///
/// Each job belongs to a token of the loop. When results are there, the loop yields
/// [`Step::Woken`](crate::Step::Woken); then take them by [`next_result`](Self::next_result) until it
/// returns `None`. Several results may come with one wake-up. If the program has other reasons for
/// [`Step::Woken`](crate::Step::Woken), or several pools, look at each of them.
///
/// Jobs start in the order in which they were submitted. With several threads, their results come in
/// any order. All jobs of a pool return the same type, which may be an enum.
///
/// A worker process makes its pool after the fork, because a fork does not copy threads.
///
/// # Cost
///
/// A job takes one allocation, two short locks on each side, and a wake-up of one thread. Results that
/// come before the loop takes them share one wake-up of the loop.
///
/// # Dropping
///
/// Dropping a pool is a [shutdown](Self::shutdown) that does not wait: the jobs that run come to their
/// end, and their results are dropped on their threads.
///
/// ```
/// use evcore::{EventLoop, Step, ThreadPool};
/// use std::net::ToSocketAddrs;
///
/// let mut ev = EventLoop::builder().build()?;
/// let mut pool = ThreadPool::new(ev.handle(), 4, 1_000)?;
/// let lookup = ev.add_unwatched()?;
/// let job = || "localhost:80".to_socket_addrs().map(Iterator::count);
/// assert!(pool.submit(lookup, job).is_ok());
///
/// while !pool.is_empty() {
///     ev.wait()?;
///     while let Some(step) = ev.next_step() {
///         assert!(matches!(step, Step::Woken));
///         while let Some((token, result)) = pool.next_result(&mut ev) {
///             assert_eq!(token, lookup);
///             println!("addresses: {:?}", result.expect("the job does not panic"));
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadPool<T> {
    shared: Arc<Shared<T>>,
    results: Inbox<JobResult<T>>,
    /// Results that were taken out of the inbox together.
    batch: VecDeque<JobResult<T>>,
    /// Whether a result of the batch was returned.
    in_batch: bool,
    /// The jobs that were submitted and whose results are not taken.
    // Invariant: at most as many as the inbox holds.
    jobs: usize,
    /// How many jobs may be there. 0 after a shutdown.
    limit: usize,
    /// Gets each job in place of the queue, if there are no threads.
    simulator: Option<Box<dyn FnMut(SimulatedJob) + Send>>,
}

/// A job of a pool without threads. It runs when it is called, or panics with the payload.
type SimulatedJob = Box<dyn FnOnce(Option<Box<dyn Any + Send>>) + Send>;

type Job<T> = (Token, Box<dyn FnOnce() -> T + Send>);
type JobResult<T> = (Token, thread::Result<T>);

impl<T: Send + 'static> ThreadPool<T> {
    /// Starts `threads` threads. `loop_handle` is a handle of the loop that takes the results.
    ///
    /// The pool holds at most `limit` jobs: those that wait, those that run, and those whose results
    /// are not taken. Nothing is reserved for them.
    ///
    /// # Errors
    ///
    /// If the system starts no further thread. Those that were started end.
    ///
    /// # Panics
    ///
    /// If `threads` or `limit` is 0.
    pub fn new(loop_handle: Handle, threads: usize, limit: usize) -> io::Result<Self> {
        Self::with_wake(move || loop_handle.wake(), threads, limit)
    }

    /// Creates a pool without threads. `simulator` gets each job, and calls it when it ends.
    #[doc(hidden)]
    pub fn simulated(
        loop_handle: Handle,
        limit: usize,
        simulator: impl FnMut(SimulatedJob) + Send + 'static,
    ) -> Self {
        let mut pool = Self::without_threads(move || loop_handle.wake(), limit);
        pool.simulator = Some(Box::new(simulator));
        pool
    }

    fn with_wake(
        wake: impl Fn() + Send + Sync + 'static,
        threads: usize,
        limit: usize,
    ) -> io::Result<Self> {
        assert!(threads > 0, "a thread pool must have at least one thread");
        let pool = Self::without_threads(wake, limit);
        for number in 0..threads {
            // If this fails, `drop` ends the threads that were started.
            pool.start_thread(number)?;
        }
        Ok(pool)
    }

    fn without_threads(wake: impl Fn() + Send + Sync + 'static, limit: usize) -> Self {
        Self {
            shared: Arc::new(Shared::new()),
            results: Inbox::bounded(limit, wake),
            batch: VecDeque::new(),
            in_batch: false,
            jobs: 0,
            limit,
            simulator: None,
        }
    }

    fn start_thread(&self, number: usize) -> io::Result<()> {
        let alive = Alive::new(&self.shared);
        let results = self.results.sender();
        thread::Builder::new()
            .name(format!("pool-{number}"))
            .spawn(move || run_jobs(&alive.0, &results))?;
        Ok(())
    }

    /// Queues a job for the next thread that is free. Never waits.
    ///
    /// If the job panics, the panic is its result, and the thread goes on with the next job. (The panic
    /// hook still runs, which by default prints a message. With `panic = "abort"` the process ends.)
    ///
    /// If the token is closed before the result is taken, the job still runs.
    ///
    /// # Errors
    ///
    /// Hands the job back if the pool holds as many jobs as its limit, or after a
    /// [shutdown](Self::shutdown).
    pub fn submit<F>(&mut self, token: Token, job: F) -> Result<(), F>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        if self.jobs >= self.limit {
            return Err(job);
        }
        self.jobs += 1;
        let job: Job<T> = (token, Box::new(job));
        match &mut self.simulator {
            None => self.shared.push(job),
            Some(simulator) => simulator(self.shared.simulate(job, self.results.sender())),
        }
        Ok(())
    }

    /// Returns the next result, or `None` at the end of a batch.
    ///
    /// Call it for each [`Step::Woken`](crate::Step::Woken), until it returns `None`. Results that
    /// arrive meanwhile make another step, so that a loop cannot be kept busy by its pool.
    ///
    /// `Err` is the payload of a panic, as from [`JoinHandle::join`](thread::JoinHandle::join).
    ///
    /// If the token of a job was closed, its result is dropped and counted in
    /// [`Stats::stale`](crate::Stats::stale). It does not reach a later user of the token's index.
    pub fn next_result<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
    ) -> Option<(Token, thread::Result<T>)> {
        while let Some((token, result)) = self.pop() {
            if ev.slots.has(token) {
                return Some((token, result));
            }
            ev.on_stale(Some(token));
        }
        None
    }

    /// Takes a result out of the batch. `None` ends the batch.
    fn pop(&mut self) -> Option<JobResult<T>> {
        if self.batch.is_empty() && !self.in_batch {
            self.batch.extend(self.results.drain());
        }
        let next = self.batch.pop_front();
        self.in_batch = next.is_some();
        if next.is_some() {
            self.jobs -= 1;
        } else {
            // Results that arrived meanwhile have woken the loop. A program that left its last batch
            // early may have used up that wake-up, so a drain that leaves them wakes the loop again.
            drop(self.results.drain());
        }
        next
    }
}

impl<T> ThreadPool<T> {
    /// The number of jobs whose results are not taken. It counts towards the limit.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs
    }

    /// Whether the result of each job was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// Drops the jobs that have not started, and waits for those that run, but not longer than
    /// `timeout`. Returns whether all threads have finished.
    ///
    /// No job can be submitted any more. The results of the jobs that have run can still be taken. A
    /// thread that is not finished at the timeout ends after its job, or with the process.
    ///
    /// To wait for all jobs without blocking the loop, first run the loop until the pool is
    /// [empty](Self::is_empty).
    pub fn shutdown(&mut self, timeout: Duration) -> bool {
        self.limit = 0;
        let (not_started, simulated) = self.shared.close();
        self.jobs -= not_started.len() + simulated;
        drop(not_started);
        self.shared.wait_for_threads(timeout)
    }
}

impl<T> Drop for ThreadPool<T> {
    fn drop(&mut self) {
        drop(self.shared.close());
    }
}

impl<T> fmt::Debug for ThreadPool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("len", &self.jobs)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The life of a thread: runs jobs until the pool is closed.
fn run_jobs<T>(shared: &Shared<T>, results: &Sender<JobResult<T>>) {
    while let Some((token, job)) = shared.next_job() {
        let result = panic::catch_unwind(AssertUnwindSafe(job));
        // The inbox has room for each result. If the pool was dropped, the result is dropped here.
        drop(results.send((token, result)));
    }
}

/// What the threads share with the pool.
struct Shared<T> {
    state: Mutex<State<T>>,
    /// A job was queued, or the pool was closed.
    work: Condvar,
    /// The last thread has finished.
    finished: Condvar,
}

struct State<T> {
    queue: VecDeque<Job<T>>,
    closed: bool,
    /// The threads that have not finished.
    threads: usize,
    /// The simulated jobs that have not run.
    simulated: usize,
}

impl<T> Shared<T> {
    fn new() -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                closed: false,
                threads: 0,
                simulated: 0,
            }),
            work: Condvar::new(),
            finished: Condvar::new(),
        }
    }

    /// No job runs and none is dropped under this lock, so a panic cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job<T>) {
        self.lock().queue.push_back(job);
        self.work.notify_one();
    }

    /// Waits for a job. `None` if the pool was closed.
    fn next_job(&self) -> Option<Job<T>> {
        let idle = |state: &mut State<T>| state.queue.is_empty() && !state.closed;
        let state = self.work.wait_while(self.lock(), idle);
        state
            .unwrap_or_else(PoisonError::into_inner)
            .queue
            .pop_front()
    }

    /// Makes the threads finish after the jobs that they run. Returns the jobs that have not started,
    /// and the number of simulated ones.
    fn close(&self) -> (VecDeque<Job<T>>, usize) {
        let mut state = self.lock();
        state.closed = true;
        self.work.notify_all();
        (mem::take(&mut state.queue), mem::take(&mut state.simulated))
    }

    /// Returns whether all threads have finished.
    fn wait_for_threads(&self, timeout: Duration) -> bool {
        let alive = |state: &mut State<T>| state.threads > 0;
        let waited = self
            .finished
            .wait_timeout_while(self.lock(), timeout, alive);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.threads == 0
    }
}

impl<T: Send + 'static> Shared<T> {
    /// A job that runs when the simulator calls it, unless the pool was closed.
    fn simulate(self: &Arc<Self>, job: Job<T>, results: Sender<JobResult<T>>) -> SimulatedJob {
        self.lock().simulated += 1;
        let shared = Arc::clone(self);
        Box::new(move |panic| {
            let mut state = shared.lock();
            if state.closed {
                return;
            }
            state.simulated -= 1;
            drop(state);
            let (token, job) = job;
            let result = panic.map_or_else(|| panic::catch_unwind(AssertUnwindSafe(job)), Err);
            drop(results.send((token, result)));
        })
    }
}

/// Counts a thread until it has finished, also if it could not be started.
struct Alive<T>(Arc<Shared<T>>);

impl<T> Alive<T> {
    fn new(shared: &Arc<Shared<T>>) -> Self {
        shared.lock().threads += 1;
        Self(Arc::clone(shared))
    }
}

impl<T> Drop for Alive<T> {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        self.0.finished.notify_all();
    }
}

#[cfg(test)]
mod tests;
