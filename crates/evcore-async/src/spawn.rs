//! Spawning tasks.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use crate::context;
use crate::join::JoinHandle;
use crate::shared::Shared;

/// Spawns a task on the executor that polls the caller. The task is due at once, and is polled
/// after the present poll, in this turn (iteration) of the loop or in a later one.
///
/// The future need not be `Send`, because it never leaves this thread.
///
/// # Panics
///
/// Outside a runtime. If the executor has as many tasks as its
/// [limit](crate::Executor::set_tasks_max) (by default, there is no limit), or if all tokens of the
/// loop are in use.
///
/// ```
/// use evcore_async::{Runtime, spawn_local};
/// use std::rc::Rc;
///
/// Runtime::new()?.block_on(async {
///     let shared = Rc::new(42);
///     let copy = Rc::clone(&shared);
///     assert_eq!(spawn_local(async move { *copy }).await.unwrap(), 42);
/// })?;
/// # Ok::<(), evcore_async::Error>(())
/// ```
#[track_caller]
pub fn spawn_local<F: Future<Output: 'static> + 'static>(future: F) -> JoinHandle<F::Output> {
    let shared = Shared::current();
    match shared.spawn(future, Location::caller()) {
        Ok(handle) => handle,
        Err(refused) => panic!("{refused}"),
    }
}

/// Spawns a task as [`spawn_local`] does, or returns the future if there are too many tasks.
///
/// # Errors
///
/// [`Refused`] with the future, if there are as many tasks as the
/// [limit](crate::Executor::set_tasks_max), or if all tokens of the loop are in use.
///
/// # Panics
///
/// Outside a runtime.
///
/// ```
/// use evcore_async::{Runtime, try_spawn_local};
///
/// let mut runtime = Runtime::new()?;
/// runtime.executor().set_tasks_max(0);
/// let output = runtime.block_on(async {
///     let refused = try_spawn_local(async { 42 }).unwrap_err();
///     refused.future.await
/// })?;
/// assert_eq!(output, 42);
/// # Ok::<(), evcore_async::Error>(())
/// ```
#[track_caller]
pub fn try_spawn_local<F: Future<Output: 'static> + 'static>(
    future: F,
) -> Result<JoinHandle<F::Output>, Refused<F>> {
    let shared = Shared::current();
    shared.spawn(future, Location::caller())
}

/// A future that was not spawned, because there are too many tasks.
#[derive(thiserror::Error)]
#[error(
    "there are {limit} tasks, which is the limit (Executor::set_tasks_max, or the tokens of the \
     loop): wait until one ends"
)]
#[non_exhaustive]
pub struct Refused<F> {
    /// The future.
    pub future: F,
    /// The limit; if no token of the loop is free, the number of tasks.
    pub limit: usize,
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Begins a task, which is due at once. The loop must be lent (see `context`).
    pub(crate) fn spawn<F: Future<Output: 'static> + 'static>(
        self: &Rc<Self>,
        future: F,
        at: &'static Location<'static>,
    ) -> Result<JoinHandle<F::Output>, Refused<F>> {
        let limit = self.tasks_max.get();
        if self.tasks() >= limit {
            return Err(Refused { future, limit });
        }
        let Ok(token) = context::with(|lent| lent.add_unwatched()) else {
            let limit = self.tasks();
            return Err(Refused { future, limit });
        };
        let task = self.begin_task(token, future, at);
        Ok(JoinHandle::new(Rc::clone(self), task))
    }
}
