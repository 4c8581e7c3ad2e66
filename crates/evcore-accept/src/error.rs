//! What can go wrong with a listener, and what to do about it.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::os::fd::RawFd;

use rustix::io::Errno;

use crate::{Address, AddressError};

/// An error of a listener.
///
/// What concerns one connection only, or will pass, is an [`Accept`](crate::Accept) instead.
///
/// # Examples
///
/// ```
/// use evcore_accept::{Error, Listener};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let second = Listener::bind(listener.local_addr());
/// assert!(matches!(second, Err(Error::AddressInUse { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text that should have named the address does not.
    #[error("cannot listen: {0}")]
    InvalidAddress(#[from] AddressError),

    /// Somebody listens there already.
    #[error(
        "cannot listen on {address}: address in use; \
         stop the program that listens there, choose another {}, or ask for a retry",
        if address.is_unix() { "path" } else { "port" }
    )]
    AddressInUse {
        /// Where the listener was to be.
        address: Address,
    },

    /// The address is not one of this machine.
    #[error(
        "cannot listen on {address}: this machine has no such address; \
         choose one that it has, or 0.0.0.0 or [::] for all of them"
    )]
    AddressNotAvailable {
        /// Where the listener was to be.
        address: Address,
    },

    /// The process may not listen there.
    #[error(
        "cannot listen on {address}: permission denied; {}",
        if address.is_unix() {
            "choose a directory that this user may write to"
        } else {
            "choose a port above 1023, or give the program the right to bind lower ones"
        }
    )]
    PermissionDenied {
        /// Where the listener was to be.
        address: Address,
    },

    /// There can be no socket at this path.
    #[error("cannot listen on {address}: {problem}")]
    UnusablePath {
        /// Where the listener was to be.
        address: Address,
        /// Why not.
        problem: PathError,
    },

    /// An option was asked for that there is not, here or for such an address.
    #[error("cannot listen on {address}: {option} is not there {place}; leave it out")]
    Unsupported {
        /// Where the listener was to be.
        address: Address,
        /// The option, by the name of its method.
        option: &'static str,
        /// Where it is not: `for Unix sockets`, say.
        place: &'static str,
    },

    /// The operating system refused to make the listener, for another reason.
    #[error("cannot listen on {address}: {call} failed: {source}")]
    Acceptor {
        /// Where the listener was to be.
        address: Address,
        /// The system call that failed.
        call: &'static str,
        /// Why.
        source: io::Error,
    },

    /// A descriptor that was to become a listener is none.
    #[error(
        "cannot take over descriptor {fd}: it is not a listening TCP or Unix socket; \
         check the number that the parent process passed on"
    )]
    NotListening {
        /// The descriptor's number.
        fd: RawFd,
    },

    /// The operating system refused to prepare an inherited listener.
    #[error("cannot take over descriptor {fd}: {call} failed: {source}")]
    Inherit {
        /// The descriptor's number.
        fd: RawFd,
        /// The system call that failed.
        call: &'static str,
        /// Why.
        source: io::Error,
    },

    /// The listener itself is broken; no connection will come from it again.
    #[error("cannot accept on {address}: {source}; close the listener and bind it anew")]
    Accept {
        /// Where the listener is.
        address: Address,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What it means for a listener to be at `address` that `call` failed with `errno`.
    pub(crate) fn listen(address: &Address, call: &'static str, errno: Errno) -> Self {
        let address = address.clone();
        match errno {
            Errno::ADDRINUSE => Self::AddressInUse { address },
            Errno::ADDRNOTAVAIL => Self::AddressNotAvailable { address },
            Errno::ACCESS => Self::PermissionDenied { address },
            Errno::NOENT | Errno::NOTDIR if address.is_unix() => Self::UnusablePath {
                address,
                problem: PathError::NoDirectory,
            },
            errno => Self::Acceptor {
                address,
                call,
                source: errno.into(),
            },
        }
    }

    /// The kind that the standard library has for this error.
    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::AddressInUse { .. } => io::ErrorKind::AddrInUse,
            Self::AddressNotAvailable { .. } => io::ErrorKind::AddrNotAvailable,
            Self::PermissionDenied { .. } => io::ErrorKind::PermissionDenied,
            Self::InvalidAddress(_) | Self::UnusablePath { .. } | Self::NotListening { .. } => {
                io::ErrorKind::InvalidInput
            }
            Self::Unsupported { .. } => io::ErrorKind::Unsupported,
            Self::Acceptor { source, .. }
            | Self::Inherit { source, .. }
            | Self::Accept { source, .. } => source.kind(),
        }
    }
}

impl From<Infallible> for Error {
    /// Never called. An [`Address`] is an address already.
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<Error> for io::Error {
    /// Keeps the kind and the message.
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

/// Why there can be no socket at a path.
///
/// # Examples
///
/// ```
/// use evcore_accept::{Address, Error, Listener, PathError};
///
/// let refused = Listener::bind(Address::Unix("/".into()));
/// assert!(matches!(
///     refused,
///     Err(Error::UnusablePath { problem: PathError::Taken { by: "a directory" }, .. }),
/// ));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// There is none.
    Empty,
    /// It holds a zero byte, which ends a path.
    ZeroByte,
    /// The address of a socket has no room for it.
    TooLong {
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have on this system.
        bytes_max: usize,
    },
    /// Something else than a socket is there, and stays.
    Taken {
        /// What it is: `a directory`, say.
        by: &'static str,
    },
    /// The directory in which it is to be does not exist.
    NoDirectory,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a listener needs a path; write unix:PATH"),
            Self::ZeroByte => f.write_str("the path holds a zero byte; choose another"),
            Self::TooLong { bytes, bytes_max } => write!(
                f,
                "the path has {bytes} bytes, and the address of a socket takes {bytes_max}; \
                 choose a shorter one"
            ),
            Self::Taken { by } => write!(
                f,
                "{by} is there, which is not removed; choose another path"
            ),
            Self::NoDirectory => f.write_str("its directory does not exist; make it first"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn listening_fails_with(errno: Errno) -> Error {
        let address = SocketAddr::from(([127, 0, 0, 1], 8080)).into();
        Error::listen(&address, "bind", errno)
    }

    #[test]
    fn an_address_in_use_says_what_to_do() {
        assert_eq!(
            listening_fails_with(Errno::ADDRINUSE).to_string(),
            "cannot listen on 127.0.0.1:8080: address in use; \
             stop the program that listens there, choose another port, or ask for a retry",
        );
    }

    #[test]
    fn advice_fits_the_family() {
        let unix = Address::Unix("/run/a.sock".into());
        for (errno, for_tcp, for_unix) in [
            (Errno::ADDRINUSE, "another port", "another path"),
            (Errno::ACCESS, "above 1023", "may write to"),
            (Errno::NOENT, "bind failed", "directory does not exist"),
        ] {
            let tcp = listening_fails_with(errno).to_string();
            assert!(tcp.contains(for_tcp), "{tcp}");
            let unix = Error::listen(&unix, "bind", errno).to_string();
            assert!(unix.contains(for_unix), "{unix}");
            assert!(unix.starts_with("cannot listen on unix:/run/a.sock: "));
        }
    }

    #[test]
    fn an_unexpected_failure_names_the_call() {
        let message = listening_fails_with(Errno::OPNOTSUPP).to_string();
        assert!(
            message.starts_with("cannot listen on 127.0.0.1:8080: bind failed: "),
            "{message}"
        );
    }

    #[test]
    fn the_kind_survives_as_an_io_error() {
        for (errno, kind) in [
            (Errno::ADDRINUSE, io::ErrorKind::AddrInUse),
            (Errno::ADDRNOTAVAIL, io::ErrorKind::AddrNotAvailable),
            (Errno::ACCESS, io::ErrorKind::PermissionDenied),
            (Errno::NOMEM, io::ErrorKind::OutOfMemory),
        ] {
            let error = io::Error::from(listening_fails_with(errno));
            assert_eq!(error.kind(), kind);
            assert!(
                error
                    .to_string()
                    .starts_with("cannot listen on 127.0.0.1:8080")
            );
        }
    }
}
