//! The handle of a task.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::join_error::JoinError;
use crate::shared::Shared;
use crate::task::Task;

/// The handle of a task: a future that returns the task's output.
/// [`spawn_local`](crate::spawn_local) returns a handle.
///
/// Dropping the handle lets the task run on. [`abort`](Self::abort) ends the task.
///
/// ```
/// use evcore_async::{JoinError, Runtime, spawn_local};
/// use std::future::pending;
///
/// Runtime::new()?.block_on(async {
///     let answer = spawn_local(async { 6 * 7 });
///     assert_eq!(answer.await.unwrap(), 42);
///
///     let endless = spawn_local(pending::<()>());
///     endless.abort();
///     assert!(matches!(endless.await, Err(JoinError::Aborted)));
/// })?;
/// # Ok::<(), evcore_async::Error>(())
/// ```
#[must_use = "dropping it lets the task run on: write `drop(spawn_local(..))` if this is intended"]
pub struct JoinHandle<T> {
    shared: Rc<Shared>,
    // Invariant: `Some` until the drop.
    task: Option<Rc<Task>>,
    /// True after a poll has returned the output.
    is_over: bool,
    output: PhantomData<Option<T>>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(shared: Rc<Shared>, task: Rc<Task>) -> Self {
        Self {
            shared,
            task: Some(task),
            is_over: false,
            output: PhantomData,
        }
    }

    fn task(&self) -> &Task {
        self.task.as_ref().expect("it is taken by the drop")
    }

    /// If the task has not ended, drops its future. The handle then returns
    /// [`JoinError::Aborted`]. A task that aborts itself ends after the present poll; if that poll
    /// returns an output, the handle returns the output.
    pub fn abort(&self) {
        self.shared.abort(self.task());
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task().is_over()
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.is_over, "a JoinHandle was polled after its output");
        if !self.task().is_over() {
            self.task().set_joiner(cx.waker().clone());
            return Poll::Pending;
        }
        self.is_over = true;
        let mut output: Option<Self::Output> = None;
        self.task().take(&mut output);
        Poll::Ready(output.expect("the output is taken once"))
    }
}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.task
            .take()
            .into_iter()
            .for_each(|task| self.shared.recycle(task));
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinHandle")
            .field(&self.task().token())
            .finish()
    }
}
