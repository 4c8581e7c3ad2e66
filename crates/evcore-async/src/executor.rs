//! An executor, which polls tasks on an event loop that the program itself runs step by step.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use evcore::{Acceptor, EventLoop, Step, Token, net::EdgeLoop};

use crate::join::JoinHandle;
use crate::run_queue::RunQueue;
use crate::shared::{Panic, Shared};
use crate::spawn::Refused;
use crate::stuck::Watch;

/// Polls tasks on a loop that the program drives by steps. A step, which `EventLoop::next_step`
/// returns, is for example an event, an expired timer or an accepted client.
///
/// Pass every step of the loop to [`on_step`](Self::on_step), which returns the steps that the
/// program handles. So a program that handles steps may use an asynchronous library, and an
/// asynchronous server may run in the workers of `evcore-serve` or in a simulator.
/// [`Runtime`](crate::Runtime) is an executor with its loop.
///
/// A loop may have several executors. Pass each executor the steps that the previous one returned.
///
/// ```
/// use evcore::{EventLoop, Ready, Step};
/// use evcore_async::{Executor, sleep};
/// use std::time::Duration;
///
/// let mut ev = EventLoop::builder().build()?;
/// let executor = Executor::new(&mut ev);
/// let own = ev.add_unwatched()?; // a token of the program
///
/// let task = executor.spawn(&mut ev, async {
///     sleep(Duration::from_millis(1)).await;
///     "slept"
/// })?;
/// ev.post(own, Ready::READABLE);
///
/// while !task.is_finished() {
///     ev.wait()?;
///     while let Some(step) = ev.next_step() {
///         match executor.on_step(&mut ev, step) {
///             Some(Step::Ready(token, _)) => assert_eq!(token, own),
///             _ => {}
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Executor {
    shared: Rc<Shared>,
}

impl Executor {
    /// Makes an executor without tasks, for this loop. Allocates a little.
    ///
    /// # Panics
    ///
    /// If all 16 million tokens are in use.
    #[must_use]
    pub fn new<L: Acceptor>(ev: &mut EventLoop<L>) -> Self {
        let runner = ev.add_unwatched().expect("a loop has 16 million tokens");
        let run_queue = RunQueue::new(next_id(), runner, ev.instruments().is_on());
        let shared = Rc::new(Shared::new(ev.handle(), run_queue));
        Self { shared }
    }

    /// Handles a step if it concerns a task, or something that a task waits for. Returns any other
    /// step.
    ///
    /// [`Step::Woken`] and [`Step::ShuttingDown`] are both handled and returned. [`Step::Accepted`]
    /// is always returned. Make a [`Stream`](crate::Stream) of its connection within
    /// [`enter`](Self::enter).
    ///
    /// `ev` must be the loop that was passed to [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// If a task or the destructor of its output panics, and
    /// [`set_resumes_panics`](Self::set_resumes_panics) is on.
    pub fn on_step<L: Acceptor>(
        &self,
        ev: &mut EventLoop<L>,
        step: Step<L::Stream>,
    ) -> Option<Step<L::Stream>> {
        let shared = &self.shared;
        let is_handled = match &step {
            Step::Ready(token, ready) => {
                let turn = EdgeLoop::turn(ev);
                shared.enter(ev, || shared.on_ready(*token, *ready, turn))
            }
            Step::Expired(token, _) => shared.enter(ev, || shared.on_expired(*token)),
            Step::Woken => {
                shared.enter(ev, || shared.take_results());
                false
            }
            Step::ShuttingDown => {
                shared.enter(ev, || shared.on_shutting_down());
                false
            }
            Step::Evict(token) => shared.enter(ev, || shared.on_evict(*token)),
            Step::Accepted(_) => false,
        };
        if shared.has_orphans() {
            shared.enter(ev, || shared.end_orphans());
        }
        (!is_handled).then_some(step)
    }

    /// Lends the loop to `call`, as to a future of this executor, so that `call` can make streams
    /// and use [`spawn_local`](crate::spawn_local).
    pub fn enter<L: Acceptor, R>(&self, ev: &mut EventLoop<L>, call: impl FnOnce() -> R) -> R {
        self.shared.enter(ev, || {
            self.shared.end_orphans();
            self.shared.reset_calls();
            call()
        })
    }

    /// Spawns a task. The task is due at once, and a later step polls it.
    ///
    /// # Errors
    ///
    /// [`Refused`] with the future, if the executor has as many tasks as its
    /// [limit](Self::set_tasks_max), or if all tokens of the loop are in use.
    #[track_caller]
    pub fn spawn<L: Acceptor, F: Future<Output: 'static> + 'static>(
        &self,
        ev: &mut EventLoop<L>,
        future: F,
    ) -> Result<JoinHandle<F::Output>, Refused<F>> {
        let at = Location::caller();
        self.enter(ev, || self.shared.spawn(future, at))
    }

    /// Sets the maximum number of tasks at once. A lower maximum ends no task. By default, only the
    /// number of [tokens](EventLoop::add_unwatched) limits the tasks.
    pub fn set_tasks_max(&self, tasks: usize) {
        self.shared.tasks_max.set(tasks);
    }

    /// Sets whether the panic of a task unwinds through [`on_step`](Self::on_step), or through the
    /// call that aborts the task, so that the panic ends the worker. The task then counts as
    /// [aborted](crate::JoinError::Aborted). By default, a panic ends only its task, whose handle
    /// returns the panic as the [error](crate::JoinError::Panicked).
    pub fn set_resumes_panics(&self, resumes: bool) {
        self.shared.resumes_panics.set(resumes);
    }

    /// Reports a future that does not return from a poll, with the place where its task was
    /// spawned, or where [`block_on`](crate::Runtime::block_on) was called.
    ///
    /// A thread checks once in each `limit`. It reports a poll once, when it finds the poll in two
    /// checks in a row. So the report comes one to two times `limit` after the poll has begun.
    /// `report` runs on that thread, which ends after the executor is dropped. A second call has no
    /// effect.
    ///
    /// The loop's [watchdog](evcore::InstrumentOptions::watchdog) reports polls that take long but
    /// end. [`spawned_at`](Self::spawned_at) returns the place where the task of such a slow step
    /// was spawned.
    ///
    /// # Errors
    ///
    /// The error of the system if it cannot start a thread.
    ///
    /// ```
    /// use evcore_async::{Runtime, spawn_local};
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let mut runtime = Runtime::new()?;
    /// let (sender, reports) = mpsc::channel();
    /// let report = move |at| _ = sender.send(at);
    /// runtime.executor().report_stuck(Duration::from_millis(1), report)?;
    /// let at = runtime.block_on(async {
    ///     spawn_local(async move { reports.recv() }).await // blocks
    /// })?;
    /// println!("{} is stuck", at.unwrap()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report_stuck(
        &self,
        limit: Duration,
        report: impl Fn(&'static Location<'static>) + Send + 'static,
    ) -> io::Result<()> {
        if self.shared.watch.get().is_none() {
            let _ = self.shared.watch.set(Watch::start(limit, report)?);
        }
        Ok(())
    }

    /// The number of tasks that have not ended.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.shared.tasks()
    }

    /// Returns the place where the task of a token was spawned, even after the task has ended.
    /// `None` if the token never belonged to a task of this executor, or if a later task has taken
    /// the token's index.
    ///
    /// The [watchdog](evcore::InstrumentOptions::watchdog) reports a slow step by its token.
    #[must_use]
    pub fn spawned_at(&self, token: Token) -> Option<&'static Location<'static>> {
        self.shared.location(token)
    }

    /// Drops all tasks, and removes their tokens from the loop. The executor can be used
    /// afterwards.
    ///
    /// Dropping an executor also drops its tasks, but their tokens stay in the loop. There, the
    /// streams of the tasks still count as connections, and the loop refuses later descriptors with
    /// the same numbers. So clear an executor before you drop it, unless you drop its loop, too.
    /// One token of the executor itself stays until the loop is dropped, so keep an executor as
    /// long as its loop.
    ///
    /// # Panics
    ///
    /// If the destructor of a task panics, and [`set_resumes_panics`](Self::set_resumes_panics) is
    /// on.
    pub fn clear<L: Acceptor>(&self, ev: &mut EventLoop<L>) {
        let panic = self.enter(ev, || {
            let panic = self.drop_tasks();
            self.shared.end_spare_sleep();
            panic
        });
        self.shared.resume(panic);
    }

    /// Drops the tasks while the limit is 0, because the destructor of a task may spawn another
    /// task. Returns the first panic of a destructor.
    fn drop_tasks(&self) -> Option<Panic> {
        let limit = self.shared.tasks_max.replace(0);
        let panic = self.shared.abort_all();
        self.shared.tasks_max.set(limit);
        panic
    }

    pub(crate) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }
}

/// A nonzero number that is unique among the executors of the process.
fn next_id() -> u64 {
    static IDS: AtomicU64 = AtomicU64::new(1);
    IDS.fetch_add(1, Relaxed)
}

/// Drops the tasks. The executor's state owns them, and they own streams that own this state, so
/// the reference cycle would keep all of them alive.
impl Drop for Executor {
    fn drop(&mut self) {
        let panic = self.drop_tasks();
        self.shared.on_executor_dropped();
        self.shared.resume(panic);
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("tasks", &self.tasks())
            .finish_non_exhaustive()
    }
}
