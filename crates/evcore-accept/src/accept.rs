//! What can come of accepting, and what each outcome asks of the caller.
//!
//! accept(2) reports through one number whether the queue is empty, whether one peer has gone,
//! whether this process has run out, or whether the listener itself is broken. Each asks for
//! something else, so each is told apart here, in one function over the number alone.

use std::fmt;

use rustix::io::Errno;

use crate::{Address, Stream};

/// What came of one call to [`Listener::accept`](crate::Listener::accept).
///
/// `S` is the connection: a [`Stream`], but for those who simulate one.
///
/// There is no variant to come: four outcomes call for four ways to go on, and a `match` should
/// name them all.
///
/// # Examples
///
/// ```
/// use evcore_accept::{Accept, Listener};
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// assert!(matches!(listener.accept()?, Accept::WouldBlock), "nobody has connected");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a connection that is dropped is closed"]
pub enum Accept<S = Stream> {
    /// A connection, and the address of its peer.
    Connection(S, Address),

    /// Nobody is waiting: go back to the poller.
    WouldBlock,

    /// One peer cannot be accepted: it has left, or a firewall forbids it. Go on, others may be
    /// waiting.
    ///
    /// Besides ECONNABORTED, these are what accept(2) of Linux lists as errors of the new
    /// connection (ENETDOWN, EPROTO, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP,
    /// ENETUNREACH, ETIMEDOUT, EPROTONOSUPPORT and ESOCKTNOSUPPORT), and as a firewall's answer
    /// (EPERM).
    ///
    /// A sandbox that forbids the call altogether answers EPERM, too, and then every call does:
    /// give up a listener, for a while, of which thousands of calls in a row return this.
    Aborted,

    /// There is nothing left to accept with: stop watching the listener for a while.
    ///
    /// The client keeps waiting in the backlog, so a listener that is watched stays readable; see
    /// [`Backoff`](crate::Backoff).
    Exhausted(Resource),
}

impl Accept {
    /// The outcome that `errno` stands for; `None` if it is an error of the listener itself.
    ///
    /// EINTR is not among them: a call that was interrupted has no outcome yet.
    pub(crate) fn from_errno(errno: Errno) -> Option<Self> {
        match errno {
            Errno::AGAIN => Some(Self::WouldBlock),
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

/// What there was too little of to accept a connection.
///
/// # Examples
///
/// ```
/// use evcore_accept::Resource;
///
/// assert_eq!(
///     Resource::Process.to_string(),
///     "this process has no descriptor left; close some or raise its limit (RLIMIT_NOFILE)",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// The process has as many descriptors as it may have (EMFILE).
    Process,
    /// The whole system has (ENFILE).
    System,
    /// The kernel has no memory for another socket (ENOBUFS, ENOMEM).
    Memory,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => {
                "this process has no descriptor left; \
                 close some or raise its limit (RLIMIT_NOFILE)"
            }
            Self::System => "the system has no descriptor left; raise its limit on open files",
            Self::Memory => "the kernel has no memory for another socket; close some connections",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_queue_is_drained() {
        for errno in [Errno::AGAIN, Errno::WOULDBLOCK] {
            let outcome = Accept::from_errno(errno);
            assert!(
                matches!(outcome, Some(Accept::WouldBlock)),
                "{errno:?}: {outcome:?}"
            );
        }
    }

    #[test]
    fn what_concerns_one_peer_is_aborted() {
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
    fn a_shortage_says_of_what() {
        for (errno, expected) in [
            (Errno::MFILE, Resource::Process),
            (Errno::NFILE, Resource::System),
            (Errno::NOBUFS, Resource::Memory),
            (Errno::NOMEM, Resource::Memory),
        ] {
            match Accept::from_errno(errno) {
                Some(Accept::Exhausted(shortage)) => assert_eq!(shortage, expected),
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
