//! A model of `kevent`. Behaviour on which the backend relies is the same in all kernels. In
//! everything else the model follows FreeBSD.
//!
//! - A condition that becomes true activates the knotes of its descriptor. (A knote is the kernel's
//!   registration of a descriptor with one filter.) When a call collects active knotes, it
//!   evaluates the condition again, except for a knote with `EV_ONESHOT`, which reports what was
//!   true when it became active.
//! - libkqueue adds events behind receipts (the answers to changes), if the list has room
//!   ([`Queue::collects_behind_receipts`]).
//! - If the reader of a watched pipe closes, this is reported once in every mode, and the knote is
//!   gone, because the close makes the knote a one-shot.
//! - A signal ends only a call that would have waited. The call has made its changes by then.
//!
//! The model has no threads, and no flags and filters that the backend does not use.

use super::{
    super::kqueue::kernel::{Change, Event, Filter, Ident, Kernel, flag},
    Call, Duration, Errno, FIRST, FakeKernel, Machine, RawFd, c_short,
};

/// The flag that marks a file as the writing end of a pipe.
const PIPE: c_short = 0x4000;
/// The flag that marks a socket whose own side was shut for writing.
const SHUT: c_short = 0x1000;
/// The flags of a socket whose peer is gone, or of a pipe whose reader is gone.
const HANG_UP: c_short = libc::POLLHUP | libc::POLLRDHUP;

#[derive(Debug, Default)]
pub(in crate::sys) struct Queue {
    /// The knotes, in the order in which they are collected.
    knotes: Vec<Knote>,
    events: Vec<Event>,
    /// The additions that are refused.
    pub(in crate::sys) refuses: Vec<Refusal>,
    /// True if events are collected behind receipts, as far as the list has room.
    pub(in crate::sys) collects_behind_receipts: bool,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::sys) struct Refusal {
    pub(in crate::sys) fd: RawFd,
    pub(in crate::sys) filter: Filter,
    pub(in crate::sys) errno: Errno,
    /// True if the knote is made despite the refusal, which macOS was seen to do for a pipe without
    /// a reader.
    pub(in crate::sys) made: bool,
}

#[derive(Clone, Copy, Debug)]
struct Knote {
    fd: RawFd,
    filter: Filter,
    /// The flags of the mode, and `EV_RECEIPT`.
    flags: u16,
    id: u32,
    /// The event that the knote will report, as it was at the last evaluation; `None` if the knote
    /// is not active.
    active: Option<Event>,
}

impl Queue {
    pub(super) fn close(&mut self, fd: RawFd) {
        self.knotes.retain(|knote| knote.fd != fd);
    }

    /// Activates the knotes whose condition has become true, or has happened again.
    pub(super) fn look(&mut self, fd: RawFd, raised: c_short, all: c_short) {
        for filter in Filter::ALL {
            if raised & conditions(filter) != 0 {
                self.activate(fd, filter, all);
            }
        }
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = (RawFd, c_short)> {
        let flags = |filter| match filter {
            Filter::Read => libc::POLLIN,
            Filter::Write => libc::POLLOUT,
        };
        let knotes = self.knotes().into_iter();
        knotes.map(move |(fd, filter)| (fd, flags(filter)))
    }

    /// The knotes without the waker's, by descriptor.
    pub(in crate::sys) fn knotes(&self) -> Vec<(RawFd, Filter)> {
        let ours = self.knotes.iter().filter(|knote| knote.fd >= FIRST);
        let mut names: Vec<_> = ours.map(|knote| (knote.fd, knote.filter)).collect();
        names.sort_unstable();
        names
    }

    fn activate(&mut self, fd: RawFd, filter: Filter, all: c_short) {
        let Some(at) = self.find(fd, filter) else {
            return;
        };
        let found = event(fd, filter, all);
        let was_active = self.knotes[at].active.is_some();
        self.knotes[at].active = found.or(self.knotes[at].active);
        if found.is_some() && !was_active {
            self.knotes[at..].rotate_left(1);
        }
    }

    fn find(&self, fd: RawFd, filter: Filter) -> Option<usize> {
        let mut knotes = self.knotes.iter();
        knotes.position(|knote| (knote.fd, knote.filter) == (fd, filter))
    }
}

impl Machine {
    /// Opens the writing end of a pipe that has a reader and no room. It is never readable.
    pub(in crate::sys) fn open_pipe(&mut self, fd: RawFd) {
        self.open(fd);
        self.raise(fd, PIPE);
    }

    /// Closes the peer of a socket, with an error or without, or the reader of a pipe, which has no
    /// errors.
    pub(in crate::sys) fn hang_up(&mut self, fd: RawFd, has_error: bool) {
        let is_pipe = self.ready(fd).expect("it is open") & PIPE != 0;
        let error = if has_error && !is_pipe {
            libc::POLLERR
        } else {
            0
        };
        self.raise(fd, HANG_UP | error);
        if let Some(at) = self.queue.find(fd, Filter::Write).filter(|_| is_pipe) {
            self.queue.knotes[at].flags |= flag::ONESHOT;
        }
    }

    /// Gives the pipe a reader again, as a FIFO may get one.
    pub(in crate::sys) fn open_reader(&mut self, fd: RawFd) {
        self.lower(fd, HANG_UP);
    }

    pub(in crate::sys) fn shut(&mut self, fd: RawFd) {
        self.raise(fd, SHUT);
    }
}

impl Machine {
    fn kevent(
        &mut self,
        changes: &[Change],
        limit: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        self.calls.push(Call::Kevent(changes.to_vec(), timeout));
        self.queue.events.clear();
        if self
            .ends
            .front()
            .is_some_and(|end| *end != Some(Errno::INTR))
        {
            if let Some(errno) = self.ends.pop_front().flatten() {
                return Err(errno);
            }
        }
        for change in changes {
            let result = self.register(change);
            if result.is_err() || change.flags & flag::RECEIPT != 0 {
                if self.queue.events.len() == limit {
                    // The events that the call has written are not counted.
                    return result.map(|()| 0);
                }
                self.queue.events.push(receipt(change, result));
            }
        }
        if self.queue.events.is_empty() {
            let watches_waker = self.queue.knotes.iter().any(|knote| knote.fd < FIRST);
            return self.wait(timeout, watches_waker, |machine| machine.collect(limit));
        }
        if self.queue.collects_behind_receipts {
            self.collect(limit);
        }
        Ok(self.queue.events.len())
    }

    fn register(&mut self, change: &Change) -> Result<(), Errno> {
        let fd = RawFd::try_from(change.ident.0).map_err(|_| Errno::BADF)?;
        let ready = self.ready(fd).ok_or(Errno::BADF)?;
        let adds = change.flags & flag::ADD != 0;
        let is_new = adds && self.queue.find(fd, change.filter).is_none();
        if adds && self.refuses.contains(&fd) {
            return Err(Errno::NOMEM);
        }
        let refusal = self
            .queue
            .refuses
            .iter()
            .find(|knote| adds && (knote.fd, knote.filter) == (fd, change.filter))
            .filter(|knote| is_new || !knote.made)
            .copied();
        if let Some(refusal) = refusal.filter(|refusal| !refusal.made) {
            return Err(refusal.errno);
        }
        let is_broken = ready & PIPE != 0 && ready & libc::POLLHUP != 0;
        if is_new && change.filter == Filter::Write && is_broken {
            return Err(Errno::PIPE);
        }
        match self.queue.find(fd, change.filter) {
            None if adds => self.queue.knotes.push(Knote {
                fd,
                filter: change.filter,
                // With `EV_RECEIPT`, the knote's events have that flag too, as in FreeBSD, although
                // they are not receipts.
                flags: change.flags & (flag::CLEAR | flag::ONESHOT | flag::RECEIPT),
                id: change.id,
                active: None,
            }),
            None => return Err(Errno::NOENT),
            Some(at) if change.flags & flag::DELETE != 0 => {
                self.queue.knotes.remove(at);
            }
            Some(at) => self.queue.knotes[at].id = change.id,
        }
        self.queue.activate(fd, change.filter, ready);
        refusal.map_or(Ok(()), |refusal| Err(refusal.errno))
    }

    /// Collects events of active knotes, and returns the number of events, including earlier ones
    /// of this call.
    fn collect(&mut self, limit: usize) -> usize {
        let mut collected = Vec::new();
        let mut knotes = std::mem::take(&mut self.queue.knotes);
        let mut events = std::mem::take(&mut self.queue.events);
        knotes.retain_mut(|knote| {
            let is_real = knote.fd < FIRST; // the waker's
            if knote.active.is_none() && !is_real || events.len() == limit {
                return true;
            }
            let is_once = knote.flags & flag::ONESHOT != 0;
            if !is_once {
                let ready = self.ready(knote.fd).expect("a close drops knotes");
                knote.active = event(knote.fd, knote.filter, ready);
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
        (self.queue.knotes, self.queue.events) = (knotes, events);
        self.queue.events.len()
    }
}

impl Kernel for FakeKernel {
    fn kevent(
        &mut self,
        changes: &[Change],
        limit: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        self.machine().kevent(changes, limit, timeout)
    }

    fn event(&self, index: usize) -> Event {
        self.machine().queue.events[index]
    }

    fn is_connected(&self, fd: RawFd) -> bool {
        let ready = self.machine().ready(fd);
        ready.is_some_and(|ready| ready & (PIPE | libc::POLLHUP) == 0)
    }
}

/// Returns the conditions of a file that a filter reports.
fn conditions(filter: Filter) -> c_short {
    match filter {
        Filter::Read => libc::POLLIN | libc::POLLRDHUP,
        Filter::Write => libc::POLLOUT | libc::POLLHUP | SHUT,
    }
}

fn event(fd: RawFd, filter: Filter, ready: c_short) -> Option<Event> {
    let found = ready & conditions(filter);
    if found == 0 || filter == Filter::Read && ready & PIPE != 0 {
        return None;
    }
    let is_over = found & !(libc::POLLIN | libc::POLLOUT) != 0;
    Some(Event {
        ident: Ident::new(fd),
        filter,
        flags: if is_over { flag::EOF } else { 0 },
        fflags: if is_over && ready & libc::POLLERR != 0 {
            54
        } else {
            0
        },
        data: 1,
        id: 0,
    })
}

fn receipt(change: &Change, result: Result<(), Errno>) -> Event {
    Event {
        ident: change.ident,
        filter: change.filter,
        flags: flag::ERROR,
        fflags: 0,
        data: result.map_or_else(Errno::raw_os_error, |()| 0).into(),
        id: change.id,
    }
}
