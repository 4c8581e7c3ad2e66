//! kqueue: FreeBSD, macOS, NetBSD and OpenBSD. Not run there: no such kernel was at hand. What is
//! above the call itself was run on Linux, over a model of the call (`kqueue/fake_kernel.rs`).
//!
//! A registration is one knote a filter: one for reading and one for writing, whose events are
//! merged into one. What is relied upon, by the manual pages and the kernels' sources:
//!
//! - Changes are made before events are looked for, so those of `modify` go with the wait: one
//!   call. A change that is refused becomes an event where there is a place in the list of events,
//!   and those behind it are made; where there is no place the call fails and they are not. So a
//!   wait whose buffer is smaller than the list of changes makes them in a call before it, which
//!   asks for receipts.
//! - A call in which a change was refused returns without looking for events. It is then made
//!   again, with no changes, so that a bad registration hides no good one.
//! - `add` and `remove` act at once and ask for a receipt of each change, so that a refusal is
//!   told where it happens, and one filter is taken back where the other is refused. Receipts fill
//!   the list of events first, and this one is as long as the list of changes, so no event is taken
//!   from a wait.
//! - `EV_CLEAR` is `Edge`. Adding what is there needs_scan at the descriptor afresh, as a change of
//!   interest is to do.
//! - `Oneshot` is `EV_CLEAR` too. The next wait drops the knotes of a registration that has
//!   reported, or arms them again, before it needs_scan for events. `EV_ONESHOT` is not used: it ends one
//!   filter alone, and FreeBSD, NetBSD and OpenBSD report it without looking again, so that data
//!   that was drained before the wait would be reported, and would spend the registration.
//! - `EV_EOF` for writing means that the peer is gone, or that one's own side was shut, which is no
//!   hang-up. Where no error explains the end, `getpeername` tells the two apart: one call more for
//!   each such event.
//! - FreeBSD and macOS refuse to watch the writing end of a pipe that has no reader (`EPIPE`), and
//!   FreeBSD drops a knote whose pipe has lost its reader when it has reported. Either is reported
//!   as the end that it is. `Level` asks again in each wait, which costs a second call; should the
//!   number be another file's by then, that is watched by mistake. NetBSD answers `EBADF`, as for a
//!   closed descriptor, and so it is refused there.
//! - Knotes belong to a descriptor's number, and go when that is closed, whether or not a
//!   duplicate is open. A number that is given to another file begins anew.
//! - Adding what is there takes it over without a word, whatever it was for. The front lets no
//!   descriptor have two keys.
//! - A knote that nobody wants any more is a stray: its descriptor was forgotten and not closed. It
//!   is dropped when it reports. A wait that it alone has ended is an interruption.
//!
//! What differs from epoll: `WRITE_CLOSED` is told only where writing is asked for, and an error of
//! a socket that goes on receiving (UDP) only as readiness. A regular file is readable while it is
//! not at its end. The bytes available are, of a listener, the connections that wait.
//!
//! No priority data: `EVFILT_EXCEPT` is not on every system, so the interest is refused, rather
//! than taken and never answered. No `EVFILT_USER` for the waker: it is not on every system
//! either, and no mere `write` triggers it, which is what `Waker` promises. The waker is a pair of
//! sockets.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use rustix::io::Errno;

use super::chunked_wait::{LONGEST_IN_MS, chunked_wait};
use crate::{
    Backend, Capabilities, Error, EventSink, Interest, Mode, Registration, Result, WakeChannel,
    Waker,
};

mod kernel;
mod table;

#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
))]
mod system;

#[cfg(test)]
mod fake_kernel;
#[cfg(test)]
mod tests;

use kernel::{Change, Kernel, flag};
use table::{Table, drops, id_of, makes};

/// What the waker's events carry. It is no id, since those end at `MAX_ID`.
const WAKE: u32 = u32::MAX;

pub(super) struct Kqueue<K> {
    kernel: K,
    wake: WakeChannel,
    table: Table,
    /// Empty between calls; kept for its memory.
    changes: Vec<Change>,
    /// Whether the next wait with answers to changes to report has them behind what is ready.
    ready_first: bool,
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
    fn over(kernel: K) -> Result<Self> {
        let mut kqueue = Self {
            kernel,
            wake: WakeChannel::new()?,
            table: Table::default(),
            changes: Vec::new(),
            ready_first: false,
        };
        let fd = kqueue.wake.as_fd().as_raw_fd();
        // Level, since it is drained anyway: what a drain should leave behind is told again.
        kqueue
            .make(makes(fd, WAKE, Interest::READ, Mode::Level))
            .map_err(Error::os("kevent(EV_ADD)"))?;
        Ok(kqueue)
    }

    /// Makes changes now: each is made or refused for itself, and the first refusal is returned. A
    /// pipe without a reader is not a refusal.
    fn make(&mut self, changes: impl Iterator<Item = Change>) -> Result<Made, Errno> {
        self.changes.extend(changes.map(with_receipt));
        let count = self.changes.len();
        let told = self
            .kernel
            .kevent(&self.changes, count, Some(Duration::ZERO));
        self.changes.clear();
        let mut made = Made::default();
        for index in 0..told? {
            let event = self.kernel.event(index);
            if event.is_broken_pipe() {
                made.is_broken_pipe = true;
            } else if let Some(Err(errno)) = event.receipt() {
                return Err(errno);
            }
        }
        Ok(made)
    }

    /// Makes the changes and, where none was refused, waits for events and takes them in.
    ///
    /// A refusal needs a place among the events. Where there may be too few, the changes are made
    /// by a call of their own; nor is more asked for than there is room, since what an `Edge` or a
    /// `Oneshot` once told is not told again.
    fn make_and_wait(&mut self, room: usize, timeout: Option<Duration>) -> Result<Told> {
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

    /// One call (but for a timeout of more than 24 days): `changes` go in, and what comes out is
    /// in the table.
    fn call(&mut self, limit: usize, timeout: Option<Duration>) -> Result<Told> {
        let count = chunked_wait(timeout, LONGEST_IN_MS, |piece| {
            let result = self.kernel.kevent(&self.changes, limit, piece);
            self.changes.clear();
            if matches!(result, Ok(_) | Err(Errno::INTR)) {
                self.table.settle();
            }
            result
        });
        let count = count.map_err(|errno| match errno {
            Errno::INTR => Error::Interrupted,
            other => Error::os("kevent")(other),
        })?;
        let mut told = Told::default();
        for index in 0..count {
            let mut event = self.kernel.event(index);
            told.receipts |= event.receipt().is_some();
            if event.is_unexplained_end() && self.kernel.is_connected(event.ident.fd()) {
                // One's own shutdown.
                event.flags &= !flag::EOF;
            }
            if event.id == WAKE {
                told.woken = true;
            } else {
                self.table.gather(&event);
            }
        }
        Ok(told)
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
        match self.make(makes(new.fd, id_of(new), new.interest, new.mode)) {
            Ok(made) => {
                self.table.enter(new);
                if made.is_broken_pipe {
                    // Should there be a knote all the same, the next wait takes it over.
                    self.table.lack_writing(new);
                }
                Ok(())
            }
            Err(errno) => {
                // The other filter may have been taken.
                let _ = self.make(drops(new.fd, id_of(new), new.interest));
                Err(Error::os("kevent(EV_ADD)")(errno))
            }
        }
    }

    /// Makes no call: what is different then goes with the wait.
    fn modify(&mut self, new: &Registration) -> Result<()> {
        if let Err(refused) = refuse_priority(new) {
            let _ = self.remove(new);
            return Err(refused);
        }
        self.table.modify(new);
        Ok(())
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        let known = self.table.leave(old);
        if known.is_empty() {
            return Ok(());
        }
        self.make(drops(old.fd, id_of(old), known))
            .map(drop)
            .map_err(Error::os("kevent(EV_DELETE)"))
    }

    /// The kernel drops the knotes of a descriptor that is closed.
    fn remove_before_close(&mut self, old: &Registration) {
        self.table.leave(old);
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let (mut woken, mut left) = (false, timeout);
        // In turn, the answers to changes (refusals, mostly) or what is ready go first. Otherwise, if
        // there are as many answers each time as there is room, the kernel is not even asked.
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
            let has_news = self.table.news() > 0;
            let at_once = has_news.then_some(Duration::ZERO);
            match self.make_and_wait(room, at_once.or(left)) {
                Ok(told) => {
                    woken |= told.woken;
                    if told.receipts {
                        answers = self.table.news();
                    }
                    if self.table.has_strays() {
                        // A stray is no news, and the call may have waited for it until the
                        // timeout. So the next one drops it, and takes what is there.
                        left = left.map(|_| Duration::ZERO);
                    } else if !told.receipts {
                        break;
                    }
                    // After receipts alone, the kernel has neither waited nor looked for events.
                }
                // It is met again by the next wait, if it lasts.
                Err(_) if has_news => break,
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
            // Not before: until here, it ended each further call at once.
            self.wake.drain();
            events.set_woken();
        } else if is_cut_short {
            // The caller's clock tells how much is left.
            return Err(Error::Interrupted);
        }
        Ok(())
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

/// What became of changes, none of which was refused.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    /// The pipe has no reader: there is no knote for writing, and what it would report is known.
    is_broken_pipe: bool,
}

/// What a call brought, beside what is in the table.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
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
