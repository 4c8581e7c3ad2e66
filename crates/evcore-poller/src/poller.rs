//! The front: keys, interests and modes, kept alike for every backend.

use std::{
    os::fd::{AsFd, AsRawFd, RawFd},
    time::{Duration, Instant},
};

use crate::{
    Abilities, Backend, Error, Events, Interest, Kind, Mode, Ready, Registration, Result, Waker,
};

/// The highest id (low half of a key): ids index a table of 12 bytes each, so they are to be dense.
pub const MAX_ID: u32 = (1 << 24) - 1;

/// Watches descriptors and waits until some are ready.
///
/// Registrations are the caller's: a descriptor must stay open while it is registered, and be
/// [removed](Self::remove) (or [forgotten](Self::forget)) before it is closed. One that is closed
/// without that is at worst a wrong watch, never undefined behaviour.
///
/// All of it takes `&mut self`, so nothing can be registered while another thread waits: send
/// that thread the work, and [wake](Self::waker) it.
#[derive(Debug)]
pub struct Poller {
    backend: Box<dyn Backend>,
    abilities: Abilities,
    entries: Vec<Entry>,
    /// Ids whose registration may differ from what the backend knows, each once.
    // Invariant: an id is here exactly if its entry says `dirty`.
    dirty: Vec<u32>,
    /// Changes that the kernel refused, to be reported by the wait that found out.
    refused: Vec<(u64, Ready)>,
    sees_signals: bool,
}

/// One row of the side table.
#[derive(Clone, Debug)]
struct Entry {
    /// Negative: there is no registration.
    fd: RawFd,
    /// The high half of the key.
    tag: u32,
    /// What the caller asks.
    wanted: Interest,
    /// What the backend was told.
    known: Interest,
    /// What was reported and is not to be reported again yet.
    masked: Interest,
    mode: Mode,
    dirty: bool,
    /// The kernel has disarmed it (a native `Oneshot` that fired, or may have).
    disarmed: bool,
}

impl Poller {
    /// The best backend that the running kernel has; one that it refuses is passed over.
    ///
    /// # Errors
    ///
    /// The last backend's refusal: out of descriptors, most likely.
    pub fn new() -> Result<Self> {
        let mut kinds = Kind::available().iter();
        loop {
            let kind = kinds
                .next()
                .expect("a call that succeeds or fails ends the loop before");
            match Self::with(*kind) {
                Err(_) if kinds.len() > 0 => {}
                result => return result,
            }
        }
    }

    /// A named backend.
    ///
    /// # Errors
    ///
    /// The kernel's refusal: out of descriptors, most likely.
    pub fn with(kind: Kind) -> Result<Self> {
        Ok(Self::from_backend(kind.open()?))
    }

    /// A backend of your own: a simulator's, say.
    #[must_use]
    pub fn from_backend(backend: Box<dyn Backend>) -> Self {
        let abilities = backend.abilities();
        Self {
            backend,
            abilities,
            entries: Vec::new(),
            dirty: Vec::new(),
            refused: Vec::new(),
            sees_signals: false,
        }
    }

    /// Begins to watch `fd` for `interest`, under `key`.
    ///
    /// The low 32 bits of the key are its id, at most [`MAX_ID`], and are unique among what is
    /// registered; events carry all 64. One system call on epoll.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyRegistered`], [`Error::AlreadyWatched`], [`Error::IdTooLarge`],
    /// [`Error::NotPollable`], [`Error::Os`]; nothing is registered then.
    pub fn add(&mut self, fd: impl AsFd, key: u64, interest: Interest, mode: Mode) -> Result<()> {
        let (id, tag) = split(key);
        if id > MAX_ID {
            return Err(Error::IdTooLarge { key });
        }
        self.grow_to(id);
        let entry = &mut self.entries[id as usize];
        if entry.is_live() {
            return Err(Error::AlreadyRegistered { key });
        }
        let fd = fd.as_fd().as_raw_fd();
        if !interest.is_empty() {
            self.backend.add(&Registration {
                fd,
                key,
                interest,
                mode,
            })?;
        }
        *entry = Entry {
            fd,
            tag,
            wanted: interest,
            known: interest,
            masked: Interest::NONE,
            mode,
            // An id may still be in the list of the registration before.
            dirty: entry.dirty,
            disarmed: false,
        };
        Ok(())
    }

    /// Asks for something else, and arms a `Oneshot` again.
    ///
    /// Costs no system call now, one at the next wait, and none where it is taken back before.
    /// What the kernel refuses then comes back as an event with [`Ready::ERROR`].
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    pub fn modify(&mut self, key: u64, interest: Interest) -> Result<()> {
        let entry = self.entry(key)?;
        entry.wanted = interest;
        entry.masked = Interest::NONE;
        // Whether a native one-shot has fired is known to the kernel alone.
        entry.disarmed |= entry.mode == Mode::Oneshot;
        self.touch(key);
        Ok(())
    }

    /// Says that `interest` has met `WouldBlock` on an `Edge` registration, so that readiness from
    /// here on is reported again. Free where the kernel is edge-triggered itself.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    #[inline]
    pub fn rearm(&mut self, key: u64, interest: Interest) -> Result<()> {
        if self.abilities.edge {
            return Ok(());
        }
        self.unmask(key, interest)
    }

    /// Stops watching. One system call on epoll.
    ///
    /// Events that a wait has already brought cannot be taken back: the high half of the key is
    /// there to recognise them by.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`]; [`Error::Os`] where the descriptor was closed before: it is not
    /// registered any more all the same.
    pub fn remove(&mut self, key: u64) -> Result<()> {
        match self.take_out(key)? {
            Some(registration) => self.backend.remove(&registration),
            None => Ok(()),
        }
    }

    /// Stops watching a descriptor that is about to be closed: no system call on epoll, where the
    /// kernel forgets a file with its last descriptor.
    ///
    /// Where another descriptor of the same file stays open (a duplicate, or one in a child), use
    /// [`remove`](Self::remove): else its events go on, under this key.
    ///
    /// # Errors
    ///
    /// [`Error::NotRegistered`].
    pub fn forget(&mut self, key: u64) -> Result<()> {
        if let Some(registration) = self.take_out(key)? {
            self.backend.forget(&registration);
        }
        Ok(())
    }

    /// Waits until something is ready, a [`Waker`] wakes, or `timeout` has passed (`None`: never),
    /// and fills `events`, which is emptied first. Returns how many there are.
    ///
    /// One system call, plus one for each registration that was changed. A signal does not end it
    /// (see [`see_signals`](Self::see_signals)). It never ends before its timeout, and nothing
    /// that does not fit into `events` is lost.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoom`] for a buffer of no capacity, [`Error::Interrupted`] only where asked for,
    /// [`Error::Os`].
    pub fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<usize> {
        events.clear();
        if events.capacity() == 0 {
            return Err(Error::NoRoom);
        }
        self.tell_changes();
        let timeout = if self.refused.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        self.report_refused(events);
        if events.room() > 0 {
            self.wait_through_signals(events, timeout)?;
        }
        self.add_what_is_due(events);
        Ok(events.len())
    }

    /// Whether a signal that interrupts a wait ends it with [`Error::Interrupted`] (`true`), or
    /// the wait goes on to the same deadline (`false`, as it is at first).
    ///
    /// A caller that keeps its own clock saves a reading of the clock a wait by seeing them.
    pub fn see_signals(&mut self, yes: bool) {
        self.sees_signals = yes;
    }

    /// A handle that ends a wait from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.backend.waker()
    }

    /// The backend's name: `epoll`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn wait_through_signals(
        &mut self,
        events: &mut Events,
        timeout: Option<Duration>,
    ) -> Result<()> {
        if self.sees_signals {
            return self.backend.wait(events, timeout);
        }
        // No deadline: none was asked for, it is at once, or it is past the end of time.
        let deadline = timeout
            .filter(|timeout| !timeout.is_zero())
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let mut left = timeout;
        loop {
            match self.backend.wait(events, left) {
                Err(Error::Interrupted) => {
                    if let Some(deadline) = deadline {
                        left = Some(deadline.saturating_duration_since(Instant::now()));
                    }
                }
                result => return result,
            }
        }
    }

    /// Brings the backend up to date with every entry that was touched.
    fn tell_changes(&mut self) {
        while let Some(id) = self.dirty.pop() {
            let entry = &mut self.entries[id as usize];
            entry.dirty = false;
            if !entry.is_live() {
                continue;
            }
            let due = entry.wanted - entry.masked;
            let rearm = entry.disarmed && self.abilities.oneshot;
            let (before, registration) = (entry.known, entry.registration(id, due));
            entry.known = due;
            entry.disarmed = false;
            let result = match (before.is_empty(), due.is_empty()) {
                (true, true) => Ok(()),
                (true, false) => self.backend.add(&registration),
                (false, true) => self.backend.remove(&Registration {
                    interest: before,
                    ..registration
                }),
                (false, false) if before == due && !rearm => Ok(()),
                (false, false) => self.backend.modify(&registration),
            };
            if result.is_err() {
                let ready = Ready::ERROR | Ready::answering(entry.wanted);
                self.refused.push((registration.key, ready));
            }
        }
    }

    fn report_refused(&mut self, events: &mut Events) {
        while events.room() > 0 {
            let Some((key, ready)) = self.refused.pop() else {
                return;
            };
            events.push(key, ready);
        }
    }

    /// Adds to each event what the kernel leaves to us: the side that an error or a hang-up
    /// concerns, and the mask that keeps the modes it does not have.
    fn add_what_is_due(&mut self, events: &mut Events) {
        let exceptional = !(events.seen() & Ready::EXCEPTIONAL).is_empty();
        let masking = !(self.abilities.edge && self.abilities.oneshot);
        // The usual batch on epoll has neither, and is not looked at.
        if !exceptional && !masking {
            return;
        }
        for event in events.iter_mut() {
            let (id, tag) = split(event.key);
            // What a backend reports of a registration that is gone (a duplicate of its descriptor
            // is still open) has no interest to be told of.
            let Some(entry) = self.entries.get_mut(id as usize) else {
                continue;
            };
            if !entry.is_live() || entry.tag != tag {
                continue;
            }
            if !(event.ready & Ready::EXCEPTIONAL).is_empty() {
                event.ready |= Ready::answering(entry.wanted);
            }
            let reported = match entry.mode {
                Mode::Level => Interest::NONE,
                Mode::Edge if self.abilities.edge => Interest::NONE,
                Mode::Edge => event.ready.answered(),
                Mode::Oneshot if self.abilities.oneshot => Interest::NONE,
                Mode::Oneshot => entry.wanted,
            };
            if !reported.is_empty() {
                entry.masked |= reported;
                touch(&mut self.dirty, entry, id);
            }
        }
    }

    fn unmask(&mut self, key: u64, interest: Interest) -> Result<()> {
        let entry = self.entry(key)?;
        if entry.mode == Mode::Edge {
            entry.masked = entry.masked - interest;
            self.touch(key);
        }
        Ok(())
    }

    /// Ends a registration; what the backend still knows of it, if anything.
    fn take_out(&mut self, key: u64) -> Result<Option<Registration>> {
        let (id, _) = split(key);
        let entry = self.entry(key)?;
        let registration = entry.registration(id, entry.known);
        entry.fd = VACANT;
        Ok((!registration.interest.is_empty()).then_some(registration))
    }

    fn touch(&mut self, key: u64) {
        let (id, _) = split(key);
        touch(&mut self.dirty, &mut self.entries[id as usize], id);
    }

    fn entry(&mut self, key: u64) -> Result<&mut Entry> {
        let (id, tag) = split(key);
        match self.entries.get_mut(id as usize) {
            Some(entry) if entry.is_live() && entry.tag == tag => Ok(entry),
            _ => Err(Error::NotRegistered { key }),
        }
    }

    fn grow_to(&mut self, id: u32) {
        if self.entries.len() <= id as usize {
            self.entries.resize(id as usize + 1, Entry::VACANT);
        }
    }
}

const VACANT: RawFd = -1;

impl Entry {
    const VACANT: Self = Self {
        fd: VACANT,
        tag: 0,
        wanted: Interest::NONE,
        known: Interest::NONE,
        masked: Interest::NONE,
        mode: Mode::Level,
        dirty: false,
        disarmed: false,
    };

    fn is_live(&self) -> bool {
        self.fd != VACANT
    }

    fn registration(&self, id: u32, interest: Interest) -> Registration {
        let key = (u64::from(self.tag) << 32) | u64::from(id);
        Registration {
            fd: self.fd,
            key,
            interest,
            mode: self.mode,
        }
    }
}

fn touch(dirty: &mut Vec<u32>, entry: &mut Entry, id: u32) {
    if !entry.dirty {
        entry.dirty = true;
        dirty.push(id);
    }
}

/// A key's id and its tag.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of 64 bits")]
fn split(key: u64) -> (u32, u32) {
    (key as u32, (key >> 32) as u32)
}
