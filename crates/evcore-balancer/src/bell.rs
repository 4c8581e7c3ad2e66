//! What wakes a worker from another process: a descriptor that was made before the fork.
//!
//! An eventfd where there is one; a pair of sockets elsewhere.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use crate::{
    planted::{Bug, is_planted},
    refusal::refused,
};

/// A descriptor that is readable after [`ring`](Self::ring), until [`silence`](Self::silence).
#[derive(Debug)]
pub(crate) struct Bell(imp::Bell);

impl Bell {
    /// Closed on exec, and non-blocking on both sides.
    pub(crate) fn new() -> io::Result<Self> {
        let doing = format_args!("making {} that wakes a worker", imp::NAME);
        imp::Bell::new().map(Self).map_err(refused(doing))
    }

    /// Wakes whoever watches the bell. Ringing twice rings once.
    pub(crate) fn ring(&self) {
        #[cfg(evcore_planted)]
        crate::points::pass("ring");
        if is_planted(Bug::BellMute) {
            return;
        }
        // What it may refuse: it is full, so it rings; or the other end is closed, so nobody
        // listens.
        let _ = self.0.ring();
    }

    /// Makes it silent until it is rung again. To be done before the look at why it rang.
    pub(crate) fn silence(&self) {
        #[cfg(evcore_planted)]
        crate::points::pass("silence");
        self.0.silence();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "illumos"
))]
mod imp {
    use std::{
        io,
        os::fd::{AsFd, BorrowedFd, OwnedFd},
    };

    use rustix::event::{EventfdFlags, eventfd};

    pub(super) const NAME: &str = "an eventfd";

    #[derive(Debug)]
    pub(super) struct Bell(OwnedFd);

    impl Bell {
        pub(super) fn new() -> io::Result<Self> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Self(fd))
        }

        pub(super) fn ring(&self) -> io::Result<()> {
            rustix::io::write(&self.0, &1_u64.to_ne_bytes())?;
            Ok(())
        }

        pub(super) fn silence(&self) {
            // One read empties the counter; an empty one says so.
            let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "illumos"
)))]
mod imp {
    use std::{
        io::{self, Read, Write},
        os::{
            fd::{AsFd, BorrowedFd},
            unix::net::UnixStream,
        },
    };

    pub(super) const NAME: &str = "a pair of sockets";

    #[derive(Debug)]
    pub(super) struct Bell {
        read: UnixStream,
        write: UnixStream,
    }

    impl Bell {
        pub(super) fn new() -> io::Result<Self> {
            let (read, write) = UnixStream::pair()?;
            for end in [&read, &write] {
                end.set_nonblocking(true)?;
            }
            Ok(Self { read, write })
        }

        pub(super) fn ring(&self) -> io::Result<()> {
            (&self.write).write_all(&[1])
        }

        pub(super) fn silence(&self) {
            let mut bytes = [0; 64];
            while matches!((&self.read).read(&mut bytes), Ok(64)) {}
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.read.as_fd()
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings(bell: &Bell) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn a_bell_rings_from_the_first_ring_until_it_is_silenced() {
        let bell = Bell::new().unwrap();
        assert!(!rings(&bell));
        for _ in 0..1000 {
            bell.ring();
        }
        assert!(rings(&bell));
        bell.silence();
        assert!(!rings(&bell));
        bell.silence();
        bell.ring();
        assert!(rings(&bell));
    }
}
