//! Moving bytes from one stream to another without a copy through the process.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::socket;

/// The most bytes in a pipe. It is also the size of the buffer that replaces it.
const CAPACITY: usize = 64 * 1024;

/// A buffer between two streams that is kept in the kernel (a pipe and splice(2), on Linux).
///
/// It remembers how many bytes it holds, at most 64 KiB. Use one for each direction of a connection,
/// for as long as the connection lasts. An empty one can be used for another connection.
///
/// Where the kernel refuses to splice, and on other systems, it is a buffer of the process instead, and
/// works alike.
///
/// # Cost
///
/// Two descriptors, or none if it is a buffer of the process, and one system call for each method that
/// moves bytes. The kernel allocates memory only for what the pipe holds, and moves pages instead of
/// copying them. That pays for many kilobytes at a time; for a few hundred bytes, receiving and sending
/// costs less. An unprivileged user may have some 1,000 pipes of this size (`pipe-user-pages-soft` of
/// proc(5)). The kernel then makes smaller ones.
///
/// # Examples
///
/// ```
/// use evcore_accept::SplicePipe;
/// use std::{io::{Read, Write}, os::unix::net::UnixStream};
///
/// let (mut client, from) = UnixStream::pair()?;
/// let (to, mut upstream) = UnixStream::pair()?;
/// let mut pipe = SplicePipe::new()?;
///
/// client.write_all(b"hello")?;
/// assert_eq!(pipe.fill_from(&from)?, 5);
/// while !pipe.is_empty() {
///     pipe.drain_to(&to)?; // perhaps not all of it
/// }
/// let mut received = [0; 5];
/// upstream.read_exact(&mut received)?;
/// assert_eq!(&received, b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SplicePipe {
    /// `None` if the kernel does not splice.
    // Invariant: if it holds bytes, `buffer` holds none.
    pipe: Option<imp::Pipe>,
    /// The bytes from `sent` on are those that it holds.
    buffer: Vec<u8>,
    sent: usize,
}

impl SplicePipe {
    /// Makes an empty pipe, non-blocking and close-on-exec.
    ///
    /// # Errors
    ///
    /// Those of pipe2(2): no descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            pipe: imp::Pipe::new()?,
            buffer: Vec::new(),
            sent: 0,
        })
    }

    /// Receives what has arrived at a socket, at most 64 KiB, and returns the number of bytes.
    ///
    /// 0 means that the peer sends no more. Fewer bytes than 64 KiB have no meaning of their own: the
    /// socket is drained only when this fails with [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Errors
    ///
    /// Those of [`Stream::recv`](crate::Stream::recv).
    ///
    /// # Panics
    ///
    /// If it still holds bytes. `WouldBlock` could then mean that it is full.
    pub fn fill_from(&mut self, socket: impl AsFd) -> io::Result<usize> {
        assert!(
            self.is_empty(),
            "drain it first: it holds {} bytes",
            self.len()
        );
        if let Some(pipe) = &mut self.pipe {
            match pipe.fill_from(&socket) {
                Err(errno) if is_refusal(errno) => self.pipe = None,
                result => return Ok(result?),
            }
        }
        self.buffer.resize(CAPACITY, 0);
        let received = socket::recv(&socket, &mut self.buffer);
        self.buffer.truncate(*received.as_ref().unwrap_or(&0));
        self.sent = 0;
        received
    }

    /// Sends bytes that it holds to a socket, as many as fit into the buffer of the socket, and returns
    /// their number. 0 means that it is empty.
    ///
    /// The buffer of the socket is full only when this fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Errors
    ///
    /// Those of [`Stream::send`](crate::Stream::send). A peer that has left also raises SIGPIPE on
    /// Linux. Rust programs ignore that signal, unless they reset it.
    pub fn drain_to(&mut self, socket: impl AsFd) -> io::Result<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        if let Some(pipe) = &mut self.pipe {
            match pipe.drain_to(&socket) {
                Err(errno) if is_refusal(errno) => self.leave_pipe()?,
                result => return Ok(result?),
            }
        }
        let sent = socket::send(&socket, &self.buffer[self.sent..])?;
        self.sent += sent;
        Ok(sent)
    }

    /// The number of bytes that it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        let in_pipe = self.pipe.as_ref().map_or(0, imp::Pipe::len);
        in_pipe + self.buffer.len() - self.sent
    }

    /// Whether it holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves what the pipe holds to the buffer, and closes the pipe.
    fn leave_pipe(&mut self) -> io::Result<()> {
        if let Some(pipe) = &mut self.pipe {
            self.buffer.resize(pipe.len(), 0);
            self.sent = 0;
            pipe.read_all(&mut self.buffer)?;
        }
        self.pipe = None;
        Ok(())
    }
}

impl fmt::Debug for SplicePipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SplicePipe")
            .field("len", &self.len())
            .field("in_kernel", &self.pipe.is_some())
            .finish_non_exhaustive()
    }
}

/// Whether the kernel cannot splice here: there is no such call, or not for this kind of socket.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use super::*;
    use std::os::fd::OwnedFd;

    use rustix::io::{read, retry_on_intr};
    use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

    /// A pipe, and the number of bytes in it.
    pub(super) struct Pipe {
        reader: OwnedFd,
        writer: OwnedFd,
        len: usize,
    }

    impl Pipe {
        pub(super) fn new() -> io::Result<Option<Self>> {
            let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
            Ok(Some(Self {
                reader,
                writer,
                len: 0,
            }))
        }

        pub(super) fn len(&self) -> usize {
            self.len
        }

        pub(super) fn fill_from(&mut self, socket: impl AsFd) -> rustix::io::Result<usize> {
            let moved = move_bytes(socket, &self.writer, CAPACITY)?;
            self.len += moved;
            Ok(moved)
        }

        pub(super) fn drain_to(&mut self, socket: impl AsFd) -> rustix::io::Result<usize> {
            let moved = move_bytes(&self.reader, socket, self.len)?;
            self.len -= moved;
            Ok(moved)
        }

        /// Fills the buffer, which is as long as the pipe has bytes.
        pub(super) fn read_all(&mut self, mut buffer: &mut [u8]) -> rustix::io::Result<()> {
            while !buffer.is_empty() {
                let n = retry_on_intr(|| read(&self.reader, &mut *buffer))?;
                buffer = &mut buffer[n..];
                self.len -= n;
            }
            Ok(())
        }
    }

    fn move_bytes(from: impl AsFd, to: impl AsFd, count: usize) -> rustix::io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        retry_on_intr(|| splice(&from, None, &to, None, count, flags))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use super::*;

    /// There is none.
    pub(super) enum Pipe {}

    impl Pipe {
        pub(super) fn new() -> io::Result<Option<Self>> {
            Ok(None)
        }

        pub(super) fn len(&self) -> usize {
            match *self {}
        }

        pub(super) fn fill_from(&mut self, _socket: impl AsFd) -> rustix::io::Result<usize> {
            match *self {}
        }

        pub(super) fn drain_to(&mut self, _socket: impl AsFd) -> rustix::io::Result<usize> {
            match *self {}
        }

        pub(super) fn read_all(&mut self, _buffer: &mut [u8]) -> rustix::io::Result<()> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::thread;

    use crate::Stream;
    use crate::loopback::{connected_pair, many_bytes, reset, wait_readable, wait_writable};

    /// One that the kernel keeps, and one that the process keeps.
    fn both_kinds() -> [SplicePipe; 2] {
        let mut in_process = SplicePipe::new().unwrap();
        in_process.leave_pipe().unwrap();
        [SplicePipe::new().unwrap(), in_process]
    }

    fn read_exact(mut client: &TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bytes_and_the_end_pass_through() {
        for mut pipe in both_kinds() {
            let ((from, mut client), (to, upstream)) = (connected_pair(), connected_pair());
            let blocked = pipe.fill_from(&from).unwrap_err();
            assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
            assert_eq!(pipe.drain_to(&to).unwrap(), 0);

            client.write_all(b"hello").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            wait_readable(&from);
            assert_eq!(pipe.fill_from(&from).unwrap(), 5);
            assert_eq!(pipe.len(), 5);
            assert_eq!(pipe.drain_to(&to).unwrap(), 5);
            assert_eq!(read_exact(&upstream, 5), b"hello");
            wait_readable(&from);
            assert_eq!(pipe.fill_from(&from).unwrap(), 0);
            assert!(pipe.is_empty());
        }
    }

    #[test]
    fn it_holds_64_kib_at_most_until_the_receiver_reads() {
        for mut pipe in both_kinds() {
            let ((from, mut client), (to, mut upstream)) = (connected_pair(), connected_pair());
            let bytes = many_bytes();
            let writer = thread::spawn(move || client.write_all(&bytes).unwrap());
            // The receiver begins to read when the way is full.
            let mut reader = None;
            loop {
                if pipe.is_empty() {
                    match pipe.fill_from(&from) {
                        Ok(0) => break,
                        Ok(n) => assert!(n <= CAPACITY && n == pipe.len()),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                            wait_readable(&from);
                        }
                    }
                    continue;
                }
                let before = pipe.len();
                match pipe.drain_to(&to) {
                    Ok(n) => assert_eq!(pipe.len(), before - n),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        assert_eq!(pipe.len(), before);
                        reader.get_or_insert_with(|| {
                            let mut upstream = upstream.try_clone().unwrap();
                            thread::spawn(move || {
                                let mut received = Vec::new();
                                upstream.read_to_end(&mut received).unwrap();
                                received
                            })
                        });
                        wait_writable(&to);
                    }
                }
            }
            writer.join().unwrap();
            to.shutdown_write().unwrap();
            let reader = reader.expect("the bytes are more than the buffers of a connection hold");
            assert!(reader.join().unwrap() == many_bytes());
            assert_eq!(upstream.read(&mut [0; 1]).unwrap(), 0);
        }
    }

    #[test]
    fn bytes_that_the_kernel_refuses_to_splice_out_are_sent() {
        let mut pipe = SplicePipe::new().unwrap();
        let ((from, mut client), (to, upstream)) = (connected_pair(), connected_pair());
        client.write_all(b"hello").unwrap();
        wait_readable(&from);
        assert_eq!(pipe.fill_from(&from).unwrap(), 5);
        pipe.leave_pipe().unwrap();
        assert_eq!(pipe.len(), 5);
        assert_eq!(pipe.drain_to(&to).unwrap(), 5);
        assert!(pipe.is_empty());
        assert_eq!(read_exact(&upstream, 5), b"hello");
        // It goes on without the pipe.
        client.write_all(b"again").unwrap();
        wait_readable(&from);
        assert_eq!(pipe.fill_from(&from).unwrap(), 5);
        assert_eq!(pipe.drain_to(&to).unwrap(), 5);
        assert_eq!(read_exact(&upstream, 5), b"again");
    }

    #[test]
    fn a_reset_and_a_peer_that_has_left_are_errors() {
        for mut pipe in both_kinds() {
            let ((from, mut client), (to, _upstream)) = (connected_pair(), connected_pair());
            client.write_all(b"hello").unwrap();
            wait_readable(&from);
            assert_eq!(pipe.fill_from(&from).unwrap(), 5);
            to.shutdown_write().unwrap();
            let error = pipe.drain_to(&to).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            assert_eq!(pipe.len(), 5, "they are not lost");

            let mut empty = both_kinds().into_iter();
            let mut empty = empty.find(SplicePipe::is_empty).unwrap();
            reset(client);
            wait_readable(&from);
            let error = empty.fill_from(&from).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }

    #[test]
    #[should_panic(expected = "it holds 5 bytes")]
    fn filling_what_is_not_empty_is_a_mistake() {
        let mut pipe = SplicePipe::new().unwrap();
        let (from, mut client) = connected_pair();
        client.write_all(b"hello").unwrap();
        wait_readable(&from);
        pipe.fill_from(&from).unwrap();
        let _ = pipe.fill_from(&from);
    }

    #[test]
    fn unix_sockets_are_spliced_too() {
        for mut pipe in both_kinds() {
            let pair = || {
                let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
                (Stream::from(std::os::fd::OwnedFd::from(near)), far)
            };
            let ((from, mut client), (to, mut upstream)) = (pair(), pair());
            client.write_all(b"hello").unwrap();
            assert_eq!(pipe.fill_from(&from).unwrap(), 5);
            assert_eq!(pipe.drain_to(&to).unwrap(), 5);
            let mut received = [0; 5];
            upstream.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"hello");
            drop(client);
            assert_eq!(pipe.fill_from(&from).unwrap(), 0);
        }
    }
}
