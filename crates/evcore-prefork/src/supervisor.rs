//! The front: how many workers, what to tell of them, and what they do.

use std::{fmt, io, num::NonZeroU32, time::Duration};

use crate::{
    Error, Outcome, Result, Worker, WorkerExit, fork,
    master::{Hooks, Master},
};

/// Runs workers as processes of their own: forks them, replaces those that die, and stops them.
///
/// The hooks are called in the master, between two waits; while one runs, nobody is replaced or
/// stopped. They must not start threads, since the master forks again. They may borrow what the
/// workers use too.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor};
///
/// let mut started = Vec::new();
/// let outcome = Supervisor::new(3)
///     .on_start(|index, _pid| started.push(index))
///     .run(|_worker| DO_NOT_RESTART)?;
/// assert_eq!(outcome, Outcome::Refused);
/// assert_eq!(started, [0, 1, 2]);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[must_use = "it does nothing until it runs"]
pub struct Supervisor<'a> {
    workers: usize,
    stop_timeout: Duration,
    hooks: Hooks<'a>,
}

impl<'a> Supervisor<'a> {
    /// A supervisor of so many workers, at least 1, which have the indices from 0 up.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            stop_timeout: Duration::from_secs(30),
            hooks: Hooks {
                on_start: Box::new(|_, _| {}),
                on_exit: Box::new(|_| {}),
                on_fork_error: Box::new(|_, _| {}),
            },
        }
    }

    /// How long a graceful stop may take until it becomes a fast one: 30 seconds unless set.
    ///
    /// [`Duration::MAX`] for as long as it takes.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// Called with the index and process id of each worker that was forked.
    ///
    /// The worker runs by then, and may even be dead.
    pub fn on_start(mut self, hook: impl FnMut(usize, NonZeroU32) + 'a) -> Self {
        self.hooks.on_start = Box::new(hook);
        self
    }

    /// Called for each death, before the replacement is forked: the place to free what the dead
    /// worker held in shared memory.
    pub fn on_exit(mut self, hook: impl FnMut(&WorkerExit) + 'a) -> Self {
        self.hooks.on_exit = Box::new(hook);
        self
    }

    /// Called with the index and the error when a worker could not be forked. The next try comes
    /// after a pause, as for a worker that died young.
    pub fn on_fork_error(mut self, hook: impl FnMut(usize, &io::Error) + 'a) -> Self {
        self.hooks.on_fork_error = Box::new(hook);
        self
    }

    /// Forks the workers and watches over them until they are stopped.
    ///
    /// Each worker runs `work` once, with its own copy of all that `work` has captured, and exits
    /// with the code that `work` returns (its low eight bits, as always on Unix), or with 101 if
    /// it panics. It exits as by [`std::process::exit`]: standard output is flushed, destructors
    /// of what is still alive do not run.
    ///
    /// What `work` owns, it owns in every worker, as in the example the listener. So it should not
    /// own what reaches beyond the process when it is dropped, like a file that is then removed:
    /// the first worker to end would remove it for all. Such things it should borrow. The master
    /// drops its own copy of `work` as soon as a stop begins: so a listener that only `work` owns
    /// takes in no more clients once the last worker has closed it.
    ///
    /// A worker that ends while nobody stops it is replaced, whatever its exit code, unless that
    /// is [`DO_NOT_RESTART`](crate::DO_NOT_RESTART): at once if it lived for a second or more;
    /// else after a pause of 100 ms, doubled with each further such death of its slot, up to 10 s.
    ///
    /// The master must be the process's only thread. While it runs, it takes the process's TERM,
    /// INT, QUIT and CHLD, and unblocks them. Handlers that the application registered by
    /// signal-hook are called as well. Afterwards these signals have no effect of ours, nor their
    /// default one.
    ///
    /// # Errors
    ///
    /// [`Error::NoWorkers`], [`Error::Threads`] (where it can be known), [`Error::InUse`] within a
    /// worker or a hook, and [`Error::Os`] if handlers or the first worker of all are refused.
    /// A fork that fails later is no error: it is tried again. Whenever this returns, and also if
    /// a hook panics, no worker is left.
    ///
    /// ```
    /// use evcore_prefork::{DO_NOT_RESTART, Supervisor};
    ///
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// Supervisor::new(2).run(move |_worker| {
    ///     drop(listener); // this worker's own; the other's stays open
    ///     DO_NOT_RESTART
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(self, work: impl FnOnce(Worker) -> i32) -> Result<Outcome> {
        if self.workers == 0 {
            return Err(Error::NoWorkers);
        }
        fork::require_one_thread()?;
        Master::new(self.workers, self.stop_timeout, self.hooks, work)?.run()
    }
}

impl fmt::Debug for Supervisor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor")
            .field("workers", &self.workers)
            .field("stop_timeout", &self.stop_timeout)
            .finish_non_exhaustive()
    }
}
