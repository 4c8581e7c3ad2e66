//! Giving way to the other tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets other tasks that are due run first. The task goes on after them, in this turn (iteration)
/// of the loop or in a later one.
///
/// ```
/// use evcore_async::{Runtime, spawn_local, yield_now};
/// use std::{cell::Cell, rc::Rc};
///
/// Runtime::new()?.block_on(async {
///     let count = Rc::new(Cell::new(0));
///     let copy = Rc::clone(&count);
///     drop(spawn_local(async move { copy.set(1) }));
///     yield_now().await;
///     assert_eq!(count.get(), 1);
/// })?;
/// # Ok::<(), evcore_async::Error>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { has_yielded: false }
}

/// A future that is ready when it is polled again. [`yield_now`] returns it.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
