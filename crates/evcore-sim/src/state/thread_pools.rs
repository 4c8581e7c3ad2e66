//! The jobs of thread pools: their durations, their ends and their panics.

use std::time::Duration;

use super::State;
use crate::{
    event_queue::SimEvent,
    faults::Fault,
    rng::whole_ns,
    thread_pool::{JobId, SimulatedJob},
    trace::{Event, Subject},
};

/// The longest additional time of a slow job.
const SLOW_JOB_MAX: Duration = Duration::from_secs(3);

impl State {
    pub(crate) fn open_thread_pool(&mut self, process: u32, threads: usize) -> u32 {
        self.thread_pools.open(process, threads)
    }

    /// Starts a job, or queues it if no thread is free.
    pub(crate) fn start_job(&mut self, pool: u32, job: SimulatedJob) {
        let started = self.thread_pools.add(pool, job);
        started.into_iter().for_each(|job| self.run_job(job));
    }

    /// Draws the duration of a job that a thread begins now, and schedules the job's end.
    fn run_job(&mut self, job: JobId) {
        let mut job_ns = whole_ns(self.rng.duration(&self.config.job_time));
        let process = self.thread_pools.process(job.pool);
        if self.draw_fault(Fault::SlowJob, Subject::Process(process)) {
            job_ns += self.random_up_to(SLOW_JOB_MAX);
        }
        self.schedule_after(job_ns, SimEvent::JobEnds(job));
    }

    /// Ends a job. Its closure runs at the end of the job's simulated time, because the run itself
    /// takes no simulated time.
    pub(crate) fn end_job(&mut self, id: JobId) {
        let (job, next) = self.thread_pools.remove(id);
        next.into_iter().for_each(|next| self.run_job(next));
        let process = self.thread_pools.process(id.pool);
        if !self.is_alive(process) {
            // The threads of a dead process are dead.
            return drop(job);
        }
        let pool = id.pool;
        self.note(Event::JobEnded { process, pool });
        let panic = self.draw_fault(Fault::JobPanic, Subject::Process(process));
        job(panic.then(|| Box::new("an injected panic") as _));
    }
}
