//! What can go wrong with a listener, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use rustix::io::Errno;

/// An error of a listener.
///
/// What concerns one connection only, or will pass, is an [`Accept`](crate::Accept) instead.
///
/// # Examples
///
/// ```
/// use evcore_accept::{Error, Listener};
///
/// let listener = Listener::bind("127.0.0.1:0".parse()?)?;
/// let second = Listener::bind(listener.local_addr());
/// assert!(matches!(second, Err(Error::AddressInUse { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody listens there already.
    #[error(
        "cannot listen on {address}: address in use; \
         stop the program that listens there, choose another port, or ask for a retry"
    )]
    AddressInUse {
        /// Where the listener was to be.
        address: SocketAddr,
    },

    /// The address is not one of this machine.
    #[error(
        "cannot listen on {address}: this machine has no such address; \
         choose one that it has, or 0.0.0.0 or [::] for all of them"
    )]
    AddressNotAvailable {
        /// Where the listener was to be.
        address: SocketAddr,
    },

    /// The process may not listen there.
    #[error(
        "cannot listen on {address}: permission denied; \
         choose a port above 1023, or give the program the right to bind lower ones"
    )]
    PermissionDenied {
        /// Where the listener was to be.
        address: SocketAddr,
    },

    /// The operating system refused to make the listener, for another reason.
    #[error("cannot listen on {address}: {call} failed: {source}")]
    Listen {
        /// Where the listener was to be.
        address: SocketAddr,
        /// The system call that failed.
        call: &'static str,
        /// Why.
        source: io::Error,
    },

    /// A descriptor that was to become a listener is none.
    #[error(
        "cannot take over descriptor {fd}: it is not a listening TCP socket; \
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
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What it means for a listener to be at `address` that `call` failed with `errno`.
    pub(crate) fn listen(address: SocketAddr, call: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::ADDRINUSE => Self::AddressInUse { address },
            Errno::ADDRNOTAVAIL => Self::AddressNotAvailable { address },
            Errno::ACCESS => Self::PermissionDenied { address },
            errno => Self::Listen {
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
            Self::NotListening { .. } => io::ErrorKind::InvalidInput,
            Self::Listen { source, .. }
            | Self::Inherit { source, .. }
            | Self::Accept { source, .. } => source.kind(),
        }
    }
}

impl From<Error> for io::Error {
    /// Keeps the kind and the message.
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening_fails_with(errno: Errno) -> Error {
        Error::listen(SocketAddr::from(([127, 0, 0, 1], 8080)), "bind", errno)
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
