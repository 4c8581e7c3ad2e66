//! The front: how many workers, what to tell of them, and what they do.

use std::{
    fmt, io,
    num::NonZeroU32,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use crate::{
    Affinity, Error, Outcome, Reload, Result, Upgrade, Worker, WorkerExit, fork,
    master::{Hooks, Master, Plan},
    roster::{Patience, SETS_MAX},
    upgrade::Binary,
};

/// The most workers of a set: more is a mistake, as it is for nginx.
pub(crate) const WORKERS_MAX: usize = 1024;

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
    patience: Patience,
    slots_serve_alone: bool,
    affinity: Option<Affinity>,
    inherited: Vec<OwnedFd>,
    hooks: Hooks<'a>,
}

impl<'a> Supervisor<'a> {
    /// A supervisor of so many workers, from 1 to 1,024, which have the indices from 0 up.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            patience: Patience::default(),
            slots_serve_alone: false,
            affinity: None,
            inherited: Vec::new(),
            hooks: Hooks {
                on_start: Box::new(|_, _| {}),
                on_ready: Box::new(|_, _| {}),
                on_exit: Box::new(|_| {}),
                on_fork_error: Box::new(|_, _| {}),
                on_reload: Box::new(|_| {}),
                on_reopen: Box::new(|| {}),
                on_upgrade: Box::new(|_| {}),
            },
        }
    }

    /// How many [seats](Worker::seat) there are: four times the workers, since a reload is possible
    /// while two older sets of workers still finish. One that would be too many waits for a seat.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.workers.saturating_mul(SETS_MAX)
    }

    /// How long a graceful stop may take until it becomes a fast one: 30 seconds unless set.
    ///
    /// [`Duration::MAX`] for as long as it takes.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.patience.stop = timeout;
        self
    }

    /// How long a new worker may take to say that it is [ready](Worker::ready), in a reload: 1
    /// second unless set. One that has lived for so long is taken to serve.
    ///
    /// [`Duration::MAX`] for as long as it takes, which is for workers that do say so.
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.patience.ready = timeout;
        self
    }

    /// Whether clients of one index are out of reach for workers of another, as where each
    /// worker has a listener of its own (`SO_REUSEPORT`): false unless set.
    ///
    /// It decides when a worker that died young is [replaced](Self::run): at the latest 500 ms
    /// after its own start if its slot serves alone, whatever workers of other slots live.
    ///
    /// ```
    /// use evcore_prefork::Supervisor;
    ///
    /// let one_listener_each = Supervisor::new(4).slots_serve_alone(true);
    /// # drop(one_listener_each);
    /// ```
    pub fn slots_serve_alone(mut self, alone: bool) -> Self {
        self.slots_serve_alone = alone;
        self
    }

    /// Keeps each worker on the CPUs that `affinity` has for its index.
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.affinity = Some(affinity);
        self
    }

    /// Passes a descriptor on to a new binary that USR2 starts, which finds it by
    /// [`inherited`](crate::inherited): a listener, as a rule.
    ///
    /// It is duplicated; the master's duplicate is closed when a stop begins, those of the workers
    /// at once.
    ///
    /// # Errors
    ///
    /// [`Error::Os`] if it could not be duplicated.
    ///
    /// ```
    /// use evcore_prefork::Supervisor;
    ///
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let supervisor = Supervisor::new(4).inherit(&listener)?;
    /// # drop(supervisor);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn inherit(mut self, fd: impl AsFd) -> Result<Self> {
        let copy = fd.as_fd().try_clone_to_owned();
        self.inherited
            .push(copy.map_err(Error::os("duplicating a descriptor to pass on"))?);
        Ok(self)
    }

    /// Called with the index and process id of each worker that was forked.
    ///
    /// The worker runs by then, and may even be dead.
    pub fn on_start(mut self, hook: impl FnMut(usize, NonZeroU32) + 'a) -> Self {
        self.hooks.on_start = Box::new(hook);
        self
    }

    /// Called with the index and process id of each worker that has said that it is
    /// [ready](Worker::ready): at the first call, the server serves. One that dies right after it
    /// has said so may be left out.
    ///
    /// ```
    /// use evcore_prefork::Supervisor;
    ///
    /// let mut announcement = Some("listening on 127.0.0.1:8080");
    /// let supervisor = Supervisor::new(4).on_ready(move |_index, _pid| {
    ///     announcement.take().into_iter().for_each(|line| eprintln!("{line}"));
    /// });
    /// # drop(supervisor);
    /// ```
    pub fn on_ready(mut self, hook: impl FnMut(usize, NonZeroU32) + 'a) -> Self {
        self.hooks.on_ready = Box::new(hook);
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

    /// Called as a reload (HUP) goes on.
    pub fn on_reload(mut self, hook: impl FnMut(Reload) + 'a) -> Self {
        self.hooks.on_reload = Box::new(hook);
        self
    }

    /// Called at USR1, to open the master's own logs again, before the workers are told.
    pub fn on_reopen(mut self, hook: impl FnMut() + 'a) -> Self {
        self.hooks.on_reopen = Box::new(hook);
        self
    }

    /// Called as a new binary (USR2) is started, and when it ends before this master does.
    pub fn on_upgrade(mut self, hook: impl FnMut(&Upgrade) + 'a) -> Self {
        self.hooks.on_upgrade = Box::new(hook);
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
    /// While no worker lives (those that are asked to finish do not count), the first of these
    /// pauses ends 100 ms after the last start, doubled with further deaths up to 500 ms. So a
    /// server whose workers are all killed is without a worker for half a second at most, and a
    /// worker that can never start is forked twice a second, not in a busy loop. Where
    /// [each slot serves alone](Self::slots_serve_alone), this holds for each slot by itself.
    ///
    /// The master must be the process's only thread. While it runs, it takes the process's TERM,
    /// INT, QUIT, HUP, USR1, USR2, WINCH, CHLD and IO, and unblocks them. Handlers that the
    /// application registered by signal-hook are called as well. Afterwards these signals have no
    /// effect of ours, nor their default one.
    ///
    /// # Errors
    ///
    /// [`Error::NoWorkers`], [`Error::TooManyWorkers`], [`Error::Threads`] (where it can be known),
    /// [`Error::InUse`] within a worker or a hook, and [`Error::Os`] if handlers or the first
    /// worker of all are refused.
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
        require_sane(self.workers)?;
        fork::require_one_thread()?;
        let plan = Plan {
            workers: self.workers,
            patience: self.patience,
            slots_serve_alone: self.slots_serve_alone,
            affinity: self.affinity,
            binary: Binary::this_one(self.inherited),
        };
        Master::new(plan, self.hooks, work)?.run()
    }
}

/// An error for so many workers, if it is one.
pub(crate) fn require_sane(workers: usize) -> Result<()> {
    match workers {
        0 => Err(Error::NoWorkers),
        1..=WORKERS_MAX => Ok(()),
        _ => Err(Error::TooManyWorkers {
            workers,
            most: WORKERS_MAX,
        }),
    }
}

impl fmt::Debug for Supervisor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor")
            .field("workers", &self.workers)
            .field("patience", &self.patience)
            .field("slots_serve_alone", &self.slots_serve_alone)
            .field("affinity", &self.affinity)
            .field("inherited", &self.inherited)
            .finish_non_exhaustive()
    }
}
