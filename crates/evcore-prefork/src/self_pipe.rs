//! The self-pipe, with which the master waits for signals, workers and a point in time by one call.
//!
//! Signal handlers and worker threads write to one end of a socket pair, and the master waits for
//! the other. Source of the name: D. J. Bernstein, *The self-pipe trick*.

use std::{
    io::{self, Read},
    os::{fd::BorrowedFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    error::{Error, Result},
    pause::pause,
    signals,
};

/// The longest single wait, because some systems count milliseconds in 31 bits.
const WAIT_MAX: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(crate) struct SelfPipe {
    read: UnixStream,
}

impl SelfPipe {
    /// Gives the write end to the signal handlers of this process, and returns a duplicate for
    /// worker threads.
    pub(crate) fn install() -> Result<(Self, UnixStream)> {
        let (pipe, write) =
            Self::pair().map_err(Error::os("making the master's self-pipe (socketpair)"))?;
        let waker = write
            .try_clone()
            .map_err(Error::os("duplicating the master's self-pipe"))?;
        signals::set_wake_fd(write.into());
        Ok((pipe, waker))
    }

    fn pair() -> io::Result<(Self, UnixStream)> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok((Self { read }, write))
    }

    /// Waits until the pipe has been written to (also before the call), until one of `others` is
    /// readable, or until the time `until`. May also return early.
    ///
    /// The caller then checks the state of everything. So if the kernel is short of a resource for
    /// the wait, a pause replaces the wait. Events are then handled later, which is better than the
    /// end of the server.
    ///
    /// # Errors
    ///
    /// The kernel's error, if another attempt would fail in the same way.
    pub(crate) fn wait<'a>(
        &'a mut self,
        until: Option<Instant>,
        others: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<()> {
        let timeout = until.map(|at| at.saturating_duration_since(Instant::now()).min(WAIT_MAX));
        let timeout = timeout.map(|time| Timespec::try_from(time).expect("an hour fits"));
        let others = others.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut fds = vec![PollFd::new(&self.read, PollFlags::IN)];
        fds.extend(others);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) if is_temporary(errno) => pause(),
            Err(errno) => return Err(Error::os("waiting for signals and workers (poll)")(errno)),
        }
        self.clear();
        Ok(())
    }

    /// Empties the pipe. The caller checks the state after this call, so no event is missed.
    fn clear(&self) {
        let mut bytes = [0; 256];
        while matches!((&self.read).read(&mut bytes), Ok(256)) {}
    }
}

/// Returns whether the error may pass: memory is short (AGAIN on some systems), or the limit on
/// descriptors was lowered below the number in this call.
fn is_temporary(errno: Errno) -> bool {
    matches!(errno, Errno::NOMEM | Errno::AGAIN | Errno::INVAL)
}

#[cfg(test)]
mod tests {
    // In production a signal handler writes to the pipe; `tests/processes` sends real signals.
    use std::{io::Write, iter, os::fd::AsFd};

    use super::*;

    #[test]
    fn a_time_in_the_past_ends_the_wait_at_once() {
        let (mut pipe, _write) = SelfPipe::pair().unwrap();
        pipe.wait(Some(Instant::now()), iter::empty()).unwrap();
    }

    #[test]
    fn a_readable_descriptor_ends_the_wait() {
        let (mut pipe, _write) = SelfPipe::pair().unwrap();
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"!").unwrap();
        pipe.wait(None, iter::once(one.as_fd())).unwrap();
    }

    #[test]
    fn a_shortage_is_temporary_and_a_bad_address_is_not() {
        assert!(
            [Errno::NOMEM, Errno::AGAIN, Errno::INVAL]
                .into_iter()
                .all(is_temporary)
        );
        assert!(!is_temporary(Errno::FAULT));
    }

    #[test]
    fn a_write_ends_one_wait_and_no_other() {
        let (mut pipe, mut write) = SelfPipe::pair().unwrap();
        write.write_all(&[0; 300]).unwrap();
        pipe.wait(None, iter::empty()).unwrap();
        let mut left = [PollFd::new(&pipe.read, PollFlags::IN)];
        assert_eq!(poll(&mut left, Some(&Timespec::default())), Ok(0));
    }
}
