//! `/dev/poll`: illumos and Solaris. The backend was not run there, because no such kernel was at
//! hand. Everything above the calls was run on Linux, over a model of the device
//! (`devpoll/fake_kernel.rs`).
//!
//! The device is a poll whose array the kernel keeps: a `write` changes it, and `ioctl(DP_POLL)`
//! returns the entries that are ready. It is level-triggered. The poller emulates `Edge` and
//! `Oneshot` by masking. Event ports replace it, and are preferred.
//!
//! All changes since the last wait go to the device in one write (of at most 128 entries), just before
//! the next wait. Nothing else can watch the device, so nothing could notice them earlier.
//!
//! The backend relies on these facts, from the manual page poll(4D) and from illumos' `devpoll.c`:
//!
//! - The device has one entry per descriptor number. A close does not remove it, only a write of
//!   `POLLREMOVE` does. So each removal is written, even before a close.
//! - A second write of an entry adds its flags to those of the first. So `POLLREMOVE` precedes each
//!   change, in the same write.
//! - `POLLREMOVE` with any other flag is not a removal. An entry that does not exist is removed without
//!   an error.
//! - An entry whose descriptor was closed is reported as `POLLNVAL`, in each call until it is removed.
//!   (It may be silent if the descriptor was idle, and a duplicate is open.) The backend reports it
//!   once and removes the entry.
//! - If the number was assigned to another file meanwhile, that file is watched by mistake.
//! - A number without an open file is accepted, and never reported. So `add` checks that it is open.
//!   If it is closed between that check and the write, the device keeps the flags. No `POLLREMOVE`
//!   drops them, and they are added to those of the number's next file. So the backend reports only
//!   the flags of the registration. If it finds others, it writes the entry afresh.
//! - A file that refuses to be watched ends the write, which fails. The entries before it are applied.
//! - A write or a list that is longer than the limit of descriptors is refused (`EINVAL`).
//! - Each call looks for ready entries from the one behind the last reported one on, so nothing
//!   starves with a small buffer.
//! - A forked child gets `EACCES` for each call. The poller refuses to work there anyway.
//! - The device itself cannot be polled (`POLLERR`), so it is not lent.
//!
//! A half-close is not reported: a read returns 0 bytes.

use std::{
    ffi::c_short,
    fmt,
    os::fd::{AsFd, AsRawFd, RawFd},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    chunked_wait::{LONGEST_IN_MS, chunked_wait, in_ms},
    poll_flags::{asking, readiness},
};
use crate::{
    backend::{Backend, Capabilities, Registration},
    error::{Error, Result},
    event_sink::EventSink,
    interest::Interest,
    ready::Ready,
    waker::{WakeChannel, Waker},
};

mod kernel;
mod watches;

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
mod system;

#[cfg(test)]
mod fake_kernel;
#[cfg(test)]
mod tests;

use kernel::{Kernel, entry};
use watches::Watches;

/// The most descriptors that one write changes, with two entries each. A limit on descriptors, of
/// which 256 is usual, limits a write too.
const AT_ONCE: usize = 64;

/// The flags that poll reports without a request.
const UNREQUESTED: c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

pub(super) struct DevPoll<K> {
    kernel: K,
    wake: WakeChannel,
    watches: Watches,
    /// Keys that the device refused, and that no wait has reported yet.
    // Invariant: none of these keys is in `watches`.
    lost: Vec<u64>,
    /// True if the last wait that had lost keys put them behind the ready descriptors.
    ready_was_first: bool,
    /// The entries of one write; kept for its allocation.
    changes: Vec<libc::pollfd>,
    /// The events that a call has found; as long as the longest list of a wait so far.
    found: Vec<libc::pollfd>,
}

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
impl DevPoll<system::System> {
    pub(super) fn new() -> Result<Self> {
        Self::over(system::System::open()?)
    }
}

impl<K: Kernel> DevPoll<K> {
    fn over(mut kernel: K) -> Result<Self> {
        let wake = WakeChannel::new()?;
        let waker = entry(wake.as_fd().as_raw_fd(), asking(Interest::READ));
        kernel.write(&[waker]).map_err(write_error)?;
        Ok(Self {
            kernel,
            wake,
            watches: Watches::default(),
            lost: Vec::new(),
            ready_was_first: false,
            changes: Vec::new(),
            found: Vec::new(),
        })
    }

    fn wake_fd(&self) -> RawFd {
        self.wake.as_fd().as_raw_fd()
    }

    /// Watches a descriptor that is not watched yet.
    fn watch(&mut self, new: &Registration) -> Result<()> {
        self.unlist(new.key);
        if new.fd == self.wake_fd() {
            // Its entry would replace the waker's.
            return Err(Error::AlreadyWatched { fd: new.fd });
        }
        // The device accepts every number, and is silent about one that is not open.
        self.kernel
            .is_open(new.fd)
            .map_err(Error::os("fcntl(F_GETFD)"))?;
        self.watches.enter(new.fd, new.key, asking(new.interest));
        Ok(())
    }

    /// Writes all changes to the device.
    fn flush(&mut self) -> Result<(), Errno> {
        while let Some(count) = self.watches.pending(AT_ONCE) {
            self.changes.clear();
            self.watches.changes(count, &mut self.changes);
            if self.changes.is_empty() || self.kernel.write(&self.changes).is_ok() {
                self.watches.mark_written(count);
            } else {
                self.flush_each(count)?;
            }
        }
        Ok(())
    }

    /// Writes the last `count` changes one by one, so that a refused one is found and hides no other.
    #[cold]
    fn flush_each(&mut self, count: usize) -> Result<(), Errno> {
        for _ in 0..count {
            self.changes.clear();
            self.watches.changes(1, &mut self.changes);
            let written = match self.changes.is_empty() {
                true => Ok(()),
                false => self.kernel.write(&self.changes),
            };
            match written {
                Ok(()) => self.watches.mark_written(1),
                // A signal's handler has run, or this is a forked child. The error does not concern
                // the descriptor.
                Err(errno @ (Errno::INTR | Errno::ACCESS)) => return Err(errno),
                Err(errno) => match self.watches.drop_refused() {
                    Some(key) => self.lost.push(key),
                    None => return Err(errno),
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

    /// Waits, and reports the entries that the device has found.
    fn poll(&mut self, events: &mut EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        if events.remaining() == 0 {
            return Ok(());
        }
        let count = self.call(events.remaining(), timeout)?;
        if count == 0 || self.report(count, events) {
            return Ok(());
        }
        if self.poll_past_strays(events)? || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        // The poller measures the time that is left.
        Err(Error::Interrupted)
    }

    /// Reports the ready entries behind strays. A stray is an entry that has nothing to report
    /// although a call has found it. Returns whether an event was reported.
    #[cold]
    fn poll_past_strays(&mut self, events: &mut EventSink<'_>) -> Result<bool> {
        // The loop goes at most once around the entries, because a file may go on reporting flags
        // that were not requested.
        for _ in 0..=self.watches.len() {
            self.flush().map_err(write_error)?;
            let count = self.call(events.remaining(), Some(Duration::ZERO))?;
            if count == 0 {
                break;
            }
            if self.report(count, events) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until an entry is ready, and returns how many of the first `limit` places of `found` it
    /// has filled.
    fn call(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize> {
        // The list has no more places than entries exist, one of which is the waker's. The kernel
        // refuses a list that is longer than the limit of descriptors.
        let room = limit.min(self.watches.len() + 1);
        if self.found.len() < room {
            self.found.resize(room, entry(-1, 0));
        }
        let count = chunked_wait(timeout, LONGEST_IN_MS, |chunk| {
            self.kernel.poll(&mut self.found[..room], in_ms(chunk))
        });
        count.map_err(|errno| match errno {
            // A signal's handler has run.
            Errno::INTR => Error::Interrupted,
            other => Error::os("ioctl(DP_POLL)")(other),
        })
    }

    /// Reports the first `count` of the found entries. Returns whether an event was reported.
    fn report(&mut self, count: usize, events: &mut EventSink<'_>) -> bool {
        let mut has_news = false;
        for index in 0..count {
            let libc::pollfd { fd, revents, .. } = self.found[index];
            if fd == self.wake_fd() {
                // A wake that the poller has found by its flag is not another one.
                if self.wake.drain() {
                    events.set_woken();
                    has_news = true;
                }
                continue;
            }
            let Some(watch) = self.watches.get(fd) else {
                self.watches.renew(fd);
                continue;
            };
            let reported = revents & (watch.flags | UNREQUESTED);
            if reported != revents {
                self.watches.renew(fd);
            }
            if reported & libc::POLLNVAL != 0 {
                // The descriptor was closed without being removed.
                self.watches.leave(fd, watch.key);
            }
            if reported != 0 {
                events.push(watch.key, readiness(reported));
                has_news = true;
            }
        }
        has_news
    }
}

impl<K: Kernel> Backend for DevPoll<K> {
    fn name(&self) -> &'static str {
        "devpoll"
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
        if !self.watches.holds(new.fd, new.key) {
            return self.watch(new);
        }
        self.watches.enter(new.fd, new.key, asking(new.interest));
        Ok(())
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        self.remove_before_close(old);
        Ok(())
    }

    /// Removes the entry like any other, because a close does not remove it.
    fn remove_before_close(&mut self, old: &Registration) {
        self.unlist(old.key);
        self.watches.leave(old.fd, old.key);
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        self.flush().map_err(write_error)?;
        #[cfg(test)]
        self.verify();
        if self.lost.is_empty() {
            return self.poll(&mut events, timeout);
        }
        // Lost keys and ready descriptors take turns in coming first. Otherwise, if each wait had
        // as many lost keys as there is room, no ready descriptor would ever be reported.
        self.ready_was_first = !self.ready_was_first;
        if !self.ready_was_first {
            self.report_lost(&mut events);
        }
        // An error here would lose the reported keys. If it lasts, the next wait returns it.
        let _ = self.poll(&mut events, Some(Duration::ZERO));
        self.report_lost(&mut events);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

#[cfg(test)]
impl<K> DevPoll<K> {
    /// Panics if an invariant does not hold.
    fn verify(&self) {
        self.watches.verify();
        for key in &self.lost {
            assert!(!self.watches.has(*key), "lost, and watched: {key:#x}");
        }
    }
}

impl<K: Kernel> fmt::Debug for DevPoll<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevPoll")
            .field("kernel", &self.kernel)
            .field("watched", &self.watches.len())
            .finish_non_exhaustive()
    }
}

fn write_error(errno: Errno) -> Error {
    match errno {
        // A signal's handler has run.
        Errno::INTR => Error::Interrupted,
        other => Error::os("write(/dev/poll)")(other),
    }
}
