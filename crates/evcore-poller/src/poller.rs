//! The front: one contract over every backend.
//!
//! Keys are checked, interests merged and modes kept by the side table (`registry.rs`); here is
//! the order in which table and backend are asked. There is no buffer of the user's, no callback
//! and no clock but the one that a signal makes necessary. What a wait brings of those who are
//! gone is dealt with in `ghosts.rs`.

mod ghosts;

use std::{
    os::fd::{AsRawFd, RawFd},
    time::{Duration, Instant},
};

use crate::{
    Backend, BackendKind, Error, Events, Interest, Mode, Registration, Result, Source, Target,
    Waker,
    asked::Asked,
    registry::{Change, Registry},
    sys::{self, Birthplace},
};

/// The highest id (low half of a key): ids index a table of 16 bytes each, so they are to be dense.
pub const MAX_ID: u32 = (1 << 24) - 1;

/// Watches descriptors and waits until some are ready.
///
/// Registrations are the caller's: a descriptor must stay open while it is registered, and be
/// [removed](Self::remove) (or [forgotten](Self::remove_before_close)) before it is closed. One that is closed
/// without that is at worst a wrong watch, never undefined behaviour: its key and its number are
/// taken until the key is removed. Nothing is reported under a key that was removed, unless the
/// same key, all 64 bits of it, is in use again.
///
/// In a forked child, it refuses to work ([`Error::Forked`]). Its wakers there are not to be relied
/// upon: each process merges its own wakes, and what acknowledges them is in the parent. A child
/// wakes the parent by the [descriptor](Waker#impl-AsFd-for-Waker) of a waker.
///
/// All of it takes `&mut self`, so nothing can be registered while another thread waits: send
/// that thread the work, and [wake](Self::waker) it.
///
/// ```
/// use evcore_poller::{Events, Interest, Mode, Poller};
/// use std::{io::Write, os::unix::net::UnixStream};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let (mut poller, mut events) = (Poller::new()?, Events::with_capacity(64));
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
    backend: Box<dyn Backend>,
    /// The backend's own.
    waker: Waker,
    registry: Registry,
    /// Keys of the changes that the kernel refused and that no wait has reported yet.
    // Invariant: each is registered.
    refused: Vec<u64>,
    /// Whether the next wait with refusals to report has them behind what is ready.
    ready_first: bool,
    returns_on_signal: bool,
    filters_stale: bool,
    made_in: Birthplace,
}

impl Poller {
    /// The best backend that the running kernel has; one that it refuses is passed over.
    ///
    /// # Errors
    ///
    /// Out of descriptors or memory: that passes, so no worse backend is taken for it. Else the
    /// last backend's refusal.
    pub fn new() -> Result<Self> {
        let (last, better) = BackendKind::available()
            .split_last()
            .expect("every system has a backend");
        for kind in better {
            match Self::with(*kind) {
                Err(error) if !error.is_exhaustion() => {}
                result => return result,
            }
        }
        Self::with(*last)
    }

    /// A named backend.
    ///
    /// # Errors
    ///
    /// [`Error::Absent`] where this system has none such; and the kernel's refusal: out of
    /// descriptors, most likely.
    pub fn with(kind: BackendKind) -> Result<Self> {
        Ok(sys::open(kind)?.into())
    }

    /// Begins to watch `source` for `interest`, under `key`.
    ///
    /// The low 32 bits of the key are its id, at most [`MAX_ID`]; events carry all 64. Both the id
    /// and the descriptor are unique among what is registered.
    ///
    /// One system call; none where the interest is empty: errors are then reported when something is
    /// asked for. (poll and select get to know a descriptor in the wait. There the call, an
    /// `fcntl(F_GETFD)`, only checks that it is open, so that one which is not is an error here on
    /// every backend.)
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRegistered`], [`Error::AlreadyWatched`], [`Error::IdTooLarge`],
    /// [`Error::NotOpen`], [`Error::NotPollable`], [`Error::NoPriority`], [`Error::BeyondSets`],
    /// [`Error::SimulatedTarget`], [`Error::RealTarget`], [`Error::Forked`], [`Error::Os`]; nothing
    /// is registered then.
    pub fn add(
        &mut self,
        source: &(impl Source + ?Sized),
        key: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<()> {
        let new = self.registration(source.target(), key, interest, mode)?;
        self.register(&new)
    }

    /// Begins to watch a file that other pollers watch so too, in other threads or processes: what
    /// comes wakes one of them (or a few), and not all. For listeners.
    ///
    /// It is otherwise as [`add`](Self::add), but [`READ_CLOSED`](crate::Ready::READ_CLOSED) is not
    /// reported, and a change of interest costs two system calls, since the kernel modifies no
    /// such registration. Whom the kernel wakes is not fair: mostly the one that registered first,
    /// so remove and add now and then.
    ///
    /// epoll alone can do this: check the [capabilities](crate::Capabilities::exclusive) of the [`backend`](Self::backend) first.
    ///
    /// # Errors
    ///
    /// [`Error::NoExclusive`] where the backend cannot, [`Error::NotExclusive`] for
    /// [`Mode::Oneshot`] or [`Interest::PRIORITY`], and those of [`add`](Self::add). (A
    /// [`modify`](Self::modify) to priority data is refused by the kernel: an error event.)
    pub fn add_exclusive(
        &mut self,
        source: &(impl Source + ?Sized),
        key: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<()> {
        if !self.registry.native().exclusive {
            return Err(Error::NoExclusive {
                backend: self.backend.name(),
            });
        }
        if mode == Mode::Oneshot || interest.contains(Interest::PRIORITY) {
            return Err(Error::NotExclusive { interest, mode });
        }
        let new = self.registration(source.target(), key, interest, mode)?;
        self.register(&Registration {
            exclusive: true,
            ..new
        })
    }

    /// Asks for something else, and arms a `Oneshot` again.
    ///
    /// Costs no system call now and one at the next wait; none where it is taken back before, and
    /// has not armed a `Oneshot` that had reported. An `Edge` whose interest has changed by then
    /// reports all that holds afresh. What the kernel refuses comes back as an event with
    /// [`Ready::ERROR`](crate::Ready::ERROR).
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    #[inline]
    pub fn modify(&mut self, key: u64, interest: Interest) -> Result<()> {
        self.registry.modify(key, interest)
    }

    /// Answers the report of an `Edge` registration: `interest` has met `WouldBlock`, so that
    /// readiness from here on is reported again.
    ///
    /// `EINPROGRESS` from `connect` is answered so too, for both sides. The kernel may have reported
    /// a socket that was registered before `connect` (Linux calls it hung up), and its connection is
    /// silent until then.
    ///
    /// Costs no system call; where the kernel keeps `Edge` itself, it only checks the key. In the
    /// other modes it does nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    #[inline]
    pub fn rearm(&mut self, key: u64, interest: Interest) -> Result<()> {
        self.registry.rearm(key, interest)
    }

    /// Stops watching. One system call on epoll.
    ///
    /// Events that a wait has already brought cannot be taken back: the high half of the key is
    /// there to recognise them by.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`], [`Error::Forked`]; [`Error::Os`] where the kernel says that the
    /// descriptor was closed before: it is not registered any more all the same.
    pub fn remove(&mut self, key: u64) -> Result<()> {
        self.made_in.check()?;
        let Some(known) = self.take_out(key)? else {
            return Ok(());
        };
        let removed = self.backend.remove(&known);
        if removed.is_err() {
            self.registry.expect_ghosts();
        }
        removed
    }

    /// Stops watching a descriptor that is about to be closed: no system call on epoll, where the
    /// kernel forgets a file with its last descriptor.
    ///
    /// Where another descriptor of the same file stays open (a duplicate, or one in a child), use
    /// [`remove`](Self::remove): else epoll goes on to report it, which is dropped here, and costs
    /// registering everything anew when such reports come alone (an `Edge` may then repeat what
    /// holds).
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    pub fn remove_before_close(&mut self, key: u64) -> Result<()> {
        if let Some(known) = self.take_out(key)? {
            self.backend.remove_before_close(&known);
            self.registry.expect_ghosts();
        }
        Ok(())
    }

    /// Waits until something is ready, a [`Waker`] wakes, or `timeout` has passed (`None`: never),
    /// and fills `events`, which is emptied first. Returns how many there are.
    ///
    /// One system call, plus one for each registration that was changed; and, on other backends than
    /// epoll, one if a waker has woken it. A signal does not end it (see
    /// [`return_on_signal`](Self::return_on_signal)). It never ends before its timeout (but where something
    /// [forgotten](Self::remove_before_close) lives on, and there is no descriptor left to be rid of it), and
    /// nothing that does not fit into `events` is lost. Changes that were refused and descriptors
    /// that are ready take turns there: of two waits, each is served first in one.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoom`] for a buffer of no capacity, [`Error::Interrupted`] only where asked for,
    /// [`Error::Forked`], [`Error::Os`]. `events` is then empty.
    pub fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<usize> {
        events.clear();
        self.made_in.check()?;
        if events.capacity() == 0 {
            return Err(Error::NoRoom);
        }
        self.tell_changes();
        if self.refused.is_empty() {
            self.wait_for_news(events, timeout)?;
        } else {
            self.look_beside_refusals(events);
        }
        Ok(events.len())
    }

    /// Passes on now the changes that the next [`wait`](Self::wait) would pass on first. Returns
    /// whether that wait already has something to report: a change that was refused.
    ///
    /// A backend that [batches changes](crate::Capabilities::batches_changes) makes them in the wait
    /// all the same. Fails with [`Error::Forked`].
    //
    // Hidden: only a simulator needs it, which drives several loops from one thread and must know
    // what each one watches before it lets time pass. A `wait` needs no help.
    #[doc(hidden)]
    pub fn flush(&mut self) -> Result<bool> {
        self.made_in.check()?;
        self.tell_changes();
        Ok(!self.refused.is_empty())
    }

    /// Whether a signal that interrupts a wait ends it with [`Error::Interrupted`] (`true`), or
    /// the wait goes on to the same deadline (`false`, as it is at first).
    ///
    /// A caller that keeps its own clock saves a reading of the clock a wait by seeing them.
    pub fn return_on_signal(&mut self, yes: bool) {
        self.returns_on_signal = yes;
    }

    /// Whether a wait drops every stale event (`true`, the default), or may report a key that was
    /// [removed before a close](Self::remove_before_close) (`false`).
    ///
    /// A wait that brings stale events alone drops them in either case.
    //
    // Hidden: only a caller whose keys are never used again, and which checks each key anyway, can
    // do without. The facade is one. It saves a look at each event.
    #[doc(hidden)]
    pub fn filter_stale(&mut self, yes: bool) {
        self.filters_stale = yes;
    }

    /// A handle that ends a wait from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The backend: its [name](Backend::name) and its [capabilities](Backend::capabilities).
    ///
    /// The poller emulates what the kernel cannot do, with two differences for you: without
    /// `exclusive` there is no [`add_exclusive`](Self::add_exclusive), and without `edge` a side that
    /// was reported stays silent until [`rearm`](Self::rearm), except for its [end](Mode::Edge).
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// A registration of `target`, if it is of the kind that the backend watches.
    fn registration(
        &self,
        target: Target<'_>,
        key: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<Registration> {
        let backend = || self.backend.name();
        let is_simulated = self.registry.native().simulated;
        let fd = match target {
            Target::Descriptor(fd) if !is_simulated => fd.as_raw_fd(),
            Target::Descriptor(fd) => {
                return Err(Error::RealTarget {
                    fd: fd.as_raw_fd(),
                    backend: backend(),
                });
            }
            Target::Simulated(number) => RawFd::try_from(number)
                .ok()
                .filter(|_| is_simulated)
                .ok_or_else(|| Error::SimulatedTarget {
                    number,
                    backend: backend(),
                })?,
        };
        Ok(Registration {
            fd,
            key,
            interest,
            ends: Asked::by(interest).ends(),
            mode,
            exclusive: false,
        })
    }

    fn register(&mut self, new: &Registration) -> Result<()> {
        self.made_in.check()?;
        self.registry.check_vacant(new)?;
        if !new.interest.is_empty() {
            let added = self.backend.add(new);
            added.map_err(|error| error.or_not_open(new.fd))?;
        }
        self.registry.insert(new);
        Ok(())
    }

    /// Brings the backend up to date.
    fn tell_changes(&mut self) {
        while let Some(change) = self.registry.next_change() {
            if !self.refused.is_empty() {
                // What was refused before, and not told yet, is out of date.
                self.refused.retain(|refused| *refused != change.key());
            }
            let (told, registration) = match change {
                Change::Add(new) => (self.backend.add(&new), new),
                Change::Modify(new) => (self.backend.modify(&new), new),
                Change::Remove(old) => {
                    // Refused or not, it falls silent, which is all that was asked.
                    if self.backend.remove(&old).is_err() {
                        self.registry.expect_more_than_asked();
                    }
                    continue;
                }
            };
            if told.is_err() {
                self.refuse(registration.key);
            }
        }
        if !self.refused.is_empty() {
            self.drop_void_refusals();
        }
    }

    /// Where nothing is asked any more, there is nothing to report either.
    #[cold]
    fn drop_void_refusals(&mut self) {
        let registry = &mut self.registry;
        self.refused.retain(|key| registry.refusal(*key).is_some());
    }

    fn refuse(&mut self, key: u64) {
        self.registry.forget_known(key);
        self.registry.expect_more_than_asked();
        self.refused.push(key);
    }

    #[cold]
    fn report_refused(&mut self, events: &mut Events) {
        let count = events.remaining().min(self.refused.len());
        for key in self.refused.drain(..count) {
            if let Some(ready) = self.registry.refusal(key) {
                events.push(key, ready);
            }
        }
    }

    /// A wait with refusals to report, which are news: so nothing is waited for.
    ///
    /// In turn, refusals or what is ready go first. Otherwise, if as many changes are refused each
    /// time as there is room for, nothing else would ever be reported.
    #[cold]
    fn look_beside_refusals(&mut self, events: &mut Events) {
        let ready_first = self.ready_first;
        self.ready_first = !ready_first;
        if ready_first {
            self.look(events);
            self.report_refused(events);
        } else {
            self.report_refused(events);
            self.look(events);
        }
    }

    /// Adds what is ready now, if there is room.
    fn look(&mut self, events: &mut Events) {
        let before = events.len();
        if events.remaining() > 0 {
            // An error that would throw the news away, and that lasts, is met by the next wait.
            let _ = self.backend.wait(events.into(), Some(Duration::ZERO));
        }
        self.note_wake(events);
        self.complete(events, before);
    }

    fn wait_for_news(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<()> {
        if self.returns_on_signal {
            return self.wait_once(events, timeout);
        }
        // No deadline: none was asked for, it is at once, or it is past the end of time.
        let deadline = timeout
            .filter(|timeout| !timeout.is_zero())
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let mut left = timeout;
        loop {
            match self.wait_once(events, left) {
                Err(Error::Interrupted) => {
                    if let Some(deadline) = deadline {
                        left = Some(deadline.saturating_duration_since(Instant::now()));
                    }
                }
                result => return result,
            }
        }
    }

    #[inline]
    fn wait_once(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<()> {
        self.backend.wait(events.into(), timeout)?;
        self.note_wake(events);
        let ghosts = self.complete(events, 0);
        if ghosts == 0 || !events.is_empty() || events.was_woken() {
            return Ok(());
        }
        self.end_haunting(events)
    }

    /// Notes a wake that the backend has not come to: a kernel reports what is ready in turn, so if
    /// `events` are full, the waker may be behind more of them.
    #[inline]
    fn note_wake(&self, events: &mut Events) {
        if events.remaining() == 0 && !events.was_woken() && self.waker.take_pending() {
            events.set_woken();
        }
    }

    fn take_out(&mut self, key: u64) -> Result<Option<Registration>> {
        let known = self.registry.take_out(key)?;
        self.refused.retain(|refused| *refused != key);
        Ok(known)
    }
}

/// A poller over a backend of your own.
impl<B: Backend + 'static> From<B> for Poller {
    fn from(backend: B) -> Self {
        Self::from(Box::new(backend) as Box<dyn Backend>)
    }
}

/// A poller over a backend of your own.
impl From<Box<dyn Backend>> for Poller {
    fn from(backend: Box<dyn Backend>) -> Self {
        Self {
            waker: backend.waker(),
            registry: Registry::new(backend.capabilities()),
            backend,
            refused: Vec::new(),
            ready_first: false,
            returns_on_signal: false,
            filters_stale: true,
            made_in: Birthplace::here(),
        }
    }
}

#[cfg(test)]
mod tests;
