//! The errors of listening, accepting and connecting. The messages give advice.

use std::convert::Infallible;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{fmt, io};

use rustix::io::Errno;

use crate::{
    address::{Address, AddressError},
    sys,
};

/// An error of a listener, or of connecting.
///
/// A failure to accept that concerns only one client, or that is temporary, is not an error but an
/// outcome ([`Accept`](crate::Accept)).
///
/// # Examples
///
/// ```
/// use evcore_net::{Error, Listener};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let second = Listener::bind(listener.local_addr()).unwrap_err();
/// assert!(matches!(second, Error::AddressInUse { .. }));
/// assert!(format!("{second:?}").ends_with("or choose another port"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not an address.
    #[error(transparent)]
    InvalidAddress(#[from] AddressError),

    /// Another socket uses the address.
    ///
    /// If the address will be free soon, let the listener [try
    /// again](crate::ListenerOptions::retry_in_use).
    #[error(
        "cannot listen on {address}: address in use; \
         stop the program that listens there, or choose another {}",
        if address.is_unix() { "path" } else { "port" }
    )]
    AddressInUse {
        /// The requested address.
        address: Address,
    },

    /// This machine does not have the address.
    #[error(
        "cannot listen on {address}: this machine does not have the address; \
         choose one that it has, or 0.0.0.0 or [::] for all of them"
    )]
    AddressNotAvailable {
        /// The requested address.
        address: Address,
    },

    /// The process has no permission to listen at the address.
    #[error(
        "cannot listen on {address}: permission denied; {}",
        if address.is_unix() {
            "choose a directory that this user may write to"
        } else {
            "choose a port above 1023, or give the program the right to bind lower ones (on Linux \
             the capability CAP_NET_BIND_SERVICE, or net.ipv4.ip_unprivileged_port_start)"
        }
    )]
    PermissionDenied {
        /// The requested address.
        address: Address,
    },

    /// A socket cannot be made at this path.
    #[error("cannot listen on {address}: {source}")]
    UnusablePath {
        /// The requested address.
        address: Address,
        /// The reason.
        source: PathError,
    },

    /// The system, or a socket at such an address, does not have an option that was set.
    #[error("cannot use {address}: {option} is not available {place}; do not set it")]
    Unsupported {
        /// The requested address.
        address: Address,
        /// The option, by the name of its method.
        option: &'static str,
        /// The place where the option is not available, such as `for Unix sockets`.
        place: &'static str,
    },

    /// The system refuses an option that was set.
    #[error(
        "cannot use {address}: the system refuses the option {option}: {source}{}",
        if source.kind() == io::ErrorKind::PermissionDenied {
            "; it needs a privilege (on Linux the capability CAP_NET_ADMIN): \
             give it to the program, or do not set the option"
        } else {
            ""
        }
    )]
    Option {
        /// The requested address.
        address: Address,
        /// The option, by the name of its method.
        option: &'static str,
        /// The error of the system.
        source: io::Error,
    },

    /// The system did not make the listener, for another reason.
    #[error("cannot listen on {address}: {call} failed: {source}")]
    Listen {
        /// The requested address.
        address: Address,
        /// The system call that failed.
        call: &'static str,
        /// The error of the system.
        source: io::Error,
    },

    /// The descriptor does not belong to a listening socket.
    #[error(
        "cannot take over descriptor {fd}: it is not a TCP or Unix socket that listens; \
         check the number that the parent process passed on"
    )]
    NotListening {
        /// The descriptor's number.
        fd: RawFd,
    },

    /// The system did not prepare an inherited listener.
    #[error("cannot take over descriptor {fd}: {call} failed: {source}")]
    Inherit {
        /// The descriptor's number.
        fd: RawFd,
        /// The system call that failed.
        call: &'static str,
        /// The error of the system.
        source: io::Error,
    },

    /// The listener is broken, or a policy of the system forbids accepting.
    #[error(
        "cannot accept on {address}: {source}; {}",
        if source.kind() == io::ErrorKind::PermissionDenied {
            "a policy of the system (such as SELinux, AppArmor or a sandbox) forbids accept(2); \
             allow this program to make the call"
        } else {
            "close the listener and bind it again"
        }
    )]
    Accept {
        /// The address of the listener.
        address: Address,
        /// The error of the system.
        source: io::Error,
    },

    /// The listener at the path has no room for another client. No event reports when it has room
    /// again.
    #[error("cannot connect to {address}: its backlog is full; try again after a pause")]
    BacklogFull {
        /// The requested address.
        address: Address,
    },

    /// Connecting has failed at once. A later failure is returned by
    /// [`Stream::take_error`](crate::Stream::take_error).
    #[error(
        "cannot connect to {address}: {call} failed: {source}{}",
        if source.kind() == io::ErrorKind::AddrNotAvailable {
            "; no local port may be left: net.ipv4.ip_local_port_range allows more (Linux)"
        } else {
            ""
        }
    )]
    Connect {
        /// The requested address.
        address: Address,
        /// The system call that failed. `bind` means that the local address is at fault.
        call: &'static str,
        /// The reason.
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
    /// The error when `call` fails with `errno` while a listener is made at `address`.
    pub(crate) fn listen(address: &Address, call: &'static str, errno: Errno) -> Self {
        let address = address.clone();
        match errno {
            Errno::ADDRINUSE => Self::AddressInUse { address },
            Errno::ADDRNOTAVAIL => Self::AddressNotAvailable { address },
            Errno::ACCESS => Self::PermissionDenied { address },
            Errno::NOENT | Errno::NOTDIR if address.is_unix() => Self::UnusablePath {
                address,
                source: PathError::NoDirectory,
            },
            errno => Self::Listen {
                address,
                call,
                source: errno.into(),
            },
        }
    }

    /// The error when `call` fails with `errno` while a connection is opened to `address`.
    pub(crate) fn connect(address: &Address, call: &'static str, errno: Errno) -> Self {
        let address = address.clone();
        // For a Unix socket, this number means a full backlog. (A TCP connection stays in progress
        // then.)
        if address.is_unix() && errno == Errno::AGAIN {
            return Self::BacklogFull { address };
        }
        Self::Connect {
            address,
            call,
            source: errno.into(),
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::AddressInUse { .. } => io::ErrorKind::AddrInUse,
            Self::AddressNotAvailable { .. } => io::ErrorKind::AddrNotAvailable,
            Self::PermissionDenied { .. } => io::ErrorKind::PermissionDenied,
            Self::InvalidAddress(_) | Self::UnusablePath { .. } | Self::NotListening { .. } => {
                io::ErrorKind::InvalidInput
            }
            Self::Unsupported { .. } => io::ErrorKind::Unsupported,
            // `WouldBlock` would be wrong, because there is no descriptor to wait for.
            Self::BacklogFull { .. } => io::ErrorKind::ResourceBusy,
            Self::Listen { source, .. }
            | Self::Inherit { source, .. }
            | Self::Option { source, .. }
            | Self::Accept { source, .. }
            | Self::Connect { source, .. } => source.kind(),
        }
    }
}

impl From<Infallible> for Error {
    /// Is never called, because converting an [`Address`] into itself cannot fail.
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

/// The reason why a path cannot be the address of a socket.
///
/// # Examples
///
/// ```
/// use evcore_net::{Address, Error, Listener, PathError};
///
/// let refused = Listener::bind(Address::Unix("/".into()));
/// assert!(matches!(
///     refused,
///     Err(Error::UnusablePath { source: PathError::Taken { by: "a directory" }, .. }),
/// ));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path is empty.
    #[error("the path is missing; write unix:PATH")]
    Empty,
    /// An abstract name is not a path.
    #[error("only an inherited listener can have an abstract name; write unix:PATH")]
    Abstract,
    /// The path contains a zero byte.
    #[error("the path contains a zero byte; choose another")]
    ZeroByte,
    /// The path does not fit into the address of a socket.
    #[error(
        "the path has {bytes} bytes, and the address of a socket takes {bytes_max}; \
         choose a shorter one"
    )]
    TooLong {
        /// The length of the path in bytes.
        bytes: usize,
        /// The longest path on this system, in bytes.
        bytes_max: usize,
    },
    /// A file that is not a socket exists at the path. It is not removed.
    #[error("{by} is at this path, and is not removed; choose another path")]
    Taken {
        /// The kind of file, such as `a directory`.
        by: &'static str,
    },
    /// The directory of the path does not exist, or a part of the path is not a directory.
    #[error("its directory does not exist; make it first")]
    NoDirectory,
}

impl PathError {
    /// Checks whether the path fits into the address of a socket.
    pub(crate) fn check(path: &Path) -> Result<(), Self> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() {
            return Err(Self::Empty);
        }
        if bytes.contains(&0) {
            return Err(Self::ZeroByte);
        }
        if bytes.len() > sys::UNIX_PATH_MAX {
            return Err(Self::TooLong {
                bytes: bytes.len(),
                bytes_max: sys::UNIX_PATH_MAX,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn listening_failed_with(errno: Errno) -> Error {
        let address = SocketAddr::from(([127, 0, 0, 1], 8080)).into();
        Error::listen(&address, "bind", errno)
    }

    #[test]
    fn an_address_in_use_advises_two_ways_out() {
        assert_eq!(
            listening_failed_with(Errno::ADDRINUSE).to_string(),
            "cannot listen on 127.0.0.1:8080: address in use; \
             stop the program that listens there, or choose another port",
        );
    }

    #[test]
    fn advice_fits_tcp_or_unix() {
        let unix = Address::Unix("/run/a.sock".into());
        for (errno, for_tcp, for_unix) in [
            (Errno::ADDRINUSE, "another port", "another path"),
            (Errno::ACCESS, "above 1023", "may write to"),
            (Errno::NOENT, "bind failed", "directory does not exist"),
        ] {
            let tcp = listening_failed_with(errno).to_string();
            assert!(tcp.contains(for_tcp), "{tcp}");
            let unix = Error::listen(&unix, "bind", errno).to_string();
            assert!(unix.contains(for_unix), "{unix}");
            assert!(unix.starts_with("cannot listen on unix:/run/a.sock: "));
        }
    }

    #[test]
    fn another_listener_does_not_help_if_a_policy_forbids_accepting() {
        let failed_with = |errno: Errno| {
            let address = SocketAddr::from(([127, 0, 0, 1], 8080)).into();
            let source = errno.into();
            Error::Accept { address, source }.to_string()
        };
        let forbidden = failed_with(Errno::ACCESS);
        assert!(forbidden.starts_with("cannot accept on 127.0.0.1:8080: Permission denied"));
        assert!(forbidden.contains("SELinux"), "{forbidden}");
        assert!(!forbidden.contains("bind it again"), "{forbidden}");
        let broken = failed_with(Errno::INVAL);
        assert!(
            broken.ends_with("; close the listener and bind it again"),
            "{broken}"
        );
    }

    #[test]
    fn an_unexpected_failure_names_the_call() {
        let message = listening_failed_with(Errno::OPNOTSUPP).to_string();
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
            let error = io::Error::from(listening_failed_with(errno));
            assert_eq!(error.kind(), kind);
            assert!(
                error
                    .to_string()
                    .starts_with("cannot listen on 127.0.0.1:8080")
            );
        }
    }
}
