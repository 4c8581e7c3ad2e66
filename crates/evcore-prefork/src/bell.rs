//! How the master sleeps: until a signal, or until a time, and without polling.

use std::{
    io::Read,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{Error, Result, signals};

/// The longest wait at a time: some systems count milliseconds in 31 bits.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// What the signal handlers ring: they write to one end of a socket pair, this is the other.
#[derive(Debug)]
pub(crate) struct Bell {
    read: UnixStream,
}

impl Bell {
    /// Ties a bell to the handlers of this process.
    pub(crate) fn hang() -> Result<Self> {
        let (read, write) = UnixStream::pair().map_err(Error::os("socketpair"))?;
        for end in [&read, &write] {
            end.set_nonblocking(true).map_err(Error::os("ioctl"))?;
        }
        signals::wake_by(write.into());
        Ok(Self { read })
    }

    /// Returns after a signal (also one that came before the call) or at `until`, or now and then.
    ///
    /// The caller looks at the state of things afterwards, not at why it was woken.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        let timeout = until.map(|at| at.saturating_duration_since(Instant::now()).min(WAIT_MAX));
        let timeout = timeout.map(|time| Timespec::try_from(time).expect("an hour fits"));
        let mut fds = [PollFd::new(&self.read, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("poll")(errno)),
        }
        self.silence();
        Ok(())
    }

    /// Takes what was written, before anybody looks at the state: so nothing is missed.
    fn silence(&mut self) {
        let mut bytes = [0; 256];
        while matches!(self.read.read(&mut bytes), Ok(256)) {}
    }
}

#[cfg(test)]
mod tests {
    // What rings it is a signal, which tests/processes.rs can send without harm.
    use super::*;

    #[test]
    fn a_time_in_the_past_is_not_waited_for() {
        let (read, _write) = UnixStream::pair().unwrap();
        read.set_nonblocking(true).unwrap();
        let mut bell = Bell { read };
        bell.wait(Some(Instant::now())).unwrap();
    }
}
