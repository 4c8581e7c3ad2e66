//! Wakes a worker from another process, by a descriptor that was made before the fork.
//!
//! The descriptor is an eventfd if the system has eventfds, and a pair of sockets otherwise. The
//! poller's waker cannot be used instead, because its flag is in the memory of one process
//! (decision 0018).

use std::io;

use crate::{
    notify::{Notifier, Notify},
    os_error::failed,
};

/// A descriptor that is readable from [`notify`](Notify::notify) to [`clear`](Notify::clear).
// Public as the default parameter of `WorkerGroup`, but no user names it.
#[derive(Debug)]
#[allow(unreachable_pub, reason = "the default parameter of a public type")]
pub struct NotifyFd(imp::NotifyFd);

impl NotifyFd {
    /// Makes a descriptor that is close-on-exec and non-blocking.
    pub(crate) fn new() -> io::Result<Self> {
        let made = imp::NotifyFd::new().map(Self);
        made.map_err(failed(format_args!(
            "making {} that wakes a worker",
            imp::NAME
        )))
    }
}

impl Notify for NotifyFd {
    fn notify(&self) {
        // The write fails if the counter or the socket is full, but then the descriptor is
        // readable.
        let _ = self.0.notify();
    }

    fn clear(&self) {
        self.0.clear();
    }

    fn watched(&self) -> Option<Notifier<'_>> {
        Some(Notifier::Descriptor(self.0.as_fd()))
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
    pub(super) struct NotifyFd(OwnedFd);

    impl NotifyFd {
        pub(super) fn new() -> io::Result<Self> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Self(fd))
        }

        pub(super) fn notify(&self) -> io::Result<()> {
            rustix::io::write(&self.0, &1_u64.to_ne_bytes())?;
            Ok(())
        }

        pub(super) fn clear(&self) {
            // One read sets the counter to 0. It fails if the counter is 0 already.
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
use sockets as imp;

// Tests compile this on every system.
#[cfg(any(
    test,
    not(any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_os = "illumos"
    ))
))]
mod sockets {
    use std::{
        io::{self, Read, Write},
        os::{
            fd::{AsFd, BorrowedFd},
            unix::net::UnixStream,
        },
    };

    pub(super) const NAME: &str = "a pair of sockets";

    #[derive(Debug)]
    pub(super) struct NotifyFd {
        read: UnixStream,
        write: UnixStream,
    }

    impl NotifyFd {
        pub(super) fn new() -> io::Result<Self> {
            let (read, write) = UnixStream::pair()?;
            for end in [&read, &write] {
                end.set_nonblocking(true)?;
            }
            Ok(Self { read, write })
        }

        pub(super) fn notify(&self) -> io::Result<()> {
            (&self.write).write_all(&[1])
        }

        pub(super) fn clear(&self) {
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
    use std::os::fd::BorrowedFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    impl NotifyFd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    fn is_readable(fd: BorrowedFd<'_>) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn the_descriptor_is_readable_from_notify_to_clear() {
        let fd = NotifyFd::new().unwrap();
        assert!(!is_readable(fd.as_fd()));
        for _ in 0..1000 {
            fd.notify();
        }
        assert!(is_readable(fd.as_fd()));
        fd.clear();
        assert!(!is_readable(fd.as_fd()));
        fd.clear();
        fd.notify();
        assert!(is_readable(fd.as_fd()));
    }

    #[test]
    fn a_socket_is_readable_from_notify_to_clear() {
        let fd = sockets::NotifyFd::new().unwrap();
        for notifications in [1, 64, 100] {
            assert!(
                !is_readable(fd.as_fd()),
                "{} without a notification",
                sockets::NAME
            );
            for _ in 0..notifications {
                fd.notify().unwrap();
            }
            assert!(is_readable(fd.as_fd()));
            fd.clear();
        }
        assert!(!is_readable(fd.as_fd()));
        while fd.notify().is_ok() {}
        assert!(is_readable(fd.as_fd()), "a full socket is readable");
        fd.clear();
        assert!(!is_readable(fd.as_fd()));
    }
}
