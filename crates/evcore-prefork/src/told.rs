//! What a worker was told, and the descriptor that is to be rung for it.
//!
//! Atomics alone, so that a signal handler may use them; nothing here makes a system call.
//! One side tells and then looks for a descriptor; the other sets a descriptor and then looks for
//! what was told: so at least one of the two sees the other, and no news is missed.

use std::os::fd::RawFd;

use crate::sync::{AtomicI32, AtomicU8, AtomicU32, Ordering, fence};

/// No descriptor.
pub(crate) const NOWHERE: RawFd = -1;

/// The news for one worker, or for a master.
#[derive(Debug)]
pub(crate) struct Told {
    /// The greatest severity of the stops that were asked for; 0 if none was.
    pub(crate) stop: AtomicU8,
    pub(crate) reopens: AtomicU32,
    /// What is rung, or `NOWHERE`.
    pub(crate) wake: AtomicI32,
}

impl Told {
    /// Notes a stop, which only ever gets more severe. Returns the descriptor to ring.
    #[must_use]
    pub(crate) fn stop(&self, severity: u8) -> Option<RawFd> {
        self.stop.fetch_max(severity, Ordering::Release);
        self.bell()
    }

    /// Notes that the logs are to be opened again. Returns the descriptor to ring.
    #[must_use]
    pub(crate) fn reopen(&self) -> Option<RawFd> {
        self.reopens.fetch_add(1, Ordering::Release);
        self.bell()
    }

    /// Rings `fd` from now on. Says whether to ring it at once, for what was told before.
    #[must_use]
    pub(crate) fn wake_by(&self, fd: RawFd) -> bool {
        self.wake.store(fd, Ordering::Release);
        // With the fence in `bell`: whoever comes second sees what the first has stored.
        fence(Ordering::SeqCst);
        self.severity() != 0 || self.reopens() != 0
    }

    pub(crate) fn severity(&self) -> u8 {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn reopens(&self) -> u32 {
        self.reopens.load(Ordering::Acquire)
    }

    /// The descriptor to ring, if there is one, after something was noted.
    pub(crate) fn bell(&self) -> Option<RawFd> {
        fence(Ordering::SeqCst);
        let fd = self.wake.load(Ordering::Acquire);
        (fd != NOWHERE).then_some(fd)
    }
}
