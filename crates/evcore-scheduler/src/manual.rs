//! The time of a scheduler that a test moves by hand.

use std::{any::Any, fmt, panic::resume_unwind, sync::Arc, time::Duration};

use crate::{
    job::{Job, Run},
    shared::Shared,
    thread::run_job,
};

/// The time of a scheduler without a thread, from [`Scheduler::manual`](crate::Scheduler::manual),
/// which has an example.
///
/// A job takes no time. Nothing here depends on the time of the machine, so a test has the same result
/// in each run.
pub struct ManualTime {
    shared: Arc<Shared<Run>>,
    report: Option<Box<Report>>,
}

/// The report, which is called with a job that panicked, and with its panic payload.
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
    /// periods. A duration of zero runs what is due now. After the scheduler was dropped, only the time
    /// moves.
    ///
    /// A job that moves itself to the present time again and again never lets this method return.
    ///
    /// # Panics
    ///
    /// With the payload of the first job that panicked, after all jobs have run, unless there is a
    /// [handler](Self::set_panic_handler). The job that panicked is cancelled.
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
