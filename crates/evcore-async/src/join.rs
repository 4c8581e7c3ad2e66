//! The handle of a task.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use evcore::Token;

use crate::join_error::JoinError;
use crate::shared::Shared;
use crate::slot::Slot;
use crate::task::{Body, Task};

/// Waits for the output of a task. [`spawn_local`](crate::spawn_local) returns it.
///
/// Dropping it lets the task run on; [`abort`](Self::abort) ends the task.
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
#[must_use = "dropping it lets the task run on: `drop(spawn_local(..))` says that this is meant"]
pub struct JoinHandle<T> {
    shared: Rc<Shared>,
    token: Token,
    /// The output was taken.
    is_over: bool,
    output: PhantomData<Option<T>>,
}

impl<T: 'static> JoinHandle<T> {
    pub(crate) fn new(shared: Rc<Shared>, token: Token) -> Self {
        Self {
            shared,
            token,
            is_over: false,
            output: PhantomData,
        }
    }

    /// Ends the task, unless it has ended: drops its future, and its output is
    /// [`JoinError::Aborted`]. A task that aborts itself ends after the present poll.
    pub fn abort(&self) {
        self.shared.abort(self.token);
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let is_done = |task: &mut Task| task.is_done;
        self.shared.with_task(self.token, is_done) != Some(false)
    }

    fn poll_output(&mut self, cx: &Context<'_>) -> Poll<Result<T, JoinError>> {
        assert!(!self.is_over, "a JoinHandle was polled after its output");
        let mut replaced = None;
        let is_done = self.shared.with_task(self.token, |task| {
            if !task.is_done {
                replaced = task.joiner.replace(cx.waker().clone());
            }
            task.is_done
        });
        drop(replaced);
        if is_done == Some(false) {
            return Poll::Pending;
        }
        self.is_over = true;
        let mut output: Option<Result<T, JoinError>> = None;
        // The task of an executor that has ended is not in its slot.
        if let Some(mut body) = self.shared.take_body(self.token) {
            body.future.as_mut().take(&mut output);
            self.shared.end_task(self.token, body);
        }
        Poll::Ready(output.unwrap_or(Err(JoinError::Aborted)))
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_output(cx)
    }
}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.detach(self.token);
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinHandle").field(&self.token).finish()
    }
}

/// The calls of a task that its handle makes.
impl Shared {
    fn with_task<R>(&self, token: Token, call: impl FnOnce(&mut Task) -> R) -> Option<R> {
        let called = self.with_slot(token, |slot| match slot {
            Slot::Task(task) => Some(call(task)),
            _ => None,
        });
        called.flatten()
    }

    fn take_body(&self, token: Token) -> Option<Body> {
        self.with_task(token, |task| task.body.take()).flatten()
    }

    /// Nothing waits for the output of this task any more.
    fn detach(&self, token: Token) {
        let done = self.with_task(token, |task| {
            task.is_joined = false;
            let body = if task.is_done { task.body.take() } else { None };
            (body, task.joiner.take())
        });
        if let Some((Some(body), _joiner)) = done {
            self.end_task(token, body);
        }
    }

    fn abort(&self, token: Token) {
        let body = self.with_task(token, |task| {
            task.is_aborted = true;
            if task.is_done { None } else { task.body.take() }
        });
        if let Some(Some(mut body)) = body {
            body.future.as_mut().abort();
            self.keep_body(token, body, true);
        }
    }
}
