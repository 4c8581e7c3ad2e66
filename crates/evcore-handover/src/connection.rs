//! A connection that moves to another process, with its state.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor, and the state that the next process needs for it.
///
/// Before you send a connection, remove its descriptor from your poller. After the send, both
/// processes hold the same open file, so a registration would go on reporting.
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
    /// The second connection of a session, for example a proxy's connection to its upstream. Both
    /// connections move together, or not at all.
    pub partner: Option<D>,
    /// The program's own bytes: at most [`STATE_BYTES_MAX`](crate::STATE_BYTES_MAX).
    pub state: Vec<u8>,
}

impl Connection {
    /// A connection with its state, which may be empty.
    #[must_use]
    pub fn new(descriptor: impl Into<OwnedFd>, state: impl Into<Vec<u8>>) -> Self {
        Self {
            descriptor: descriptor.into(),
            partner: None,
            state: state.into(),
        }
    }

    /// A session of two connections, with their state.
    ///
    /// ```
    /// use evcore_handover::Connection;
    ///
    /// let (client, upstream) = std::os::unix::net::UnixStream::pair()?;
    /// let session = Connection::pair(client, upstream, b"");
    /// assert_eq!(session.descriptors().count(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn pair(
        descriptor: impl Into<OwnedFd>,
        partner: impl Into<OwnedFd>,
        state: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            partner: Some(partner.into()),
            ..Self::new(descriptor, state)
        }
    }
}

impl<D> Connection<D> {
    /// Returns the descriptor, and the partner's descriptor if there is one. A receiver has to
    /// register all of them.
    pub fn descriptors(&self) -> impl Iterator<Item = &D> {
        [&self.descriptor].into_iter().chain(&self.partner)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

pub(crate) fn descriptors<'a, D: 'a>(
    connections: impl IntoIterator<Item = &'a Connection<D>>,
) -> usize {
    let each = connections.into_iter().map(|one| one.descriptors().count());
    each.sum()
}
