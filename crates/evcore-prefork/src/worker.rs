//! A worker, as its own code sees it.

use std::{
    num::NonZeroU32,
    os::fd::{AsFd, AsRawFd},
    sync::{Arc, atomic::AtomicU8},
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    process::getpid,
};

use crate::{
    affinity::Affinity,
    error::{Error, Result},
    exit::WorkerInfo,
    hang::Turns,
    liveness_pipe,
    mailboxes::Mailboxes,
    signals::{self, Handlers},
    slot::Slot,
    stop::Stop,
    successor::Successor,
    thread_channel::ThreadChannel,
    worker_index::WorkerIndex,
};

/// The worker that runs in this process or thread.
///
/// A worker process gets a stop by TERM, INT and QUIT, which its master, a terminal or an operator
/// may send, and by the [death of its master](crate#the-masters-death). A worker thread gets a stop
/// from its master.
///
/// The supervisor [replaces](crate#replacement) a worker that ends without a stop from its master.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Supervisor, Worker};
///
/// Supervisor::new(4).run(|worker: Worker| {
///     assert!(worker.index().get() < 4);
///     assert_eq!(worker.pid().get(), std::process::id());
///     DO_NOT_RESTART
/// })?;
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Debug)]
pub struct Worker {
    index: WorkerIndex,
    slot: usize,
    pid: NonZeroU32,
    link: MasterLink,
    affinity_error: Option<Error>,
    mailboxes: Option<Mailboxes>,
    /// The marks for the descriptor store, or the reason why there is no store; `None` if no store
    /// was requested.
    idle_marks: Option<Result<&'static [AtomicU8]>>,
    /// The shared words that show whether workers wait; `None` without a hang timeout.
    turns: Option<Turns>,
}

/// The link between a worker and its master, for requests and reports.
#[derive(Debug)]
pub(crate) enum MasterLink {
    /// The worker has no master, and gets signals.
    Solo,
    /// The worker gets signals, and reports over the liveness pipe.
    Process,
    Thread(Arc<ThreadChannel>),
}

impl Worker {
    /// Creates a worker without a master: this process, with index 0.
    ///
    /// Use it to serve without a supervisor, with the code that workers run otherwise. The process
    /// may have threads. The signal handlers stay for the life of the process. TERM, INT, QUIT and
    /// USR1 are unblocked for the calling thread. All other signals, including those that only a
    /// master handles, keep their effect, and stay blocked if they were.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] if this was called before, within a worker process, and while the process
    /// runs a [`Supervisor`](crate::Supervisor). [`Error::Os`] if no handler could be installed.
    ///
    /// ```
    /// use evcore_prefork::Worker;
    ///
    /// let worker = Worker::solo()?;
    /// assert_eq!(worker.index().get(), 0);
    /// assert_eq!(worker.stop(), None);
    /// # Ok::<(), evcore_prefork::Error>(())
    /// ```
    pub fn solo() -> Result<Self> {
        Handlers::install()?.keep_for_solo();
        let slot = Slot { row: 0, index: 0 };
        Ok(Self::new(slot, 1, MasterLink::Solo))
    }

    pub(crate) fn new(slot: Slot, workers: usize, link: MasterLink) -> Self {
        Self {
            index: WorkerIndex::new(slot.index),
            slot: slot.number(workers),
            pid: getpid().as_raw_nonzero().unsigned_abs(),
            link,
            affinity_error: None,
            mailboxes: None,
            idle_marks: None,
            turns: None,
        }
    }

    /// Pins this thread to its CPUs, if there is an affinity, and keeps the error.
    pub(crate) fn apply(&mut self, affinity: Option<&Affinity>) {
        let applied = affinity.map(|affinity| affinity.of(self.index.get()).pin());
        self.affinity_error = applied.and_then(Result::err);
    }

    pub(crate) fn set_turns(&mut self, turns: Option<Turns>) {
        self.turns = turns;
    }

    /// Records that this worker works from now on, until it calls [`waits`](Self::waits). If the
    /// work takes longer than the [timeout](crate::Supervisor::hang_timeout), the master kills the
    /// worker. With a timeout, each call reads the clock. Without one, the call has no effect.
    ///
    /// Call this after each wait of your loop, and `waits` before each wait.
    #[inline]
    pub fn works(&self) {
        if let Some(turns) = self.turns {
            turns.begin(self.slot);
        }
    }

    /// Records that this worker is about to wait. Without a timeout, the call has no effect.
    #[inline]
    pub fn waits(&self) {
        if let Some(turns) = self.turns {
            turns.end(self.slot);
        }
    }

    #[cfg(target_os = "linux")] // where descriptor stores exist
    pub(crate) fn set_idle_marks(&mut self, marks: Result<&'static [AtomicU8]>) {
        self.idle_marks = Some(marks);
    }

    /// The marks of this worker's descriptors, indexed by their numbers; `None` without a
    /// [descriptor store](crate::Supervisor::descriptor_store). A worker writes 1 for a connection
    /// that is idle. It writes 2 before it uses the connection again, and 0 before it closes the
    /// descriptor. The store only counts the connections that are marked with 2.
    ///
    /// The store of a worker that has died hands on the connections that are marked with 1. So mark
    /// a connection as idle only if the worker has handled all bytes that have come over it, and
    /// has sent all answers. With evcore, pass this slice to `ListenersMut::set_idle_marks`.
    ///
    /// The length of the slice is the process's hard limit of descriptors, at most some 4 million.
    /// A descriptor whose number is not below this length cannot be marked, and neither can a
    /// standard stream.
    ///
    /// ```
    /// use std::sync::atomic::Ordering::Release;
    /// use std::os::fd::{AsRawFd, RawFd};
    ///
    /// fn mark(worker: &evcore_prefork::Worker, descriptor: RawFd, is_idle: bool) {
    ///     let marks = worker.idle_marks().unwrap_or_default();
    ///     if let Some(mark) = marks.get(descriptor as usize) {
    ///         mark.store(if is_idle { 1 } else { 2 }, Release);
    ///     }
    /// }
    /// # mark(&evcore_prefork::Worker::solo()?, std::io::stdin().as_raw_fd(), false);
    /// # Ok::<(), evcore_prefork::Error>(())
    /// ```
    #[must_use]
    pub fn idle_marks(&self) -> Option<&'static [AtomicU8]> {
        self.idle_marks.as_ref()?.as_ref().ok().copied()
    }

    /// Returns the reason why this worker's descriptor store could not be made; `None` if it has a
    /// store, or if no store was requested. The worker serves without a store.
    #[must_use]
    pub fn descriptor_store_error(&self) -> Option<&Error> {
        self.idle_marks.as_ref()?.as_ref().err()
    }

    pub(crate) fn set_mailboxes(&mut self, mailboxes: Mailboxes) {
        self.mailboxes = Some(mailboxes);
    }

    /// The mailboxes of all workers; `None` unless the supervisor [has made
    /// them](crate::Supervisor::mailboxes).
    #[must_use]
    pub fn mailboxes(&self) -> Option<&Mailboxes> {
        self.mailboxes.as_ref()
    }

    /// The worker's number in its generation, for example for a log.
    ///
    /// A replacement has the index of the worker it replaces. During a reload an old worker and a
    /// new one have the same index, so for shared memory use the [slot](Self::slot).
    #[must_use]
    pub fn index(&self) -> WorkerIndex {
        self.index
    }

    /// The worker's place in the supervisor's table: a number below
    /// [`Supervisor::slots`](crate::Supervisor::slots) that no other living worker of this master
    /// has. Use it to choose the worker's place in shared memory; `WorkerId::from_slot` of
    /// `evcore-balancer` takes it.
    ///
    /// A replacement has the slot of the worker it replaces.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// This process's id.
    #[must_use]
    pub fn pid(&self) -> NonZeroU32 {
        self.pid
    }

    /// The worker as the supervisor's hooks get it.
    #[must_use]
    pub fn info(&self) -> WorkerInfo {
        WorkerInfo {
            index: self.index,
            slot: self.slot,
            pid: match self.link {
                MasterLink::Solo | MasterLink::Process => Some(self.pid),
                MasterLink::Thread(_) => None,
            },
        }
    }

    /// The stop that was requested, if any.
    ///
    /// A stop is never withdrawn, and changes only from graceful to fast. Call this in each
    /// iteration of your loop. It costs only a load.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        Stop::from_severity(match &self.link {
            MasterLink::Thread(channel) => channel.severity(),
            MasterLink::Solo | MasterLink::Process => signals::state().severity(),
        })
    }

    /// Returns the kind of worker that serves in place of this one, for
    /// [`Mailboxes::to_successor`]. If both a newer generation of the same master and another
    /// binary serve, it returns the generation.
    ///
    /// If no other worker serves because the service stops, and a service manager
    /// [keeps](crate::Supervisor::keep_mailboxes) the mailboxes, the successor is a worker of the
    /// next start.
    ///
    /// Otherwise, `None` means that no other worker serves. `None` is also returned before a
    /// [stop](Self::stop) by the master, without a master, and if the workers are threads.
    ///
    /// The kind may change while the worker stops, so call this again before you open a channel to
    /// a successor. Costs a system call, and one more for each change that the master has reported.
    #[must_use]
    pub fn successor(&self) -> Option<Successor> {
        match self.link {
            MasterLink::Process => liveness_pipe::successor(),
            MasterLink::Solo | MasterLink::Thread(_) => None,
        }
    }

    /// Time that the worker may take to stop; `None` if no stop was requested.
    ///
    /// It is `timeout` after [`Stop::Graceful`], and zero after [`Stop::Fast`]. The value does not
    /// count down, so measure the time from the moment at which the value changes. With evcore,
    /// pass it to the loop before each turn: `if let Some(timeout) = worker.stop_within(timeout) {
    /// ev.shutdown(timeout) }`. Costs a load.
    ///
    /// Let `timeout` be shorter than [`Supervisor::stop_timeout`](crate::Supervisor::stop_timeout),
    /// after which the stop becomes fast.
    ///
    /// ```
    /// use std::time::Duration;
    /// use evcore_prefork::Worker;
    ///
    /// let (worker, timeout) = (Worker::solo()?, Duration::from_secs(30));
    /// assert_eq!(worker.stop_within(timeout), None);
    /// signal_hook::low_level::raise(signal_hook::consts::SIGQUIT)?;
    /// assert_eq!(worker.stop_within(timeout), Some(timeout));
    /// signal_hook::low_level::raise(signal_hook::consts::SIGTERM)?;
    /// assert_eq!(worker.stop_within(timeout), Some(Duration::ZERO));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn stop_within(&self, timeout: Duration) -> Option<Duration> {
        self.stop().map(|stop| match stop {
            Stop::Graceful => timeout,
            Stop::Fast => Duration::ZERO,
        })
    }

    /// The number of requests to reopen the logs (USR1) so far. Signals that come together may
    /// count as one. Reopen your logs when the number changes. Costs a load.
    #[must_use]
    pub fn reopen_count(&self) -> u32 {
        match &self.link {
            MasterLink::Thread(channel) => channel.reopen_count(),
            MasterLink::Solo | MasterLink::Process => signals::state().reopen_count(),
        }
    }

    /// Reports to the master that this worker serves. Further calls have no effect.
    ///
    /// A [reload](crate#reload) waits for this call of each new worker, up to the
    /// [timeout](crate::Supervisor::ready_timeout). The master also calls its
    /// [hook](crate::Supervisor::on_ready). Without a master the call has no effect.
    pub fn ready(&self) {
        match &self.link {
            MasterLink::Thread(channel) => channel.ready(),
            MasterLink::Process => liveness_pipe::report_ready(),
            MasterLink::Solo => {}
        }
    }

    /// The reason why this worker could not be pinned to the CPUs of its
    /// [affinity](crate::Supervisor::affinity). `None` if it was pinned, or if there is no
    /// affinity. Pinning fails, for example, if the process may no longer use these CPUs.
    #[must_use]
    pub fn affinity_error(&self) -> Option<&Error> {
        self.affinity_error.as_ref()
    }

    /// Makes each stop and each USR1 wake your event loop: eight bytes (the number 1 in native byte
    /// order) are written to `fd`. In a process the signal handler writes them.
    ///
    /// `fd` is a descriptor that the loop watches, or the other end of such a descriptor: a
    /// poller's waker, an eventfd, a pipe, a socket. With evcore it is the `descriptor()` of the
    /// loop's handle, and a `Step::Woken` follows. If there was a request before this call, `fd` is
    /// written to at once, so no request is missed.
    ///
    /// `fd` is duplicated. The duplicate stays open as long as the worker lives, or until a second
    /// call replaces it.
    ///
    /// # Errors
    ///
    /// [`Error::Blocking`] if `fd` is not non-blocking, because a signal handler must not wait
    /// until a full pipe is read. [`Error::Os`] if the system refuses to return the flags of `fd`,
    /// or to duplicate it.
    ///
    /// ```
    /// use std::{io::Read, os::unix::net::UnixStream};
    /// use evcore_prefork::{Stop, Worker};
    ///
    /// let worker = Worker::solo()?;
    /// let (mut read, write) = UnixStream::pair()?;
    /// write.set_nonblocking(true)?;
    /// worker.wake_fd(&write)?;
    ///
    /// signal_hook::low_level::raise(signal_hook::consts::SIGQUIT)?;
    /// let mut bytes = [0; 8];
    /// read.read_exact(&mut bytes)?;
    /// assert_eq!(u64::from_ne_bytes(bytes), 1);
    /// assert_eq!(worker.stop(), Some(Stop::Graceful));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wake_fd(&self, fd: impl AsFd) -> Result<()> {
        let fd = fd.as_fd();
        let flags =
            fcntl_getfl(fd).map_err(Error::os("reading the flags of a descriptor (fcntl)"))?;
        if !flags.contains(OFlags::NONBLOCK) {
            return Err(Error::Blocking { fd: fd.as_raw_fd() });
        }
        let fd = fd
            .try_clone_to_owned()
            .map_err(Error::os("duplicating a descriptor to wake"))?;
        match &self.link {
            MasterLink::Thread(channel) => channel.set_wake(fd),
            MasterLink::Solo | MasterLink::Process => signals::set_wake_fd(fd),
        }
        Ok(())
    }
}
