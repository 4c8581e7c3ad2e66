//! The supervisor: its options and hooks, and its two ways to run workers.

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    activation,
    affinity::Affinity,
    descriptor_stores::DescriptorStores,
    error::{Error, Result},
    exit::{Outcome, WorkerExit, WorkerInfo},
    fork,
    hang::Watch,
    hooks::Hooks,
    interval::Interval,
    kept::{HandOn, Kept, KeptCounts},
    lifecycle::{Config, GENERATIONS_MAX, Timeouts},
    mailboxes::Table,
    master::Master,
    processes::Processes,
    reload::Reload,
    slot::WORKERS_MAX,
    stop::Stop,
    stored::Keep,
    threads::Threads,
    upgrade::{self, Binary, Upgrade},
    worker::Worker,
};

/// Starts workers, replaces those that end, and stops them: as processes by [`run`](Self::run), or
/// as threads by [`run_threads`](Self::run_threads).
///
/// The hooks and most options are the same for both. The hooks are called in the master, between
/// two waits. While a hook runs, the master replaces and stops no worker. Hooks must not start
/// threads if the workers are processes, because the master forks again. Hooks may borrow values
/// that the workers also use.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor};
///
/// let mut started = Vec::new();
/// let outcome = Supervisor::new(3)
///     .on_start(|worker| started.push(worker.index.get()))
///     .run(|_worker| DO_NOT_RESTART)?;
/// assert_eq!(outcome, Outcome::AllRefused);
/// assert_eq!(started, [0, 1, 2]);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[must_use = "it does nothing until it runs"]
pub struct Supervisor<'a> {
    config: Config,
    affinity: Option<Affinity>,
    inherited: Vec<OwnedFd>,
    mailboxes: bool,
    /// The function that has a service manager keep the mailboxes; `None` if they are not kept.
    keep: Option<Keep<'a>>,
    hand_on: Option<HandOn<'a>>,
    hang_timeout: Option<Duration>,
    hooks: Hooks<'a>,
}

impl<'a> Supervisor<'a> {
    /// Creates a supervisor of this many workers, with the indices from 0 up. Numbers from 1 to
    /// 1,024 are possible; [`check`](Self::check) and [`run`](Self::run) refuse others.
    pub fn new(workers: usize) -> Self {
        Self {
            config: Config {
                workers,
                timeouts: Timeouts::default(),
                slots_serve_alone: false,
                can_kill: true,
            },
            affinity: None,
            inherited: Vec::new(),
            mailboxes: false,
            keep: None,
            hand_on: None,
            hang_timeout: None,
            hooks: Hooks::default(),
        }
    }

    /// Returns the number of [slots](Worker::slot): four times the workers, because up to four
    /// generations of workers may live at once. A reload that finds no free slots
    /// [waits](Reload::Waiting), or is [given up](Reload::Stuck).
    ///
    /// Shared state of the workers, such as a `WorkerGroup` of `evcore-balancer`, needs room for
    /// this many.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.config.workers.saturating_mul(GENERATIONS_MAX)
    }

    /// Sets the time after which a graceful stop becomes a fast one. The default is 30 seconds.
    ///
    /// Make it longer than the time that a worker gives itself for the stop, such as the timeout of
    /// evcore's `EventLoop::shutdown`. [`Duration::MAX`] means no limit.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.config.timeouts.stop = timeout;
        self
    }

    /// Sets the time after which a new worker that has not reported that it is
    /// [ready](Worker::ready) counts as ready, in a reload. The default is 1 second.
    ///
    /// [`Duration::MAX`] means no limit; use it if your workers report.
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.config.timeouts.ready = timeout;
        self
    }

    /// Kills each worker process that hangs, which means that it has [worked](Worker::works) for
    /// this time without a [wait](Worker::waits). Such a worker may be in an endless loop, blocked
    /// in a call, or stopped by a signal (SIGSTOP) while it works. It is
    /// [replaced](crate#replacement) like other workers that die. By default, a worker may work
    /// without a limit.
    ///
    /// The master checks eight times in this time, so a worker may hang for an eighth longer. If
    /// the master itself does not run for half of this time, for example because the whole server
    /// is frozen, it kills no worker before this time has passed once more. The timeout has no
    /// effect on threads, because a thread cannot be killed.
    ///
    /// # Panics
    ///
    /// If the time is below 8 ms.
    pub fn hang_timeout(mut self, timeout: Duration) -> Self {
        assert!(
            timeout >= Duration::from_millis(8),
            "a hang timeout must be at least 8 ms"
        );
        self.hang_timeout = Some(timeout);
        self
    }

    /// Sets the hook for each worker that is about to be killed because it
    /// [hangs](Self::hang_timeout). The hook gets the time for which the worker has worked.
    pub fn on_hang(mut self, hook: impl FnMut(&WorkerInfo, Duration) + 'a) -> Self {
        self.hooks.on_hang = Box::new(hook);
        self
    }

    /// Sets whether workers of one index cannot serve clients of another, for example because each
    /// worker has its own listener (`SO_REUSEPORT`). The default is false.
    ///
    /// This setting affects how soon a crashed worker is [replaced](crate#replacement). If it is
    /// true, only workers of the same index count as serving. During a reload these are an old and
    /// a new worker. Without such a worker, the replacement is started at most 500 ms after the
    /// start of the crashed worker, or at once if that time has passed.
    ///
    /// ```
    /// use evcore_prefork::Supervisor;
    ///
    /// let one_listener_each = Supervisor::new(4).slots_serve_alone(true);
    /// # drop(one_listener_each);
    /// ```
    pub fn slots_serve_alone(mut self, alone: bool) -> Self {
        self.config.slots_serve_alone = alone;
        self
    }

    /// Runs each worker on the CPUs that `affinity` has for its index.
    ///
    /// If the worker cannot be pinned, it runs nevertheless, and [`Worker::affinity_error`] has the
    /// reason.
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.affinity = Some(affinity);
        self
    }

    /// Passes a descriptor, usually a listener, on to the new binary that USR2 starts. The new
    /// binary takes it by [`inherited`](crate::inherited).
    ///
    /// The descriptor is duplicated. The master closes its duplicate when a stop begins. A worker
    /// process closes its own at its start.
    ///
    /// Use it only for worker processes, because [`run_threads`](Self::run_threads) returns an
    /// error after this call.
    ///
    /// # Errors
    ///
    /// [`Error::Os`] if the descriptor could not be duplicated.
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

    /// Makes the [mailboxes](Worker::mailboxes) by which workers send each other descriptors: one
    /// for each slot, and two for the successors of each index. A new binary that USR2 starts
    /// inherits one of these two.
    ///
    /// For each worker of a generation, the mailboxes take twelve descriptors in the master and six
    /// in every worker process. Each worker process has three more, the receiving ends that it
    /// reads. There are more if an older binary, or the last run of the service, had more workers.
    ///
    /// Mailboxes exist only on Linux and Android. On other systems `run` and `run_threads` return
    /// [`Error::NoMailboxes`].
    pub fn mailboxes(mut self) -> Self {
        self.mailboxes = true;
        self
    }

    /// Keeps mailboxes open while the service restarts, in a service manager's store of descriptors
    /// such as systemd's: for each index, one of the two mailboxes of successors. So connections
    /// that workers put there while the service stops wait for the workers of the next start.
    /// [`Worker::successor`] then returns [`Successor::Restart`](crate::Successor::Restart), unless
    /// another worker serves.
    ///
    /// [`run`](Self::run) calls `keep` before the first worker starts, for both ends of each of
    /// these mailboxes. `keep` must send the service manager the descriptor and its name
    /// (`FDSTORE=1`, `FDNAME=`). At the next start, [`stored_listeners`](crate::stored_listeners)
    /// or [`activated`](crate::activated) takes all stored descriptors, and `run` uses these
    /// mailboxes. A program that keeps none any more calls
    /// [`close_stored_mailboxes`](crate::close_stored_mailboxes).
    ///
    /// This option includes [mailboxes](Self::mailboxes). With [threads](Self::run_threads),
    /// nothing is kept.
    pub fn keep_mailboxes(mut self, keep: impl FnMut(&str, BorrowedFd<'_>) + 'a) -> Self {
        self.keep = Some(Box::new(keep));
        self.mailboxes()
    }

    /// Gives each worker a descriptor store, which keeps the worker's idle connections if the
    /// worker dies.
    ///
    /// The store is a process that shares the descriptor table of its worker, and waits. If the
    /// worker ends without having returned from its function, for example because it was killed,
    /// the store closes most descriptors. It keeps the standard streams, the mailboxes of
    /// successors, and the connections that the worker has [marked as idle](Worker::idle_marks).
    /// Then it calls `hand_on`, which should send these connections to the worker's successor, and
    /// return how many of them the successor has taken. Then the store ends.
    ///
    /// `hand_on` is called in the store, with a copy of the worker's memory as it was when the
    /// worker began. Descriptors that `hand_on` has captured are closed by then, so captured values
    /// are not dropped. `hand_on` should give up after some time, because a worker that crashes
    /// again and again has no successor.
    ///
    /// A store is a child of the master. It is killed if the master dies, or if the server stops
    /// and no other binary runs. It blocks all signals that can be blocked. While it waits, it uses
    /// no CPU time and some 50 KiB of memory, and its worker has one more descriptor. If a store is
    /// killed, its worker goes on without one. If a store cannot be made,
    /// [`Worker::descriptor_store_error`] returns the reason.
    ///
    /// A worker that panics closes its connections while it unwinds, so connections survive a panic
    /// only if panics abort. A worker must not replace its program (`exec`), because the store
    /// would hold the connections as long as the new program runs.
    ///
    /// This option includes [mailboxes](Self::mailboxes). It works with worker processes on Linux
    /// 5.9 or later. Otherwise `run` and `run_threads` return an error.
    ///
    /// ```no_run
    /// use evcore_handover::{Connection, Sender};
    /// use evcore_prefork::{Kept, Supervisor, Worker};
    ///
    /// /// Sends the connections, and waits until the successor has taken them.
    /// fn hand_on(kept: Kept) -> std::io::Result<usize> {
    ///     let mut sender = Sender::open(kept.to_successor(), 1)?;
    ///     let count = kept.descriptors.len();
    ///     let idle = kept.descriptors.into_iter();
    ///     let mut idle: Vec<_> = idle.map(|fd| Connection::new(fd, b"")).collect();
    ///     while !idle.is_empty() || sender.unacknowledged() > 0 {
    ///         sender.send(&mut idle)?;
    ///         // Wait until it is readable.
    ///         while sender.next_answer()?.is_some() {}
    ///     }
    ///     Ok(count)
    /// }
    ///
    /// fn work(worker: Worker) -> i32 {
    ///     let marks = worker.idle_marks(); // 1 at the number of each descriptor that is idle
    ///     # _ = marks;
    ///     0
    /// }
    ///
    /// let supervisor = Supervisor::new(4)
    ///     .descriptor_store(|kept| hand_on(kept).unwrap_or(0))
    ///     .on_kept(|worker, counts| eprintln!("{worker} has died: {counts}"));
    /// supervisor.run(work)?;
    /// # Ok::<(), evcore_prefork::Error>(())
    /// ```
    pub fn descriptor_store(mut self, hand_on: impl Fn(Kept) -> usize + 'a) -> Self {
        self.hand_on = Some(Box::new(hand_on));
        self.mailboxes()
    }

    /// Sets the hook for each dead worker whose [store](Self::descriptor_store) has called
    /// `hand_on` and ended. It is not called for a store that was killed or has panicked, or that
    /// ends after the last worker of a server that stops.
    pub fn on_kept(mut self, hook: impl FnMut(&WorkerInfo, KeptCounts) + 'a) -> Self {
        self.hooks.on_kept = Box::new(hook);
        self
    }

    /// Sets the hook for each worker that was started. When the hook is called, the worker may have
    /// run, or even ended, already.
    pub fn on_start(mut self, hook: impl FnMut(&WorkerInfo) + 'a) -> Self {
        self.hooks.on_start = Box::new(hook);
        self
    }

    /// Sets the hook for each worker that could not be started. The hook gets the error. The next
    /// attempt follows after a [pause](crate#replacement), as after a crash.
    ///
    /// If the very first start fails, the hook is not called, and `run` returns the error.
    pub fn on_start_error(mut self, hook: impl FnMut(&WorkerInfo, &io::Error) + 'a) -> Self {
        self.hooks.on_start_error = Box::new(hook);
        self
    }

    /// Sets the hook for each worker that has reported that it is [ready](Worker::ready). The first
    /// call shows that the server accepts clients.
    ///
    /// ```
    /// use evcore_prefork::Supervisor;
    ///
    /// let mut announcement = Some("listening on 127.0.0.1:8080");
    /// let supervisor = Supervisor::new(4).on_ready(move |_worker| {
    ///     announcement.take().into_iter().for_each(|line| eprintln!("{line}"));
    /// });
    /// # drop(supervisor);
    /// ```
    pub fn on_ready(mut self, hook: impl FnMut(&WorkerInfo) + 'a) -> Self {
        self.hooks.on_ready = Box::new(hook);
        self
    }

    /// Sets the hook for each worker that a stop does not end: a process that still lives a second
    /// after the master has sent it KILL, or a thread that still runs a second after
    /// [`Stop::Fast`](crate::Stop::Fast).
    ///
    /// The worker keeps its slot until it ends, and then [`on_exit`](Self::on_exit) is called.
    /// While the workers of three old generations are stuck, a further reload is [given
    /// up](Reload::Stuck).
    ///
    /// The hook is not called for threads when the supervisor stops, because it [abandons] them.
    ///
    /// [abandons]: crate::ExitCause::Abandoned
    pub fn on_stuck(mut self, hook: impl FnMut(&WorkerInfo) + 'a) -> Self {
        self.hooks.on_stuck = Box::new(hook);
        self
    }

    /// Sets the hook for each worker that has ended. It is called before the replacement is
    /// started. Use it to release what the worker held in shared memory: with `evcore-balancer`, by
    /// `group.release_dead(WorkerId::from_slot(exit.worker.slot))`.
    pub fn on_exit(mut self, hook: impl FnMut(&WorkerExit) + 'a) -> Self {
        self.hooks.on_exit = Box::new(hook);
        self
    }

    /// Sets the hook for the progress of a reload (HUP).
    pub fn on_reload(mut self, hook: impl FnMut(Reload) + 'a) -> Self {
        self.hooks.on_reload = Box::new(hook);
        self
    }

    /// Sets the hook for USR1. It is called before the workers get the signal. Use it to reopen the
    /// master's own logs.
    pub fn on_reopen(mut self, hook: impl FnMut() + 'a) -> Self {
        self.hooks.on_reopen = Box::new(hook);
        self
    }

    /// Sets the hook for the progress of an upgrade (USR2). If the workers are threads, it gets
    /// [`Upgrade::Unsupported`].
    pub fn on_upgrade(mut self, hook: impl FnMut(&Upgrade) + 'a) -> Self {
        self.hooks.on_upgrade = Box::new(hook);
        self
    }

    /// Sets the hook for a stop of the server. It is called when a stop begins, and once more if a
    /// signal makes a graceful stop fast. It is not called when the [timeout](Self::stop_timeout)
    /// makes the stop fast. The master sends the stop to the workers afterwards.
    pub fn on_stop(mut self, hook: impl FnMut(Stop) + 'a) -> Self {
        self.hooks.on_stop = Box::new(hook);
        self
    }

    /// Adds a hook for regular work. It is called when the interval has passed since this call, or
    /// since the hook was last called. Each call wakes the master, which otherwise sleeps until an
    /// event comes. An interval of more than a year counts as a year.
    ///
    /// # Panics
    ///
    /// If the interval is 0.
    pub fn on_interval(mut self, interval: Duration, hook: impl FnMut() + 'a) -> Self {
        assert!(
            !interval.is_zero(),
            "an interval of 0 would never let the master sleep"
        );
        let interval = Interval::new(interval, Instant::now(), hook);
        self.hooks.intervals.push(interval);
        self
    }

    /// Runs the workers as processes, and returns after all of them have ended.
    ///
    /// Each worker is a fork of the master, and runs `work` once, with its own copy of all that
    /// `work` has captured. It exits with the code that `work` returns (the low eight bits, as
    /// always on Unix), or with 101 if `work` panics. It exits as by [`std::process::exit`]:
    /// standard output is flushed, and destructors of live values do not run.
    ///
    /// Each worker owns what `work` owns, such as the listener in the example. So `work` should not
    /// own a value whose destructor acts outside of the process, such as one that removes a file:
    /// the first worker that ends would remove the file for all workers. Let `work` borrow such
    /// values. The master drops its own copy of `work` when a stop begins. So a listener that only
    /// `work` owns accepts no more clients once the last worker has closed it.
    ///
    /// The master must be the process's only thread. While it runs, it handles the process's TERM,
    /// INT, QUIT, HUP, USR1, USR2, WINCH, CHLD and IO, and unblocks them. Handlers that the
    /// application has registered are called as well. Afterwards these signals have no other
    /// effect, not even their default one.
    ///
    /// # Errors
    ///
    /// [`Error::Workers`] for a wrong number of workers, [`Error::Threads`] if the process has
    /// other threads (where this can be read), and [`Error::InUse`] within a worker or a hook, or
    /// after [`Worker::solo`]. [`Error::BadInheritance`] if the mailboxes of an older binary cannot
    /// be taken, [`Error::NoMailboxes`] or [`Error::NoDescriptorStore`] if the system does not
    /// support an option. [`Error::Os`] if the system refuses something that the supervisor needs,
    /// such as a handler, a mailbox, shared memory, the first worker, or a wait. When this returns,
    /// and also when a hook panics, no worker is left.
    ///
    /// ```
    /// use evcore_prefork::{DO_NOT_RESTART, Supervisor};
    ///
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// Supervisor::new(2).run(move |_worker| {
    ///     drop(listener); // this worker's copy; the other worker's copy stays open
    ///     DO_NOT_RESTART
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(mut self, work: impl FnOnce(Worker) -> i32) -> Result<Outcome> {
        self.check()?;
        fork::require_one_thread()?;
        let mailboxes = self.make_mailboxes()?;
        let keep = self.keep.take();
        let keeps_mailboxes = keep.is_some();
        if let (Some(mut keep), Some(table)) = (keep, &mailboxes) {
            table.keep(&mut keep);
        }
        let slots = self.slots();
        let Self {
            config,
            affinity,
            inherited,
            hooks,
            hand_on,
            hang_timeout,
            mailboxes: _,
            keep: _,
        } = self;
        let stores = hand_on.map(|hand_on| DescriptorStores::new(hand_on, slots));
        let stores = stores.transpose()?;
        let watch = hang_timeout
            .map(|timeout| Watch::new(slots, timeout))
            .transpose()?;
        let turns = watch.as_ref().map(|watch| watch.turns);
        let binary = Binary::this_one(inherited, mailboxes.clone(), keeps_mailboxes);
        let processes =
            |_| Processes::new(work, config.workers, affinity, mailboxes, stores, turns);
        Master::new(config, hooks, Some(binary), watch, processes)?.run()
    }

    /// Runs the workers as threads of this process, and returns after all of them have ended or
    /// were abandoned. The calling thread is the master.
    ///
    /// Each worker calls `work`. The values that `work` owns are dropped when no thread runs `work`
    /// and no other worker will be started.
    ///
    /// Everything is as for [processes](Self::run), except:
    ///
    /// - A thread cannot be killed. If it does not stop within a second of
    ///   [`Stop::Fast`](crate::Stop::Fast), it is [stuck](Self::on_stuck). When the supervisor
    ///   stops, it is [abandoned](crate::ExitCause::Abandoned), and ends with the process.
    /// - A panic is [reported](crate::ExitCause::Panicked) with its message.
    /// - There is no upgrade: USR2 only calls the [hook](Self::on_upgrade), and descriptors cannot
    ///   be [passed on](Self::inherit). There are no hang timeouts, descriptor stores and kept
    ///   mailboxes.
    /// - The process may have other threads. The signals are blocked in the workers, so that the
    ///   master gets them. Other threads should block them too.
    /// - If this returns an error, or if a hook panics, the workers get a fast stop, and may still
    ///   run.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run) except [`Error::Threads`]. Also
    /// [`Error::ThreadsCannotUpgrade`] after [`inherit`](Self::inherit), and
    /// [`Error::NoDescriptorStore`] after [`descriptor_store`](Self::descriptor_store).
    ///
    /// ```
    /// use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor};
    ///
    /// let outcome = Supervisor::new(2)
    ///     .on_exit(|exit| assert!(exit.worker.pid.is_none()))
    ///     .run_threads(|_worker| DO_NOT_RESTART)?;
    /// assert_eq!(outcome, Outcome::AllRefused);
    /// # Ok::<(), evcore_prefork::Error>(())
    /// ```
    pub fn run_threads(
        self,
        work: impl Fn(Worker) -> i32 + Send + Sync + 'static,
    ) -> Result<Outcome> {
        self.check()?;
        if !self.inherited.is_empty() {
            return Err(Error::ThreadsCannotUpgrade);
        }
        if self.hand_on.is_some() {
            return Err(Error::NoDescriptorStore);
        }
        let mailboxes = self.make_mailboxes()?;
        let can_kill = false;
        let config = Config {
            can_kill,
            ..self.config
        };
        let affinity = self.affinity;
        let threads = |waker| Threads::new(work, config.workers, affinity, mailboxes, waker);
        Master::new(config, self.hooks, None, None, threads)?.run()
    }

    fn make_mailboxes(&self) -> Result<Option<Arc<Table>>> {
        // Both are taken in any case, so that unused ones are closed, and no worker inherits them.
        let inherited = upgrade::inherited_mailboxes()?;
        let stored = activation::stored_mailboxes();
        if !self.mailboxes {
            return Ok(None);
        }
        let table = Table::new(self.config.workers, self.slots(), inherited, stored)?;
        Ok(Some(Arc::new(table)))
    }

    /// Checks the number of workers, as [`run`](Self::run) does. A program can call this before it
    /// prepares anything for them.
    ///
    /// # Errors
    ///
    /// [`Error::Workers`] if the number is not from 1 to 1,024.
    pub fn check(&self) -> Result<()> {
        let workers = self.config.workers;
        if (1..=WORKERS_MAX).contains(&workers) {
            return Ok(());
        }
        Err(Error::Workers {
            workers,
            most: WORKERS_MAX,
        })
    }
}

impl fmt::Debug for Supervisor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor")
            .field("config", &self.config)
            .field("affinity", &self.affinity)
            .field("inherited", &self.inherited)
            .field("mailboxes", &self.mailboxes)
            .field("descriptor_store", &self.hand_on.is_some())
            .finish_non_exhaustive()
    }
}
