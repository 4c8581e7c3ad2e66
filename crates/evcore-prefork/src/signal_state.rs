//! The requests that signals have made to this process, and the descriptor that the handlers write
//! to.
//!
//! The state consists of atomics and makes no system call, so a signal handler may use it. A
//! handler stores a request and then loads the descriptor. The process stores the descriptor and
//! then loads the requests. So at least one of the two sees the other's store, and no request is
//! missed.

use std::os::fd::RawFd;

use crate::sync::{AtomicI32, AtomicU8, AtomicU32, Ordering, fence};

/// The value for no descriptor.
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
    /// Stores a stop, which only ever gets more severe. Returns the descriptor to write to.
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

    /// Sets the descriptor. Returns whether to write to it at once, for an earlier request.
    #[must_use]
    pub(crate) fn set_wake_fd(&self, fd: RawFd) -> bool {
        self.wake_fd.store(fd, Ordering::Release);
        // Together with the fence in `wake_fd`: the side that fences second sees all that the first
        // has stored.
        fence(Ordering::SeqCst);
        self.severity() != 0 || self.reopen_count() != 0
    }

    pub(crate) fn severity(&self) -> u8 {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn reopen_count(&self) -> u32 {
        self.reopen_count.load(Ordering::Acquire)
    }

    /// The descriptor to write to after a request was stored; `None` if it was not set.
    pub(crate) fn wake_fd(&self) -> Option<RawFd> {
        fence(Ordering::SeqCst);
        let fd = self.wake_fd.load(Ordering::Acquire);
        (fd != NO_FD).then_some(fd)
    }
}
