//! The errors of runtimes and of streams.

use std::io;

/// The reason why a [`Runtime`](crate::Runtime) could not be made, or why
/// [`block_on`](crate::Runtime::block_on) has no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was made in a future that a runtime or an executor of this thread polls, or in
    /// [`Executor::enter`](crate::Executor::enter).
    #[error(
        "a runtime runs on this thread already: await the future in place of calling block_on, \
         or call block_on on another thread"
    )]
    Nested,
    /// The loop shut down before the future ended.
    #[error("the loop shut down before the future ended")]
    ShutDown,
    /// The loop could not be built, has no free token, or cannot go on.
    #[error(transparent)]
    Loop(#[from] evcore::Error),
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Loop(error) => error.into(),
            error => Self::other(error),
        }
    }
}

/// A watched descriptor was used outside the executor that watches it.
#[derive(Debug, thiserror::Error)]
#[error(
    "this descriptor is watched by another runtime or executor: use it in a task of that one, or \
     take it out there (`into_inner` of a stream or a `Watched`), and watch it here"
)]
pub(crate) struct Foreign;

/// The loop evicts an idle connection to make room, or because it shuts down.
#[derive(Debug, thiserror::Error)]
#[error(
    "this connection was idle, and the loop evicts it to make room or because it shuts down: drop \
     the stream, which closes it"
)]
pub(crate) struct Evicted;

impl From<Evicted> for io::Error {
    fn from(error: Evicted) -> Self {
        Self::new(io::ErrorKind::ConnectionAborted, error)
    }
}

impl From<Foreign> for io::Error {
    fn from(error: Foreign) -> Self {
        Self::other(error)
    }
}
