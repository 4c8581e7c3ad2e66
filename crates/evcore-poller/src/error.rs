//! What can go wrong, with a variant for each thing that a caller would act on.

use std::{io, os::fd::RawFd};

use crate::{Kind, MAX_ID};

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
    /// The kernel watches this descriptor already, under another key.
    #[error("descriptor {fd} is already watched under another key; duplicate it to watch it twice")]
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
    /// The kernel cannot tell readiness of this kind of file: a regular file on epoll.
    #[error(
        "{kind} cannot watch descriptor {fd}: it is a regular file or a directory, \
         which is always ready; read it without asking"
    )]
    NotPollable {
        /// The descriptor that was offered.
        fd: RawFd,
        /// Who refused it.
        kind: Kind,
    },
    /// The event buffer has a capacity of zero, so that no wait could bring anything.
    #[error("the event buffer has no room; give Events::with_capacity at least 1")]
    NoRoom,
    /// A signal ended the wait, and the caller had asked to be told.
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
            Error::IdTooLarge { .. } | Error::NoRoom => io::ErrorKind::InvalidInput,
            Error::NotPollable { .. } => io::ErrorKind::Unsupported,
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
