//! What a worker knows of itself, and how it learns that it is to stop.

use std::{
    num::NonZeroU32,
    os::fd::{AsFd, AsRawFd},
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    process::getpid,
};

use crate::{
    Error, Result,
    signals::{self, Handlers},
};

/// How to stop.
///
/// ```
/// use evcore_prefork::Stop;
///
/// assert!(Stop::Graceful < Stop::Fast);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stop {
    /// QUIT: finish what is under way, take on nothing new.
    Graceful,
    /// TERM or INT: now. A second later comes KILL.
    Fast,
}

/// The worker that this process is.
///
/// It is told to stop by TERM, INT and QUIT, whether its master sends them, the terminal or an
/// operator, and by the death of its master ([where that is known](crate#the-masters-death)).
///
/// A worker that stops though its master was not told to is replaced.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Supervisor, Worker};
///
/// Supervisor::new(4).run(|worker: Worker| {
///     assert!(worker.index() < 4);
///     assert_eq!(worker.pid().get(), std::process::id());
///     DO_NOT_RESTART
/// })?;
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Debug)]
pub struct Worker {
    index: usize,
    pid: NonZeroU32,
}

impl Worker {
    /// A worker without a master: this process, with index 0.
    ///
    /// For a server that serves in the process it was started in, by the code that its workers
    /// would run. The process may have threads. Its handlers stay for as long as it lives, and
    /// TERM, INT and QUIT are unblocked for the calling thread.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] if the process has a `Worker` or runs a
    /// [`Supervisor`](crate::Supervisor), [`Error::Os`] if no handler could be installed.
    ///
    /// ```
    /// use evcore_prefork::Worker;
    ///
    /// let worker = Worker::solo()?;
    /// assert_eq!(worker.index(), 0);
    /// assert_eq!(worker.stop(), None);
    /// # Ok::<(), evcore_prefork::Error>(())
    /// ```
    pub fn solo() -> Result<Self> {
        Handlers::install()?.keep();
        Ok(Self::new(0))
    }

    pub(crate) fn new(index: usize) -> Self {
        let pid = getpid().as_raw_nonzero().unsigned_abs();
        Self { index, pid }
    }

    /// From 0 to the number of workers, less one. A replacement has the index of the dead.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// This process's id.
    #[must_use]
    pub fn pid(&self) -> NonZeroU32 {
        self.pid
    }

    /// The stop that was asked for, if one was.
    ///
    /// It is never taken back, and changes only from graceful to fast. Costs a load: ask it every
    /// turn.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        signals::stop()
    }

    /// Makes each stop signal wake an event loop: its handler writes eight bytes (the number 1 in
    /// native order) to `fd`.
    ///
    /// `fd` is whatever the loop watches, or the other end of it: a poller's waker, an eventfd, a
    /// pipe, a socket. A stop that was asked for before is written at once, so none is missed.
    /// It is duplicated; the duplicate is not closed as long as the process lives. The last call
    /// counts.
    ///
    /// # Errors
    ///
    /// [`Error::Blocking`] if `fd` is not non-blocking, for a handler must not wait until a full
    /// pipe is read; [`Error::Os`] if it could not be duplicated.
    ///
    /// ```
    /// use std::{io::Read, os::unix::net::UnixStream};
    /// use evcore_prefork::{Stop, Worker};
    ///
    /// let worker = Worker::solo()?;
    /// let (mut bell, rope) = UnixStream::pair()?;
    /// rope.set_nonblocking(true)?;
    /// worker.wake_fd(&rope)?;
    ///
    /// signal_hook::low_level::raise(signal_hook::consts::SIGQUIT)?;
    /// let mut bytes = [0; 8];
    /// bell.read_exact(&mut bytes)?;
    /// assert_eq!(u64::from_ne_bytes(bytes), 1);
    /// assert_eq!(worker.stop(), Some(Stop::Graceful));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wake_fd(&self, fd: impl AsFd) -> Result<()> {
        let fd = fd.as_fd();
        let flags = fcntl_getfl(fd).map_err(Error::os("fcntl"))?;
        if !flags.contains(OFlags::NONBLOCK) {
            return Err(Error::Blocking { fd: fd.as_raw_fd() });
        }
        signals::wake_by(fd.try_clone_to_owned().map_err(Error::os("dup"))?);
        Ok(())
    }
}
