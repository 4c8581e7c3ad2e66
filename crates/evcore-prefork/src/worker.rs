//! What a worker knows of itself, and how it learns that it is to stop.

use std::{
    num::NonZeroU32,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    process::getpid,
};

use crate::{
    Affinity, Error, Result, leash,
    letterbox::Letterbox,
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

impl Stop {
    /// The harder it is, the greater; never 0.
    pub(crate) const fn severity(self) -> u8 {
        match self {
            Self::Graceful => 1,
            Self::Fast => 2,
        }
    }

    pub(crate) const fn of(severity: u8) -> Option<Self> {
        match severity {
            0 => None,
            1 => Some(Self::Graceful),
            _ => Some(Self::Fast),
        }
    }
}

/// The worker that this process is, or this thread.
///
/// A process is told to stop by TERM, INT and QUIT, whether its master sends them, the terminal or
/// an operator, and by the [death of its master](crate#the-masters-death). A thread is told by its
/// [`Threads`](crate::Threads).
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
    seat: usize,
    pid: NonZeroU32,
    post: Post,
    pin_error: Option<Error>,
}

/// Whom a worker hears from, and whom it tells.
#[derive(Debug)]
pub(crate) enum Post {
    /// Signals; nobody.
    Solo,
    /// Signals; the master, over the leash.
    Process,
    /// The master's thread.
    Thread(Arc<Letterbox>),
}

impl Worker {
    /// A worker without a master: this process, with index 0.
    ///
    /// For a server that serves in the process it was started in, by the code that its workers
    /// would run. The process may have threads. Its handlers stay for as long as it lives, and
    /// TERM, INT, QUIT and USR1 are unblocked for the calling thread. All other signals, also those
    /// that are for masters, keep the effect that they had, and stay blocked if they were.
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
        Handlers::install()?.serve_alone();
        Ok(Self::new(0, 0, Post::Solo))
    }

    pub(crate) fn new(index: usize, seat: usize, post: Post) -> Self {
        Self {
            index,
            seat,
            pid: getpid().as_raw_nonzero().unsigned_abs(),
            post,
            pin_error: None,
        }
    }

    /// Keeps this thread on its CPUs, if it has any.
    pub(crate) fn pin(&mut self, affinity: Option<&Affinity>) {
        let pinned = affinity.map(|affinity| affinity.of(self.index).stay());
        self.pin_error = pinned.and_then(Result::err);
    }

    /// From 0 to the number of workers, less one. A replacement has the index of the dead, and
    /// during a reload an old worker and a new one have the same.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// A number that no other living worker of this master has, below
    /// [`Supervisor::seats`](crate::Supervisor::seats): what to write to shared memory by.
    ///
    /// A replacement has the seat of the dead.
    #[must_use]
    pub fn seat(&self) -> usize {
        self.seat
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
        Stop::of(match &self.post {
            Post::Thread(letterbox) => letterbox.severity(),
            Post::Solo | Post::Process => signals::here().severity(),
        })
    }

    /// How often the logs were to be opened again, by USR1: who finds another number than the last
    /// time opens them. Costs a load.
    #[must_use]
    pub fn reopens(&self) -> u32 {
        match &self.post {
            Post::Thread(letterbox) => letterbox.reopens(),
            Post::Solo | Post::Process => signals::here().reopens(),
        }
    }

    /// Tells the master that this worker serves: during a reload, the old workers are asked to
    /// finish once all new ones have said so (or have lived for the
    /// [timeout](crate::Supervisor::ready_timeout)). The master's
    /// [hook](crate::Supervisor::on_ready) is called.
    ///
    /// Once is enough. Without a master it does nothing.
    pub fn ready(&self) {
        match &self.post {
            Post::Thread(letterbox) => letterbox.tell_ready(),
            Post::Process => leash::tell_ready(),
            Post::Solo => {}
        }
    }

    /// Why this worker is not kept on the CPUs that its [affinity](crate::Supervisor::affinity)
    /// gives it, if it is not: they were taken from the process after the affinity was read.
    #[must_use]
    pub fn pin_error(&self) -> Option<&Error> {
        self.pin_error.as_ref()
    }

    /// Makes each stop signal, and each USR1, wake an event loop: eight bytes (the number 1 in
    /// native order) are written to `fd`, for a process by the signal's handler.
    ///
    /// `fd` is whatever the loop watches, or the other end of it: a poller's waker, an eventfd, a
    /// pipe, a socket. For what was told before it is written at once, so nothing is missed.
    /// It is duplicated; the duplicate is not closed as long as the worker lives. The last call
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
        let flags =
            fcntl_getfl(fd).map_err(Error::os("reading the flags of a descriptor (fcntl)"))?;
        if !flags.contains(OFlags::NONBLOCK) {
            return Err(Error::Blocking { fd: fd.as_raw_fd() });
        }
        let fd = fd
            .try_clone_to_owned()
            .map_err(Error::os("duplicating a descriptor to wake"))?;
        match &self.post {
            Post::Thread(letterbox) => letterbox.wake_by(fd),
            Post::Solo | Post::Process => signals::wake_by(fd),
        }
        Ok(())
    }
}
