//! A connection that was accepted.
//!
//! `recv` and `send` are the system calls and no more: nothing is buffered, nothing is remembered.
//! What "would block" means for the poller is for the caller to draw.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{self, RecvFlags, getpeername, sockopt};

use crate::{Address, sys};

/// A TCP or Unix connection, non-blocking and close-on-exec, closed when dropped.
///
/// It comes from [`Listener::accept`](crate::Listener::accept).
/// Where a call would block it fails with [`io::ErrorKind::WouldBlock`].
///
/// # Examples
///
/// ```
/// use evcore_accept::{Accept, Listener};
/// use std::io::{ErrorKind, Read};
/// use std::net::TcpStream;
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr())?;
/// let stream = loop {
///     if let Accept::Connection(stream, _) = listener.accept()? {
///         break stream;
///     }
/// };
///
/// assert_eq!(stream.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
/// assert_eq!(stream.send(b"bye")?, 3);
/// stream.shutdown_write()?;
///
/// let mut heard = String::new();
/// client.read_to_string(&mut heard)?;
/// assert_eq!(heard, "bye");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    // Invariant: a connected socket, non-blocking.
    fd: OwnedFd,
}

impl Stream {
    /// A stream around a connection that is prepared already.
    #[inline]
    pub(crate) const fn accepted(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Receives what has arrived, up to the length of `buffer`, and returns how much it was.
    ///
    /// 0 means that the peer will send no more (or that `buffer` is empty). One system call,
    /// repeated only if a signal interrupts it.
    ///
    /// # When is it drained?
    ///
    /// After 0 or [`WouldBlock`](io::ErrorKind::WouldBlock). A short read, of less than was asked
    /// for, does not mean it: the end may be right behind the bytes. If the poller reports
    /// readiness once only (edge-triggered), go on until 0 or `WouldBlock`; else you may wait for
    /// ever for what is there already.
    ///
    /// The last call can be saved after a short read if no event of this stream has reported the
    /// end yet (`Ready::READ_CLOSED` of `evcore-poller`): then an end that comes is an event of its
    /// own. If data and end come together, one event reports both, and no other follows. On TCP
    /// this supposes a peer that sends no urgent data, since a read ends in front of that; on a
    /// Unix socket a read ends behind a message that carries descriptors.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has arrived,
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the peer has gone, and whatever else
    /// recv(2) may say.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (received, _) =
            retry_on_intr(|| net::recv(&self.fd, &mut *buffer, RecvFlags::empty()))?;
        Ok(received)
    }

    /// Sends as much of `bytes` as the socket takes, and returns how much that was.
    ///
    /// One system call, repeated only if a signal interrupts it. Raises no SIGPIPE.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the socket takes nothing for now,
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) or
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the peer has gone, and whatever else
    /// send(2) may say.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| {
            net::send(&self.fd, bytes, sys::SEND_FLAGS)
        })?)
    }

    /// Tells the peer that no more will come; it can still be heard.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the connection was reset.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(net::shutdown(&self.fd, net::Shutdown::Write)?)
    }

    /// The address of the peer, asked of the kernel; `accept` has told it already.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the connection was reset.
    pub fn peer_addr(&self) -> io::Result<Address> {
        match getpeername(&self.fd)? {
            Some(peer) => Ok(sys::address(peer)?),
            // As accept does, some systems have nothing to say of a peer without a name.
            None => Ok(Address::Unnamed),
        }
    }

    /// Takes the error that is pending on the connection (`SO_ERROR`), which clears it.
    ///
    /// This is how to learn what a poller's error bit was about.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be asked, which it always can for a socket.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(&self.fd)?.err().map(io::Error::from))
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

impl Read for &Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    /// Does nothing: nothing is buffered.
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    /// Does nothing: nothing is buffered.
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Stream> for OwnedFd {
    /// The descriptor; it stays non-blocking and close-on-exec.
    fn from(stream: Stream) -> Self {
        stream.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    use crate::loopback::{connected_pair, reset, wait_readable};

    #[test]
    fn with_nothing_to_receive_it_would_block() {
        let (stream, _client) = connected_pair();
        assert_eq!(
            stream.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
    }

    #[test]
    fn what_the_peer_sends_arrives() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"hello").unwrap();
        wait_readable(&stream);
        let mut buffer = [0; 8];
        assert_eq!(stream.recv(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");
    }

    #[test]
    fn what_is_sent_reaches_the_peer() {
        let (stream, mut client) = connected_pair();
        assert_eq!(stream.send(b"hello").unwrap(), 5);
        drop(stream);
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"hello");
    }

    #[test]
    fn a_full_socket_would_block() {
        let (stream, _client) = connected_pair();
        let bytes = [0; 64 * 1024];
        let refused = loop {
            if let Err(error) = stream.send(&bytes) {
                break error;
            }
        };
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn the_end_is_zero_bytes() {
        let (stream, client) = connected_pair();
        drop(client);
        wait_readable(&stream);
        assert_eq!(stream.recv(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_short_read_may_have_the_end_right_behind_it() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"bye").unwrap();
        drop(client);
        wait_readable(&stream);
        let mut buffer = [0; 8];
        assert_eq!(stream.recv(&mut buffer).unwrap(), 3);
        wait_readable(&stream);
        assert_eq!(stream.recv(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_short_read_may_end_in_front_of_urgent_data() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"abc").unwrap();
        net::send(&client, b"!", net::SendFlags::OOB).unwrap();
        client.write_all(b"def").unwrap();
        let mut heard = Vec::new();
        // In how many pieces it arrives is the kernel's business, but none spans the urgent byte.
        while heard.concat() != b"abcdef" {
            wait_readable(&stream);
            let mut buffer = [0; 8];
            let n = stream.recv(&mut buffer).unwrap();
            heard.push(buffer[..n].to_vec());
        }
        assert!(heard.len() > 1, "{heard:?}");
    }

    #[test]
    fn after_shutdown_the_peer_hears_the_end_and_can_still_be_heard() {
        let (stream, mut client) = connected_pair();
        stream.shutdown_write().unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        client.write_all(b"still here").unwrap();
        wait_readable(&stream);
        assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 10);
    }

    #[test]
    fn sending_after_shutdown_is_an_error_and_no_signal() {
        let (stream, _client) = connected_pair();
        stream.shutdown_write().unwrap();
        assert_eq!(stream.send(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reset_is_a_pending_error_that_is_taken_once() {
        let (stream, client) = connected_pair();
        assert!(stream.take_error().unwrap().is_none());
        reset(client);
        wait_readable(&stream);
        let error = stream
            .take_error()
            .unwrap()
            .expect("the connection was reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(stream.take_error().unwrap().is_none());
    }

    #[test]
    fn the_peer_is_who_connected() {
        let (stream, client) = connected_pair();
        assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
    }

    #[test]
    fn a_shared_stream_can_be_read_and_written() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"ping").unwrap();
        wait_readable(&stream);
        let mut request = [0; 4];
        (&stream).read_exact(&mut request).unwrap();
        (&stream).write_all(&request).unwrap();
        let mut reply = [0; 4];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"ping");
    }
}
