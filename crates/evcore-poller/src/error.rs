//! The errors of a poller, with a variant for each case that a caller would handle differently.

use std::{fmt, io, os::fd::RawFd};

use crate::{
    backend_kind::{BackendKind, names},
    id::MAX_ID,
    interest::Interest,
};

/// The result of a poller's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The `call` of the [`Error::Os`] that reports too little memory for an `io_uring`. Usually the
/// limit of locked memory is too low, and waiting does not help.
pub(crate) const RING_MEMORY: &str = "io_uring_setup (memory, or RLIMIT_MEMLOCK, is too small)";

/// The error of a call of a poller.
///
/// [`Error::Os`] converts into the system's own [`io::Error`], with its `raw_os_error`. The
/// `io::Error` does not name the call, so log an `Error::Os` before you convert it. Every other
/// variant is wrapped into an `io::Error` of a fitting kind.
///
/// ```
/// use evcore_poller::{Error, Poller};
///
/// let error = Poller::new()?.remove(0x1_0000_0007).unwrap_err();
/// assert!(matches!(error, Error::NotRegistered { .. }));
/// assert_eq!(format!("{error:?}"), "key 0x100000007 (id 7) is not registered");
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
/// # Ok::<(), Error>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id (the low half of the key) belongs to a present registration.
    #[error("id {} is already registered; modify it, or remove it first", id(.key))]
    AlreadyRegistered {
        /// The key of the call.
        key: u64,
    },
    /// The descriptor is already registered under another key, or is the poller's own waker.
    /// Perhaps it was closed without being removed, and its number is now another file's.
    #[error(
        "descriptor {fd} is already watched under another key; remove that one first, \
         or duplicate the descriptor to watch it twice"
    )]
    AlreadyWatched {
        /// The descriptor of the call.
        fd: RawFd,
    },
    /// No registration has this key.
    #[error("key {key:#x} (id {}) is not registered", id(.key))]
    NotRegistered {
        /// The key of the call.
        key: u64,
    },
    /// The id is above [`MAX_ID`]: ids index a table, so they must be dense.
    #[error("id {} is above {MAX_ID}; ids index a table: use small dense ones", id(.key))]
    IdTooLarge {
        /// The key of the call.
        key: u64,
    },
    /// No file is open under this number.
    #[error("descriptor {fd} is not open")]
    NotOpen {
        /// The descriptor of the call.
        fd: RawFd,
    },
    /// The source has no descriptor, and the backend is over a kernel. (Or the backend is
    /// simulated, and the number is above `i32::MAX`.)
    #[error(
        "{backend} cannot watch the simulated source {number}; \
         register something that has a descriptor, or use the simulator's own backend"
    )]
    SimulatedTarget {
        /// The number of the source in its simulator.
        number: u32,
        /// The name of the backend.
        backend: &'static str,
    },
    /// The source is a real descriptor, and the backend is a simulated one.
    #[error(
        "{backend} is a simulated backend and cannot watch descriptor {fd}; \
         register a source of the simulator, or use a backend over a kernel"
    )]
    RealTarget {
        /// The descriptor.
        fd: RawFd,
        /// The name of the backend.
        backend: &'static str,
    },
    /// The sets of `select` cannot hold this descriptor.
    #[error(
        "select cannot watch {}descriptor {fd}: its sets hold only descriptors below {limit}; use {}",
        if *.of_waker { "its own waker, " } else { "" },
        alternatives(.available)
    )]
    BeyondSets {
        /// The descriptor.
        fd: RawFd,
        /// The first number that is too large.
        limit: RawFd,
        /// True if this is the descriptor of a new poller's own waker, because all lower numbers
        /// are taken.
        of_waker: bool,
        /// The backends that this system has, best first.
        available: &'static [BackendKind],
    },
    /// This system does not have the backend.
    #[error(
        "this system has no {kind}; there are: {}",
        names(.available)
    )]
    Absent {
        /// The backend of the call.
        kind: BackendKind,
        /// The backends that this system has, best first.
        available: &'static [BackendKind],
    },
    /// The kernel reports no readiness for this kind of file. On epoll these are regular files,
    /// directories, and devices without readiness, such as `/dev/null`.
    #[error(
        "{kind} cannot watch descriptor {fd}: a file of its kind (such as a regular file, \
         a directory or /dev/null) is always ready; read or write it without waiting"
    )]
    NotPollable {
        /// The descriptor of the call.
        fd: RawFd,
        /// The backend that refused it.
        kind: BackendKind,
    },
    /// The present process is a forked child of the process that made the poller. The call would
    /// act on the parent's poller, or on none (a child does not inherit a kqueue).
    #[error(
        "this poller was made in process {process}, before a fork; \
         make one in each process after the fork"
    )]
    Forked {
        /// The id of the process that made the poller.
        process: u32,
    },
    /// The backend has no exclusive registrations.
    #[error(
        "{backend} has no exclusive wake-ups; let one process at a time watch the listener \
         (an accept lock), or let all be woken (Mode::Level)"
    )]
    NoExclusive {
        /// The name of the backend.
        backend: &'static str,
    },
    /// The kernel has no exclusive registrations for this interest.
    #[error("an exclusive registration is for READ or WRITE, not for {interest:?}")]
    NotExclusive {
        /// The interest of the call.
        interest: Interest,
    },
    /// The backend cannot watch for priority data.
    #[error("{backend} cannot watch for priority data; use poll, or leave out PRIORITY")]
    NoPriority {
        /// The name of the backend.
        backend: &'static str,
    },
    /// The backend has no busy polling, or the kernel has none for it.
    #[error(
        "{backend} has no busy polling here; use epoll on Linux 6.9 or later, \
         built with CONFIG_NET_RX_BUSY_POLL"
    )]
    NoBusyPoll {
        /// The name of the backend.
        backend: &'static str,
    },
    /// A signal ended a wait into a [raw](crate::Events::raw) buffer. (In rare cases the wait had
    /// only events of removed registrations, and the poller has dropped these events.)
    #[error("a signal ended the wait")]
    Interrupted,
    /// The operating system refused a call.
    #[error("{call} failed: {source}{}", remedy(call, .source))]
    Os {
        /// The name of the call.
        call: &'static str,
        /// The error of the call.
        source: io::Error,
    },
}

/// Prints the text of `Display`, so that a program whose `main` returns the error, or that unwraps
/// it, ends with a line that names the remedy.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Turns the kernel's "bad descriptor" into the error that names `fd`.
    pub(crate) fn or_not_open(self, fd: RawFd) -> Self {
        match &self {
            Self::Os { source, .. } if source.raw_os_error() == Some(libc::EBADF) => {
                Self::NotOpen { fd }
            }
            _ => self,
        }
    }

    /// Returns whether descriptors, memory or epoll's watches are exhausted for now. Too little
    /// memory for an `io_uring` (`RING_MEMORY`) does not count, because the limit that usually
    /// causes it stays.
    pub(crate) fn is_exhaustion(&self) -> bool {
        let Self::Os { source, call } = self else {
            return false;
        };
        let errno = source.raw_os_error();
        match errno {
            _ if *call == RING_MEMORY => false,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => true,
            // The user's processes watch as many descriptors as fs.epoll.max_user_watches permits.
            Some(libc::ENOSPC) => call.starts_with("epoll_ctl"),
            _ => false,
        }
    }

    /// Returns a function that makes the error of the named system call from its number.
    pub(crate) fn os(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Os {
            call,
            source: errno.into(),
        }
    }

    #[cold]
    pub(crate) fn of_wait(call: &'static str, errno: rustix::io::Errno) -> Self {
        match errno {
            rustix::io::Errno::INTR => Self::Interrupted,
            other => Self::os(call)(other),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::Os { source, .. } => return source,
            Error::AlreadyRegistered { .. } | Error::AlreadyWatched { .. } => {
                io::ErrorKind::AlreadyExists
            }
            Error::NotRegistered { .. } => io::ErrorKind::NotFound,
            Error::IdTooLarge { .. } | Error::NotOpen { .. } => io::ErrorKind::InvalidInput,
            Error::BeyondSets { .. }
            | Error::NotPollable { .. }
            | Error::Absent { .. }
            | Error::Forked { .. }
            | Error::NoExclusive { .. }
            | Error::NotExclusive { .. }
            | Error::NoPriority { .. }
            | Error::NoBusyPoll { .. }
            | Error::SimulatedTarget { .. }
            | Error::RealTarget { .. } => io::ErrorKind::Unsupported,
            Error::Interrupted => io::ErrorKind::Interrupted,
        };
        Self::new(kind, error)
    }
}

/// The limit to raise, if the system has refused a call because of a limit.
fn remedy(call: &str, refusal: &io::Error) -> &'static str {
    match refusal.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit of descriptors (RLIMIT_NOFILE, ulimit -n)",
        Some(libc::ENFILE) if cfg!(any(target_os = "linux", target_os = "android")) => {
            "; raise the sysctl fs.file-max"
        }
        Some(libc::ENFILE) => "; raise the system's limit of open files (sysctl kern.maxfiles)",
        Some(libc::ENOSPC) if call.starts_with("epoll_ctl") => {
            "; raise the sysctl fs.epoll.max_user_watches"
        }
        _ => "",
    }
}

fn id(key: &u64) -> u64 {
    key & u64::from(u32::MAX)
}

/// Lists the backends that `Poller::new` may choose, except `select`: `poll or epoll`.
fn alternatives(available: &[BackendKind]) -> String {
    let are_chosen = available.iter().rev().filter(|kind| {
        let is_special = matches!(kind, BackendKind::EpollMasked | BackendKind::IoUring);
        !is_special && **kind != BackendKind::Select
    });
    let names: Vec<_> = are_chosen.map(|kind| kind.name()).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_os_error_keeps_its_number_as_an_io_error() {
        let error = Error::os("epoll_ctl(ADD)")(rustix::io::Errno::NOMEM);
        let error = io::Error::from(error);
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        let refused = io::Error::from(Error::IdTooLarge { key: u64::MAX });
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_refusal_for_a_limit_names_the_limit_to_raise() {
        use rustix::io::Errno;

        for (call, errno, limit) in [
            ("epoll_create1", Errno::MFILE, "RLIMIT_NOFILE"),
            ("eventfd", Errno::NFILE, "sysctl"),
            ("epoll_ctl(ADD)", Errno::NOSPC, "fs.epoll.max_user_watches"),
        ] {
            let message = Error::os(call)(errno).to_string();
            assert!(
                message.starts_with(&format!("{call} failed: ")),
                "{message}"
            );
            assert!(message.contains(limit), "{message}");
        }
        let other = Error::os("kevent")(Errno::NOSPC).to_string();
        assert!(!other.contains("raise"), "{other}");
    }
}
