//! The result of a job. A job is blocking work that a thread does for a task.

use std::any::Any;
use std::task::Waker;
use std::thread;

/// The output of a job, whatever its type.
pub type JobOutput = Box<dyn Any + Send>;

#[derive(Default)]
pub(crate) struct Job {
    pub(crate) result: Option<thread::Result<JobOutput>>,
    pub(crate) waker: Option<Waker>,
}
