//! Blocking work, done by threads and awaited by tasks.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::thread;

use evcore::Token;
use evcore::pool::Pool;

use crate::context;
use crate::job::{Job, JobOutput};
use crate::join_error::JoinError;
use crate::registration::Registration;
use crate::shared::{Panic, ResultSource, Shared};
use crate::slot::Slot;
use crate::wait_queue::WaitQueue;

/// Threads for work that blocks or computes for long, such as name resolution, files and
/// compression.
///
/// If the pool is full, a new job waits for room, and jobs get room in the order in which they
/// came. So poll the future of a job until it ends, or drop it: while a future that waits for room
/// is not polled, the later jobs wait, too. If a future is dropped after the pool has taken its
/// job, the job still runs. A pool belongs to the executor in which it was made.
///
/// ```
/// use evcore_async::{BlockingPool, Runtime};
/// use std::net::ToSocketAddrs;
///
/// Runtime::new()?.block_on(async {
///     let pool = BlockingPool::new(4, 1_000)?;
///     let found = pool.run(|| "localhost:80".to_socket_addrs()).await;
///     let addresses = found.expect("the job does not panic")?;
///     println!("{:?}", addresses.collect::<Vec<_>>());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BlockingPool {
    jobs: Rc<Jobs>,
}

struct Jobs {
    pool: RefCell<Pool<Token, JobOutput>>,
    awaiting_room: WaitQueue,
    executor_id: u64,
}

impl BlockingPool {
    /// Starts `threads` threads, for at most `limit` jobs at once. Running jobs and results that
    /// are not taken yet count towards `limit`, too.
    ///
    /// # Errors
    ///
    /// If the system cannot start one of the threads.
    ///
    /// # Panics
    ///
    /// Outside a runtime. If `threads` or `limit` is 0.
    pub fn new(threads: usize, limit: usize) -> io::Result<Self> {
        let handle = Shared::current().handle().clone();
        let pool = Pool::new(threads, limit, move || handle.wake())?;
        Ok(Self::from_pool(pool))
    }

    /// Makes a blocking pool from a pool that [wakes](evcore::Handle::wake) the loop of this
    /// runtime, such as the pool of a simulator.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    #[must_use]
    pub fn from_pool(pool: Pool<Token, JobOutput>) -> Self {
        let shared = Shared::current();
        let jobs = Rc::new(Jobs {
            pool: RefCell::new(pool),
            awaiting_room: WaitQueue::default(),
            executor_id: shared.id(),
        });
        let source: Rc<dyn ResultSource> = Rc::<Jobs>::clone(&jobs);
        shared.add_result_source(&source);
        Self { jobs }
    }

    /// Runs a job in one of the threads, and waits for its output.
    ///
    /// # Errors
    ///
    /// [`JoinError::Panicked`] if the job panics.
    ///
    /// # Panics
    ///
    /// If the calling task does not belong to the pool's executor, which alone takes the results.
    pub async fn run<T, F>(&self, job: F) -> Result<T, JoinError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        assert!(
            context::has_entered(self.jobs.executor_id),
            "this BlockingPool belongs to another runtime or executor: create a pool in this one"
        );
        let registration = Registration::new_work(Slot::Job(Job::default()));
        let jobs = &self.jobs;
        let job = || Box::new(job()) as JobOutput;
        let mut waiting = Some((jobs.awaiting_room.place(), job));
        let result = poll_fn(|cx| {
            if let Some((place, job)) = waiting.take() {
                let refused = if place.is_first() {
                    let token = registration.token();
                    jobs.pool.borrow_mut().submit(token, job).err()
                } else {
                    Some(job)
                };
                if let Some(job) = refused {
                    place.wait(cx.waker());
                    waiting = Some((place, job));
                    return Poll::Pending;
                }
            }
            poll_result(&registration, cx)
        });
        let output = result.await.map_err(JoinError::Panicked)?;
        Ok(*output.downcast().expect("it is the output of this job"))
    }
}

fn poll_result(registration: &Registration, cx: &Context<'_>) -> Poll<thread::Result<JobOutput>> {
    let waker = cx.waker().clone();
    let (result, _replaced) = registration.with_slot(|slot| {
        let Slot::Job(job) = slot else {
            unreachable!("it is the token of a job");
        };
        (job.result.take(), job.waker.replace(waker))
    });
    result.map_or(Poll::Pending, Poll::Ready)
}

impl ResultSource for Jobs {
    fn take_results(&self, shared: &Shared) -> Option<Panic> {
        let mut panic = None;
        loop {
            let next = self.pool.borrow_mut().next_result();
            let Some((token, result)) = next else { break };
            let mut result = Some(result);
            let waker = shared.with_slot(token, |slot| match slot {
                Slot::Job(job) => {
                    job.result = result.take();
                    job.waker.take()
                }
                _ => None,
            });
            waker.flatten().into_iter().for_each(Waker::wake);
            // A result that was not stored has no future that awaits it.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(result)));
            panic = panic.or(dropped.err());
        }
        self.awaiting_room.wake_first();
        panic
    }
}

impl fmt::Debug for BlockingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingPool")
            .field("jobs", &self.jobs.pool.borrow().len())
            .finish_non_exhaustive()
    }
}
