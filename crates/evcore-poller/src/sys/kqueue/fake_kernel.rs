//! A model of `kevent`, with descriptors that exist only here.
//!
//! It follows the kernels where the backend relies on them, and FreeBSD's where they differ:
//!
//! - A knote belongs to a descriptor and a filter. Adding an existing one changes the id of its
//!   events, keeps its mode, and evaluates the descriptor again. Dropping a missing one is `ENOENT`,
//!   and an identifier that is not an open descriptor is `EBADF`. Closing drops the knotes. Events and
//!   receipts have the identifier of the change.
//! - A condition that becomes true activates the knotes of its descriptor, which go to the end of the
//!   queue. It is evaluated again when they are collected. A collected knote goes to the end again
//!   (level), or is no longer active (`EV_CLEAR`).
//! - A knote with `EV_ONESHOT` is not evaluated again: it reports what was true when it became
//!   active, and is gone.
//! - Changes are applied in their order, before anything is collected. One that is refused, or asks
//!   for a receipt, becomes an event if there is room, and then nothing is collected. Otherwise the
//!   call ends there, with the refusal. (libkqueue collects into the places that are left.)
//! - The writing side of a socket is at its end when its peer is gone, and also when its own side
//!   was shut.
//! - Writing to a pipe that has no reader cannot be watched: `EPIPE`. If it was watched before,
//!   its end is reported once, whatever the mode, and its knote is gone: the close of the reader
//!   makes it a one-shot.
//! - A signal ends only a call that would have waited, and after its changes were made.
//!
//! Time passes only in waits. It is only counted, unless something
//! [arrives in a wait](Model::arrive_in_wait). The waker's descriptor is real, and a real poll reads
//! it. The model has no threads, and no flags and filters that the backend does not use.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::c_short,
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    super::model_support::{is_readable, pass},
    WAKE,
    kernel::{Change, Event, Filter, Ident, Kernel, flag},
};

/// The kernel of a backend. Its test keeps a clone.
#[derive(Clone, Debug, Default)]
pub(in crate::sys) struct FakeKernel {
    model: Arc<Mutex<Model>>,
    events: Vec<Event>,
}

impl FakeKernel {
    pub(in crate::sys) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().expect("no test goes on after a panic")
    }
}

impl Kernel for FakeKernel {
    fn kevent(
        &mut self,
        changes: &[Change],
        limit: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let mut model = self.model.lock().expect("no test goes on after a panic");
        self.events.clear();
        model.kevent(changes, limit, timeout, &mut self.events)?;
        Ok(self.events.len())
    }

    fn event(&self, index: usize) -> Event {
        self.events[index]
    }

    fn is_connected(&self, fd: RawFd) -> bool {
        let model = self.model.lock().expect("no test goes on after a panic");
        let file = model.files.get(&fd);
        file.is_some_and(|file| !file.is_pipe && !file.hung_up)
    }
}

#[derive(Debug, Default)]
pub(in crate::sys) struct Model {
    files: BTreeMap<RawFd, File>,
    /// In the order in which they are collected.
    knotes: Vec<Knote>,
    calls: Vec<Call>,
    /// Additions that are refused.
    pub(in crate::sys) refuses: Vec<Refusal>,
    /// The errors of the next calls, which then do nothing.
    pub(in crate::sys) failures: VecDeque<Option<Errno>>,
    /// Events are collected behind receipts, as far as there is room.
    pub(in crate::sys) collects_behind_receipts: bool,
    /// Number of waits that a signal will end.
    pub(in crate::sys) signals: usize,
    /// Time that calls have waited without an event.
    pub(in crate::sys) waited: Duration,
    /// The event that arrives in the next call that waits, and after which time.
    arrival: Option<(Duration, RawFd)>,
    waker: Option<RawFd>,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sys) struct Call {
    pub(in crate::sys) changes: Vec<Change>,
    pub(in crate::sys) timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::sys) struct Refusal {
    pub(in crate::sys) fd: RawFd,
    pub(in crate::sys) filter: Filter,
    pub(in crate::sys) errno: Errno,
    /// The knote is made all the same, as macOS was seen to do for a pipe without a reader.
    pub(in crate::sys) made: bool,
}

/// Something like a socket, or the writing end of a pipe.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    is_pipe: bool,
    incoming: i64,
    ended: bool,
    room: i64,
    hung_up: bool,
    error: u32,
    /// Its own side was shut for writing.
    is_shut: bool,
}

#[derive(Clone, Copy, Debug)]
struct Knote {
    fd: RawFd,
    filter: Filter,
    /// The mode.
    flags: u16,
    id: u32,
    /// The event that it will report, as it was when it was last evaluated; `None`: it is not active.
    active: Option<Event>,
}

/// The files, as the test moves them.
impl Model {
    /// A file with nothing to read and no room to write.
    pub(in crate::sys) fn open(&mut self, fd: RawFd) {
        let before = self.files.insert(fd, File::default());
        assert!(before.is_none(), "{fd} is open");
    }

    /// The writing end of a pipe that has a reader and no room. It is never readable.
    pub(in crate::sys) fn open_pipe(&mut self, fd: RawFd) {
        self.open(fd);
        self.file(fd).is_pipe = true;
    }

    pub(in crate::sys) fn close(&mut self, fd: RawFd) {
        self.files.remove(&fd).expect("it is open");
        self.knotes.retain(|knote| knote.fd != fd);
    }

    pub(in crate::sys) fn arrive(&mut self, fd: RawFd, bytes: i64) {
        self.file(fd).incoming += bytes;
        self.activate(fd, Filter::Read);
    }

    /// A byte arrives when the next call that waits has waited for `after`: real time, which is what
    /// the poller measures by.
    pub(in crate::sys) fn arrive_in_wait(&mut self, after: Duration, fd: RawFd) {
        self.arrival = Some((after, fd));
    }

    pub(in crate::sys) fn drain(&mut self, fd: RawFd) {
        self.file(fd).incoming = 0;
    }

    /// The peer sends no more.
    pub(in crate::sys) fn end(&mut self, fd: RawFd) {
        self.file(fd).ended = true;
        self.activate(fd, Filter::Read);
    }

    pub(in crate::sys) fn make_room(&mut self, fd: RawFd, bytes: i64) {
        self.file(fd).room += bytes;
        self.activate(fd, Filter::Write);
    }

    pub(in crate::sys) fn fill(&mut self, fd: RawFd) {
        self.file(fd).room = 0;
    }

    /// The peer is gone, with an error or with none; or the reader of a pipe, which has no errors.
    pub(in crate::sys) fn hang_up(&mut self, fd: RawFd, error: u32) {
        let file = self.file(fd);
        let is_pipe = file.is_pipe;
        (file.ended, file.hung_up) = (true, true);
        file.error = if is_pipe { 0 } else { error };
        self.activate(fd, Filter::Read);
        self.activate(fd, Filter::Write);
        if let Some(at) = self.find(fd, Filter::Write).filter(|_| is_pipe) {
            self.knotes[at].flags |= flag::ONESHOT;
        }
    }

    /// The pipe has a reader again, as a FIFO may.
    pub(in crate::sys) fn open_reader(&mut self, fd: RawFd) {
        let file = self.file(fd);
        (file.ended, file.hung_up) = (false, false);
    }

    /// The socket's own side is shut for writing.
    pub(in crate::sys) fn shut(&mut self, fd: RawFd) {
        self.file(fd).is_shut = true;
        self.activate(fd, Filter::Write);
    }

    /// The calls since the last look.
    pub(in crate::sys) fn calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    /// The knotes without the waker's, by descriptor.
    pub(in crate::sys) fn knotes(&self) -> Vec<(RawFd, Filter)> {
        let own = self.knotes.iter().filter(|knote| knote.id != WAKE);
        let mut names: Vec<_> = own.map(|knote| (knote.fd, knote.filter)).collect();
        names.sort_unstable();
        names
    }

    /// Makes `ready` true of `fd`, as flags of poll for reading and writing.
    pub(in crate::sys) fn set(&mut self, fd: RawFd, ready: c_short) {
        let File { incoming, room, .. } = *self.file(fd);
        match ready & libc::POLLIN {
            0 => self.drain(fd),
            _ if incoming == 0 => self.arrive(fd, 1),
            _ => {}
        }
        match ready & libc::POLLOUT {
            0 => self.fill(fd),
            _ if room == 0 => self.make_room(fd, 1),
            _ => {}
        }
    }

    /// Refuses each addition of `fd`.
    pub(in crate::sys) fn refuse(&mut self, fd: RawFd) {
        self.refuses.extend(Filter::ALL.map(|filter| Refusal {
            fd,
            filter,
            errno: Errno::NOMEM,
            made: false,
        }));
    }

    /// The watched files, as flags of poll.
    pub(in crate::sys) fn watched(&self) -> Vec<(RawFd, c_short)> {
        let mut watched = BTreeMap::new();
        for (fd, filter) in self.knotes() {
            *watched.entry(fd).or_default() |= match filter {
                Filter::Read => libc::POLLIN,
                Filter::Write => libc::POLLOUT,
            };
        }
        watched.into_iter().collect()
    }

    fn file(&mut self, fd: RawFd) -> &mut File {
        self.files.get_mut(&fd).expect("it is open")
    }

    fn activate(&mut self, fd: RawFd, filter: Filter) {
        let found = self.look(fd, filter);
        let Some(at) = self.find(fd, filter) else {
            return;
        };
        let was_active = self.knotes[at].active.is_some();
        self.knotes[at].active = found.or(self.knotes[at].active);
        if found.is_some() && !was_active {
            self.knotes[at..].rotate_left(1);
        }
    }
}

/// The call.
impl Model {
    fn kevent(
        &mut self,
        changes: &[Change],
        limit: usize,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> Result<(), Errno> {
        self.calls.push(Call {
            changes: changes.to_vec(),
            timeout,
        });
        if let Some(errno) = self.failures.pop_front().flatten() {
            return Err(errno);
        }
        for change in changes {
            let result = self.register(change);
            if result.is_err() || change.flags & flag::RECEIPT != 0 {
                if events.len() == limit {
                    // What it has written is not counted.
                    events.clear();
                    return result;
                }
                events.push(receipt(change, result));
            }
        }
        if events.is_empty() || self.collects_behind_receipts {
            self.collect(limit, events);
        }
        if events.is_empty() {
            self.wait(timeout)?;
            self.collect(limit, events);
        }
        Ok(())
    }

    fn register(&mut self, change: &Change) -> Result<(), Errno> {
        if change.id == WAKE {
            self.waker = Some(change.ident.fd());
        }
        let fd = self.descriptor(change.ident).ok_or(Errno::BADF)?;
        let adds = change.flags & flag::ADD != 0;
        let is_new = adds && self.find(fd, change.filter).is_none();
        let refusal = self
            .refuses
            .iter()
            .find(|knote| adds && (knote.fd, knote.filter) == (fd, change.filter))
            .filter(|knote| is_new || !knote.made)
            .copied();
        if let Some(refusal) = refusal.filter(|refusal| !refusal.made) {
            return Err(refusal.errno);
        }
        let is_broken = |file: &File| file.is_pipe && file.hung_up;
        if is_new && change.filter == Filter::Write && self.files.get(&fd).is_some_and(is_broken) {
            return Err(Errno::PIPE);
        }
        match self.find(fd, change.filter) {
            None if adds => self.knotes.push(Knote {
                fd,
                filter: change.filter,
                // As in FreeBSD, its events have the flag too, and are no receipts.
                flags: change.flags & (flag::CLEAR | flag::ONESHOT | flag::RECEIPT),
                id: change.id,
                active: None,
            }),
            None => return Err(Errno::NOENT),
            Some(at) if change.flags & flag::DELETE != 0 => {
                self.knotes.remove(at);
            }
            Some(at) => self.knotes[at].id = change.id,
        }
        self.activate(fd, change.filter);
        refusal.map_or(Ok(()), |refusal| Err(refusal.errno))
    }

    fn collect(&mut self, limit: usize, events: &mut Vec<Event>) {
        if let Some(waker) = self.waker {
            self.activate(waker, Filter::Read);
        }
        let mut collected = Vec::new();
        let mut knotes = std::mem::take(&mut self.knotes);
        knotes.retain_mut(|knote| {
            if knote.active.is_none() || events.len() == limit {
                return true;
            }
            let is_once = knote.flags & flag::ONESHOT != 0;
            if !is_once {
                knote.active = self.look(knote.fd, knote.filter);
            }
            let Some(found) = knote.active else {
                return true;
            };
            events.push(Event {
                id: knote.id,
                flags: found.flags | knote.flags,
                ..found
            });
            if knote.flags & flag::CLEAR != 0 {
                knote.active = None;
            }
            if !is_once {
                collected.push(*knote);
            }
            false
        });
        knotes.append(&mut collected);
        self.knotes = knotes;
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        if timeout != Some(Duration::ZERO) && self.signals > 0 {
            self.signals -= 1;
            return Err(Errno::INTR);
        }
        if timeout != Some(Duration::ZERO) {
            if let Some((after, fd)) = self.arrival.take() {
                pass(after);
                self.arrive(fd, 1);
                return Ok(());
            }
        }
        let timeout = timeout.expect("something that ends this wait");
        self.waited = self.waited.saturating_add(timeout);
        Ok(())
    }

    fn find(&self, fd: RawFd, filter: Filter) -> Option<usize> {
        let mut knotes = self.knotes.iter();
        knotes.position(|knote| (knote.fd, knote.filter) == (fd, filter))
    }

    /// The open descriptor that an identifier names, if it names one.
    fn descriptor(&self, ident: Ident) -> Option<RawFd> {
        let fd = RawFd::try_from(ident.0).ok()?;
        (self.files.contains_key(&fd) || self.waker == Some(fd)).then_some(fd)
    }

    /// The event to report, if any.
    fn look(&self, fd: RawFd, filter: Filter) -> Option<Event> {
        if self.waker == Some(fd) {
            return is_readable(fd).then(|| event(fd, filter, 8));
        }
        let file = self.files.get(&fd)?;
        let (data, is_over) = match filter {
            Filter::Read if file.is_pipe => return None,
            Filter::Read => (file.incoming, file.ended),
            Filter::Write => (file.room, file.hung_up || file.is_shut),
        };
        let mut found = event(fd, filter, data);
        if is_over {
            (found.flags, found.fflags) = (flag::EOF, file.error);
        }
        (data > 0 || is_over).then_some(found)
    }
}

fn event(fd: RawFd, filter: Filter, data: i64) -> Event {
    Event {
        ident: Ident::new(fd),
        filter,
        flags: 0,
        fflags: 0,
        data,
        id: 0,
    }
}

fn receipt(change: &Change, result: Result<(), Errno>) -> Event {
    let errno = result.map_or_else(Errno::raw_os_error, |()| 0);
    Event {
        flags: flag::ERROR,
        ident: change.ident,
        id: change.id,
        ..event(0, change.filter, errno.into())
    }
}
