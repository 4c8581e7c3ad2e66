//! The operations of a connection, for code that is generic over it.

use std::{fmt, io};

use crate::{Address, Stream};

/// A non-blocking connection: a [`Stream`], or the connection of a simulator.
///
/// Code that is generic over it runs on sockets in production, and without sockets in tests. Each
/// method behaves like the method of [`Stream`] with the same name.
///
/// ```
/// use evcore_accept::Transport;
/// use std::io;
///
/// /// Sends what fits into the buffer of the connection, and keeps the rest.
/// fn send_some(transport: &impl Transport, rest: &mut Vec<u8>) -> io::Result<()> {
///     let sent = transport.send(rest)?;
///     rest.drain(..sent);
///     Ok(())
/// }
/// ```
pub trait Transport: fmt::Debug {
    /// Receives bytes that have arrived; 0 means that the peer sends no more. A short read does not
    /// mean that nothing is left: see [`Stream::recv`].
    ///
    /// # Errors
    ///
    /// Those of [`Stream::recv`].
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends as many bytes as fit into the buffer, and returns their number.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::send`].
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Ends the sending side, so the peer reads the end. Receiving still works.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::shutdown_write`].
    fn shutdown_write(&self) -> io::Result<()>;

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::peer_addr`].
    fn peer_addr(&self) -> io::Result<Address>;

    /// Returns the pending error of the connection, and clears it.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::take_error`].
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

    /// Calls every method as generic code does.
    #[test]
    fn a_stream_behaves_the_same_through_the_trait() {
        let (stream, mut client) = connected_pair();
        let transport: &dyn Transport = &stream;
        assert_eq!(
            transport.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        client.write_all(b"hello").unwrap();
        wait_readable(&stream);
        assert_eq!(transport.recv(&mut [0; 8]).unwrap(), 5);
        assert_eq!(transport.peer_addr().unwrap(), stream.peer_addr().unwrap());
        assert!(transport.take_error().unwrap().is_none());
        assert_eq!(transport.send(b"bye").unwrap(), 3);
        transport.shutdown_write().unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"bye");
    }
}
