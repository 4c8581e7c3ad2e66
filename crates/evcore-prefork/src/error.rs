//! What can go wrong, with a variant for each thing that a caller would act on.

use std::{io, os::fd::RawFd};

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why workers could not be started, watched or told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The supervisor was given nobody to supervise.
    #[error("a supervisor of 0 workers has nothing to do; serve in this process by Worker::solo")]
    NoWorkers,
    /// More workers than there are seats for.
    #[error("a supervisor of {workers} workers is a mistake; {most} is the most")]
    TooManyWorkers {
        /// How many were asked for.
        workers: usize,
        /// The most that there can be.
        most: usize,
    },
    /// The process has other threads, of whose locks and memory a forked child would have copies
    /// that nobody will ever release.
    #[error(
        "cannot fork a process that has {count} threads; run the supervisor before any is started"
    )]
    Threads {
        /// How many threads there are, this one included.
        count: usize,
    },
    /// The process has a supervisor or a [`Worker`](crate::Worker) already.
    #[error("the stop signals of this process are taken by a supervisor or a worker already")]
    InUse,
    /// A signal handler that wrote to this descriptor could hang.
    #[error("descriptor {fd} would block a signal handler; make it non-blocking")]
    Blocking {
        /// The descriptor that was offered.
        fd: RawFd,
    },
    /// The variable [`INHERITED`](crate::INHERITED) does not tell what this process inherits.
    #[error("{} is {text:?}: {why}", crate::INHERITED)]
    BadInheritance {
        /// What it holds.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// This system cannot tie workers to CPUs.
    #[error("this system cannot tie workers to CPUs; leave the affinity out")]
    NoAffinity,
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
    pub(crate) fn os<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Os {
            call,
            source: error.into(),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NoWorkers
            | Error::TooManyWorkers { .. }
            | Error::BadInheritance { .. }
            | Error::Blocking { .. } => io::ErrorKind::InvalidInput,
            Error::Threads { .. } | Error::NoAffinity => io::ErrorKind::Unsupported,
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
    fn the_systems_own_error_keeps_its_kind() {
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Error::os("fork")(refused);
        assert_eq!(
            io::Error::from(error).kind(),
            io::ErrorKind::PermissionDenied
        );
    }
}
