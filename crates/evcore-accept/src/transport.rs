//! What an application needs of a connection, whatever it is made of.

use std::{fmt, io};

use crate::{Address, Stream};

/// A non-blocking connection: a [`Stream`], or a simulator's.
///
/// Code that serves a connection and is generic over this runs on sockets, and in tests without
/// any. Each method does, and fails, as the method of that name of [`Stream`].
///
/// ```
/// use evcore_accept::Transport;
/// use std::io;
///
/// /// Sends of `rest` what is taken, and keeps the rest.
/// fn send_some(wire: &impl Transport, rest: &mut Vec<u8>) -> io::Result<()> {
///     let sent = wire.send(rest)?;
///     rest.drain(..sent);
///     Ok(())
/// }
/// ```
pub trait Transport: fmt::Debug {
    /// Receives what has arrived; 0 means that the peer will send no more. A short read does not
    /// mean that nothing is left: see [`Stream::recv`].
    ///
    /// # Errors
    ///
    /// As [`Stream::recv`].
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends as much as is taken, and returns how much that was.
    ///
    /// # Errors
    ///
    /// As [`Stream::send`].
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Tells the peer that no more will come; it can still be heard.
    ///
    /// # Errors
    ///
    /// As [`Stream::shutdown_write`].
    fn shutdown_write(&self) -> io::Result<()>;

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// As [`Stream::peer_addr`].
    fn peer_addr(&self) -> io::Result<Address>;

    /// Takes the error that is pending on the connection, which clears it.
    ///
    /// # Errors
    ///
    /// As [`Stream::take_error`].
    fn take_error(&self) -> io::Result<Option<io::Error>>;
}

impl Transport for Stream {
    #[inline]
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::recv(self, buffer)
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::send(self, bytes)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Self::shutdown_write(self)
    }

    fn peer_addr(&self) -> io::Result<Address> {
        Self::peer_addr(self)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Self::take_error(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};

    use crate::loopback::{connected_pair, wait_readable};

    /// All of it, as generic code calls it.
    #[test]
    fn a_stream_behind_the_trait_is_that_stream() {
        let (stream, mut client) = connected_pair();
        let wire: &dyn Transport = &stream;
        assert_eq!(
            wire.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        client.write_all(b"hello").unwrap();
        wait_readable(&stream);
        assert_eq!(wire.recv(&mut [0; 8]).unwrap(), 5);
        assert_eq!(wire.peer_addr().unwrap(), stream.peer_addr().unwrap());
        assert!(wire.take_error().unwrap().is_none());
        assert_eq!(wire.send(b"bye").unwrap(), 3);
        wire.shutdown_write().unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"bye");
    }
}
