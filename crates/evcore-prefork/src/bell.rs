//! How the master sleeps: until a signal, until a worker says something, or until a time; and
//! without polling.

use std::{
    io::{self, Read},
    os::{fd::BorrowedFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{Error, Result, signals};

/// The longest wait at a time: some systems count milliseconds in 31 bits.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How long the master goes without an ear where the kernel refuses to wait.
const PAUSE: Duration = Duration::from_millis(100);

/// What the signal handlers ring: they write to one end of a socket pair, this is the other.
#[derive(Debug)]
pub(crate) struct Bell {
    read: UnixStream,
}

impl Bell {
    /// Ties a bell to the handlers of this process. Also returns what threads may ring it by.
    pub(crate) fn hang() -> Result<(Self, UnixStream)> {
        let (bell, rope) =
            Self::pair().map_err(Error::os("making the master's self-pipe (socketpair)"))?;
        let for_threads = rope
            .try_clone()
            .map_err(Error::os("duplicating the master's self-pipe"))?;
        signals::wake_by(rope.into());
        Ok((bell, for_threads))
    }

    fn pair() -> io::Result<(Self, UnixStream)> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok((Self { read }, write))
    }

    /// Returns after a signal (also one that came before the call), when there is something to read
    /// from `others`, or at `until`, or now and then.
    ///
    /// The caller looks at the state of things afterwards, not at why it was woken. So where the
    /// kernel refuses to wait for want of something, this pauses instead: what happens meanwhile is
    /// seen a little later, which is better than a server that ends.
    ///
    /// # Errors
    ///
    /// The kernel's, where another attempt would go the same way.
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
            Err(errno) if may_pass(errno) => pause(),
            Err(errno) => return Err(Error::os("waiting for signals and workers (poll)")(errno)),
        }
        self.silence();
        Ok(())
    }

    /// Takes what was written, before anybody looks at the state: so nothing is missed.
    fn silence(&self) {
        let mut bytes = [0; 256];
        while matches!((&self.read).read(&mut bytes), Ok(256)) {}
    }
}

/// A wait for a time alone, for which the kernel needs nothing. A signal ends it.
fn pause() {
    let time = Timespec::try_from(PAUSE).expect("a moment fits");
    // However it ends: the next wait will tell.
    let _ = poll(&mut [], Some(&time));
}

/// Whether it is for want of something that there may be again: memory (some systems say AGAIN), or
/// leave to have as many descriptors as there are, after a limit was lowered.
fn may_pass(errno: Errno) -> bool {
    matches!(errno, Errno::NOMEM | Errno::AGAIN | Errno::INVAL)
}

#[cfg(test)]
mod tests {
    // What rings it is a signal, which tests/processes can send without harm.
    use std::{io::Write, iter, os::fd::AsFd};

    use super::*;

    #[test]
    fn a_time_in_the_past_is_not_waited_for() {
        let (mut bell, _rope) = Bell::pair().unwrap();
        bell.wait(Some(Instant::now()), iter::empty()).unwrap();
    }

    #[test]
    fn what_is_watched_besides_ends_the_wait() {
        let (mut bell, _rope) = Bell::pair().unwrap();
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"!").unwrap();
        bell.wait(None, iter::once(one.as_fd())).unwrap();
    }

    #[test]
    fn want_of_memory_may_pass_and_a_bad_address_may_not() {
        assert!([Errno::NOMEM, Errno::AGAIN].into_iter().all(may_pass));
        assert!(!may_pass(Errno::FAULT));
    }

    #[test]
    fn a_ring_ends_one_wait_and_no_other() {
        let (mut bell, mut rope) = Bell::pair().unwrap();
        rope.write_all(&[0; 300]).unwrap();
        bell.wait(None, iter::empty()).unwrap();
        let mut left = [PollFd::new(&bell.read, PollFlags::IN)];
        assert_eq!(poll(&mut left, Some(&Timespec::default())), Ok(0));
    }
}
