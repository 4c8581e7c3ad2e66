//! A stream for an edge-triggered poller, which reports each change of readiness only once. So the
//! stream remembers its last known readiness.
//!
//! This file depends on no poller: the loop is a trait.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;

use crate::splice_pipe::SplicePipe;
use crate::transport::Transport;

/// Maximum number of calls for one side (receiving or sending) of a stream in one turn of the loop,
/// so that no stream starves the others.
const CALLS_MAX: u8 = 32;

const BUFFERS_MAX: usize = 1024;

/// The methods of an edge-triggered event loop that an [`EdgeStream`] calls.
pub trait EdgeLoop {
    /// The identifier under which the loop watches a stream.
    type Token: Copy;

    /// The number of the current turn (a turn is one iteration of the loop). Each side of a stream
    /// gets 32 calls in each turn.
    fn turn(&self) -> u64;

    /// Makes the loop report a side of a stream again, after a call has drained it (or filled it,
    /// for sending). On epoll and kqueue there is nothing to do.
    fn rearm(&mut self, token: Self::Token, side: Side);

    /// Makes the loop call the stream's handler in the next turn, although nothing is reported for
    /// it.
    fn resume(&mut self, token: Self::Token);
}

/// A side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Receiving from the peer.
    Read,
    /// Sending to the peer.
    Write,
}

/// The readiness that a poller reports for a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// The stream has something to receive.
    pub readable: bool,
    /// The stream has room to send.
    pub writable: bool,
    /// The peer sends no more, the stream was hung up, or it has an error.
    pub ending: bool,
}

/// A stream that a loop watches edge-triggered, with its readiness.
///
/// An edge-triggered poller reports once that a stream is ready. This type remembers the readiness
/// until a call has drained the stream, and then [rearms](EdgeLoop::rearm) it. It is used as
/// follows:
///
/// 1. Pass what the poller reports of the stream to [`on_edges`](Self::on_edges).
/// 2. Then receive and send, until a call fails with [`WouldBlock`](ErrorKind::WouldBlock) or
///    nothing is left to do. The next report of a side is certain only after a call has drained it
///    (or filled it, for sending).
///
/// If you did not receive because sending blocked, receive and send after the next report. Data
/// that arrived in the meantime may cause no further report.
///
/// A stream cannot starve other streams, and one of its sides cannot starve the other side. After
/// 32 calls of a side in one turn, the next call of that side fails with `WouldBlock` as well, and
/// the loop [resumes](EdgeLoop::resume) the stream in the next turn.
///
/// A call that is known to block makes no system call. Both sides count as blocked until the first
/// report.
///
/// ```
/// use evcore_net::{EdgeLoop, EdgeStream, Edges, Side, Stream};
/// use std::{io::{ErrorKind, Write}, os::{fd::OwnedFd, unix::net::UnixStream}};
///
/// /// A loop over epoll or kqueue, with numbers as tokens.
/// #[derive(Default)]
/// struct Loop {
///     turn: u64,
///     due: Vec<usize>, // in the next turn
/// }
///
/// impl EdgeLoop for Loop {
///     type Token = usize;
///
///     fn turn(&self) -> u64 { self.turn }
///     fn rearm(&mut self, _: usize, _: Side) {}
///     fn resume(&mut self, token: usize) { self.due.push(token) }
/// }
///
/// let (mut near, far) = UnixStream::pair()?;
/// far.set_nonblocking(true)?;
/// near.write_all(b"hello")?;
/// let (mut ev, mut buffer) = (Loop::default(), [0; 16]);
/// let mut stream = EdgeStream::new(Stream::from(OwnedFd::from(far)), 7);
/// stream.on_edges(Edges { readable: true, ..Edges::default() }); // the poller has reported it
/// assert_eq!(stream.recv(&mut ev, &mut buffer)?, 5);
/// // A short read has drained the stream, so this makes no system call.
/// let blocked = stream.recv(&mut ev, &mut buffer).unwrap_err();
/// assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EdgeStream<S, T> {
    stream: S,
    token: T,
    readable: bool,
    writable: bool,
    /// The end, a hang-up or an error was reported. The poller does not report it again, so a short
    /// read does not drain the stream.
    ending: bool,
    /// Number of calls of each side in `turn`.
    calls: [u8; 2],
    /// The low half of the number of the latest turn with a call.
    turn: u32,
}

impl<S: Transport, T: Copy> EdgeStream<S, T> {
    /// Receives as [`Stream::recv`](crate::Stream::recv) does. At the end of the stream (0), the
    /// stream remains readable.
    ///
    /// A short read drains the stream, unless the end, a hang-up or an error was reported. A read
    /// that ends early because of urgent data or passed descriptors counts as a short read as well,
    /// although more data may be left. If the peer may send these, receive by
    /// [`read_with`](Self::read_with).
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::recv`](crate::Stream::recv); [`WouldBlock`](ErrorKind::WouldBlock)
    /// without a system call if the stream is drained or the side has had its 32 calls in this
    /// turn.
    #[inline]
    pub fn recv<E: EdgeLoop<Token = T>>(
        &mut self,
        ev: &mut E,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let received = self.read_with(ev, |stream| stream.recv(buffer))?;
        // The end does not count as a short read, because nothing follows it.
        if (1..buffer.len()).contains(&received) && !self.ending {
            self.on_drained(ev);
        }
        Ok(received)
    }

    /// Sends as [`Stream::send`](crate::Stream::send) does. If it sends less than `bytes`, further
    /// calls fail with [`WouldBlock`](ErrorKind::WouldBlock) until the poller reports the stream as
    /// writable.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::send`](crate::Stream::send); [`WouldBlock`](ErrorKind::WouldBlock)
    /// without a system call if the socket's buffer is full or the side has had its 32 calls in
    /// this turn.
    #[inline]
    pub fn send<E: EdgeLoop<Token = T>>(&mut self, ev: &mut E, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.write_with(ev, |stream| stream.send(bytes))?;
        if sent < bytes.len() {
            self.on_full(ev);
        }
        Ok(sent)
    }

    /// Receives as [`recv`](Self::recv) does, into the spare capacity of `buffer`, after its
    /// present content. The buffer does not grow.
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// If `buffer` has no spare capacity.
    #[inline]
    pub fn recv_buf<E: EdgeLoop<Token = T>>(
        &mut self,
        ev: &mut E,
        buffer: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let received = self.read_with(ev, |stream| stream.recv_buf(buffer))?;
        if received > 0 && buffer.len() < buffer.capacity() && !self.ending {
            self.on_drained(ev);
        }
        Ok(received)
    }

    /// Sends as [`send`](Self::send) does, from several buffers, one after another. At most 1,024
    /// of them are used.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send).
    pub fn send_vectored<E: EdgeLoop<Token = T>>(
        &mut self,
        ev: &mut E,
        buffers: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let buffers = &buffers[..buffers.len().min(BUFFERS_MAX)];
        let sent = self.write_with(ev, |stream| stream.send_vectored(buffers))?;
        if sent < buffers.iter().map(|buffer| buffer.len()).sum() {
            self.on_full(ev);
        }
        Ok(sent)
    }

    /// Fills a pipe as [`SplicePipe::fill_from`] does. At the end of the stream (0), the stream
    /// remains readable.
    ///
    /// A short read drains the stream, as in [`recv`](Self::recv). A pipe in the kernel reports no
    /// short reads, so only `WouldBlock` drains the stream then.
    ///
    /// # Errors
    ///
    /// The errors of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// If the pipe still holds bytes.
    pub fn fill<E: EdgeLoop<Token = T>>(
        &mut self,
        ev: &mut E,
        pipe: &mut SplicePipe,
    ) -> io::Result<usize>
    where
        S: AsFd,
    {
        let received = self.read_with(ev, |stream| pipe.fill_from(stream))?;
        if received > 0 && pipe.was_short_read() && !self.ending {
            self.on_drained(ev);
        }
        Ok(received)
    }
}

impl<S, T: Copy> EdgeStream<S, T> {
    /// Wraps a stream that a loop watches under `token`, edge-triggered and for both sides.
    #[must_use]
    pub const fn new(stream: S, token: T) -> Self {
        Self {
            stream,
            token,
            readable: false,
            writable: false,
            ending: false,
            calls: [0; 2],
            turn: 0,
        }
    }

    /// Calls `read`, which receives from the stream in its own way, unless the stream is drained.
    /// The stream counts as drained when `read` fails with [`WouldBlock`](ErrorKind::WouldBlock),
    /// and not after a short read.
    ///
    /// # Errors
    ///
    /// The errors of `read`; [`WouldBlock`](ErrorKind::WouldBlock) without a call of `read` if the
    /// stream is drained or the side has had its 32 calls in this turn.
    #[inline]
    pub fn read_with<E: EdgeLoop<Token = T>, R>(
        &mut self,
        ev: &mut E,
        read: impl FnOnce(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        if !self.readable || !self.may_call(ev, Side::Read) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = read(&self.stream);
        if would_block(&result) {
            self.on_drained(ev);
        }
        result
    }

    /// Calls `write`, which sends to the stream in its own way, unless the socket's buffer is full.
    /// The buffer counts as full when `write` fails with [`WouldBlock`](ErrorKind::WouldBlock), and
    /// not after a short write.
    ///
    /// # Errors
    ///
    /// The errors of `write`; [`WouldBlock`](ErrorKind::WouldBlock) without a call of `write` if
    /// the socket's buffer is full or the side has had its 32 calls in this turn.
    #[inline]
    pub fn write_with<E: EdgeLoop<Token = T>, R>(
        &mut self,
        ev: &mut E,
        write: impl FnOnce(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        if !self.writable || !self.may_call(ev, Side::Write) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = write(&self.stream);
        if would_block(&result) {
            self.on_full(ev);
        }
        result
    }

    /// Counts a call of a side, and returns whether it is allowed. If it is not, the loop resumes
    /// the stream in the next turn.
    #[inline]
    fn may_call<E: EdgeLoop<Token = T>>(&mut self, ev: &mut E, side: Side) -> bool {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half differs from turn to turn"
        )]
        let turn = ev.turn() as u32;
        if self.turn != turn {
            self.turn = turn;
            self.calls = [0; 2];
        }
        let calls = &mut self.calls[side as usize];
        *calls += 1;
        *calls <= CALLS_MAX || self.continue_next_turn(ev, side)
    }

    #[cold]
    fn continue_next_turn<E: EdgeLoop<Token = T>>(&mut self, ev: &mut E, side: Side) -> bool {
        self.calls[side as usize] = CALLS_MAX;
        ev.resume(self.token);
        false
    }

    /// Records the readiness that the poller reports.
    ///
    /// False readiness does no harm, because a call that fails with `WouldBlock` corrects it. So
    /// you can report the stream as readable to make the next receive call try, for example before
    /// an eviction.
    #[inline]
    pub fn on_edges(&mut self, edges: Edges) {
        self.ending |= edges.ending;
        self.readable |= edges.readable || self.ending;
        self.writable |= edges.writable;
    }

    /// The token under which the loop watches the stream.
    #[inline]
    #[must_use]
    pub const fn token(&self) -> T {
        self.token
    }

    /// Returns whether a call that receives may find data or the end.
    #[inline]
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// Returns whether a call that sends may find room.
    #[inline]
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// The stream, for calls other than receiving and sending.
    #[inline]
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream. The loop still watches it.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.stream
    }

    fn on_drained<E: EdgeLoop<Token = T>>(&mut self, ev: &mut E) {
        self.readable = false;
        ev.rearm(self.token, Side::Read);
    }

    fn on_full<E: EdgeLoop<Token = T>>(&mut self, ev: &mut E) {
        self.writable = false;
        ev.rearm(self.token, Side::Write);
    }
}

fn would_block<R>(result: &io::Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests;
