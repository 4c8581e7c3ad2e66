//! Wake-ups between the master and a worker that is a thread.

use std::{
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

/// A descriptor that wakes a worker or the master when it is written to.
pub(crate) trait Wake {
    /// Ends the reader's present or next wait. Errors are ignored, because a full pipe has woken
    /// its reader already.
    fn wake(&self);
}

/// The descriptor of the worker's loop: an eventfd, a pipe or a socket.
impl Wake for OwnedFd {
    fn wake(&self) {
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }
}

/// The master's self-pipe.
impl Wake for UnixStream {
    fn wake(&self) {
        let _ = (&*self).write(&1u64.to_ne_bytes());
    }
}
