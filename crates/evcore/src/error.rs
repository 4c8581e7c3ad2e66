//! What can go wrong in the loop itself.

use std::{io, time::Duration};

use evcore_balancer::Policy;
use evcore_token::Token;

/// The result of a loop's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the loop refused.
///
/// ```
/// use evcore::{Error, EventLoop, Interest};
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// let refused = ev.modify(token, Interest::READ).unwrap_err();
/// assert!(matches!(refused, Error::Stale { .. }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// As many descriptors are watched as may be, or as many tokens are in use.
    #[error(
        "the loop is full: its limit is {limit}; \
         close a connection, or give Builder::connections a higher limit"
    )]
    Full {
        /// How many there may be.
        limit: u32,
    },
    /// The token was closed, or never added, or has no descriptor where one is needed.
    #[error("{token} is not watched: it was closed, never added, or added without a descriptor")]
    Stale {
        /// The token that was asked for.
        token: Token,
    },
    /// The clock cannot be updated at this pace: not at all, or less than once a day.
    #[error(
        "a timer resolution of {resolution:?} is none; \
         give Builder::timer_resolution a time above zero, of a day at most"
    )]
    Resolution {
        /// What was asked for.
        resolution: Duration,
    },
    /// What is to update the clock failed.
    #[error(transparent)]
    Ticker(#[from] evcore_clock::TickerError),
    /// The policy needs what the workers share, and this worker has no part in it. A lock is not
    /// enough for [`Policy::LeastLoaded`](evcore_balancer::Policy::LeastLoaded).
    #[error(
        "the policy {policy:?} needs what the workers share; make a WorkerGroup for it before the \
         workers start, and give Builder::group a member of it"
    )]
    NoGroup {
        /// The policy of this worker.
        policy: Policy,
    },
    /// The poller refused.
    #[error(transparent)]
    Poller(#[from] evcore_poller::Error),
    /// A listener is broken: accepting failed for a reason that concerns no single client and is no
    /// shortage. No call of the loop returns it; it is the source of a [`ListenerError`].
    #[error(transparent)]
    Accept(#[from] evcore_accept::Error),
    /// One connection of a listener after the other was lost before it could be accepted. The
    /// source of a [`ListenerError`], as [`Accept`](Self::Accept) is.
    #[error(
        "{connections} connections in a row were lost before they could be accepted; \
         if there are no such clients, let this process accept (EPERM: a firewall, a sandbox)"
    )]
    Aborted {
        /// How many it were.
        connections: u32,
    },
}

/// A listener failed and is suspended for half a second; then the loop tries it again.
///
/// The poller refused to register it or to take it out, or accepting failed. The other listeners
/// and all connections go on. From
/// [`EventLoop::take_listener_error`](crate::EventLoop::take_listener_error).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error("listener {listener} is suspended for half a second: {source}")]
pub struct ListenerError {
    /// Which listener it is, in the order in which the builder was given them, from 0.
    pub listener: usize,
    /// What failed: [`Error::Poller`], [`Error::Accept`] or [`Error::Aborted`].
    pub source: Error,
}

/// Keeps the kind and the message.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Poller(error) => error.into(),
            Error::Accept(error) => error.into(),
            Error::Ticker(error) => error.into(),
            Error::Full { .. } => Self::new(io::ErrorKind::QuotaExceeded, error),
            Error::Stale { .. } => Self::new(io::ErrorKind::NotFound, error),
            Error::NoGroup { .. } | Error::Resolution { .. } => {
                Self::new(io::ErrorKind::InvalidInput, error)
            }
            Error::Aborted { .. } => Self::new(io::ErrorKind::ConnectionAborted, error),
        }
    }
}
