//! What can go wrong, with a variant for each thing that a caller would act on.

use std::{io, os::fd::RawFd};

use rustix::io::Errno;

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
    #[error("{doing} failed: {source}{}", advice(source))]
    Os {
        /// What was being done, with the call in parentheses where it has another name.
        doing: &'static str,
        /// What the system answered.
        source: io::Error,
    },
}

impl Error {
    /// The system's error, with what was being done.
    pub(crate) fn os<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Os {
            doing,
            source: error.into(),
        }
    }
}

/// What to do about an error of the system, where that is known.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; raise the limit on descriptors (ulimit -n)",
        Some(Errno::NFILE) => "; the whole system is out of files: raise its limit (fs.file-max)",
        Some(Errno::NOMEM) => "; free memory, or raise the limit on it (ulimit -v)",
        // What fork and the start of a thread answer.
        Some(Errno::AGAIN) => {
            "; raise the limit on processes (ulimit -u, or pids.max of the control group)"
        }
        _ => "",
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
        let error = Error::os("forking a worker")(refused);
        assert_eq!(
            io::Error::from(error).kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn the_systems_own_error_is_named_once_with_what_to_do_about_it() {
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
