//! Event ports: illumos and Solaris. The backend was not run there, because no such kernel was at
//! hand. Everything above the calls was run on Linux, over a model of them (`port/fake_kernel.rs`).
//!
//! An association is one-shot: it ends when its event is delivered. So a descriptor that has
//! reported is associated again just before the next wait. If it is ready then, the kernel queues an
//! event at once, which makes it level-triggered. A descriptor that is removed in between costs no
//! call, and one that is changed costs only the call of the change. The poller emulates `Edge` and
//! `Oneshot` by masking: a `Oneshot` is not associated again before it is armed, and an `Edge` whose
//! sides have all reported is associated without flags, which still queues a hang-up. (illumos'
//! sockets report errors as readiness: an error is silent until the rearm.)
//!
//! The backend relies on these facts, from the manual pages and illumos' sources:
//!
//! - A port has one association per descriptor number. It ends when the number is closed, even if a
//!   duplicate is open, and its queued event is dropped. So the table is by number, and the cookie
//!   of an association is not used.
//! - Associating an associated descriptor replaces its flags, drops the queued event, and evaluates
//!   the descriptor afresh.
//! - Events come in the order in which they were queued, so nothing starves with a small buffer.
//! - An event has the readiness of the time when it was queued. It is reported even if others have
//!   read the data since. The next event reports a hang-up that came later.
//! - A `port_getn` that ends by its timeout or by a signal may still have taken events, and may or may
//!   not have updated its count. The first entry of the list shows it.
//!
//! A half-close is not reported: a read returns 0 bytes. The waker is the usual pair of sockets,
//! not `port_send`. [`Waker`] promises that a plain `write` wakes, which cannot do that.
//! `port_send` also fails when the port's queue is full. And a waker may outlive the port, whose
//! number may then be another file's.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, RawFd},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    chunked_wait::{LONGEST_IN_MS, chunked_wait},
    poll_flags::readiness,
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

use kernel::{Kernel, PortEvent, asking};
use watches::Watches;

pub(super) struct EventPorts<K> {
    kernel: K,
    wake: WakeChannel,
    /// True if the waker has reported, and must be associated again.
    wake_is_spent: bool,
    watches: Watches,
    /// The keys that the kernel refused to associate again, and that no wait has reported yet.
    // Invariant: none of these keys is in `watches`.
    lost: Vec<u64>,
    // Invariant: as long as the largest event buffer of a wait so far.
    batch: Vec<PortEvent>,
}

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
impl EventPorts<system::System> {
    pub(super) fn new() -> Result<Self> {
        Self::over(system::System::open()?)
    }
}

impl<K: Kernel> EventPorts<K> {
    fn over(kernel: K) -> Result<Self> {
        let mut ports = Self {
            kernel,
            wake: WakeChannel::new()?,
            wake_is_spent: true,
            watches: Watches::default(),
            lost: Vec::new(),
            batch: Vec::new(),
        };
        ports.watch_waker()?;
        Ok(ports)
    }

    fn wake_fd(&self) -> RawFd {
        self.wake.as_fd().as_raw_fd()
    }

    fn watch_waker(&mut self) -> Result<()> {
        if self.wake_is_spent {
            let fd = self.wake_fd();
            self.kernel
                .associate(fd, asking(Interest::READ))
                .map_err(Error::os("port_associate"))?;
            self.wake_is_spent = false;
        }
        Ok(())
    }

    /// Associates a descriptor for the first time, or with another interest.
    fn watch(&mut self, registration: &Registration) -> Result<()> {
        let fd = registration.fd;
        let flags = asking(registration.interest);
        self.unlist(registration.key);
        match self.kernel.associate(fd, flags) {
            Ok(()) => self.watches.enter(fd, registration.key, flags),
            Err(errno) => {
                self.watches.leave(fd, registration.key);
                return Err(match errno {
                    // No file is open under this number.
                    Errno::BADFD => Error::NotOpen { fd },
                    other => Error::os("port_associate")(other),
                });
            }
        }
        Ok(())
    }

    /// Associates every descriptor again that has reported and is still registered.
    ///
    /// If the kernel refuses one (most likely it was closed), the others are associated all the same.
    fn watch_again(&mut self) {
        while let Some(spent) = self.watches.next_spent() {
            if self.kernel.associate(spent.fd, spent.flags).is_err() {
                self.watches.leave(spent.fd, spent.key);
                self.lost.push(spent.key);
            }
        }
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

    /// Waits for at least one event, and takes at most `limit` into `batch`. Returns their number.
    fn take(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        if self.batch.len() < limit {
            self.batch.resize(limit, PortEvent::default());
        }
        chunked_wait(timeout, LONGEST_IN_MS, |chunk| {
            let batch = &mut self.batch[..limit];
            // A call that fails may leave the count at the 1 that it asks for. The count is true
            // only if the call also wrote an entry.
            batch[0].source = 0;
            let mut count = 1;
            let outcome = self.kernel.getn(batch, &mut count, chunk);
            let taken = match batch[0].source {
                0 => 0,
                _ => limit.min(count as usize),
            };
            match outcome {
                Ok(()) | Err(Errno::TIME) => Ok(taken),
                // The taken events are not queued any more, and would be lost.
                Err(Errno::INTR) if taken > 0 => Ok(taken),
                Err(errno) => Err(errno),
            }
        })
    }

    /// Reports the first `taken` of `batch`. Returns whether an event was reported.
    fn report(&mut self, taken: usize, events: &mut EventSink<'_>) -> bool {
        let mut news = false;
        for index in 0..taken {
            let event = self.batch[index];
            let Some(fd) = event.descriptor() else {
                continue;
            };
            if fd == self.wake_fd() {
                self.wake_is_spent = true;
                // If the poller has already found the wake by its flag, this is not another one.
                if self.wake.drain() {
                    events.set_woken();
                    news = true;
                }
            } else if let Some(key) = self.watches.spend(fd) {
                events.push(key, readiness(event.events));
                news = true;
            }
        }
        news
    }
}

impl<K: Kernel> Backend for EventPorts<K> {
    fn name(&self) -> &'static str {
        "port"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn add(&mut self, new: &Registration) -> Result<()> {
        self.watch(new)
    }

    fn modify(&mut self, new: &Registration) -> Result<()> {
        self.watch(new)
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        self.unlist(old.key);
        if !self.watches.leave(old.fd, old.key) {
            // The descriptor is not associated, because it has just reported or the kernel has
            // refused it.
            return Ok(());
        }
        match self.kernel.dissociate(old.fd) {
            // The descriptor was closed, and its number is another file's.
            Err(Errno::NOENT) => Ok(()),
            // No file is open under this number.
            Err(Errno::BADFD) => Err(Error::NotOpen { fd: old.fd }),
            result => result.map_err(Error::os("port_dissociate")),
        }
    }

    /// Makes no call: the kernel drops the association of a descriptor that is closed.
    fn remove_before_close(&mut self, old: &Registration) {
        self.unlist(old.key);
        self.watches.leave(old.fd, old.key);
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        self.watch_again();
        let before = events.remaining();
        self.report_lost(&mut events);
        let has_news = events.remaining() < before;
        let mut left = if has_news {
            Some(Duration::ZERO)
        } else {
            timeout
        };
        let mut is_cut_short = false;
        while events.remaining() > 0 {
            // This comes each time, because the event may not have been a wake. Without an
            // association no wake ends the wait.
            match self.watch_waker() {
                Err(_) if has_news => break,
                result => result?,
            }
            match self.take(events.remaining(), left) {
                Ok(0) => break,
                Ok(taken) => {
                    if self.report(taken, &mut events) {
                        is_cut_short = false;
                        break;
                    }
                    // The events are only of strays, which were removed before a close, but not
                    // closed. Each comes once, so the loop ends. They may have used up the timeout,
                    // so only present events are taken now.
                    is_cut_short |= left.is_some_and(|left| !left.is_zero());
                    left = left.map(|_| Duration::ZERO);
                }
                // If it lasts, the next wait returns it.
                Err(_) if has_news => break,
                // A signal's handler has run.
                Err(Errno::INTR) => return Err(Error::Interrupted),
                Err(errno) => return Err(Error::os("port_getn")(errno)),
            }
        }
        #[cfg(test)]
        self.verify();
        if is_cut_short {
            // The poller measures the time that is left.
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

#[cfg(test)]
impl<K> EventPorts<K> {
    /// Panics if an invariant does not hold.
    fn verify(&self) {
        self.watches.verify();
        for key in &self.lost {
            assert!(!self.watches.holds(*key), "lost, and watched: {key:#x}");
        }
    }
}

impl<K: Kernel> fmt::Debug for EventPorts<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventPorts")
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}
