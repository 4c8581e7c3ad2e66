//! Bytes that wait until a connection takes them.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Write};

/// Bytes that wait until a non-blocking connection takes them, in their order and up to a bound.
///
/// A program sends through it, and calls [`flush`](Self::flush) when the connection is writable
/// again. When the buffer [has no room](Self::has_room), the program stops producing, for example
/// by not reading from the other side. It goes on when the number of waiting bytes has fallen to
/// the *low mark*, by default half the bound.
///
/// The connection can be any [`Write`] that fails with [`WouldBlock`](ErrorKind::WouldBlock): a
/// [`Stream`](crate::Stream), or a session of TLS over one. An empty buffer holds no memory.
///
/// ```
/// use evcore_net::{SendBuffer, Stream};
/// use std::{io::{ErrorKind, Read}, os::{fd::OwnedFd, unix::net::UnixStream}};
///
/// let (near, mut far) = UnixStream::pair()?;
/// let mut stream = Stream::from(OwnedFd::from(near));
/// let mut out = SendBuffer::bounded(64 * 1024);
/// while out.has_room() {
///     out.send(&mut stream, &[7; 1000])?; // until the socket and the buffer are full
/// }
/// assert_eq!(out.flush(&mut stream).unwrap_err().kind(), ErrorKind::WouldBlock);
///
/// let waiting = out.len();
/// far.read_exact(&mut [0; 10_000])?;
/// let _ = out.flush(&mut stream);
/// assert!(out.len() < waiting);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SendBuffer {
    // Invariant: at most `limit` bytes.
    waiting: VecDeque<u8>,
    limit: usize,
    low_mark: usize,
    is_full: bool,
}

impl SendBuffer {
    /// An empty buffer for at most `limit` bytes. Its low mark is half the limit.
    #[must_use]
    pub const fn bounded(limit: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            limit,
            low_mark: limit / 2,
            is_full: false,
        }
    }

    /// Sets the number of bytes at which a buffer that was full has room again. A number that is
    /// not below the bound counts as one less than the bound.
    #[must_use]
    pub fn with_low_mark(mut self, low_mark: usize) -> Self {
        self.low_mark = low_mark.min(self.limit.saturating_sub(1));
        self
    }

    /// Sends the bytes that wait, then `bytes`, until the connection would block, and keeps the
    /// rest.
    ///
    /// Returns the number of `bytes` that it has sent or kept. If that is less than their length,
    /// the buffer is full. A message that must not be cut fits if it is not longer than
    /// [`room`](Self::room).
    ///
    /// # Errors
    ///
    /// The errors of the connection, except `WouldBlock`; [`WriteZero`](ErrorKind::WriteZero) if it
    /// takes no bytes and reports no error. Some of `bytes` may have been sent before the error.
    pub fn send(&mut self, to: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        match self.flush(to) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(self.push(bytes)),
            Err(error) => return Err(error),
        }
        let mut sent = 0;
        while sent < bytes.len() {
            match write(to, &[IoSlice::new(&bytes[sent..])]) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent + self.push(&bytes[sent..]))
    }

    /// Keeps `bytes` for the next [`flush`](Self::flush). Returns the number of bytes kept, which
    /// is less than their length if the buffer is full.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let kept = bytes.len().min(self.room());
        self.waiting.extend(&bytes[..kept]);
        self.is_full |= kept < bytes.len() || (kept > 0 && self.room() == 0);
        kept
    }

    /// Sends the bytes that wait. If it succeeds, no byte waits any more.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](ErrorKind::WouldBlock) if some are left, and the other errors of
    /// [`send`](Self::send).
    pub fn flush(&mut self, to: &mut impl Write) -> io::Result<()> {
        while !self.waiting.is_empty() {
            let (first, second) = self.waiting.as_slices();
            let sent = write(to, &[IoSlice::new(first), IoSlice::new(second)])?;
            self.waiting.drain(..sent);
            self.is_full &= self.waiting.len() > self.low_mark;
        }
        self.waiting = VecDeque::new();
        self.is_full = false;
        Ok(())
    }

    /// Returns whether the program should go on producing. This is false once bytes were refused or
    /// the bound was reached, until the waiting bytes have fallen to the low mark.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        !self.is_full
    }

    /// The number of bytes that can be kept in addition to those that wait.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit - self.waiting.len()
    }

    /// The number of bytes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether no byte waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Writes at least one byte, or fails.
fn write(to: &mut impl Write, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match to.write_vectored(parts) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => return written,
        }
    }
}

impl fmt::Debug for SendBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBuffer")
            .field("waiting", &self.waiting.len())
            .field("limit", &self.limit)
            .field("low_mark", &self.low_mark)
            .field("is_full", &self.is_full)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Takes `room` more bytes, at most 7 in each call, and then would block.
    #[derive(Default)]
    struct Peer {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Peer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room).min(7);
            if n == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= n;
            self.taken.extend(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Clone, Debug)]
    enum Call {
        Send(usize),
        Push(usize),
        Flush(usize),
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            (0..40_usize).prop_map(Call::Send),
            (0..40_usize).prop_map(Call::Push),
            (0..60_usize).prop_map(Call::Flush),
        ]
    }

    proptest! {
        /// Compares a buffer with two vectors: all bytes that it took in, and all that the peer
        /// has.
        #[test]
        fn every_byte_taken_in_arrives_once_and_in_order(
            limit in 0..50_usize,
            low_mark in 0..50_usize,
            calls in prop::collection::vec(call(), 0..60),
        ) {
            let mut out = SendBuffer::bounded(limit).with_low_mark(low_mark);
            let (mut peer, mut all, mut was_full) = (Peer::default(), Vec::new(), false);
            let mut next = (0..=u8::MAX).cycle();
            for call in calls {
                match call {
                    Call::Send(n) | Call::Push(n) => {
                        let bytes: Vec<u8> = next.by_ref().take(n).collect();
                        let kept = match call {
                            Call::Send(_) => out.send(&mut peer, &bytes).unwrap(),
                            _ => out.push(&bytes),
                        };
                        all.extend(&bytes[..kept]);
                        was_full |= kept < n || out.len() == limit && kept > 0;
                        prop_assert!(kept == n || out.len() == limit);
                    }
                    Call::Flush(room) => {
                        peer.room = room;
                        let flushed = out.flush(&mut peer);
                        prop_assert_eq!(flushed.is_ok(), out.is_empty());
                        was_full &= out.len() > low_mark.min(limit.saturating_sub(1));
                        prop_assert!(was_full || out.has_room());
                    }
                }
                prop_assert!(out.len() <= limit);
                prop_assert_eq!(out.len(), all.len() - peer.taken.len());
                prop_assert!(all.starts_with(&peer.taken));
                prop_assert!(out.has_room() || was_full);
            }
        }
    }

    #[test]
    fn there_is_room_again_from_the_low_mark_on() {
        let mut out = SendBuffer::bounded(10).with_low_mark(4);
        let mut peer = Peer::default();
        assert_eq!(out.send(&mut peer, b"0123456789ab").unwrap(), 10);
        assert!(!out.has_room());
        for (room, has_room) in [(5, false), (1, true)] {
            peer.room = room;
            let blocked = out.flush(&mut peer).unwrap_err();
            assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
            assert_eq!(out.has_room(), has_room, "{} wait", out.len());
        }
        assert_eq!(out.push(b"ab"), 2);
        assert!(out.has_room());
        peer.room = 10;
        out.flush(&mut peer).unwrap();
        assert_eq!(peer.taken, b"0123456789ab");
    }

    #[test]
    fn an_empty_buffer_holds_no_memory() {
        let mut out = SendBuffer::bounded(100);
        let mut peer = Peer::default();
        out.push(&[0; 100]);
        peer.room = 100;
        out.flush(&mut peer).unwrap();
        assert_eq!(out.waiting.capacity(), 0);
    }

    #[test]
    fn an_error_keeps_the_bytes_that_wait() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = SendBuffer::bounded(100);
        out.push(b"abc");
        let error = out.send(&mut Broken, b"def").unwrap_err();
        assert_eq!((error.kind(), out.len()), (ErrorKind::BrokenPipe, 3));
    }
}
