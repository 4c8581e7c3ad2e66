//! A task: a future, and then its output, under a token without a descriptor.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::join_error::JoinError;
use crate::waker::TaskWaker;

/// The state of a task in its slot.
pub(crate) struct Task {
    /// The future; `None` while it is polled.
    pub(crate) body: Option<Body>,
    /// True if the future has ended, and its output waits.
    pub(crate) is_done: bool,
    /// True if the task was aborted while it was polled.
    pub(crate) is_aborted: bool,
    /// True if a handle will take the output.
    pub(crate) is_joined: bool,
    /// The task that waits for the output.
    pub(crate) joiner: Option<Waker>,
}

/// The part of a task that a poll takes out of the slot, so that the future can use the slots.
pub(crate) struct Body {
    pub(crate) future: Pin<Box<dyn TaskFuture>>,
    waker: Waker,
    /// The same waker, for use by a later task.
    pub(crate) origin: Arc<TaskWaker>,
}

impl Task {
    pub(crate) fn new<F: Future<Output: 'static> + 'static>(
        future: F,
        waker: Arc<TaskWaker>,
    ) -> Self {
        let body = Body {
            future: Box::pin(Stage::Running { future }),
            waker: Waker::from(Arc::clone(&waker)),
            origin: waker,
        };
        Self {
            body: Some(body),
            is_done: false,
            is_aborted: false,
            is_joined: true,
            joiner: None,
        }
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.body
            .as_ref()
            .is_some_and(|body| body.origin.is_queued())
    }
}

impl Body {
    /// Polls the future, and returns whether it has ended.
    pub(crate) fn poll(&mut self, resumes_panics: bool) -> bool {
        let cx = &mut Context::from_waker(&self.waker);
        self.future.as_mut().poll(cx, resumes_panics)
    }

    /// The waker, for a later task.
    pub(crate) fn into_waker(self) -> Arc<TaskWaker> {
        drop(self.waker);
        self.origin
    }
}

/// A future of any type, with the place of its output.
pub(crate) trait TaskFuture {
    /// Polls the future, unless it has ended. Returns whether it has ended. A panic ends it, and is
    /// its output unless `resumes_panics`.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>, resumes_panics: bool) -> bool;

    /// Drops the future.
    fn abort(self: Pin<&mut Self>);

    /// Moves the output to `output`, which is an `Option` of it.
    fn take(self: Pin<&mut Self>, output: &mut dyn Any);
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F: Future> {
        Running { #[pin] future: F },
        Done { output: Option<Result<F::Output, JoinError>> },
    }
}

impl<F: Future<Output: 'static>> TaskFuture for Stage<F> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>, resumes_panics: bool) -> bool {
        let StageProjection::Running { future } = self.as_mut().project() else {
            return true;
        };
        let polled = if resumes_panics {
            Ok(future.poll(cx))
        } else {
            catch_unwind(AssertUnwindSafe(|| future.poll(cx)))
        };
        let output = match polled {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(JoinError::Panicked(panic)),
        };
        let output = Some(output);
        self.set(Self::Done { output });
        true
    }

    fn abort(mut self: Pin<&mut Self>) {
        let output = Some(Err(JoinError::Aborted));
        self.set(Self::Done { output });
    }

    fn take(self: Pin<&mut Self>, output: &mut dyn Any) {
        if let StageProjection::Done { output: done } = self.project() {
            let output: Option<&mut Option<_>> = output.downcast_mut();
            *output.expect("it has the type of the handle") = done.take();
        }
    }
}
