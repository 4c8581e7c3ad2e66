//! The operations of a connection as a trait, for code that also runs without sockets.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::Shutdown;

use crate::{address::Address, delivery, send_file, socket, stream::Stream};

/// A non-blocking connection: a [`Stream`], a stream of the standard library, or the connection of
/// a simulator.
///
/// Code that is generic over this trait runs on sockets in production, and without sockets in
/// tests. Each method behaves like the method of [`Stream`] with the same name. A stream of the
/// standard library has to be non-blocking (`set_nonblocking`).
///
/// ```
/// use evcore_net::Transport;
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
    /// Receives bytes that have arrived; 0 means that the peer sends no more, or that `buffer` is
    /// empty. A short read does not mean that nothing is left: see [`Stream::recv`].
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::recv`].
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Receives into the spare capacity of `buffer`, after its present content.
    ///
    /// The default implementation fills the spare capacity with zeros, and calls
    /// [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// If `buffer` has no spare capacity.
    fn recv_buf(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        socket::assert_has_room(buffer);
        let held = buffer.len();
        buffer.resize(buffer.capacity(), 0);
        let received = self.recv(&mut buffer[held..]);
        buffer.truncate(held + received.as_ref().map_or(0, |received| *received));
        received
    }

    /// Receives into several buffers, one after another.
    ///
    /// The default calls [`recv`](Self::recv) for one buffer after another, until one is not
    /// filled.
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](Self::recv).
    fn recv_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let buffers = buffers.iter_mut().filter(|buffer| !buffer.is_empty());
        sum_until_short(buffers.map(|buffer| (buffer.len(), self.recv(buffer))))
    }

    /// Sends as many of the bytes as fit into the connection's buffer, and returns their number.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::send`].
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends from several buffers, one after another.
    ///
    /// The default calls [`send`](Self::send) for one buffer after another, until one is not sent
    /// as a whole.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send).
    fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let buffers = buffers.iter().filter(|buffer| !buffer.is_empty());
        sum_until_short(buffers.map(|buffer| (buffer.len(), self.send(buffer))))
    }

    /// Sends, and announces that more follows at once.
    ///
    /// The default calls [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send).
    fn send_more(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    /// Sends up to `count` bytes of a file, from `offset` on. 0 means that `count` is 0 or that the
    /// file ends there.
    ///
    /// The default reads at most 16 KiB, and calls [`send`](Self::send) with them.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send), and of reading the file.
    fn send_file(&self, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<usize> {
        if count == 0 {
            return Ok(0);
        }
        send_file::send_copy(|bytes| self.send(bytes), file, offset, count)
    }

    /// Returns whether the peer has received all bytes that were sent, as far as the system reports
    /// it.
    ///
    /// The default returns true.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::is_delivered`].
    fn is_delivered(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Returns the time since the last packet of the peer.
    ///
    /// The default returns an error of the kind [`Unsupported`](io::ErrorKind::Unsupported).
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::since_last_packet`].
    fn since_last_packet(&self) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends the sending side, so the peer reads the end. Receiving still works.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::shutdown_write`].
    fn shutdown_write(&self) -> io::Result<()>;

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::peer_addr`].
    fn peer_addr(&self) -> io::Result<Address>;

    /// Returns the pending error of the connection, and clears it.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::take_error`].
    fn take_error(&self) -> io::Result<Option<io::Error>>;
}

/// Adds up the results for buffers of these lengths, up to the first short call. If bytes were
/// moved before an error, the error is dropped, because the next call meets it again.
fn sum_until_short(results: impl Iterator<Item = (usize, io::Result<usize>)>) -> io::Result<usize> {
    let mut moved = 0;
    for (length, result) in results {
        match result {
            Ok(n) if n < length => return Ok(moved + n),
            Ok(n) => moved += n,
            Err(error) if moved == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(moved)
}

macro_rules! impl_transport {
    ($($stream:ty),+) => {$(
        impl Transport for $stream {
            #[inline]
            fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
                socket::recv(self, buffer)
            }

            #[inline]
            fn recv_buf(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
                socket::recv_buf(self, buffer)
            }

            fn recv_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                socket::recv_vectored(self, buffers)
            }

            #[inline]
            fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                socket::send(self, bytes)
            }

            fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                socket::send_vectored(self, buffers)
            }

            fn send_more(&self, bytes: &[u8]) -> io::Result<usize> {
                socket::send_more(self, bytes)
            }

            fn send_file(
                &self,
                file: BorrowedFd<'_>,
                offset: u64,
                count: usize,
            ) -> io::Result<usize> {
                send_file::send_file(self, file, offset, count)
            }

            fn is_delivered(&self) -> io::Result<bool> {
                delivery::is_delivered(self)
            }

            fn since_last_packet(&self) -> io::Result<Duration> {
                socket::since_last_packet(self)
            }

            fn shutdown_write(&self) -> io::Result<()> {
                socket::shutdown(self, Shutdown::Write)
            }

            fn peer_addr(&self) -> io::Result<Address> {
                socket::peer_addr(self)
            }

            fn take_error(&self) -> io::Result<Option<io::Error>> {
                socket::take_error(self)
            }
        }
    )+};
}

impl_transport!(Stream, TcpStream, UnixStream);

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs::{self, File};
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use evcore_testing::Scratch;

    use crate::loopback::connected_pair;

    fn talk(transport: &dyn Transport, mut client: impl Read + Write, peer: &Address) {
        let mut buffer = [0; 8];
        let refused = transport.recv(&mut buffer).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        client.write_all(b"hello").unwrap();
        let received = loop {
            match transport.recv_vectored(&mut [IoSliceMut::new(&mut buffer)]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                received => break received.unwrap(),
            }
        };
        assert_eq!(&buffer[..received], b"hello");
        assert_eq!(transport.peer_addr().unwrap(), *peer);
        assert!(transport.take_error().unwrap().is_none());
        assert_eq!(transport.send(b"good").unwrap(), 4);
        let bye = [IoSlice::new(b"by"), IoSlice::new(b"e")];
        assert_eq!(transport.send_vectored(&bye).unwrap(), 3);
        assert_eq!(transport.send_more(b", ").unwrap(), 2);
        let scratch = Scratch::new("transport");
        let path = scratch.file("data");
        fs::write(&path, b"see you").unwrap();
        let file = File::open(path).unwrap();
        assert_eq!(transport.send_file(file.as_fd(), 4, 9).unwrap(), 3);
        transport.shutdown_write().unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"goodbye, you");
    }

    #[test]
    fn a_stream_behaves_the_same_through_the_trait() {
        let (stream, client) = connected_pair();
        let peer = stream.peer_addr().unwrap();
        talk(&stream, client, &peer);
    }

    #[test]
    fn the_streams_of_the_standard_library_are_transports() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        talk(&stream, client, &peer.into());

        let (stream, client) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        talk(&stream, client, &Address::Unnamed);
    }

    /// A transport that receives or sends `left` more bytes, and then would block. It has no
    /// vectored calls of its own.
    #[derive(Debug)]
    struct Fake {
        left: Cell<usize>,
    }

    impl Fake {
        fn take(&self, wanted: usize) -> io::Result<usize> {
            let moved = wanted.min(self.left.get());
            self.left.set(self.left.get() - moved);
            if moved == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            Ok(moved)
        }
    }

    impl Transport for Fake {
        fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
            self.take(buffer.len())
        }
        fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            self.take(bytes.len())
        }
        fn shutdown_write(&self) -> io::Result<()> {
            Ok(())
        }
        fn peer_addr(&self) -> io::Result<Address> {
            Ok(Address::Unnamed)
        }
        fn take_error(&self) -> io::Result<Option<io::Error>> {
            Ok(None)
        }
    }

    #[test]
    fn a_plain_transport_copies_what_it_sends_of_a_file() {
        let scratch = Scratch::new("plain");
        let path = scratch.file("data");
        fs::write(&path, [0; 20_000]).unwrap();
        let file = File::open(path).unwrap();
        let fake = Fake {
            left: Cell::new(17_000),
        };
        let send = |offset, count| fake.send_file(file.as_fd(), offset, count);
        assert_eq!(send(0, 0).unwrap(), 0);
        assert_eq!(send(0, 20_000).unwrap(), 16_384);
        assert_eq!(send(20_000, 1).unwrap(), 0);
        assert_eq!(send(16_384, 3_616).unwrap(), 616);
        assert_eq!(send(17_000, 1).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(
            fake.send_more(b"x").unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
    }

    #[test]
    fn a_plain_transport_receives_into_spare_capacity() {
        let fake = Fake { left: Cell::new(3) };
        let mut buffer = Vec::with_capacity(8);
        buffer.push(b'x');
        assert_eq!(fake.recv_buf(&mut buffer).unwrap(), 3);
        assert_eq!(buffer.len(), 4);
        let refused = fake.recv_buf(&mut buffer).unwrap_err();
        assert_eq!((refused.kind(), buffer.len()), (ErrorKind::WouldBlock, 4));
    }

    #[test]
    fn vectored_calls_of_a_plain_transport_use_every_buffer() {
        let fake = Fake { left: Cell::new(6) };
        let buffers = [b"".as_slice(), b"abcd", b"", b"efgh", b"ijkl"].map(IoSlice::new);
        assert_eq!(fake.send_vectored(&buffers).unwrap(), 6);
        let refused = fake.send_vectored(&buffers).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);

        // The data ends with the first buffer. The result is the received bytes, and not the error
        // after them.
        fake.left.set(4);
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let mut buffers = [&mut first, &mut second].map(|buffer| IoSliceMut::new(buffer));
        assert_eq!(fake.recv_vectored(&mut buffers).unwrap(), 4);
        let refused = fake.recv_vectored(&mut buffers).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }
}
