//! What can go wrong in the loop itself.

use std::io;

use evcore_token::Token;

/// The result of a loop's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the loop refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index of this token names something that is not closed yet.
    #[error("{token}: its index is in use by {living}; close that one first")]
    InUse {
        /// The token that was offered.
        token: Token,
        /// The one that lives.
        living: Token,
    },
    /// The token was closed, or never added.
    #[error("{token} is not in the loop: it was closed, or never added")]
    Stale {
        /// The token that was asked for.
        token: Token,
    },
    /// The policy shares the listeners by a lock, and no lock was given.
    #[error("this accept policy needs a lock that the workers share; give Builder::lock one")]
    NoLock,
    /// The poller refused.
    #[error(transparent)]
    Poller(#[from] evcore_poller::Error),
    /// Accepting failed in a way that is nobody's ordinary fate.
    #[error(transparent)]
    Accept(#[from] evcore_accept::Error),
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Poller(error) => error.into(),
            Error::Accept(error) => error.into(),
            Error::InUse { .. } => Self::new(io::ErrorKind::AlreadyExists, error),
            Error::Stale { .. } => Self::new(io::ErrorKind::NotFound, error),
            Error::NoLock => Self::new(io::ErrorKind::InvalidInput, error),
        }
    }
}
