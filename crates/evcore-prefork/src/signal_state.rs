//! The requests that signals have made to this process, and the descriptor that the handlers write
//! to.
//!
//! A signal handler may use the state, which consists of atomics. A handler stores a request and
//! then loads the descriptor. The process stores the descriptor and then loads the requests. So at
//! least one of the two sees the other's store, and no request is missed.

use std::os::fd::RawFd;

use crate::sync::{AtomicI32, AtomicU8, AtomicU32, Ordering, fence};

pub(crate) const NO_FD: RawFd = -1;

/// The requests to one process, worker or master.
#[derive(Debug)]
pub(crate) struct SignalState {
    /// The greatest severity of the stops that were requested; 0 if none was.
    pub(crate) stop: AtomicU8,
    pub(crate) reopen_count: AtomicU32,
    /// The descriptor that handlers write to, or `NO_FD`.
    pub(crate) wake_fd: AtomicI32,
}

impl SignalState {
    /// Stores a stop, unless a harder one was stored. Returns the descriptor to write to.
    #[must_use]
    pub(crate) fn request_stop(&self, severity: u8) -> Option<RawFd> {
        self.stop.fetch_max(severity, Ordering::Release);
        self.wake_fd()
    }

    /// Stores a request to open the logs again. Returns the descriptor to write to.
    #[must_use]
    pub(crate) fn request_reopen(&self) -> Option<RawFd> {
        self.reopen_count.fetch_add(1, Ordering::Release);
        self.wake_fd()
    }

    /// Sets the descriptor. Returns true if it must be written to at once because of an earlier
    /// request.
    #[must_use]
    pub(crate) fn set_wake_fd(&self, fd: RawFd) -> bool {
        self.wake_fd.store(fd, Ordering::Release);
        // Together with the fence in `wake_fd`: the side whose fence comes second sees all that the
        // other side has stored before the first fence.
        fence(Ordering::SeqCst);
        self.severity() != 0 || self.reopen_count() != 0
    }

    pub(crate) fn severity(&self) -> u8 {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn reopen_count(&self) -> u32 {
        self.reopen_count.load(Ordering::Acquire)
    }

    /// The descriptor to write to after a request was stored, if any was set.
    pub(crate) fn wake_fd(&self) -> Option<RawFd> {
        fence(Ordering::SeqCst);
        let fd = self.wake_fd.load(Ordering::Acquire);
        (fd != NO_FD).then_some(fd)
    }
}
