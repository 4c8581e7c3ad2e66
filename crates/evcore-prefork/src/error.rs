//! The errors of this crate.

use std::{fmt, io, os::fd::RawFd};

use rustix::io::Errno;

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call of this crate failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The supervisor has no workers, or more than the limit. To serve without a supervisor, use
    /// [`Worker::solo`](crate::Worker::solo).
    #[error("cannot supervise {workers} workers: from 1 to {most} are possible")]
    Workers {
        /// The number of workers.
        workers: usize,
        /// The limit.
        most: usize,
    },
    /// The process has other threads. A forked child would have copies of their locks, which no
    /// thread would ever release.
    #[error(
        "cannot fork a process that has {count} threads; run the supervisor before others are started"
    )]
    Threads {
        /// The number of threads, including this one.
        count: usize,
    },
    /// The process already runs a supervisor, has made a [`Worker`](crate::Worker), or is a worker.
    #[error("a supervisor or a worker handles the stop signals of this process already")]
    InUse,
    /// A signal handler that wrote to this descriptor could block.
    #[error("descriptor {fd} would block a signal handler; make it non-blocking")]
    Blocking {
        /// The descriptor.
        fd: RawFd,
    },
    /// A variable that an older binary has set does not list open descriptors of this process, or
    /// they were taken before.
    #[error("{variable} is {text:?}: {why}")]
    BadInheritance {
        /// The variable, such as [`INHERITED`](crate::INHERITED).
        variable: &'static str,
        /// The value of the variable.
        text: String,
        /// The fault.
        why: String,
    },
    /// The variables of socket activation do not name open descriptors of this process, or these
    /// were taken before.
    #[error("{variable} is {text:?}: {why}")]
    BadActivation {
        /// The variable, `LISTEN_PID` or `LISTEN_FDS`.
        variable: &'static str,
        /// The value of the variable.
        text: String,
        /// The fault.
        why: String,
    },
    /// Threads cannot pass descriptors on to a new binary.
    #[error("only worker processes can pass descriptors on to a new binary; leave `inherit` out")]
    ThreadsCannotUpgrade,
    /// This system has no mailboxes.
    #[error("mailboxes need Linux: Unix sockets of type SOCK_SEQPACKET; leave `mailboxes` out")]
    NoMailboxes,
    /// This system cannot have descriptor stores, or the workers are threads, which a crash ends
    /// together.
    #[error("a descriptor store needs Linux and worker processes; leave `descriptor_store` out")]
    NoDescriptorStore,
    /// This system has no CPU affinity.
    #[error("this system has no CPU affinity; leave the affinity out")]
    NoAffinity,
    /// The operating system refused a call.
    #[error("{doing} failed: {source}{}", advice(source))]
    Os {
        /// The action that failed, with the system call in parentheses if it has another name.
        doing: &'static str,
        /// The system's error.
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
    pub(crate) fn os<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Os {
            doing,
            source: error.into(),
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; raise the limit on descriptors (ulimit -n)",
        Some(Errno::NFILE) => "; the whole system is out of files: raise its limit (fs.file-max)",
        Some(Errno::NOMEM) => "; free memory, or raise the limit on it (ulimit -v)",
        // `fork` and the start of a thread fail with this error.
        Some(Errno::AGAIN) => {
            "; raise the limit on processes (ulimit -u, or pids.max of the control group)"
        }
        _ => "",
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Workers { .. }
            | Error::BadInheritance { .. }
            | Error::BadActivation { .. }
            | Error::Blocking { .. }
            | Error::ThreadsCannotUpgrade => io::ErrorKind::InvalidInput,
            Error::Threads { .. }
            | Error::NoAffinity
            | Error::NoMailboxes
            | Error::NoDescriptorStore => io::ErrorKind::Unsupported,
            Error::InUse => io::ErrorKind::AlreadyExists,
            Error::Os { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_os_error_keeps_its_kind() {
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Error::os("forking a worker")(refused);
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(
            io::Error::from(error).kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn an_os_error_is_named_once_with_advice() {
        let inner = Error::os("making a socket pair")(Errno::MFILE);
        let outer = Error::os("forking a worker")(io::Error::from(inner));
        assert_eq!(
            outer.to_string(),
            format!(
                "forking a worker failed: making a socket pair failed: {}; raise the limit on \
                 descriptors (ulimit -n)",
                Errno::MFILE
            )
        );
    }
}
