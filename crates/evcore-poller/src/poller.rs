//! The poller: one contract over every backend (kernel interface). This file has the order in which
//! the poller calls the backend and the side table, which is the poller's own table of
//! registrations (`registry.rs`). The unusual parts of a wait are in `slow_path.rs`, and `stale.rs`
//! drops stale events.

mod slow_path;
mod stale;

use std::{
    os::fd::{AsRawFd, RawFd},
    time::Duration,
};

use crate::{
    backend::{Backend, Registration},
    backend_kind::BackendKind,
    busy_poll::BusyPoll,
    error::{Error, Result},
    events::Events,
    interest::{Interest, Mode},
    refill::Refill,
    registry::{Change, Registry, Row},
    source::{Source, Target},
    sys::{self, AnyBackend, ForkGuard},
    waker::Waker,
    watch_set::WatchSet,
};

/// Watches descriptors and waits until some of them are ready.
///
/// A descriptor must stay open while it is registered. [Remove](Self::remove) it before you close
/// it, or call [`remove_before_close`](Self::remove_before_close). If you close it without either
/// call, the poller may watch another file by mistake, but this is never undefined behaviour. The
/// key and the descriptor's number stay taken until the key is removed. Nothing is reported under a
/// removed key, unless the same 64 bits are registered again, or the buffer is [raw](Events::raw).
///
/// In a forked child, every call that would reach the kernel fails with [`Error::Forked`]. Do not
/// use the poller's wakers there. A waker writes only if no earlier wake is pending, and in a child
/// a wake stays pending for ever, so later wakes are lost. A child can wake its parent through the
/// [descriptor](Waker::descriptor) of a waker.
///
/// A poller may move to another thread. On `io_uring`, its next wait then registers everything
/// anew, and an `Edge` may be reported again.
///
/// Every change takes `&mut self`, so nothing can be registered while another thread waits: send
/// that thread the work, and [wake](Self::waker) it.
///
/// ```
/// use evcore_poller::{Events, Interest, Mode, Poller};
/// use std::{io::Write, os::unix::net::UnixStream};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let (mut poller, mut events) = (Poller::new()?, Events::bounded(64));
/// poller.add(&far, 7, Interest::NONE, Mode::Level)?;
///
/// near.write_all(b"ping")?;
/// poller.modify(7, Interest::BOTH)?; // no system call yet
/// poller.modify(7, Interest::READ)?;
/// assert_eq!(poller.wait(&mut events, None)?, 1); // one change, one wait
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Poller {
    backend: AnyBackend,
    waker: Waker,
    registry: Registry,
    /// Keys of changes that the kernel refused and that no wait has reported yet.
    // Invariant: each is registered.
    refused: Vec<u64>,
    /// True if the next wait that has refusals to report puts them after the ready descriptors.
    ready_first: bool,
    fork_guard: ForkGuard,
}

impl Poller {
    /// Opens the best backend that the running kernel has. A backend that the kernel refuses is
    /// skipped.
    ///
    /// # Errors
    ///
    /// Fails if descriptors, memory or epoll's watches are exhausted. Such a shortage passes, so no
    /// worse backend is chosen because of it. If the kernel refuses every backend, the error is
    /// that of the last one.
    pub fn new() -> Result<Self> {
        let (last, better) = BackendKind::available()
            .split_last()
            .expect("each system has poll");
        for kind in better {
            match Self::with(*kind) {
                Err(error) if !error.is_exhaustion() => {}
                opened => return opened,
            }
        }
        Self::with(*last)
    }

    /// Opens the backend of this kind.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`] if this system does not have it, [`Error::BeyondSets`] if select cannot
    /// watch its own waker, and [`Error::Os`] if the kernel refuses: most likely, too few
    /// descriptors are left.
    pub fn with(kind: BackendKind) -> Result<Self> {
        Ok(Self::over(sys::open(kind)?))
    }

    /// Registers `source` under `key`, and begins to watch it for `interest`.
    ///
    /// The low 32 bits of the key are its id, at most [`MAX_ID`](crate::MAX_ID). Events carry all
    /// 64 bits. Both the id and the descriptor must be unique among the registrations.
    ///
    /// Costs one system call. With an empty interest no system call is made, and a refusal is
    /// reported after an interest is first set. (poll, select and `/dev/poll` receive a descriptor
    /// only in the wait. Their call here is `fcntl(F_GETFD)`, so that `add` refuses a closed
    /// descriptor on these backends too. `io_uring` makes no call here: if the kernel refuses the
    /// descriptor, the wait reports an event with [`Ready::ERROR`](crate::Ready::ERROR).)
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRegistered`], [`Error::AlreadyWatched`], [`Error::IdTooLarge`],
    /// [`Error::NotOpen`], [`Error::NotPollable`], [`Error::NoPriority`], [`Error::BeyondSets`],
    /// [`Error::SimulatedTarget`], [`Error::RealTarget`], [`Error::Forked`], [`Error::Os`]; for an
    /// [exclusive](Mode::Exclusive) mode also [`Error::NoExclusive`] if the backend lacks it, and
    /// [`Error::NotExclusive`] for [`Interest::PRIORITY`]. In these cases nothing is registered.
    /// (If a later [`modify`](Self::modify) adds priority data to an exclusive registration, the
    /// kernel refuses it, and an event reports that.)
    //
    // It is inlined, so that the registration is built where it is used, and not copied.
    #[inline]
    pub fn add(
        &mut self,
        source: &(impl Source + ?Sized),
        key: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<()> {
        let fd = self.watchable(source.target())?;
        if mode.is_exclusive() {
            self.check_exclusive(interest)?;
        }
        self.register(Registration {
            fd,
            key,
            interest,
            ends: WatchSet::of(interest).ends(),
            mode,
        })
    }

    /// Changes the interest of a registration, and arms a `Oneshot` again.
    ///
    /// Costs no system call now, and at most one in the next wait (two for an
    /// [exclusive](Mode::Exclusive) registration). If the change is undone before that wait, it
    /// costs none, unless it has armed a `Oneshot` that had reported. If the interest of
    /// an `Edge` differs from that in the wait before, the `Edge` reports everything that is ready.
    /// If the kernel refuses the change, a wait reports an event with
    /// [`Ready::ERROR`](crate::Ready::ERROR). The registration is then silent until the next
    /// `modify` or [`reregister`](Self::reregister) or, on a backend without `Edge`,
    /// [`rearm`](Self::rearm).
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    #[inline]
    pub fn modify(&mut self, key: u64, interest: Interest) -> Result<()> {
        self.registry.modify(key, interest)
    }

    /// Registers `key` anew with its present interest, so that everything that is ready is reported
    /// afresh.
    ///
    /// An `Edge` repeats its reports, answered or not. A `Oneshot` is armed. An
    /// [exclusive](Mode::Exclusive) registration goes to the end of the kernel's queue, so that
    /// other pollers are woken first. A [`Mode::Level`] stays as it is.
    ///
    /// Costs no system call now, and at most one in the next wait (two for an exclusive
    /// registration, none for `Level`). If the kernel refuses the change, a wait reports that as
    /// for [`modify`](Self::modify).
    ///
    /// ```
    /// # use evcore_poller::{Events, Interest, Mode, Poller};
    /// # use std::{io::Write, os::unix::net::UnixStream, time::Duration};
    /// # let (mut near, far) = UnixStream::pair()?;
    /// # let (mut poller, mut events) = (Poller::new()?, Events::bounded(4));
    /// poller.add(&far, 0, Interest::READ, Mode::Edge)?;
    /// near.write_all(b"x")?;
    /// for _ in 0..2 {
    ///     assert_eq!(poller.wait(&mut events, Some(Duration::ZERO))?, 1);
    ///     poller.reregister(0)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    pub fn reregister(&mut self, key: u64) -> Result<()> {
        self.registry.reregister(key)
    }

    /// Answers the report of an `Edge` registration. Call it when calls on the sides of `interest`
    /// have returned `WouldBlock`. Later readiness is then reported again.
    ///
    /// Also call it for both sides when `connect` returns `EINPROGRESS`. The kernel may have
    /// reported a socket that was registered before `connect` (Linux reports a hang-up). Without
    /// `rearm`, the result of the `connect` may then not be reported.
    ///
    /// Costs no system call. If the kernel has `Edge` itself, or if the mode is not an edge, the
    /// call only checks the key. Otherwise the change may cost a call in the next wait.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    #[inline]
    pub fn rearm(&mut self, key: u64, interest: Interest) -> Result<()> {
        self.registry.rearm(key, interest)
    }

    /// Stops watching. Costs at most one system call, except on `io_uring`, where further calls do
    /// the work of the wake-ups since the last wait, one call per about twenty wake-ups.
    ///
    /// Events that a wait has already returned remain in its buffer. Recognise them by the high
    /// half of their key.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`], [`Error::Forked`]; [`Error::NotOpen`] or [`Error::Os`] if the
    /// kernel refuses, most likely because the descriptor was already closed. After any error, the
    /// key is not registered any more.
    pub fn remove(&mut self, key: u64) -> Result<()> {
        // `and` evaluates both sides, so the key is unregistered in a forked child too.
        let row = self.fork_guard.check().and(self.take(key))?;
        if !row.is_in_backend() {
            if self.registry.capabilities().batches_changes {
                // A change that the backend has not made yet must not reach a later registration of
                // this descriptor.
                let _ = self.backend.remove(&row.known(key));
            }
            return Ok(());
        }
        let old = row.known(key);
        self.backend.remove(&old).map_err(|error| {
            self.registry.expect_stale();
            error.or_not_open(old.fd)
        })
    }

    /// Stops watching a descriptor that you are about to close. On epoll this makes no system call,
    /// because the kernel drops a file when its last descriptor is closed. On `io_uring` this does
    /// the same as [`remove`](Self::remove), because a request holds its file open.
    ///
    /// If another descriptor of the same file stays open (a duplicate, or one in a child), use
    /// [`remove`](Self::remove). Otherwise epoll goes on reporting the file, and the poller drops
    /// these stale events. If a wait has only stale events, the poller registers everything anew,
    /// and an `Edge` may be reported again.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    pub fn remove_before_close(&mut self, key: u64) -> Result<()> {
        let row = self.take(key)?;
        if row.is_in_backend() {
            self.backend.remove_before_close(|| row.known(key));
            self.registry.expect_stale();
        } else if self.registry.capabilities().batches_changes {
            // As in `remove`.
            self.backend.remove_before_close(|| row.known(key));
        }
        Ok(())
    }

    /// Waits until something is ready, a [`Waker`] is used, or `timeout` has passed (`None`:
    /// without limit). Empties `events`, fills it, and returns the number of events.
    ///
    /// Costs one system call, and the calls for the changed registrations ([the
    /// table](BackendKind#what-each-backend-does)). On backends other than epoll and `io_uring` it
    /// costs one more if a waker ended it. On `io_uring` a wait makes one call per about twenty
    /// wake-ups, including those that do not fit into `events`. A signal does not end the wait,
    /// unless the buffer is [raw](Events::raw).
    ///
    /// A wait without an event or a wake never ends before its timeout, with two exceptions. On
    /// event ports, it ends early if the wall clock is set. On epoll, it ends early if the kernel
    /// still reports a file that was [removed before a close](Self::remove_before_close), and the
    /// kernel refuses a new epoll descriptor with which to register everything anew. A later wait
    /// reports the events that do not fit into `events`. If changes were refused, refusals and
    /// ready descriptors come first in alternate waits.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`], but only if the buffer is [raw](Events::raw); [`Error::Forked`],
    /// [`Error::Os`]. After an error `events` is empty.
    //
    // It is inlined, because a call would be a large part of the cost of a wait with one event.
    #[inline(always)]
    pub fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<usize> {
        if self.must_prepare(events, timeout) {
            return self.prepare_and_wait(events, timeout);
        }
        match self.backend.refill(events, timeout) {
            Refill::One { key, flags } if self.registry.is_plain(key, flags) => Ok(1),
            Refill::Some(count) if self.registry.are_plain(events) => Ok(count),
            Refill::One { .. } | Refill::Some(_) | Refill::FullOrWoken => {
                self.finish_refill(events)
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Refill::Failed(errno) => self.finish_failed(errno, events),
            Refill::Boxed => self.wait_boxed(events, timeout),
        }
    }

    /// Passes the pending changes to the backend now, and not at the beginning of the next
    /// [`wait`](Self::wait). Returns whether the next wait has a refused change to report.
    ///
    /// A backend that [batches changes](crate::Capabilities::batches_changes) still makes them in
    /// the wait. Fails in a forked child, with [`Error::Forked`].
    //
    // It is hidden, because only a simulator needs it. A simulator drives several loops from one
    // thread, and needs the changes of all of them before it lets time pass.
    #[doc(hidden)]
    pub fn flush(&mut self) -> Result<bool> {
        self.fork_guard.check()?;
        self.apply_changes();
        Ok(!self.refused.is_empty())
    }

    /// Returns a handle that ends a wait from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sets epoll's busy polling (Linux 6.9 or later): a wait that finds nothing ready polls a
    /// network device's receive queue before it sleeps.
    ///
    /// The kernel polls the queue by which the watched sockets last received, if it is a device's
    /// queue (the loopback device has none). A wait then reports a packet without an interrupt and
    /// a wake-up. The price is processor time, because an idle wait keeps the processor busy while
    /// it polls. A wait may also end later than its timeout by the time of the polling, because the
    /// kernel checks the timeout only afterwards. After a wait that has found nothing, the kernel
    /// polls again only when a packet has come. A wait with a timeout of zero never polls.
    ///
    /// The socket option `SO_BUSY_POLL` has no effect on a wait. It acts on blocking reads. Without
    /// `set_busy_poll` a wait polls only if the sysctl `net.core.busy_poll` is not 0.
    ///
    /// ```
    /// use evcore_poller::{BackendKind, BusyPoll, Error, Poller};
    /// use std::time::Duration;
    ///
    /// let busy_poll = BusyPoll::new(Duration::from_micros(50));
    /// let refused = Poller::with(BackendKind::Poll)?.set_busy_poll(busy_poll);
    /// assert!(matches!(refused, Err(Error::NoBusyPoll { backend: "poll" })));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoBusyPoll`] if the backend is not epoll, or if the kernel has no such parameters;
    /// [`Error::Os`] if it refuses them (a budget above 64 needs a capability); [`Error::Forked`].
    pub fn set_busy_poll(&mut self, parameters: BusyPoll) -> Result<()> {
        self.fork_guard.check()?;
        self.backend.set_busy_poll(parameters)
    }

    /// Returns the backend, for its [name](Backend::name), its
    /// [capabilities](Backend::capabilities) and its [descriptor](Backend::descriptor).
    ///
    /// The poller emulates the capabilities that the kernel lacks, with two visible differences:
    /// without `exclusive` there is no [`Mode::Exclusive`], and without `edge` a side that was
    /// reported stays silent until [`rearm`](Self::rearm), except for its [end](Mode::Edge).
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    fn over(backend: AnyBackend) -> Self {
        Self {
            waker: backend.waker(),
            registry: Registry::new(backend.capabilities()),
            backend,
            refused: Vec::new(),
            ready_first: false,
            fork_guard: ForkGuard::new(),
        }
    }

    /// Returns the number of `target`. Fails if the backend does not watch targets of its kind.
    #[inline]
    fn watchable(&self, target: Target<'_>) -> Result<RawFd> {
        let is_simulated = self.registry.capabilities().simulated;
        match target {
            Target::Descriptor(fd) if !is_simulated => Ok(fd.as_raw_fd()),
            Target::Simulated(number) if is_simulated => {
                RawFd::try_from(number).map_err(|_| self.wrong_kind(target))
            }
            _ => Err(self.wrong_kind(target)),
        }
    }

    #[cold]
    #[inline(never)]
    fn check_exclusive(&self, interest: Interest) -> Result<()> {
        if !self.registry.capabilities().exclusive {
            return Err(Error::NoExclusive {
                backend: self.backend.name(),
            });
        }
        if interest.contains(Interest::PRIORITY) {
            return Err(Error::NotExclusive { interest });
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn wrong_kind(&self, target: Target<'_>) -> Error {
        let backend = self.backend.name();
        match target {
            Target::Descriptor(fd) => Error::RealTarget {
                fd: fd.as_raw_fd(),
                backend,
            },
            Target::Simulated(number) => Error::SimulatedTarget { number, backend },
        }
    }

    #[inline(always)] // so that the registration is not copied
    fn register(&mut self, new: Registration) -> Result<()> {
        self.fork_guard.check()?;
        if self.registry.has_room(&new) {
            self.register_in_room(&new)
        } else {
            self.make_room_and_register(new)
        }
    }

    // This is a separate function, so that no value of the usual path is live across the call that
    // makes room.
    #[cold]
    #[inline(never)]
    fn make_room_and_register(&mut self, new: Registration) -> Result<()> {
        self.registry.make_room(&new)?;
        self.register_in_room(&new)
    }

    #[inline(always)] // so that the registration is not copied
    fn register_in_room(&mut self, new: &Registration) -> Result<()> {
        self.registry.insert(new)?;
        if new.interest.is_empty() {
            return Ok(());
        }
        match self.backend.add(new) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.take_back(new, error)),
        }
    }

    /// Ends a registration that the backend has refused.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, new: &Registration, refusal: Error) -> Error {
        self.registry.take(new.key);
        refusal.or_not_open(new.fd)
    }

    fn apply_changes(&mut self) {
        while let Some(change) = self.registry.next_change() {
            if !self.refused.is_empty() {
                self.drop_refusal(change.key());
            }
            let (result, registration) = match change {
                Change::Add(new) => (self.backend.add(&new), new),
                Change::Modify(new) => (self.backend.modify(&new), new),
                Change::Reregister(new) => (self.backend.reregister(&new), new),
                Change::Remove(old) => {
                    // If the removal fails, the kernel may still report the registration. These
                    // events are dropped.
                    if self.backend.remove(&old).is_err() {
                        self.registry.expect_unrequested();
                    }
                    continue;
                }
            };
            if result.is_err() {
                self.refuse(registration.key);
            }
        }
        if !self.refused.is_empty() {
            self.drop_obsolete_refusals();
        }
    }

    /// Drops the refusals of registrations whose interest is empty by now.
    #[cold]
    fn drop_obsolete_refusals(&mut self) {
        let registry = &mut self.registry;
        self.refused.retain(|key| registry.refusal(*key).is_some());
    }

    fn refuse(&mut self, key: u64) {
        self.registry.clear_in_backend(key);
        self.registry.expect_unrequested();
        self.refused.push(key);
    }

    #[inline(always)] // so that the row is not copied
    fn take(&mut self, key: u64) -> Result<Row> {
        // Refusals are dropped first, so that no value is live across that call.
        if !self.refused.is_empty() {
            self.drop_refusal(key);
        }
        self.registry.take(key).ok_or(Error::NotRegistered { key })
    }

    /// Drops a refusal that was not reported yet and is out of date.
    #[cold]
    #[inline(never)]
    fn drop_refusal(&mut self, key: u64) {
        self.refused.retain(|refused| *refused != key);
    }
}

/// Creates a poller over a backend of your own.
impl<B: Backend + 'static> From<B> for Poller {
    fn from(backend: B) -> Self {
        Self::from(Box::new(backend) as Box<dyn Backend>)
    }
}

/// Creates a poller over a backend of your own.
impl From<Box<dyn Backend>> for Poller {
    fn from(backend: Box<dyn Backend>) -> Self {
        Self::over(AnyBackend::Boxed(backend))
    }
}

#[cfg(test)]
mod tests;
