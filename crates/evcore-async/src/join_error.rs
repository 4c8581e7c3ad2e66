//! The error of a task that has no output.

use std::any::Any;

/// Why a task has no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// [`JoinHandle::abort`](crate::JoinHandle::abort) ended it, or the end of its executor.
    #[error("the task was aborted")]
    Aborted,
    /// It panicked with this value.
    #[error("the task panicked")]
    Panicked(Box<dyn Any + Send>),
}
