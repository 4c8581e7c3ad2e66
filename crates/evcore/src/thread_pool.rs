//! A pool of threads whose results come back through a loop.
//!
//! It adds two things to the pool of `evcore-pool`: the loop's handle wakes the loop, and the result of
//! a token that was closed is dropped and counted, as every other step of that token is.

use std::{io, thread, time::Duration};

use evcore_pool::{Pool, SimulatedJob};
use evcore_token::Token;

use crate::{Acceptor, EventLoop, Handle};

/// Threads that run blocking jobs beside a loop, such as resolving a name or reading a file.
///
/// Each job belongs to a token of the loop. When results are there, the loop yields
/// [`Step::Woken`](crate::Step::Woken); then take them by [`next_result`](Self::next_result) until it
/// returns `None`. Several results may come with one wake-up. If the program has other reasons for
/// [`Step::Woken`](crate::Step::Woken), or several pools, look at each of them.
///
/// It is a [`Pool`] whose ids are tokens. [There](Pool) is in which order jobs run, their cost, and the
/// effect of dropping it.
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
#[derive(Debug)]
pub struct ThreadPool<T>(Pool<Token, T>);

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
        Pool::new(threads, limit, move || loop_handle.wake()).map(Self)
    }

    /// Creates a pool without threads. `simulator` gets each job, and calls it when it ends.
    #[doc(hidden)] // Only simulators need it.
    pub fn simulated(
        loop_handle: Handle,
        limit: usize,
        simulator: impl FnMut(SimulatedJob) + Send + 'static,
    ) -> Self {
        let wake = move || loop_handle.wake();
        Self(Pool::simulated(limit, wake, simulator))
    }

    /// Queues a job for the next thread that is free, as [`Pool::submit`] does. Never waits.
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
        self.0.submit(token, job)
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
        while let Some((token, result)) = self.0.next_result() {
            if ev.slots.has(token) {
                return Some((token, result));
            }
            ev.on_stale(Some(token));
        }
        None
    }
}

impl<T> ThreadPool<T> {
    /// The number of jobs whose results are not taken. It counts towards the limit.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the result of each job was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the jobs that have not started, and waits for those that run, but not longer than
    /// `timeout`, as [`Pool::shutdown`] does. Returns whether all threads have finished.
    ///
    /// To wait for all jobs without blocking the loop, first run the loop until the pool is
    /// [empty](Self::is_empty).
    pub fn shutdown(&mut self, timeout: Duration) -> bool {
        self.0.shutdown(timeout)
    }
}

#[cfg(test)]
mod tests;
