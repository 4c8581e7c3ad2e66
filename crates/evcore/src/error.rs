//! The errors of the loop.

use std::{fmt, io};

use evcore_balancer::Policy;
use evcore_token::Token;

/// The result of a loop's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a call of the loop failed.
///
/// ```
/// use evcore::{Error, EventLoop, Interest};
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// let refused = ev.modify(token, Interest::READ).unwrap_err();
/// assert!(matches!(refused, Error::Stale { .. }));
/// assert_eq!(format!("{refused:?}"), refused.to_string());
/// # Ok::<(), Error>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The limit of connections is reached, or every token is in use.
    #[error(
        "the loop is full: its limit is {limit}; \
         close a connection or remove a token, or give Builder::connections a higher limit"
    )]
    Full {
        /// The limit.
        limit: u32,
    },
    /// The token was closed, or never added, or has no descriptor where one is needed.
    #[error("{token} is not watched: it was closed, never added, or added without a descriptor")]
    Stale {
        /// The token of the call.
        token: Token,
    },
    /// The ticker that updates the clock failed, or the timer resolution is zero or longer than a
    /// day.
    #[error(transparent)]
    Ticker(#[from] evcore_clock::TickerError),
    /// The policy needs a lock or a group, and this worker has none. A lock is not enough for
    /// [`Policy::LeastLoaded`](evcore_balancer::Policy::LeastLoaded).
    #[error(
        "the policy {policy:?} needs a group of workers; make a WorkerGroup for it before the \
         workers start, and give Builder::group a member of it"
    )]
    NoGroup {
        /// The policy of this worker.
        policy: Policy,
    },
    /// A call of the poller failed.
    #[error(transparent)]
    Poller(#[from] evcore_poller::Error),
    /// Accepting failed for a reason that concerns the listener itself. No call of the loop returns
    /// this; it is the source of a [`ListenerError`].
    #[error(transparent)]
    Accept(#[from] evcore_net::Error),
    /// A listener lost many connections in a row before they were accepted. Like
    /// [`Accept`](Self::Accept), it is the source of a [`ListenerError`].
    #[error(
        "{connections} connections in a row were lost before they were accepted; \
         if they were no real clients, a firewall or a sandbox may forbid accepting (EPERM)"
    )]
    Aborted {
        /// Number of lost connections.
        connections: u32,
    },
}

/// Prints the text of `Display`, so that a program whose `main` returns the error, or that unwraps
/// it, ends with a line that names the remedy.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The failure of a listener, which is suspended for half a second and then tried again.
///
/// The poller refused to register or to remove it, or accepting failed. The other listeners and all
/// connections go on. [`ListenersMut::take_error`](crate::ListenersMut::take_error)
/// returns it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error("listener {listener} is suspended for half a second: {source}")]
pub struct ListenerError {
    /// The number of the listener, from 0 in the order of
    /// [`Builder::listener`](crate::Builder::listener).
    pub listener: usize,
    /// The failure: [`Error::Poller`], [`Error::Accept`] or [`Error::Aborted`].
    pub source: Error,
}

/// Keeps the kind and the message of the error. If a system call of the poller failed, only the
/// error number is kept, and the name of the call is lost: log the [`Error`] itself.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Poller(error) => error.into(),
            Error::Accept(error) => error.into(),
            Error::Ticker(error) => error.into(),
            Error::Full { .. } => Self::new(io::ErrorKind::QuotaExceeded, error),
            Error::Stale { .. } => Self::new(io::ErrorKind::NotFound, error),
            Error::NoGroup { .. } => Self::new(io::ErrorKind::InvalidInput, error),
            Error::Aborted { .. } => Self::new(io::ErrorKind::ConnectionAborted, error),
        }
    }
}
