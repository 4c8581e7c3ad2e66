//! The error of a task or a job that has no output.

use std::any::Any;

/// The reason why a task, or a job of a [`BlockingPool`](crate::BlockingPool), has no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// [`JoinHandle::abort`](crate::JoinHandle::abort) ended the task, or its executor was
    /// [cleared](crate::Executor::clear) or dropped, or the executor
    /// [resumed](crate::Executor::set_resumes_panics) the panic of the task.
    #[error("the task was aborted")]
    Aborted,
    /// The task or the job panicked with this value.
    #[error("the task or the job panicked")]
    Panicked(Box<dyn Any + Send>),
}
