//! What can go wrong, with a variant for each thing that a caller would act on.

use std::{io, os::fd::RawFd};

use crate::{BackendKind, Interest, MAX_ID, Mode};

/// The result of a poller's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a poller refused.
///
/// ```
/// use evcore_poller::{Error, Poller};
///
/// let error = Poller::new()?.remove(0x1_0000_0007).unwrap_err();
/// assert!(matches!(error, Error::NotRegistered { .. }));
/// assert_eq!(error.to_string(), "key 0x100000007 (id 7) is not registered");
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id (the low half of the key) names a registration that lives.
    #[error("id {} is already registered; modify it, or remove it first", id(.key))]
    AlreadyRegistered {
        /// The key that was offered.
        key: u64,
    },
    /// This descriptor is registered already, under another key: perhaps it was closed without
    /// being removed, and its number is now another file's.
    #[error(
        "descriptor {fd} is already watched under another key; remove that one first, \
         or duplicate the descriptor to watch it twice"
    )]
    AlreadyWatched {
        /// The descriptor that was offered.
        fd: RawFd,
    },
    /// No registration has this key, or its high half names one that is gone.
    #[error("key {key:#x} (id {}) is not registered", id(.key))]
    NotRegistered {
        /// The key that was asked for.
        key: u64,
    },
    /// The id is above [`MAX_ID`]: ids index a table, so they must be dense.
    #[error("id {} is above {MAX_ID}; ids index a table: use small dense ones", id(.key))]
    IdTooLarge {
        /// The key that was offered.
        key: u64,
    },
    /// No file is open under this number.
    #[error("descriptor {fd} is not open")]
    NotOpen {
        /// The descriptor that was offered.
        fd: RawFd,
    },
    /// The source has no descriptor, and the backend is one over a kernel. (Or it is a simulated
    /// backend, and the number is above `i32::MAX`.)
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
    /// The sets of `select` end below this descriptor, or it is negative.
    #[error(
        "select cannot watch {}descriptor {fd}: its sets hold {limit}; use {}",
        if *.of_waker { "its own waker, " } else { "" },
        others()
    )]
    BeyondSets {
        /// The descriptor.
        fd: RawFd,
        /// The first number that is too large.
        limit: RawFd,
        /// Whether it is the descriptor of a new poller's waker: so many others are open already.
        of_waker: bool,
    },
    /// This system has no such interface.
    #[error(
        "this system has no {kind}; there are: {}",
        crate::backend_kind::names()
    )]
    Absent {
        /// What was asked for.
        kind: BackendKind,
    },
    /// The kernel has no readiness to report of this kind of file. On epoll: of a regular file, a
    /// directory, and a device without readiness of its own, as `/dev/null`.
    #[error(
        "{kind} cannot watch descriptor {fd}: a file of its kind (such as a regular file, \
         a directory or /dev/null) is always ready; read or write it without waiting"
    )]
    NotPollable {
        /// The descriptor that was offered.
        fd: RawFd,
        /// Who refused it.
        kind: BackendKind,
    },
    /// This is a child of the process that made the poller: it would act on its parent's, or on
    /// none at all.
    #[error(
        "this poller was made in process {process}, before a fork; \
         make one in each process after the fork"
    )]
    Forked {
        /// The process that made it.
        process: u32,
    },
    /// This backend cannot share a file with others so that one of them is woken.
    #[error(
        "{backend} has no exclusive wake-ups; let one process at a time watch the listener \
         (an accept lock), or let all be woken (add)"
    )]
    NoExclusive {
        /// The name of the backend.
        backend: &'static str,
    },
    /// The kernel keeps no such registration exclusive.
    #[error(
        "an exclusive registration is for READ or WRITE, in Level or Edge mode; \
         not for {interest:?}, {mode:?}"
    )]
    NotExclusive {
        /// The interest that was asked for.
        interest: Interest,
        /// The mode that was asked for.
        mode: Mode,
    },
    /// This backend is not told of priority data.
    #[error("{backend} cannot watch for priority data; use poll, or do without the interest")]
    NoPriority {
        /// The name of the backend.
        backend: &'static str,
    },
    /// The event buffer has a capacity of zero, so that no wait could bring anything.
    #[error("the event buffer has no room; give Events::with_capacity at least 1")]
    NoRoom,
    /// A signal ended the wait, and the caller had asked to be told. (Also, rarely: what a closed
    /// descriptor had left behind in the kernel ended it, and was cleared away.)
    #[error("a signal ended the wait")]
    Interrupted,
    /// The operating system refused a call.
    #[error("{call} failed: {source}")]
    Os {
        /// The call.
        call: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl Error {
    /// Says of `fd` what the kernel said of a number.
    pub(crate) fn or_not_open(self, fd: RawFd) -> Self {
        match &self {
            Self::Os { source, .. } if source.raw_os_error() == Some(libc::EBADF) => {
                Self::NotOpen { fd }
            }
            _ => self,
        }
    }

    /// Whether there are too few descriptors, or too little memory, for now.
    pub(crate) fn is_exhaustion(&self) -> bool {
        let Self::Os { source, .. } = self else {
            return false;
        };
        let errno = source.raw_os_error();
        errno.is_some_and(|errno| [libc::EMFILE, libc::ENFILE, libc::ENOMEM].contains(&errno))
    }

    /// The error of a system call by its name.
    pub(crate) fn os(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Os {
            call,
            source: errno.into(),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::AlreadyRegistered { .. } | Error::AlreadyWatched { .. } => {
                io::ErrorKind::AlreadyExists
            }
            Error::NotRegistered { .. } => io::ErrorKind::NotFound,
            Error::IdTooLarge { .. } | Error::NoRoom | Error::NotOpen { .. } => {
                io::ErrorKind::InvalidInput
            }
            Error::BeyondSets { .. }
            | Error::NotPollable { .. }
            | Error::Absent { .. }
            | Error::Forked { .. }
            | Error::NoExclusive { .. }
            | Error::NotExclusive { .. }
            | Error::NoPriority { .. }
            | Error::SimulatedTarget { .. }
            | Error::RealTarget { .. } => io::ErrorKind::Unsupported,
            Error::Interrupted => io::ErrorKind::Interrupted,
            Error::Os { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

/// The low half of a key.
fn id(key: &u64) -> u64 {
    key & u64::from(u32::MAX)
}

/// The backends of this system that have no sets: `poll or epoll`.
fn others() -> String {
    let others = BackendKind::available()
        .iter()
        .rev()
        .map(ToString::to_string);
    let others: Vec<_> = others.filter(|name| name != "select").collect();
    others.join(" or ")
}
