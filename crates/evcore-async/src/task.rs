//! A task, which holds a future and later its output. It has a token of the loop, without a
//! descriptor.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use evcore::Token;
use pin_project_lite::pin_project;

use crate::join_error::JoinError;
use crate::waker::TaskWaker;

/// A task, which its slot and its handle share. A *spare* task has no future, and is kept for a
/// later future.
pub(crate) struct Task {
    /// The future, and then its output; `None` in a spare task.
    future: RefCell<Option<Pin<Box<dyn TaskFuture>>>>,
    /// True if the task has ended.
    is_over: Cell<bool>,
    /// True if the task was aborted.
    is_aborted: Cell<bool>,
    joiner: Cell<Option<Waker>>,
    /// `origin` as the waker that polls pass to the future; a no-op in a spare task.
    waker: Waker,
    origin: Arc<TaskWaker>,
}

impl Task {
    /// Makes a spare task, which has no future yet.
    pub(crate) fn new(origin: Arc<TaskWaker>) -> Rc<Self> {
        Rc::new(Self {
            future: RefCell::new(None),
            is_over: Cell::new(false),
            is_aborted: Cell::new(false),
            joiner: Cell::new(None),
            waker: Waker::noop().clone(),
            origin,
        })
    }

    /// Turns a spare task into the task of a future.
    pub(crate) fn begin<F>(&mut self, token: Token, future: F)
    where
        F: Future<Output: 'static> + 'static,
    {
        let future = Box::pin(Stage::Running { future });
        self.future = RefCell::new(Some(future));
        self.is_over = Cell::new(false);
        self.is_aborted = Cell::new(false);
        let origin = Arc::get_mut(&mut self.origin).expect("it is the waker of a spare task");
        origin.reset(token);
        self.waker = Waker::from(Arc::clone(&self.origin));
    }

    /// Drops the output, and turns the task into a spare one. Returns false if a clone of the
    /// task's waker exists, so that the task cannot be used again.
    pub(crate) fn clear(&mut self) -> bool {
        self.future.get_mut().take();
        self.joiner.take();
        self.waker = Waker::noop().clone();
        Arc::get_mut(&mut self.origin).is_some()
    }

    pub(crate) fn token(&self) -> Token {
        self.origin.token
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.origin.is_queued()
    }

    /// Polls the future. Returns whether the task has ended, by itself or by an abort in the poll.
    #[inline]
    pub(crate) fn poll(&self) -> bool {
        self.origin.set_unqueued();
        let cx = &mut Context::from_waker(&self.waker);
        let mut future = self.future.borrow_mut();
        let Some(future) = future.as_mut() else {
            return true;
        };
        if future.as_mut().poll(cx) {
            return true;
        }
        if self.is_aborted.get() {
            future.as_mut().abort();
        }
        self.is_aborted.get()
    }

    /// Drops the future. If the future is being polled, returns false. `poll` then drops the future
    /// at its end.
    pub(crate) fn abort(&self) -> bool {
        self.is_aborted.set(true);
        let Ok(mut future) = self.future.try_borrow_mut() else {
            return false;
        };
        if let Some(future) = &mut *future {
            future.as_mut().abort();
        }
        true
    }

    /// Records the end, and returns the waker of the task that waits for it.
    pub(crate) fn end(&self) -> Option<Waker> {
        self.is_over.set(true);
        self.joiner.take()
    }

    pub(crate) fn set_joiner(&self, joiner: Waker) {
        drop(self.joiner.replace(Some(joiner)));
    }

    /// Moves the output to `output`, which must be an `Option` of the output's type.
    pub(crate) fn take(&self, output: &mut dyn Any) {
        if let Some(future) = &mut *self.future.borrow_mut() {
            future.as_mut().take(output);
        }
    }

    pub(crate) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        let mut future = self.future.borrow_mut();
        future.as_mut()?.as_mut().take_panic()
    }

    pub(crate) fn wake(&self) {
        self.origin.wake_by_ref();
    }
}

/// A future of any type, and then its output.
pub(crate) trait TaskFuture {
    /// Polls the future, unless it has ended. Returns whether the future has ended. A panic of the
    /// future or of its destructor ends the future and becomes the output.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool;

    /// Drops the future. A panic of its destructor counts as a panic of a poll.
    fn abort(self: Pin<&mut Self>);

    /// Takes the panic, if the output is one. The output is then [`JoinError::Aborted`].
    fn take_panic(self: Pin<&mut Self>) -> Option<Box<dyn Any + Send>>;

    /// Moves the output to `output`, which must be an `Option` of the output's type.
    fn take(self: Pin<&mut Self>, output: &mut dyn Any);
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F: Future> {
        Running { #[pin] future: F },
        Done { output: Option<Result<F::Output, JoinError>> },
    }
}

impl<F: Future> Stage<F> {
    /// Drops the future, and stores its output.
    fn end(mut self: Pin<&mut Self>, output: Result<F::Output, JoinError>) {
        let output = Some(output);
        let drops = AssertUnwindSafe(|| self.set(Self::Done { output }));
        if let Err(panic) = catch_unwind(drops) {
            let output = Some(Err(JoinError::Panicked(panic)));
            self.set(Self::Done { output });
        }
    }
}

impl<F: Future<Output: 'static>> TaskFuture for Stage<F> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> bool {
        let StageProjection::Running { future } = self.as_mut().project() else {
            return true;
        };
        let output = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(JoinError::Panicked(panic)),
        };
        self.end(output);
        true
    }

    fn abort(self: Pin<&mut Self>) {
        self.end(Err(JoinError::Aborted));
    }

    fn take_panic(self: Pin<&mut Self>) -> Option<Box<dyn Any + Send>> {
        let StageProjection::Done { output } = self.project() else {
            return None;
        };
        let panicked = output.take_if(|output| matches!(output, Err(JoinError::Panicked(_))));
        match panicked {
            Some(Err(JoinError::Panicked(panic))) => {
                *output = Some(Err(JoinError::Aborted));
                Some(panic)
            }
            _ => None,
        }
    }

    fn take(self: Pin<&mut Self>, output: &mut dyn Any) {
        if let StageProjection::Done { output: done } = self.project() {
            let output: Option<&mut Option<_>> = output.downcast_mut();
            *output.expect("it has the type of the handle") = done.take();
        }
    }
}
