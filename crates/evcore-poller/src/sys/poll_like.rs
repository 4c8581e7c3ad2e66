//! The backend over kernels whose interface uses poll's flags: event ports, `/dev/poll`, and poll
//! itself. The poller emulates `Edge` and `Oneshot` by masking: after a report, it stops watching
//! the reported side of an `Edge`, or all sides of a `Oneshot`.
//!
//! A change goes at once into a table indexed by descriptor number ([`watches`]), and mostly
//! reaches the kernel just before a wait. The trait [`Kernel`](kernel::Kernel) has the differences
//! between the kernels.
//!
//! - A change that the kernel refuses is reported as an event with an error, and ends the watch.
//!   The other changes are made nevertheless.
//! - If the kernel reports that a watched number is closed (`POLLNVAL`), the backend reports that
//!   once, and ends the watch.
//! - The waker is the usual channel, watched as a row of the table. The kernel's own ways to end a
//!   wait are not used, because [`Waker`] promises that a plain `write` ends it.
//! - A *stray* is a report of a file that is not watched. A stray is ignored, and the wait goes on,
//!   or returns [`Error::Interrupted`], so that the poller waits for the time that is left.

use std::{
    ffi::c_short,
    fmt,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use rustix::io::Errno;

use super::chunked_wait::{LONGEST_IN_MS, chunked_wait};
use crate::{
    backend::{Backend, Capabilities, Registration},
    error::{Error, Result},
    event_sink::EventSink,
    interest::Interest,
    ready::Ready,
    waker::{WakeChannel, Waker},
};

pub(super) mod flags;
mod kernel;
mod watches;

#[cfg(any(
    target_os = "illumos",
    target_os = "solaris",
    all(test, target_os = "linux")
))]
pub(super) mod devpoll;
pub(super) mod poll;
#[cfg(any(
    target_os = "illumos",
    target_os = "solaris",
    all(test, target_os = "linux")
))]
pub(super) mod port;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use flags::{UNREQUESTED, readiness, requested_flags};
use kernel::{Change, Kernel};
use watches::{WAKE, Watches};

pub(super) struct PollLike<K> {
    kernel: K,
    wake: WakeChannel,
    watches: Watches,
    /// The keys of registrations that the kernel refused, if no wait has reported the refusal yet.
    // Invariant: none of these keys is in `watches`.
    lost: Vec<u64>,
    /// True if the last wait had lost keys, and reported them after the ready descriptors.
    ready_was_first: bool,
    /// The list of changes, kept for its allocation.
    changes: Vec<Change>,
}

impl<K: Kernel> PollLike<K> {
    pub(super) fn over(kernel: K) -> Result<Self> {
        let mut backend = Self {
            kernel,
            wake: WakeChannel::new()?,
            watches: Watches::default(),
            lost: Vec::new(),
            ready_was_first: false,
            changes: Vec::new(),
        };
        let fd = backend.wake.as_fd().as_raw_fd();
        backend
            .watches
            .enter(fd, WAKE, requested_flags(Interest::READ));
        backend.flush()?;
        Ok(backend)
    }

    /// Watches a descriptor that is not watched yet.
    fn watch(&mut self, new: &Registration) -> Result<()> {
        if self.watches.holds(new.fd, WAKE) {
            // Watching this descriptor would end the watch of the waker.
            return Err(Error::AlreadyWatched { fd: new.fd });
        }
        let flags = flags::<K>(new);
        let is_kept = self.kernel.begin(new.fd, flags)?;
        self.watches.enter(new.fd, new.key, flags);
        if is_kept {
            self.watches.mark_applied(new.fd);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let mut at_once = K::AT_ONCE;
        while let Some(count) = self.watches.pending(at_once) {
            self.changes.clear();
            self.changes.extend(self.watches.changes(count));
            let applied = match self.changes.is_empty() {
                true => Ok(()),
                false => self.kernel.apply(&self.changes),
            };
            match applied {
                Ok(()) => self.watches.pop_applied(count),
                // From now on the changes are applied one by one, so that the refused change is
                // found, and no other change is lost.
                Err(_) if count > 1 => at_once = 1,
                // A signal's handler has run, or this is a forked child. The error does not concern
                // the descriptor.
                Err(errno @ (Errno::INTR | Errno::ACCESS)) => {
                    return Err(Error::of_wait(K::CALLS.apply, errno));
                }
                Err(errno) => match self.watches.pop_refused() {
                    Some(key) => self.lost.push(key),
                    None => return Err(Error::of_wait(K::CALLS.apply, errno)),
                },
            }
        }
        Ok(())
    }

    fn report_lost(&mut self, events: &mut EventSink<'_>) {
        let count = events.remaining().min(self.lost.len());
        for key in self.lost.drain(..count) {
            events.push(key, Ready::ERROR);
        }
    }

    fn unlist(&mut self, key: u64) {
        self.lost.retain(|lost| *lost != key);
    }

    fn collect(&mut self, events: &mut EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let room = events.remaining().min(self.watches.len());
        if room == 0 {
            return Ok(());
        }
        let mut left = timeout;
        // The number of calls is limited, because a file may go on reporting flags that were not
        // requested.
        for _ in 0..=self.watches.numbers() {
            let count = chunked_wait(left, LONGEST_IN_MS, |chunk| self.kernel.wait(room, chunk))
                .map_err(|errno| Error::of_wait(K::CALLS.wait, errno))?;
            if count == 0 {
                break;
            }
            if self.report(count, events) {
                return Ok(());
            }
            // The reports were strays, or of a wake that was reported before. The call may have
            // used up the timeout. `flush` watches the waker again, and the next call takes the
            // present reports.
            left = left.map(|_| Duration::ZERO);
            self.flush()?;
            if !self.lost.is_empty() {
                return Err(Error::Interrupted);
            }
        }
        if left == timeout && timeout.is_some() {
            return Ok(());
        }
        // This error makes the poller wait again, for the time that is left.
        Err(Error::Interrupted)
    }

    /// Reports the first `count` of the watches that were found. Returns whether an event was
    /// reported.
    fn report(&mut self, count: usize, events: &mut EventSink<'_>) -> bool {
        let mut has_pending = false;
        for index in 0..count {
            let (fd, found) = self.kernel.found(index);
            let watch = self.watches.get(fd);
            let requested = watch.map_or(0, |watch| watch.flags | UNREQUESTED);
            if K::REPORTS_ONCE || found & !requested != 0 {
                self.watches.renew(fd, !K::REPORTS_ONCE);
            }
            let Some(watch) = watch.filter(|_| found & requested != 0) else {
                continue;
            };
            if watch.key == WAKE {
                // If the poller has already found the wake by its flag, this is not another one.
                if self.wake.drain() {
                    events.set_woken();
                    has_pending = true;
                }
                continue;
            }
            if found & libc::POLLNVAL != 0 {
                // The descriptor was closed without being removed.
                self.watches.leave(fd, watch.key);
            }
            let mut ready = readiness(found & requested);
            if found & K::HALF_CLOSE != 0 {
                ready |= Ready::READ_CLOSED;
            }
            events.push(watch.key, ready);
            has_pending = true;
        }
        has_pending
    }

    /// Ends at once a watch that the kernel has.
    fn end(&mut self, old: &Registration) -> Result<()> {
        let change = Change {
            fd: old.fd,
            is_kept: true,
            flags: None,
        };
        self.watches.renew(old.fd, false);
        let ended = self.kernel.apply(&[change]);
        ended.map_err(Error::os(K::CALLS.apply))
    }
}

impl<K: Kernel> Backend for PollLike<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            batches_changes: true,
            ..Capabilities::default()
        }
    }

    fn add(&mut self, new: &Registration) -> Result<()> {
        self.watch(new)
    }

    fn modify(&mut self, new: &Registration) -> Result<()> {
        if new.interest.is_empty() && new.ends.is_empty() {
            return self.remove(new);
        }
        if self.watches.holds(new.fd, new.key) {
            self.watches.enter(new.fd, new.key, flags::<K>(new));
            return Ok(());
        }
        self.unlist(new.key);
        if self.watch(new).is_err() {
            // The refusal is not returned as an error of this call. Otherwise the poller would
            // alternate refusals with ready descriptors, although `wait` already does so.
            self.lost.push(new.key);
        }
        Ok(())
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        self.unlist(old.key);
        let is_kept = self.watches.leave(old.fd, old.key);
        if is_kept && K::DROPS_CLOSED {
            return self.end(old);
        }
        Ok(())
    }

    /// Ends the watch. The next wait ends it in the kernel, too, unless the close does that.
    fn remove_before_close(&mut self, old: &Registration) {
        self.unlist(old.key);
        if self.watches.leave(old.fd, old.key) && K::DROPS_CLOSED {
            self.watches.renew(old.fd, false);
        }
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        self.flush()?;
        #[cfg(test)]
        self.verify();
        if self.lost.is_empty() {
            self.ready_was_first = false;
            return self.collect(&mut events, timeout);
        }
        // Ready descriptors and lost keys come first in alternate waits. Otherwise, if each wait
        // had as many lost keys as fit into the buffer, no ready descriptor would ever be reported.
        self.ready_was_first = !self.ready_was_first;
        if !self.ready_was_first {
            self.report_lost(&mut events);
        }
        // Returning the error here would lose the reported keys. If the error lasts, a later wait
        // returns it.
        let _ = self.collect(&mut events, Some(Duration::ZERO));
        self.report_lost(&mut events);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

#[cfg(test)]
impl<K> PollLike<K> {
    fn verify(&self) {
        self.watches.verify();
        for key in &self.lost {
            assert!(!self.watches.has(*key), "lost, and watched: {key:#x}");
        }
    }
}

impl<K: Kernel> fmt::Debug for PollLike<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollLike")
            .field("kernel", &self.kernel)
            .field("watched", &(self.watches.len() - 1))
            .finish_non_exhaustive()
    }
}

fn flags<K: Kernel>(registration: &Registration) -> c_short {
    let flags = requested_flags(registration.interest);
    match registration.ends.is_read_closed() {
        true => flags | K::HALF_CLOSE,
        false => flags,
    }
}
