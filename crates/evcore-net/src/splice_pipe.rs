//! Moving bytes from one stream to another, without a copy through the process if they are many.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::socket::{self, is_refusal};

/// The size of the buffer in the process. A call that fills it shows that there is much to move.
const BUFFER_SIZE: usize = 16 * 1024;

thread_local! {
    /// The buffer of a pipe that has become empty, for the next pipe that receives. It saves an
    /// allocation, and is likely to be in the processor's caches.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer between two streams. On Linux it is kept in the kernel when there is much to move (a
/// pipe and splice(2)).
///
/// It begins as a buffer in the process. Once a call has filled this buffer, later bytes go through
/// a pipe in the kernel. Use one for each direction of a session, for as long as the session lasts.
///
/// # Cost
///
/// A call that moves bytes is usually one system call. A call that finds no bytes takes a second
/// one if there is a pipe: splice(2) stops at a byte of urgent data, so recv(2) is called as well.
/// Making the pipe, and a refusal of the kernel, take further calls.
///
/// In the process, the buffer takes 16 KiB of memory while it holds bytes. A thread keeps one such
/// buffer for all its empty pipes. In the kernel, it takes two descriptors and at most 64 KiB,
/// which the kernel allocates only for held bytes and moves without copying. The buffer stays in
/// the process on systems without splice(2), if the kernel refuses it, and while no descriptor is
/// left.
///
/// On Linux an unprivileged user may have some 1,000 pipes of this size (`pipe-user-pages-soft` of
/// proc(5)). The kernel makes further pipes smaller.
///
/// # Examples
///
/// ```
/// use evcore_net::SplicePipe;
/// use std::{io::{Read, Write}, os::unix::net::UnixStream};
///
/// let (mut client, from) = UnixStream::pair()?;
/// let (to, mut upstream) = UnixStream::pair()?;
/// let mut pipe = SplicePipe::new();
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
#[derive(Default)]
pub struct SplicePipe {
    /// The pipe; `None` until it is needed, and after a refusal.
    // Invariant: the pipe and the buffer do not both hold bytes.
    pipe: Option<imp::Pipe>,
    /// The buffer in the process, which is not allocated while it holds no bytes.
    buffer: Vec<u8>,
    held: Range<usize>,
    /// The last call of recv(2) filled the buffer, so a pipe would be faster.
    is_bulk: bool,
    is_refused: bool,
}

impl SplicePipe {
    /// Creates an empty buffer. Allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Receives what has arrived at a socket, as much as there is room for, and returns the number
    /// of bytes.
    ///
    /// 0 means that the peer sends no more. The socket is drained after 0 or
    /// [`WouldBlock`](io::ErrorKind::WouldBlock). A result smaller than the buffer does not by
    /// itself show that the socket is drained: see [`was_short_read`](Self::was_short_read).
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::recv`](crate::Stream::recv).
    ///
    /// # Panics
    ///
    /// If the pipe still holds bytes, because `WouldBlock` could then mean that the pipe is full.
    pub fn fill_from(&mut self, socket: impl AsFd) -> io::Result<usize> {
        assert!(
            self.is_empty(),
            "drain it first: it holds {} bytes",
            self.len()
        );
        if self.is_bulk && self.pipe.is_none() && !self.is_refused {
            // If there is no descriptor left, the process keeps the bytes.
            self.pipe = imp::Pipe::new().ok();
        }
        if let Some(pipe) = &mut self.pipe {
            match pipe.fill_from(&socket) {
                Err(errno) if is_refusal(errno) => self.refuse_pipe(),
                // splice(2) stops for ever at a byte of urgent data, which recv(2) skips.
                Ok(0) | Err(Errno::AGAIN) => {}
                result => return Ok(result?),
            }
        }
        self.recv(socket)
    }

    fn recv(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.buffer = SPARE.take();
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_SIZE];
        }
        let received = socket::recv(&socket, &mut self.buffer);
        if let Ok(received) = received {
            self.held = 0..received;
            self.is_bulk = received == BUFFER_SIZE;
        }
        self.release_if_empty();
        received
    }

    fn release_if_empty(&mut self) {
        if self.held.is_empty() {
            let buffer = mem::take(&mut self.buffer);
            // `leave_pipe` makes a buffer of another size.
            if buffer.len() == BUFFER_SIZE {
                SPARE.set(buffer);
            }
        }
    }

    /// Returns whether the last [`fill_from`](Self::fill_from) was a short read: it left room in
    /// the buffer of the process. [`Stream::recv`](crate::Stream::recv) describes the consequences.
    /// It is false while there is a pipe in the kernel, because splice(2) does not report why it
    /// stopped. Before the first `fill_from` it is true.
    #[must_use]
    pub fn was_short_read(&self) -> bool {
        self.pipe.is_none() && !self.is_bulk
    }

    /// Sends as many of its bytes as fit into the buffer of a socket, and returns their number. 0
    /// means that this pipe held no bytes.
    ///
    /// A short result does not show that the socket's buffer is full: only the error
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) does.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::send`](crate::Stream::send). A peer that has left also raises
    /// SIGPIPE on Linux. Rust programs ignore that signal, unless they reset it.
    pub fn drain_to(&mut self, socket: impl AsFd) -> io::Result<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        if let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.len() > 0) {
            match pipe.drain_to(&socket) {
                Err(errno) if is_refusal(errno) => self.leave_pipe()?,
                result => return Ok(result?),
            }
        }
        let sent = socket::send(&socket, &self.buffer[self.held.clone()])?;
        self.held.start += sent;
        self.release_if_empty();
        Ok(sent)
    }

    /// The number of bytes that it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        let in_pipe = self.pipe.as_ref().map_or(0, imp::Pipe::len);
        in_pipe + self.held.len()
    }

    /// Returns whether it holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves the bytes of the pipe to the buffer, and closes the pipe.
    fn leave_pipe(&mut self) -> io::Result<()> {
        if let Some(pipe) = &mut self.pipe {
            self.buffer.resize(pipe.len(), 0);
            pipe.read_all(&mut self.buffer)?;
            self.held = 0..self.buffer.len();
        }
        self.refuse_pipe();
        Ok(())
    }

    fn refuse_pipe(&mut self) {
        self.pipe = None;
        self.is_refused = true;
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

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use super::*;
    use std::os::fd::OwnedFd;

    use rustix::io::{read, retry_on_intr};
    use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

    const SIZE: usize = 64 * 1024;

    pub(super) struct Pipe {
        reader: OwnedFd,
        writer: OwnedFd,
        len: usize,
    }

    impl Pipe {
        pub(super) fn new() -> rustix::io::Result<Self> {
            let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
            Ok(Self {
                reader,
                writer,
                len: 0,
            })
        }

        pub(super) fn len(&self) -> usize {
            self.len
        }

        pub(super) fn fill_from(&mut self, socket: impl AsFd) -> rustix::io::Result<usize> {
            let moved = move_bytes(socket, &self.writer, SIZE)?;
            self.len += moved;
            Ok(moved)
        }

        pub(super) fn drain_to(&mut self, socket: impl AsFd) -> rustix::io::Result<usize> {
            let moved = move_bytes(&self.reader, socket, self.len)?;
            self.len -= moved;
            Ok(moved)
        }

        /// Fills the buffer, whose length is the number of bytes in the pipe.
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

    /// Stands for the pipe on systems without splice(2), and has no values.
    pub(super) enum Pipe {}

    impl Pipe {
        pub(super) fn new() -> rustix::io::Result<Self> {
            Err(rustix::io::Errno::NOSYS)
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

    use rustix::net::{SendFlags, send};

    use crate::Stream;
    use crate::loopback::{connected_pair, many_bytes, reset, wait_readable, wait_writable};

    fn in_kernel() -> SplicePipe {
        SplicePipe {
            is_bulk: true,
            ..SplicePipe::new()
        }
    }

    /// One buffer in the kernel, one in the process, and one that may move to the kernel.
    fn all_kinds() -> [SplicePipe; 3] {
        let mut in_process = SplicePipe::new();
        in_process.refuse_pipe();
        [in_kernel(), in_process, SplicePipe::new()]
    }

    fn read_exact(mut client: &TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bytes_and_the_end_pass_through() {
        for mut pipe in all_kinds() {
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
    fn a_pipe_never_holds_more_than_64_kib_and_loses_no_byte() {
        for mut pipe in all_kinds() {
            let ((from, mut client), (to, mut upstream)) = (connected_pair(), connected_pair());
            let bytes = many_bytes();
            let writer = thread::spawn(move || client.write_all(&bytes).unwrap());
            // The receiver begins to read when all buffers are full.
            let mut reader = None;
            loop {
                if pipe.is_empty() {
                    match pipe.fill_from(&from) {
                        Ok(0) => break,
                        Ok(n) => assert!(n <= 64 * 1024 && n == pipe.len()),
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
        let mut pipe = in_kernel();
        let ((from, mut client), (to, upstream)) = (connected_pair(), connected_pair());
        client.write_all(b"hello").unwrap();
        wait_readable(&from);
        assert_eq!(pipe.fill_from(&from).unwrap(), 5);
        pipe.leave_pipe().unwrap();
        assert_eq!(pipe.len(), 5);
        assert_eq!(pipe.drain_to(&to).unwrap(), 5);
        assert!(pipe.is_empty());
        assert_eq!(read_exact(&upstream, 5), b"hello");
        // The session goes on without the pipe.
        client.write_all(b"again").unwrap();
        wait_readable(&from);
        assert_eq!(pipe.fill_from(&from).unwrap(), 5);
        assert_eq!(pipe.drain_to(&to).unwrap(), 5);
        assert_eq!(read_exact(&upstream, 5), b"again");
    }

    #[test]
    fn a_reset_and_a_sending_side_that_was_shut_down_are_errors() {
        for mut pipe in all_kinds() {
            let ((from, mut client), (to, _upstream)) = (connected_pair(), connected_pair());
            client.write_all(b"hello").unwrap();
            wait_readable(&from);
            assert_eq!(pipe.fill_from(&from).unwrap(), 5);
            to.shutdown_write().unwrap();
            let error = pipe.drain_to(&to).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            assert_eq!(pipe.len(), 5, "the bytes are not lost");

            let mut other = SplicePipe::new();
            other.is_bulk = pipe.is_bulk;
            reset(client);
            wait_readable(&from);
            let error = other.fill_from(&from).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn the_kernel_moves_the_bytes_once_there_are_many() {
        let mut pipe = SplicePipe::new();
        let ((from, mut client), (to, upstream)) = (connected_pair(), connected_pair());
        client.write_all(&[b'x'; BUFFER_SIZE - 1]).unwrap();
        wait_readable(&from);
        let (mut moved, mut all) = (0, BUFFER_SIZE - 1);
        while moved < all {
            match pipe.fill_from(&from) {
                Ok(n) => moved += n,
                Err(_) => wait_readable(&from),
            }
            while !pipe.is_empty() {
                pipe.drain_to(&to).unwrap();
            }
        }
        assert!(pipe.pipe.is_none() && pipe.was_short_read());
        client.write_all(&[b'x'; 2 * BUFFER_SIZE]).unwrap();
        all += 2 * BUFFER_SIZE;
        read_exact(&upstream, BUFFER_SIZE - 1);
        evcore_testing::eventually("all of it has arrived", || {
            let peek = rustix::net::RecvFlags::PEEK;
            let peeked = rustix::net::recv(&from, &mut [0; 3 * BUFFER_SIZE], peek);
            peeked.is_ok_and(|(n, _)| n == 2 * BUFFER_SIZE)
        });
        while moved < all {
            moved += pipe.fill_from(&from).unwrap();
            while !pipe.is_empty() {
                pipe.drain_to(&to).unwrap();
            }
        }
        assert!(pipe.pipe.is_some() && !pipe.was_short_read());
        assert_eq!(pipe.buffer.capacity(), 0);
        read_exact(&upstream, 2 * BUFFER_SIZE);
    }

    #[test]
    fn pipes_of_a_thread_share_one_buffer_while_they_are_empty() {
        let ((from, mut client), (to, mut upstream)) = (connected_pair(), connected_pair());
        let mut pipes = [SplicePipe::new(), SplicePipe::new()];
        let mut addresses = Vec::new();
        for pipe in &mut pipes {
            assert!(pipe.fill_from(&from).is_err() && pipe.buffer.capacity() == 0);
            client.write_all(b"hello").unwrap();
            wait_readable(&from);
            assert_eq!(pipe.fill_from(&from).unwrap(), 5);
            addresses.push(pipe.buffer.as_ptr());
            assert_eq!(pipe.drain_to(&to).unwrap(), 5);
            assert_eq!(pipe.buffer.capacity(), 0);
        }
        assert_eq!(addresses[0], addresses[1]);
        upstream.read_exact(&mut [0; 10]).unwrap();
    }

    #[test]
    #[should_panic(expected = "it holds 5 bytes")]
    fn filling_a_pipe_that_is_not_empty_is_a_mistake() {
        let mut pipe = in_kernel();
        let (from, mut client) = connected_pair();
        client.write_all(b"hello").unwrap();
        wait_readable(&from);
        pipe.fill_from(&from).unwrap();
        let _ = pipe.fill_from(&from);
    }

    #[test]
    fn unix_sockets_are_spliced_too() {
        for mut pipe in all_kinds() {
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

    #[test]
    fn bytes_behind_urgent_data_are_moved_too() {
        let ((from, mut client), (to, upstream)) = (connected_pair(), connected_pair());
        let mut pipe = in_kernel();
        client.write_all(b"abc").unwrap();
        send(&client, b"!", SendFlags::OOB).unwrap();
        client.write_all(b"def").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut moved = 0;
        while moved < 6 {
            match pipe.fill_from(&from) {
                Ok(count) => assert!(count > 0, "the end comes last"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    wait_readable(&from);
                }
            }
            moved += pipe.drain_to(&to).unwrap();
        }
        assert_eq!(read_exact(&upstream, 6), b"abcdef");
        wait_readable(&from);
        assert_eq!(pipe.fill_from(&from).unwrap(), 0);
    }
}
