//! The kqueue backend, for FreeBSD, macOS, NetBSD and OpenBSD. It was not run there, because no
//! such kernel was at hand. All code above the call `kevent` was run on Linux, over a model of the
//! call (`sys/fake_kernel/kqueue.rs`).
//!
//! A registration has a knote (the kernel's word) for each side that it watches. A knote has the
//! filter for reading or the one for writing. The events of both are merged. The backend relies on
//! these facts, from the manual pages and the kernels' sources:
//!
//! - The kernel applies changes before it looks for events, so the wait's call passes the changes
//!   of `modify`, too. A refused change becomes an event if the list of events has room, and the
//!   changes behind it are applied. If the list is full, the call fails, and the changes behind the
//!   refused one are not applied. So if a wait's buffer is smaller than the list of changes, a
//!   separate call before the wait applies the changes, with a receipt (an event with the result)
//!   for each.
//! - A call with a refused change returns without looking for events. It is then repeated without
//!   changes, so that a refusal does not hide other events.
//! - `add` and `remove` act at once, with a receipt for each change. So they return a refusal
//!   themselves, and `add` removes one filter again if the other is refused. The list of events is
//!   as long as the list of changes, and receipts fill it, so the call consumes no event.
//! - `EV_CLEAR` implements `Edge`. Adding an existing knote evaluates the descriptor afresh, as a
//!   change of interest should.
//! - `Oneshot` uses `EV_CLEAR` too. The next wait drops the knotes of a registration that has
//!   reported, or arms them again, before the kernel looks for events. `EV_ONESHOT` is not used: it
//!   ends only one filter, and the BSDs report such a knote without evaluating it again. So data
//!   that was drained before the wait would be reported, and would use up the registration.
//! - `EV_EOF` for writing means that the peer is gone, or that the socket itself was shut for
//!   writing, which is not a hang-up. If no error explains the end, `getpeername` distinguishes the
//!   two, which costs one more call for each such event.
//! - FreeBSD and macOS refuse to watch the writing end of a pipe that has no reader (`EPIPE`). If a
//!   watched pipe loses its reader, FreeBSD drops the knote after one report. Both cases are
//!   reported as a hang-up. A `Level` registration tries again in each wait, which costs a second
//!   call. If the number belongs to another file by then, the retry watches that file. NetBSD
//!   returns `EBADF`, as for a closed descriptor, so the registration fails there.
//! - Knotes belong to a descriptor's number, and end when that is closed, even if a duplicate is
//!   open. If the number is assigned to another file, it starts without knotes.
//! - Adding an existing knote silently gives it the new id. So the poller permits one key per
//!   descriptor.
//! - A knote without a registration is a stray: its descriptor was removed before a close, and not
//!   closed, or the removal failed. It is dropped when it reports. The wait then goes on, or
//!   returns [`Error::Interrupted`], so that the poller waits again for the time that is left.
//!   Adding an existing knote does not change its mode, so a new registration drops strays first.
//!
//! Differences from epoll: `WRITE_CLOSED` needs an interest in writing. The error of a UDP socket,
//! which can still receive, is only readiness. A regular file is readable until its end.
//!
//! Priority data is refused, because `EVFILT_EXCEPT` does not exist on every system. The waker is a
//! pair of sockets, not `EVFILT_USER`, because that does not exist on every system either, and
//! `Waker` promises that a plain `write` wakes.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use rustix::io::Errno;

use super::chunked_wait::{LONGEST_IN_MS, chunked_wait};
use crate::{
    backend::{Backend, Capabilities, Registration},
    error::{Error, Result},
    event_sink::EventSink,
    interest::{Interest, Mode},
    waker::{WakeChannel, Waker},
};

pub(super) mod kernel;
mod registrations;

#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
))]
mod system;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use kernel::{Change, Kernel, filters, flag};
use registrations::{Table, drops, id_of, makes};

/// The id of the waker's events. It is above `MAX_ID`.
const WAKE: u32 = u32::MAX;

pub(super) struct Kqueue<K> {
    kernel: K,
    wake: WakeChannel,
    table: Table,
    /// The list is empty between calls, and kept for its allocation.
    changes: Vec<Change>,
    /// True if the next wait that has answers to changes (mostly refusals) reports them after the
    /// ready descriptors.
    ready_first: bool,
    /// True once a registration has ended without a removal of its knotes. If its descriptor was
    /// not closed, the knotes exist, and the kernel would keep their mode.
    may_have_strays: bool,
}

#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
))]
impl Kqueue<system::System> {
    pub(super) fn new() -> Result<Self> {
        Self::over(system::System::open()?)
    }
}

impl<K: Kernel> Kqueue<K> {
    pub(super) fn over(kernel: K) -> Result<Self> {
        let mut kqueue = Self {
            kernel,
            wake: WakeChannel::new()?,
            table: Table::default(),
            changes: Vec::new(),
            ready_first: false,
            may_have_strays: false,
        };
        let fd = kqueue.wake.as_fd().as_raw_fd();
        // The mode is `Level`, since the waker is drained anyway. Bytes that a drain leaves are
        // reported again.
        kqueue
            .apply(makes(fd, WAKE, Interest::READ, Mode::Level))
            .map_err(Error::os("kevent(EV_ADD)"))?;
        Ok(kqueue)
    }

    /// Applies changes now, each independently of the others, and returns the first refusal. A pipe
    /// without a reader is not a refusal.
    fn apply(&mut self, changes: impl Iterator<Item = Change>) -> Result<Applied, Errno> {
        self.apply_behind(0, changes)
    }

    /// Does the same as [`apply`](Self::apply), but ignores refusals of the first changes.
    fn apply_behind(
        &mut self,
        ignored: usize,
        changes: impl Iterator<Item = Change>,
    ) -> Result<Applied, Errno> {
        self.changes.extend(changes.map(with_receipt));
        let count = self.changes.len();
        let result = self
            .kernel
            .kevent(&self.changes, count, Some(Duration::ZERO));
        self.changes.clear();
        let mut applied = Applied::default();
        // The receipts are in the order of the changes.
        for index in ignored..result? {
            let event = self.kernel.event(index);
            if event.is_broken_pipe() {
                applied.is_broken_pipe = true;
            } else if let Some(Err(errno)) = event.receipt() {
                return Err(errno);
            }
        }
        Ok(applied)
    }

    /// Applies the changes and, if none was refused, waits for events and collects them.
    ///
    /// A refusal needs a place among the events. If places may run out, a separate call applies the
    /// changes. The wait takes at most `room` events, so that all of them can be reported, because
    /// the kernel does not report an `Edge` or a `Oneshot` again.
    fn apply_and_wait(&mut self, room: usize, timeout: Option<Duration>) -> Result<Collected> {
        self.table.changes(&mut self.changes);
        let count = self.changes.len();
        if count <= room {
            return self.call(room, timeout);
        }
        for change in &mut self.changes {
            *change = with_receipt(*change);
        }
        self.call(count, Some(Duration::ZERO))
    }

    /// Makes one call (more for a timeout of more than 24 days). The call applies `changes`, and
    /// the table collects its events.
    fn call(&mut self, limit: usize, timeout: Option<Duration>) -> Result<Collected> {
        let count = chunked_wait(timeout, LONGEST_IN_MS, |chunk| {
            let result = self.kernel.kevent(&self.changes, limit, chunk);
            self.changes.clear();
            if matches!(result, Ok(_) | Err(Errno::INTR)) {
                self.table.mark_applied();
            }
            result
        });
        let count = count.map_err(|errno| Error::of_wait("kevent", errno))?;
        let mut collected = Collected::default();
        for index in 0..count {
            let mut event = self.kernel.event(index);
            collected.receipts |= event.receipt().is_some();
            if event.is_unexplained_end() && self.kernel.is_connected(event.ident.fd()) {
                // The program has shut the socket for writing.
                event.flags &= !flag::EOF;
            }
            if event.id == WAKE {
                collected.woken = true;
            } else {
                self.table.collect(&event);
            }
        }
        Ok(collected)
    }
}

impl<K: Kernel> Backend for Kqueue<K> {
    fn name(&self) -> &'static str {
        "kqueue"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        (capabilities.edge, capabilities.oneshot) = (true, true);
        capabilities.batches_changes = true;
        capabilities
    }

    fn add(&mut self, new: &Registration) -> Result<()> {
        refuse_priority(new)?;
        let (fd, id) = (new.fd, id_of(new));
        let strays = match self.may_have_strays {
            true => Interest::BOTH,
            false => Interest::NONE,
        };
        let dropped = filters(strays).count();
        let changes = drops(fd, id, strays).chain(makes(fd, id, new.interest, new.mode));
        match self.apply_behind(dropped, changes) {
            Ok(applied) => {
                self.table.enter(new);
                if applied.is_broken_pipe {
                    // If the kernel has made a knote nevertheless, the next wait takes it over.
                    self.table.mark_write_missing(new);
                }
                Ok(())
            }
            Err(errno) => {
                // The other filter may have been accepted.
                let _ = self.apply(drops(new.fd, id_of(new), new.interest));
                Err(Error::os("kevent(EV_ADD)")(errno))
            }
        }
    }

    /// The wait applies the change.
    fn modify(&mut self, new: &Registration) -> Result<()> {
        if let Err(refused) = refuse_priority(new) {
            let _ = self.remove(new);
            return Err(refused);
        }
        if self.table.modify(new) && self.may_have_strays {
            // This call drops strays, and fails for each filter that has none. The wait makes the
            // knotes.
            let _ = self.apply(drops(new.fd, id_of(new), Interest::BOTH));
        }
        Ok(())
    }

    fn reregister(&mut self, new: &Registration) -> Result<()> {
        self.modify(new)?;
        self.table.renew(new);
        Ok(())
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        let known = self.table.leave(old);
        if known.is_empty() {
            return Ok(());
        }
        self.apply(drops(old.fd, id_of(old), known))
            .map(drop)
            .map_err(|errno| {
                self.may_have_strays = true;
                Error::os("kevent(EV_DELETE)")(errno)
            })
    }

    /// Makes no call, because the kernel drops the knotes of a descriptor that is closed.
    fn remove_before_close(&mut self, old: &Registration) {
        self.table.leave(old);
        self.may_have_strays = true;
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let (mut woken, mut left) = (false, timeout);
        // Answers to changes (mostly refusals) and ready descriptors take turns in coming first.
        // Otherwise, answers that fill every wait would starve ready descriptors.
        let ready_first = self.ready_first;
        let mut answers = self.table.news();
        loop {
            let behind = if ready_first { answers } else { 0 };
            let room = events
                .remaining()
                .saturating_sub(self.table.news() - behind);
            if room == 0 {
                break;
            }
            let has_pending = self.table.news() > 0;
            let at_once = has_pending.then_some(Duration::ZERO);
            match self.apply_and_wait(room, at_once.or(left)) {
                Ok(collected) => {
                    woken |= collected.woken;
                    if collected.receipts {
                        answers = self.table.news();
                    }
                    if self.table.has_strays() {
                        // A stray has nothing to report, and the call may have waited for it until
                        // the timeout. So the next call drops it, and takes the events that are
                        // there.
                        left = left.map(|_| Duration::ZERO);
                    } else if !collected.receipts {
                        break;
                    }
                    // A call that returns receipts has not waited, so another call follows.
                }
                // If the error lasts, a later wait returns it.
                Err(_) if has_pending => break,
                Err(error) => return Err(error),
            }
        }
        let is_cut_short = left != timeout && self.table.news() == 0;
        if answers > 0 {
            self.ready_first = !ready_first;
            if ready_first {
                self.table.put_last(answers);
            }
        }
        self.table.report(&mut events);
        #[cfg(test)]
        self.table.verify();
        if woken {
            // The waker is drained only now, because an undrained waker keeps the calls above from
            // blocking.
            self.wake.drain();
            events.set_woken();
        } else if is_cut_short {
            // This error makes the poller wait again, for the time that is left.
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.descriptor()
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

impl<K: Kernel> fmt::Debug for Kqueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kqueue")
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Applied {
    /// True if a pipe has no reader. It then counts as hung up.
    is_broken_pipe: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Collected {
    woken: bool,
    receipts: bool,
}

fn with_receipt(change: Change) -> Change {
    Change {
        flags: change.flags | flag::RECEIPT,
        ..change
    }
}

fn refuse_priority(registration: &Registration) -> Result<()> {
    if !registration.interest.contains(Interest::PRIORITY) {
        return Ok(());
    }
    Err(Error::NoPriority { backend: "kqueue" })
}
