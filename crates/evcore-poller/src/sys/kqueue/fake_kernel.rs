//! A model of `kevent`, with descriptors that exist only here.
//!
//! It follows the kernels where the backend relies on them, and FreeBSD's where they differ:
//!
//! - A knote belongs to a descriptor and a filter. Adding an existing one changes the id of its
//!   events, keeps its mode, and evaluates the descriptor again. Dropping a missing one is `ENOENT`,
//!   and an identifier that is not an open descriptor is `EBADF`. Closing drops the knotes. Events and
//!   receipts have the identifier of the change.
//! - A condition that becomes true activates the knotes of its descriptor. It is evaluated again
//!   when they are collected. A collected knote goes to the end of the queue (level), or is no
//!   longer active (`EV_CLEAR`).
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
pub(super) struct FakeKernel {
    model: Arc<Mutex<Model>>,
    events: Vec<Event>,
}

impl FakeKernel {
    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
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
pub(super) struct Model {
    files: BTreeMap<RawFd, File>,
    /// The knotes, in the order in which they are collected.
    knotes: Vec<Knote>,
    calls: Vec<Call>,
    /// The additions that are refused.
    pub(super) refuses: Vec<Refusal>,
    /// The errors of the next calls, which then do nothing.
    pub(super) failures: VecDeque<Option<Errno>>,
    /// True if events are collected behind receipts, as far as the list has room.
    pub(super) collects_behind_receipts: bool,
    /// The number of waits that a signal will end.
    pub(super) signals: usize,
    /// The time that calls have waited without an event.
    pub(super) waited: Duration,
    /// The event that arrives in the next call that waits, and the time after which it does.
    arrival: Option<(Duration, RawFd)>,
    waker: Option<RawFd>,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) changes: Vec<Change>,
    pub(super) timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) fd: RawFd,
    pub(super) filter: Filter,
    pub(super) errno: Errno,
    /// True if the knote is made all the same, as macOS was seen to do for a pipe without a reader.
    pub(super) made: bool,
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
    /// True if its own side was shut for writing.
    is_shut: bool,
}

#[derive(Clone, Copy, Debug)]
struct Knote {
    fd: RawFd,
    filter: Filter,
    /// The mode.
    flags: u16,
    id: u32,
    /// The event that it will report, as it was at the last evaluation; `None` if the knote is not
    /// active.
    active: Option<Event>,
}

/// The files, as the test moves them.
impl Model {
    /// Opens a file with nothing to read and no room to write.
    pub(super) fn open(&mut self, fd: RawFd) {
        let before = self.files.insert(fd, File::default());
        assert!(before.is_none(), "{fd} is open");
    }

    /// Opens the writing end of a pipe that has a reader and no room. It is never readable.
    pub(super) fn open_pipe(&mut self, fd: RawFd) {
        self.open(fd);
        self.file(fd).is_pipe = true;
    }

    pub(super) fn close(&mut self, fd: RawFd) {
        self.files.remove(&fd).expect("it is open");
        self.knotes.retain(|knote| knote.fd != fd);
    }

    pub(super) fn arrive(&mut self, fd: RawFd, bytes: i64) {
        self.file(fd).incoming += bytes;
        self.activate(fd, Filter::Read);
    }

    /// Lets a byte arrive when the next call that waits has waited for `after`, in real time, by
    /// which the poller measures.
    pub(super) fn arrive_in_wait(&mut self, after: Duration, fd: RawFd) {
        self.arrival = Some((after, fd));
    }

    pub(super) fn drain(&mut self, fd: RawFd) {
        self.file(fd).incoming = 0;
    }

    /// Ends the bytes of the peer.
    pub(super) fn end(&mut self, fd: RawFd) {
        self.file(fd).ended = true;
        self.activate(fd, Filter::Read);
    }

    pub(super) fn make_room(&mut self, fd: RawFd, bytes: i64) {
        self.file(fd).room += bytes;
        self.activate(fd, Filter::Write);
    }

    pub(super) fn fill(&mut self, fd: RawFd) {
        self.file(fd).room = 0;
    }

    /// Lets the peer go, with an error or with none, or the reader of a pipe, which has no errors.
    pub(super) fn hang_up(&mut self, fd: RawFd, error: u32) {
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

    /// Gives the pipe a reader again, as a FIFO may get one.
    pub(super) fn open_reader(&mut self, fd: RawFd) {
        let file = self.file(fd);
        (file.ended, file.hung_up) = (false, false);
    }

    /// Shuts the socket's own side for writing.
    pub(super) fn shut(&mut self, fd: RawFd) {
        self.file(fd).is_shut = true;
        self.activate(fd, Filter::Write);
    }

    /// The calls since the last look.
    pub(super) fn calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    /// The knotes without the waker's, by descriptor.
    pub(super) fn knotes(&self) -> Vec<(RawFd, Filter)> {
        let own = self.knotes.iter().filter(|knote| knote.id != WAKE);
        let mut names: Vec<_> = own.map(|knote| (knote.fd, knote.filter)).collect();
        names.sort_unstable();
        names
    }

    fn file(&mut self, fd: RawFd) -> &mut File {
        self.files.get_mut(&fd).expect("it is open")
    }

    fn activate(&mut self, fd: RawFd, filter: Filter) {
        let found = self.look(fd, filter);
        if let Some(at) = self.find(fd, filter) {
            let knote = &mut self.knotes[at];
            knote.active = found.or(knote.active);
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
                    // The events that it has written are not counted.
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
                flags: change.flags & (flag::CLEAR | flag::ONESHOT),
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

    /// The open descriptor that an identifier names, if any.
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
