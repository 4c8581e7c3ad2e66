//! The outcomes of accepting, and what each one requires of the caller.
//!
//! The error number of accept(2) has different kinds of causes: the backlog is empty, one client
//! has left, the process or the system is exhausted, or the listener is broken. The caller has to
//! act differently in each case, so one function classifies the numbers.

use std::fmt;

use rustix::io::Errno;

use crate::{address::Address, stream::Stream};

/// The outcome of one call to [`Listener::accept`](crate::Listener::accept).
///
/// `S` is the type of the connection: a [`Stream`], or the connection of a simulator.
///
/// The enum is exhaustive on purpose, because each outcome requires a reaction of its own.
///
/// # Examples
///
/// ```
/// use evcore_net::{Accept, Listener};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// assert!(matches!(listener.accept()?, Accept::WouldBlock), "no client has connected");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a connection that is dropped is closed"]
pub enum Accept<S = Stream> {
    /// A connection, and the address of its peer.
    Connection(S, Address),

    /// The backlog is empty: go back to the poller.
    WouldBlock,

    /// One client cannot be accepted, for example because it has left, or because a firewall
    /// forbids it. Call `accept` again, because other clients may be waiting.
    ///
    /// The error numbers are ECONNABORTED, EPERM (the error of a firewall), and those that the
    /// Linux manual page accept(2) lists as network errors of the new connection (ENETDOWN, EPROTO,
    /// ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP and ENETUNREACH) or as errors that
    /// some kernels return (ETIMEDOUT, EPROTONOSUPPORT and ESOCKTNOSUPPORT). If the system reports
    /// no address of a TCP client, that client has left, too.
    ///
    /// A sandbox that forbids accept(2) may return EPERM for every call. If thousands of calls in a
    /// row return this outcome, stop watching the listener for a while.
    Aborted,

    /// A resource is exhausted: stop watching the listener for a while.
    ///
    /// The client stays in the backlog, so a listener that is watched stays readable and the loop
    /// spins. [`Backoff`](crate::Backoff) times the pause.
    Exhausted(Resource),
}

impl Accept {
    /// The outcome for this error number; `None` if it is an error of the listener itself.
    ///
    /// EINTR is not an outcome: an interrupted call is repeated.
    pub(crate) fn from_errno(errno: Errno) -> Option<Self> {
        match errno {
            Errno::AGAIN => Some(Self::WouldBlock),
            // Linux passes on the pending network errors of the new connection, and the refusal of
            // a firewall (PERM). The next client may be accepted.
            Errno::CONNABORTED
            | Errno::NETDOWN
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::TIMEDOUT
            | Errno::PROTONOSUPPORT
            | Errno::SOCKTNOSUPPORT
            | Errno::PERM => Some(Self::Aborted),
            #[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
            Errno::NONET => Some(Self::Aborted),
            Errno::MFILE => Some(Self::Exhausted(Resource::Process)),
            Errno::NFILE => Some(Self::Exhausted(Resource::System)),
            Errno::NOBUFS | Errno::NOMEM => Some(Self::Exhausted(Resource::Memory)),
            _ => None,
        }
    }
}

/// The resource that was exhausted when a connection could not be accepted.
///
/// # Examples
///
/// ```
/// use evcore_net::Resource;
///
/// assert_eq!(
///     Resource::Process.to_string(),
///     "this process is out of descriptors; close some or raise its limit (ulimit -n)",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Descriptors of the process: its limit is reached (EMFILE).
    Process,
    /// Descriptors of the whole system (ENFILE).
    System,
    /// Memory of the kernel for another socket (ENOBUFS, ENOMEM).
    Memory,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => {
                "this process is out of descriptors; close some or raise its limit (ulimit -n)"
            }
            Self::System => {
                "the system is out of descriptors; raise its limit on open files (fs.file-max on \
                 Linux, kern.maxfiles on the BSDs and macOS)"
            }
            Self::Memory => "the kernel has no memory for another socket; close some connections",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_backlog_would_block() {
        for errno in [Errno::AGAIN, Errno::WOULDBLOCK] {
            let outcome = Accept::from_errno(errno);
            assert!(
                matches!(outcome, Some(Accept::WouldBlock)),
                "{errno:?}: {outcome:?}"
            );
        }
    }

    #[test]
    fn an_error_of_one_client_is_aborted() {
        for errno in [
            Errno::CONNABORTED,
            Errno::NETDOWN,
            Errno::PROTO,
            Errno::NOPROTOOPT,
            Errno::HOSTDOWN,
            #[cfg(target_os = "linux")]
            Errno::NONET,
            Errno::HOSTUNREACH,
            Errno::OPNOTSUPP,
            Errno::NETUNREACH,
            Errno::PERM,
            Errno::TIMEDOUT,
            Errno::PROTONOSUPPORT,
            Errno::SOCKTNOSUPPORT,
        ] {
            let outcome = Accept::from_errno(errno);
            assert!(
                matches!(outcome, Some(Accept::Aborted)),
                "{errno:?}: {outcome:?}"
            );
        }
    }

    #[test]
    fn exhaustion_names_the_resource() {
        for (errno, expected) in [
            (Errno::MFILE, Resource::Process),
            (Errno::NFILE, Resource::System),
            (Errno::NOBUFS, Resource::Memory),
            (Errno::NOMEM, Resource::Memory),
        ] {
            match Accept::from_errno(errno) {
                Some(Accept::Exhausted(resource)) => assert_eq!(resource, expected),
                outcome => panic!("{errno:?}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn a_broken_listener_is_an_error() {
        for errno in [
            Errno::BADF,
            Errno::INVAL,
            Errno::NOTSOCK,
            Errno::FAULT,
            Errno::INTR,
        ] {
            assert!(Accept::from_errno(errno).is_none(), "{errno:?}");
        }
    }
}
