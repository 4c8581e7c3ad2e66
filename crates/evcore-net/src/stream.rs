//! A non-blocking TCP or Unix connection.
//!
//! The calls buffer nothing and keep no state. The caller decides what a call that would block
//! means for its poller.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net;

use crate::{address::Address, delivery, socket, sys};

/// A TCP or Unix connection, non-blocking and close-on-exec. Dropping it closes it.
///
/// [`Listener::accept`](crate::Listener::accept) and [`Stream::connect`] return it. A call that
/// would block fails with [`io::ErrorKind::WouldBlock`].
///
/// # Examples
///
/// ```
/// use evcore_net::{Accept, Listener};
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
/// let mut received = String::new();
/// client.read_to_string(&mut received)?;
/// assert_eq!(received, "bye");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    // Invariant: a stream socket, connected or connecting, non-blocking and close-on-exec.
    fd: OwnedFd,
}

impl Stream {
    /// Expects a socket that is non-blocking and close-on-exec.
    #[inline]
    pub(crate) const fn from_socket(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Receives the bytes that have arrived, at most as many as `buffer` holds, and returns their
    /// number.
    ///
    /// The result 0 means that the peer sends no more, or that `buffer` is empty. One system call,
    /// repeated only if a signal interrupts it.
    ///
    /// # When is it drained?
    ///
    /// A stream is drained after 0 or [`WouldBlock`](io::ErrorKind::WouldBlock). After a short read
    /// it may not be, because the end may follow the bytes directly. If the poller is
    /// edge-triggered, receive until 0 or `WouldBlock`. Otherwise the program may wait forever for
    /// an end of stream that has already arrived.
    ///
    /// You can omit the last call after a short read if no event of this stream has reported the
    /// end yet (`Ready::READ_CLOSED` of `evcore-poller`). An end that arrives later has an event of
    /// its own. If data and end arrive together, one event reports both, and no other event
    /// follows. Do not omit the call if the peer may send urgent data (TCP) or descriptors (Unix
    /// sockets): they end a read early too, and more bytes may be left.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has arrived,
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the peer has reset the connection,
    /// and any other error of recv(2).
    #[inline]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::recv(&self.fd, buffer)
    }

    /// Receives like [`recv`](Self::recv) into the spare capacity of `buffer`, after its present
    /// content. The memory need not be initialised, and the buffer does not grow.
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// If `buffer` has no spare capacity, because 0 bytes would mean the end.
    ///
    /// ```
    /// # use evcore_net::Stream;
    /// # use std::{io::Write, os::{fd::OwnedFd, unix::net::UnixStream}};
    /// let (near, mut far) = UnixStream::pair()?;
    /// let stream = Stream::from(OwnedFd::from(near));
    /// far.write_all(b", world")?;
    /// let mut buffer = b"hello".to_vec();
    /// buffer.reserve(1024);
    /// assert_eq!(stream.recv_buf(&mut buffer)?, 7);
    /// assert_eq!(buffer, b"hello, world");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn recv_buf(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        socket::recv_buf(&self.fd, buffer)
    }

    /// Receives like [`recv`](Self::recv) into memory that need not be initialised. Its first
    /// bytes, as many as the call returns, are then initialised.
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](Self::recv).
    #[inline]
    pub fn recv_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        socket::recv_uninit(&self.fd, buffer)
    }

    /// Receives like [`recv`](Self::recv) into several buffers, one after another. At most 1,024 of
    /// them are used.
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](Self::recv).
    pub fn recv_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        socket::recv_vectored(&self.fd, buffers)
    }

    /// Sends as many of the bytes as fit into the socket's buffer, and returns their number.
    ///
    /// One system call, repeated only if a signal interrupts it. It raises no SIGPIPE.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the buffer is full,
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) or
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the peer has left, and any other
    /// error of send(2).
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(&self.fd, bytes)
    }

    /// Sends like [`send`](Self::send), and announces that more follows at once.
    ///
    /// On Linux, TCP keeps a partial packet until more is sent, for at most 0.2 seconds
    /// (`MSG_MORE`). So a head and the file after it share their packets. On other systems, and on
    /// Unix sockets, it is the same as `send`.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send).
    pub fn send_more(&self, bytes: &[u8]) -> io::Result<usize> {
        socket::send_more(&self.fd, bytes)
    }

    /// Sends like [`send`](Self::send) from several buffers, one after another. At most 1,024 of
    /// them are used.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send).
    pub fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_vectored(&self.fd, buffers)
    }

    /// Returns whether the peer has received all bytes that were sent, as far as the system reports
    /// it. Costs one system call on Linux.
    ///
    /// `send` returns when the kernel has the bytes; the peer receives them later. On Linux, this
    /// returns false until a TCP peer has acknowledged all bytes, or a Unix peer has read them.
    /// Bytes in the receive buffer of a TCP peer count as delivered. On other systems it returns
    /// true in any case.
    ///
    /// Call it before you close an idle connection, for example at a graceful stop. A peer that has
    /// not received everything has had no chance to send its next request.
    ///
    /// # Errors
    ///
    /// The error of ioctl(2), which does not fail for a stream of this crate.
    ///
    /// # Examples
    ///
    /// ```
    /// use evcore_net::{Listener, Stream};
    ///
    /// let listener = Listener::bind("127.0.0.1:0")?;
    /// let client = Stream::connect(listener.local_addr())?;
    /// assert!(client.is_delivered()?, "nothing was sent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "SIOCOUTQ")]
    pub fn is_delivered(&self) -> io::Result<bool> {
        delivery::is_delivered(&self.fd)
    }

    /// Ends the sending side, so the peer reads the end. Receiving still works.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the connection was reset or is not yet
    /// made. If the stream is still connecting over TCP, the call succeeds on Linux and ends the
    /// attempt: the pending error is then [`ConnectionReset`](io::ErrorKind::ConnectionReset).
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    /// Ends one side, or both, for every descriptor of the connection.
    ///
    /// After [`Shutdown::Read`], [`recv`](Self::recv) returns 0 instead of failing with
    /// `WouldBlock`. A TCP peer gets no notice of it; on Linux, the sends of a Unix peer fail. It
    /// depends on the system whether bytes that have arrived, or that the peer still sends, are
    /// discarded or can be received.
    ///
    /// # Errors
    ///
    /// The errors of [`shutdown_write`](Self::shutdown_write).
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => net::Shutdown::Read,
            Shutdown::Write => net::Shutdown::Write,
            Shutdown::Both => net::Shutdown::Both,
        };
        socket::shutdown(&self.fd, how)
    }

    /// The address of this end, by a system call.
    ///
    /// # Errors
    ///
    /// The error of getsockname(2), which does not fail for a stream of this crate.
    pub fn local_addr(&self) -> io::Result<Address> {
        socket::local_addr(&self.fd)
    }

    /// The address of the peer, by a system call. `accept` returns it too.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the connection was reset or is not yet
    /// made.
    pub fn peer_addr(&self) -> io::Result<Address> {
        socket::peer_addr(&self.fd)
    }

    /// Returns the pending error of the connection (`SO_ERROR`), and clears it.
    ///
    /// Call it if the poller reports an error, to get that error. Also call it at the first report
    /// for a stream of [`connect`](Self::connect), to find out whether it is connected.
    ///
    /// # Errors
    ///
    /// The error of getsockopt(2), which does not fail for an open socket.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        socket::take_error(&self.fd)
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.recv_vectored(buffers)
    }
}

impl Read for &Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.recv_vectored(buffers)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_vectored(buffers)
    }

    /// Does nothing, because nothing is buffered.
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

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_vectored(buffers)
    }

    /// Does nothing, because nothing is buffered.
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

impl From<OwnedFd> for Stream {
    /// A stream around a socket that other code has made, which becomes non-blocking and
    /// close-on-exec. Costs two system calls, and three on Apple's systems.
    ///
    /// `Stream::from(OwnedFd::from(stream))` converts a [`TcpStream`](std::net::TcpStream) or a
    /// [`UnixStream`](std::os::unix::net::UnixStream) of the standard library. If the descriptor
    /// does not belong to a stream socket, the calls of the stream return the errors of the system.
    ///
    /// Let a poller watch a socket only when it is connected or connecting. Before that, Linux
    /// reports a hang-up.
    fn from(fd: OwnedFd) -> Self {
        sys::make_nonblocking_cloexec(&fd);
        Self { fd }
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
    use std::net::TcpStream;

    use rustix::io::FdFlags;

    use crate::loopback::{connected_pair, reset, wait_readable};

    #[test]
    fn recv_would_block_without_data() {
        let (stream, _client) = connected_pair();
        assert_eq!(
            stream.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
    }

    #[test]
    fn recv_returns_the_bytes_of_the_peer() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"hello").unwrap();
        wait_readable(&stream);
        let mut buffer = [0; 8];
        assert_eq!(stream.recv(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");
    }

    #[test]
    fn sent_bytes_reach_the_peer() {
        let (stream, mut client) = connected_pair();
        assert_eq!(stream.send(b"hello").unwrap(), 5);
        drop(stream);
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"hello");
    }

    #[test]
    fn send_would_block_when_the_buffer_is_full() {
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
    fn recv_returns_zero_at_the_end() {
        let (stream, client) = connected_pair();
        drop(client);
        wait_readable(&stream);
        assert_eq!(stream.recv(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn the_end_may_follow_a_short_read_directly() {
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
    fn urgent_data_ends_a_read_early() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"abc").unwrap();
        net::send(&client, b"!", net::SendFlags::OOB).unwrap();
        client.write_all(b"def").unwrap();
        let mut received = Vec::new();
        // The kernel chooses the number of pieces, but none of them spans the urgent byte.
        while received.concat() != b"abcdef" {
            wait_readable(&stream);
            let mut buffer = [0; 8];
            let n = stream.recv(&mut buffer).unwrap();
            received.push(buffer[..n].to_vec());
        }
        assert!(received.len() > 1, "{received:?}");
    }

    #[test]
    fn after_shutdown_write_the_peer_reads_the_end_and_may_send() {
        let (stream, mut client) = connected_pair();
        stream.shutdown_write().unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        client.write_all(b"still here").unwrap();
        wait_readable(&stream);
        assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 10);
    }

    #[test]
    fn sending_after_shutdown_write_is_an_error_without_a_signal() {
        let (stream, _client) = connected_pair();
        stream.shutdown_write().unwrap();
        assert_eq!(stream.send(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn take_error_returns_a_reset_once() {
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
    fn peer_addr_is_the_address_of_the_client() {
        let (stream, client) = connected_pair();
        assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
    }

    #[test]
    fn a_shared_reference_reads_and_writes() {
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

    #[test]
    fn write_vectored_sends_every_buffer() {
        let (mut stream, mut client) = connected_pair();
        let sent = stream.write_vectored(&[
            IoSlice::new(b""),
            IoSlice::new(b"head"),
            IoSlice::new(b"body"),
        ]);
        assert_eq!(sent.unwrap(), 8);
        let mut received = [0; 8];
        client.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"headbody");
    }

    #[test]
    fn read_vectored_fills_every_buffer() {
        let (mut stream, mut client) = connected_pair();
        client.write_all(b"headbody").unwrap();
        wait_readable(&stream);
        let (mut head, mut body) = ([0; 4], [0; 8]);
        let received =
            stream.read_vectored(&mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut body)]);
        assert_eq!(received.unwrap(), 8);
        assert_eq!((&head, &body[..4]), (b"head", &b"body"[..]));
    }

    #[test]
    fn recv_buf_appends_to_the_content_of_a_buffer() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"headbody").unwrap();
        wait_readable(&stream);
        let mut buffer = Vec::with_capacity(8);
        buffer.extend_from_slice(b"seen");
        let room = buffer.capacity() - buffer.len();
        assert_eq!(stream.recv_buf(&mut buffer).unwrap(), room.min(8));
        assert_eq!(buffer, b"seenheadbody"[..4 + room.min(8)]);
    }

    #[test]
    #[should_panic(expected = "no spare capacity")]
    fn a_buffer_without_spare_capacity_is_refused() {
        let (stream, _client) = connected_pair();
        let _ = stream.recv_buf(&mut Vec::new());
    }

    #[test]
    fn recv_uninit_returns_the_number_of_received_bytes() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"abc").unwrap();
        wait_readable(&stream);
        let mut buffer = [MaybeUninit::uninit(); 8];
        assert_eq!(stream.recv_uninit(&mut buffer).unwrap(), 3);
        let refused = stream.recv_uninit(&mut buffer).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_foreign_socket_becomes_non_blocking_and_close_on_exec() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = OwnedFd::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        rustix::io::fcntl_setfd(&fd, FdFlags::empty()).unwrap();
        let stream = Stream::from(fd);
        assert_eq!(
            stream.recv(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        let flags = rustix::io::fcntl_getfd(&stream).unwrap();
        assert!(flags.contains(FdFlags::CLOEXEC));
    }

    #[test]
    fn after_shutdown_of_the_read_side_recv_returns_zero() {
        let (stream, mut client) = connected_pair();
        stream.shutdown(Shutdown::Read).unwrap();
        assert_eq!(stream.recv(&mut [0; 8]).unwrap(), 0);
        assert_eq!(stream.send(b"still here").unwrap(), 10);
        drop(stream);
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"still here");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn after_shutdown_of_the_read_side_data_can_still_be_received() {
        let (stream, mut client) = connected_pair();
        client.write_all(b"before").unwrap();
        wait_readable(&stream);
        stream.shutdown(Shutdown::Read).unwrap();
        assert_eq!(stream.recv(&mut [0; 8]).unwrap(), 6);
        assert_eq!(stream.recv(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn more_buffers_than_the_kernel_takes_are_sent_in_part() {
        let (stream, _client) = connected_pair();
        let buffers = [IoSlice::new(b"x"); 2_000];
        assert_eq!(stream.send_vectored(&buffers).unwrap(), 1_024);
    }
}
