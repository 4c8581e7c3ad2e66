//! A connection that moves.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor, and the state that the next process needs for it.
///
/// Before you send a connection, remove its descriptor from your poller. Both processes then hold
/// the same open file, so a registration would go on reporting.
///
/// ```
/// use evcore_handover::Connection;
///
/// let (stream, _peer) = std::os::unix::net::UnixStream::pair()?;
/// let connection = Connection::new(stream, b"GET /in");
/// assert_eq!(connection.state, b"GET /in");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Connection<D = OwnedFd> {
    /// The open file. Its status flags, such as `O_NONBLOCK`, move with it.
    pub descriptor: D,
    /// The program's own bytes: at most [`STATE_BYTES_MAX`](crate::STATE_BYTES_MAX).
    pub state: Vec<u8>,
}

impl Connection {
    /// A connection with its state, which may be empty.
    #[must_use]
    pub fn new(descriptor: impl Into<OwnedFd>, state: impl Into<Vec<u8>>) -> Self {
        Self {
            descriptor: descriptor.into(),
            state: state.into(),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
