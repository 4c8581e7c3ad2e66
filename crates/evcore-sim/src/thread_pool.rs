//! The simulated threads of thread pools, and their jobs.

use std::{any::Any, collections::VecDeque, fmt};

/// A job of a pool. Called with `None`, it runs. Called with a payload, it does not run, and its
/// result is a panic with this payload.
pub(crate) type SimulatedJob = Box<dyn FnOnce(Option<Box<dyn Any + Send>>) + Send>;

/// A job, by its pool and its index in the table of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId {
    pub(crate) pool: u32,
    job: u32,
}

#[derive(Default)]
pub(crate) struct ThreadPools {
    pools: Vec<Pool>,
    jobs: Vec<Option<SimulatedJob>>,
    // Invariant: it has exactly the indices of `jobs` that are without a job, each once.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Pool {
    process: u32,
    idle_threads: usize,
    /// The jobs that wait for a thread, the oldest first.
    queue: VecDeque<JobId>,
}

impl ThreadPools {
    pub(crate) fn open(&mut self, process: u32, threads: usize) -> u32 {
        self.pools.push(Pool {
            process,
            idle_threads: threads,
            queue: VecDeque::new(),
        });
        index(self.pools.len() - 1)
    }

    pub(crate) fn process(&self, pool: u32) -> u32 {
        self.pools[pool as usize].process
    }

    /// Adds a job. Returns the job's id if a free thread takes the job. Otherwise queues the job.
    pub(crate) fn add(&mut self, pool: u32, job: SimulatedJob) -> Option<JobId> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            index(self.jobs.len() - 1)
        });
        self.jobs[slot as usize] = Some(job);
        let id = JobId { pool, job: slot };
        let pool = &mut self.pools[pool as usize];
        if pool.idle_threads == 0 {
            pool.queue.push_back(id);
            return None;
        }
        pool.idle_threads -= 1;
        Some(id)
    }

    /// Removes a job whose simulated time has passed. Returns its closure, which has not run yet,
    /// and the id of the next job of its thread.
    pub(crate) fn remove(&mut self, id: JobId) -> (SimulatedJob, Option<JobId>) {
        let job = self.jobs[id.job as usize].take().expect("it ends once");
        self.free.push(id.job);
        let pool = &mut self.pools[id.pool as usize];
        let next = pool.queue.pop_front();
        pool.idle_threads += usize::from(next.is_none());
        (job, next)
    }
}

fn index(index: usize) -> u32 {
    u32::try_from(index).expect("there are fewer jobs than that")
}

/// Leaves out the jobs, which do not implement `Debug`.
impl fmt::Debug for ThreadPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPools")
            .field("pools", &self.pools)
            .finish_non_exhaustive()
    }
}
