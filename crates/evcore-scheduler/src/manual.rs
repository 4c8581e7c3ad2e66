//! Manual time: a test moves the time of a scheduler by hand.

use std::{any::Any, fmt, panic::resume_unwind, sync::Arc, time::Duration};

use crate::{
    job::{Job, Run},
    shared::Shared,
    thread::run_job,
};

/// The time of a scheduler without a thread. [`Scheduler::manual`](crate::Scheduler::manual)
/// creates it, and has an example.
///
/// The time stands still while a job runs. Jobs whose times are delays, or come from
/// [`Scheduler::now`](crate::Scheduler::now), do not depend on the machine's clock, so a test has
/// the same result in each run.
pub struct ManualTime {
    shared: Arc<Shared<Run>>,
    report: Option<Box<Report>>,
}

type Report = dyn FnMut(&Job, Box<dyn Any + Send>) + Send;

impl ManualTime {
    pub(crate) fn new(shared: Arc<Shared<Run>>) -> Self {
        Self {
            shared,
            report: None,
        }
    }

    /// Moves the time forward, and runs the jobs that become due meanwhile, on this thread.
    ///
    /// Time advances from deadline to deadline, so that a periodic job runs once for each of its
    /// periods. A duration of zero runs the jobs that are due now. After the scheduler was dropped,
    /// the time moves, but no job runs.
    ///
    /// This method does not return while a job moves itself to the present time again and again.
    ///
    /// # Panics
    ///
    /// If a job panicked and there is no [handler](Self::set_panic_handler). The panic has the
    /// payload of the first job that panicked, and comes after all due jobs have run. A job that
    /// panicked is cancelled.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.shared.tick_after(duration);
        let mut panics = Vec::new();
        while let Some((key, run)) = self.shared.next_due_by(end) {
            run_job(
                &self.shared,
                key,
                run,
                &mut |job, panic| match &mut self.report {
                    Some(report) => report(job, panic),
                    None => panics.push(panic),
                },
            );
        }
        self.shared.move_time(end);
        if let Some(first) = panics.into_iter().next() {
            resume_unwind(first);
        }
    }

    /// Calls `report` with each job that panics and with its panic payload, as
    /// [`Scheduler::with_panic_handler`](crate::Scheduler::with_panic_handler) does.
    pub fn set_panic_handler(
        &mut self,
        report: impl FnMut(&Job, Box<dyn Any + Send>) + Send + 'static,
    ) {
        self.report = Some(Box::new(report));
    }
}

impl fmt::Debug for ManualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualTime")
            .field("now", &self.shared.now())
            .finish_non_exhaustive()
    }
}
