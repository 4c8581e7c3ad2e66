//! A runtime: an executor together with an event loop of its own.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::{Context, Poll};

use evcore::{Acceptor, EventLoop, Listener, Step, Token};

use crate::context;
use crate::error::Error;
use crate::executor::Executor;
use crate::join::JoinHandle;
use crate::spawn::Refused;

/// Runs futures on an event loop of its own, on one thread.
///
/// ```
/// use evcore_async::{Runtime, sleep};
/// use std::time::Duration;
///
/// let output = Runtime::new()?.block_on(async {
///     sleep(Duration::from_millis(1)).await;
///     42
/// })?;
/// assert_eq!(output, 42);
/// # Ok::<(), evcore_async::Error>(())
/// ```
///
/// The loop may have any settings, and may be the loop of a simulator:
///
/// ```
/// use evcore::EventLoop;
/// use evcore_async::Runtime;
///
/// let ev = EventLoop::builder().connections(10_000).build()?;
/// let mut runtime = Runtime::from(ev);
/// # Ok::<(), evcore::Error>(())
/// ```
pub struct Runtime<L: Acceptor = Listener> {
    executor: Executor,
    ev: EventLoop<L>,
}

impl Runtime {
    /// Makes a runtime whose loop has the default settings, for example at most 1,024
    /// [connections](evcore::Builder::connections).
    ///
    /// # Errors
    ///
    /// [`Error::Loop`] if the loop cannot be built, for example because no descriptor is left.
    pub fn new() -> Result<Self, Error> {
        Ok(Self::from(EventLoop::builder().build()?))
    }
}

impl<L: Acceptor> Runtime<L> {
    /// Runs a future to its end, and meanwhile all tasks of the runtime. Tasks that have not ended
    /// by then continue only during a later call. So the future of a server should not end while
    /// the server stops gracefully: see [`shutting_down`](crate::shutting_down).
    ///
    /// The loop may have listeners of its own, but the clients that they accept are closed. To
    /// serve such clients, use an [`Executor`].
    ///
    /// # Errors
    ///
    /// [`Error::Nested`] in a future that a runtime or an executor polls. [`Error::ShutDown`] if
    /// the loop has [shut down](EventLoop::shutdown) before the future ends. [`Error::Loop`] if the
    /// loop has no free token, or cannot go on.
    ///
    /// # Panics
    ///
    /// If the future panics. If a task panics, and
    /// [`set_resumes_panics`](Executor::set_resumes_panics) is on.
    #[track_caller]
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, Error> {
        if context::is_entered() {
            return Err(Error::Nested);
        }
        let main = self.ev.add_unwatched()?;
        let waker = self.executor.shared().main_waker(main);
        self.executor.enter(&mut self.ev, || waker.wake_by_ref());
        let mut future = pin!(Some(future));
        let at = Location::caller();
        let run = || {
            self.run((main, at), || {
                let future = future.as_mut().as_pin_mut().expect("it is dropped below");
                future.poll(&mut Context::from_waker(&waker))
            })
        };
        let output = catch_unwind(AssertUnwindSafe(run));
        self.ev.remove(main);
        self.executor.enter(&mut self.ev, || future.set(None));
        output.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn run<T>(
        &mut self,
        (main, at): (Token, &'static Location<'static>),
        mut poll: impl FnMut() -> Poll<T>,
    ) -> Result<T, Error> {
        let shared = self.executor.shared();
        loop {
            if !self.ev.wait()? {
                return Err(Error::ShutDown);
            }
            while let Some(step) = self.ev.next_step() {
                if !matches!(step, Step::Ready(token, _) if token == main) {
                    self.executor.on_step(&mut self.ev, step);
                    continue;
                }
                let _watched = shared.begin_poll(|| Some(at));
                if let Poll::Ready(output) = self.executor.enter(&mut self.ev, &mut poll) {
                    return Ok(output);
                }
            }
        }
    }

    /// Spawns a task, which runs during the next call of [`block_on`](Self::block_on).
    ///
    /// # Errors
    ///
    /// [`Refused`] with the future, if there are as many tasks as the
    /// [limit](Executor::set_tasks_max), or if all tokens of the loop are in use.
    #[track_caller]
    pub fn spawn_local<F: Future<Output: 'static> + 'static>(
        &mut self,
        future: F,
    ) -> Result<JoinHandle<F::Output>, Refused<F>> {
        self.executor.spawn(&mut self.ev, future)
    }

    /// Returns the executor, for example to limit the tasks.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Returns the loop, for example for its counters or a handle.
    #[must_use]
    pub fn event_loop(&mut self) -> &mut EventLoop<L> {
        &mut self.ev
    }
}

impl<L: Acceptor> From<EventLoop<L>> for Runtime<L> {
    fn from(mut ev: EventLoop<L>) -> Self {
        let executor = Executor::new(&mut ev);
        Self { executor, ev }
    }
}

/// Drops the tasks while their loop exists.
impl<L: Acceptor> Drop for Runtime<L> {
    fn drop(&mut self) {
        self.executor.clear(&mut self.ev);
    }
}

impl<L: Acceptor> fmt::Debug for Runtime<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("executor", &self.executor)
            .field("ev", &self.ev)
            .finish()
    }
}
