//! The error of a task that has no output.

use std::any::Any;

/// The reason why a task has no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// [`JoinHandle::abort`](crate::JoinHandle::abort) ended the task, or its executor ended, or the
    /// executor [resumed](crate::Executor::set_resumes_panics) its panic.
    #[error("the task was aborted")]
    Aborted,
    /// The task panicked with this value.
    #[error("the task panicked")]
    Panicked(Box<dyn Any + Send>),
}
