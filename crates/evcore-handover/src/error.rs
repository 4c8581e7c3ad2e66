//! The errors of this crate, with a variant for each case that a caller may handle in its own way.

use std::{error, fmt, io};

use crate::wire::STATE_BYTES_MAX;

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call of this crate failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The channel has ended: the other side has dropped its end, has died, or has taken its
    /// connections back, or an earlier error has ended the channel.
    Ended,
    /// The other side's states have another version, so this side cannot read them.
    ForeignVersion {
        /// The version of this side.
        ours: u32,
        /// The version of the other side.
        theirs: u32,
    },
    /// A message does not follow this protocol. The whole message was dropped.
    Malformed {
        /// The fault.
        why: &'static str,
    },
    /// This process has no room for the descriptors of a message. The whole message was dropped.
    NoDescriptors,
    /// The mailbox holds as many channels as the kernel allows, and no process has taken one out
    /// yet. Keep serving, and retry later.
    MailboxFull,
    /// The kernel has no memory for a message, or this user has more descriptors in flight than its
    /// limit (`RLIMIT_NOFILE`). Try again after some time, because no event reports that there is
    /// room.
    KernelFull,
    /// The state of a connection is longer than [`STATE_BYTES_MAX`](crate::STATE_BYTES_MAX).
    StateTooLong {
        /// The length of the state.
        bytes: usize,
    },
    /// This system has no sockets that this protocol can use: it needs Linux.
    Unsupported,
    /// The operating system refused a call.
    Os {
        /// The action that failed, followed by its system call if the names differ.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// Adds the action that failed to the system's error.
    pub(crate) fn os(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::Os {
            doing,
            source: error.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the other end of the handover channel is closed"),
            Self::ForeignVersion { ours, theirs } => write!(
                f,
                "the other process has connections of state version {theirs}; this one understands \
                 version {ours}"
            ),
            Self::Malformed { why } => write!(f, "a handover message is malformed: {why}"),
            Self::NoDescriptors => f.write_str(
                "the descriptors of a handover message did not all arrive; raise the limit on \
                 descriptors (ulimit -n)",
            ),
            Self::MailboxFull => {
                f.write_str("the mailbox is full: no worker has taken a channel out of it yet")
            }
            Self::KernelFull => f.write_str(
                "the kernel has no room for a handover message: no memory, or too many descriptors \
                 under way (ulimit -n)",
            ),
            Self::StateTooLong { bytes } => write!(
                f,
                "a connection's state has {bytes} bytes; at most {STATE_BYTES_MAX} can be handed over"
            ),
            Self::Unsupported => f.write_str(
                "connections are handed over on Linux only: this system has no Unix sockets of \
                 type SOCK_SEQPACKET, or they were not tested",
            ),
            Self::Os { doing, source } => write!(f, "{doing} failed: {source}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Ended => io::ErrorKind::BrokenPipe,
            Error::ForeignVersion { .. } | Error::Malformed { .. } => io::ErrorKind::InvalidData,
            Error::NoDescriptors => return Self::from(rustix::io::Errno::MFILE),
            Error::MailboxFull | Error::KernelFull => io::ErrorKind::WouldBlock,
            Error::StateTooLong { .. } => io::ErrorKind::InvalidInput,
            Error::Unsupported => io::ErrorKind::Unsupported,
            Error::Os { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
