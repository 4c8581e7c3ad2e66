//! Sending from a file, without a copy through the process where the kernel can do that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{Errno, pread, retry_on_intr};

use crate::{socket, stream::Stream};

/// Maximum number of bytes that one call copies if the kernel cannot send from the file itself.
const COPY_MAX: usize = 16 * 1024;

impl Stream {
    /// Sends up to `count` bytes of `file`, from `offset` on, and returns their number.
    ///
    /// It returns 0 if `count` is 0 or if the file ends at or before `offset`. So a file that is
    /// shorter than expected shows as 0 before `count` is reached. A call may send fewer bytes than
    /// `count`, which is not an error. Add their number to `offset`, and call it again. The file's
    /// own position is neither used nor changed.
    ///
    /// # Cost
    ///
    /// On Linux it is one call of sendfile(2), which copies nothing to the process. If the kernel
    /// refuses that call, and on other systems, the process reads at most 16 KiB and then sends
    /// them, which takes two system calls (after a refusal, three in all) and copies the bytes
    /// twice. Like every read of a file, it blocks while the disk reads the parts that are not in
    /// the page cache.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send), and of reading the file; `InvalidInput` if `offset` is
    /// above `i64::MAX`. On Linux, a call after the peer has left also sends the process SIGPIPE.
    /// Rust programs ignore that signal, unless they reset it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use evcore_net::Stream;
    /// use std::{fs::File, io};
    ///
    /// /// Sends until a call would block. Returns whether the whole file is sent.
    /// fn send_rest(stream: &Stream, file: &File, sent: &mut u64, length: u64) -> io::Result<bool> {
    ///     while *sent < length {
    ///         let rest = usize::try_from(length - *sent).unwrap_or(usize::MAX);
    ///         match stream.send_file(file, *sent, rest) {
    ///             Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()), // it has shrunk
    ///             Ok(n) => *sent += n as u64,
    ///             Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
    ///             Err(error) => return Err(error),
    ///         }
    ///     }
    ///     Ok(true)
    /// }
    /// ```
    #[doc(alias = "sendfile")]
    pub fn send_file(&self, file: impl AsFd, offset: u64, count: usize) -> io::Result<usize> {
        send_file(self, file.as_fd(), offset, count)
    }
}

pub(crate) fn send_file(
    stream: impl AsFd,
    file: BorrowedFd<'_>,
    offset: u64,
    count: usize,
) -> io::Result<usize> {
    if count == 0 {
        return Ok(0);
    }
    let stream = stream.as_fd();
    match imp::send_file(stream, file, offset, count) {
        // `OVERFLOW`: the offset is beyond the largest file that the file system can have, so a
        // read returns the end of the file.
        Err(errno) if socket::is_refusal(errno) || errno == Errno::OVERFLOW => {
            send_copy(|bytes| socket::send(stream, bytes), file, offset, count)
        }
        result => Ok(result?),
    }
}

/// Reads from the file and sends. The next call reads again the bytes that `send` does not take.
pub(crate) fn send_copy(
    send: impl FnOnce(&[u8]) -> io::Result<usize>,
    file: BorrowedFd<'_>,
    offset: u64,
    count: usize,
) -> io::Result<usize> {
    let mut buffer = [0; COPY_MAX];
    let piece = &mut buffer[..count.min(COPY_MAX)];
    let read = retry_on_intr(|| pread(file, &mut *piece, offset))?;
    if read == 0 {
        return Ok(0);
    }
    send(&piece[..read])
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use super::*;
    use rustix::fs::sendfile;

    /// Maximum number of bytes that one call sends (`MAX_RW_COUNT`). The kernel refuses a count
    /// that is negative as a signed number, or that leads beyond the last offset.
    const COUNT_MAX: usize = 0x7fff_f000;

    pub(super) fn send_file(
        stream: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        mut offset: u64,
        count: usize,
    ) -> rustix::io::Result<usize> {
        let count = count.min(COUNT_MAX);
        retry_on_intr(|| sendfile(stream, file, Some(&mut offset), count))
    }
}

/// On other systems the call has other arguments, and rustix does not have it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use super::*;

    pub(super) fn send_file(
        _stream: BorrowedFd<'_>,
        _file: BorrowedFd<'_>,
        _offset: u64,
        _count: usize,
    ) -> rustix::io::Result<usize> {
        Err(rustix::io::Errno::NOSYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::{ErrorKind, Read};
    use std::thread;

    use evcore_testing::Scratch;

    use crate::loopback::{connected_pair, many_bytes, wait_writable};

    fn file_with(bytes: &[u8]) -> (Scratch, File) {
        let scratch = Scratch::new("send_file");
        let path = scratch.file("data");
        fs::write(&path, bytes).unwrap();
        (scratch, File::open(path).unwrap())
    }

    type SendFile = fn(&Stream, &File, u64, usize) -> io::Result<usize>;

    const WAYS: [SendFile; 2] = [
        |stream, file, offset, count| stream.send_file(file, offset, count),
        |stream, file, offset, count| {
            send_copy(|bytes| stream.send(bytes), file.as_fd(), offset, count)
        },
    ];

    #[test]
    fn a_part_of_a_file_is_sent() {
        let (_scratch, file) = file_with(b"0123456789");
        for send in WAYS {
            let (stream, mut client) = connected_pair();
            assert_eq!(send(&stream, &file, 3, 4).unwrap(), 4);
            drop(stream);
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, b"3456");
        }
    }

    #[test]
    fn a_file_that_is_too_short_ends_with_zero() {
        let (_scratch, file) = file_with(b"0123456789");
        for send in WAYS {
            let (stream, _client) = connected_pair();
            assert_eq!(send(&stream, &file, 6, 100).unwrap(), 4);
            assert_eq!(send(&stream, &file, 10, 96).unwrap(), 0);
            assert_eq!(send(&stream, &file, 1 << 40, 96).unwrap(), 0);
            assert_eq!(send(&stream, &file, 1 << 60, 96).unwrap(), 0);
        }
        let (stream, _client) = connected_pair();
        assert_eq!(stream.send_file(&file, 0, 0).unwrap(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_count_beyond_the_range_of_the_kernel_still_uses_sendfile() {
        let bytes = [7; COPY_MAX + 2];
        let (_scratch, file) = file_with(&bytes);
        for (offset, count) in [(0, usize::MAX), (1, usize::MAX / 2)] {
            let (stream, _client) = connected_pair();
            let sent = stream.send_file(&file, offset, count).unwrap();
            let rest = bytes.len() - usize::try_from(offset).unwrap();
            assert_eq!(sent, rest, "of {count} bytes from {offset} on");
        }
    }

    #[test]
    fn a_large_file_is_sent_in_parts_as_the_peer_reads() {
        let bytes = many_bytes();
        let (_scratch, file) = file_with(&bytes);
        for send in WAYS {
            let (stream, mut client) = connected_pair();
            let reader = thread::spawn(move || {
                let mut received = Vec::new();
                client.read_to_end(&mut received).unwrap();
                received
            });
            let (mut sent, mut has_blocked) = (0, false);
            while sent < bytes.len() {
                match send(&stream, &file, sent as u64, bytes.len() - sent) {
                    Ok(n) => sent += n,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        has_blocked = true;
                        wait_writable(&stream);
                    }
                }
            }
            assert!(has_blocked);
            drop(stream);
            assert!(reader.join().unwrap() == bytes);
        }
    }

    #[test]
    fn sending_a_file_after_shutdown_write_is_an_error() {
        let (_scratch, file) = file_with(b"0123456789");
        for send in WAYS {
            let (stream, client) = connected_pair();
            stream.shutdown_write().unwrap();
            let error = send(&stream, &file, 0, 10).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            drop(client);
        }
    }

    /// The kernel cannot send from a file of this kind.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_the_kernel_cannot_send_is_copied() {
        let file = File::open("/proc/self/comm").unwrap();
        let (stream, mut client) = connected_pair();
        let sent = stream.send_file(&file, 0, 1000).unwrap();
        drop(stream);
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent);
        assert!(sent > 0);
    }

    #[test]
    fn a_descriptor_other_than_a_file_is_an_error() {
        let (stream, _client) = connected_pair();
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let error = stream.send_file(&reader, 0, 10).unwrap_err();
        assert_ne!(error.kind(), ErrorKind::WouldBlock);
    }
}
