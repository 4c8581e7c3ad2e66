//! A stream whose readiness is reported by edges, and what is known of it.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsFd;

use evcore_net::{SplicePipe, Stream, Transport};
use evcore_poller::{Interest, Mode, Ready, Source};
use evcore_token::Token;

use crate::{Acceptor, EventLoop, Result, edge_io::EdgeIo};

/// The most calls that reach a stream in one turn. The other streams wait for them.
const CALLS_MAX: u8 = 32;

/// The most buffers that a vectored call uses.
const BUFFERS_MAX: usize = 1024;

/// A stream that a loop watches in [`Mode::Edge`], with its readiness.
///
/// An edge-triggered poller reports once that a stream is ready. This type remembers it until a call
/// has drained the stream, and then makes the loop report it again ([`rearm`](EventLoop::rearm)). It
/// is used as follows:
///
/// 1. Pass each [`Step::Ready`](crate::Step::Ready) of its [token](Self::token) to
///    [`on_ready`](Self::on_ready).
/// 2. Then receive and send, until a call fails with [`WouldBlock`](ErrorKind::WouldBlock) or nothing is
///    left to do. After `WouldBlock` another step comes, and only then.
///
/// If you did not receive because sending blocked, do both in the next step. Data that arrived
/// meanwhile has no step of its own.
///
/// A stream cannot starve the others: after 32 calls in one turn a call fails with `WouldBlock`, too, and
/// a step of the next turn continues.
///
/// Registering the stream costs one system call, and no further one. A call that is known to block
/// makes none. After [`add`](Self::add) both sides count as blocked until the first step. That comes in
/// the next turn, because a new stream is writable; for a stream that is [connecting](Stream::connect),
/// it comes with the result.
///
/// ```
/// use evcore::{EdgeStream, EventLoop, Step, Stream};
/// use std::{io::{ErrorKind, Write}, os::{fd::OwnedFd, unix::net::UnixStream}};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let mut ev = EventLoop::builder().build()?;
/// let mut stream = EdgeStream::add(&mut ev, Stream::from(OwnedFd::from(far)))?;
/// let mut buffer = [0; 16];
///
/// near.write_all(b"hello")?;
/// ev.wait()?;
/// while let Some(Step::Ready(token, ready)) = ev.next_step() {
///     assert_eq!(token, stream.token());
///     stream.on_ready(ready);
///     assert_eq!(stream.recv(&mut ev, &mut buffer)?, 5);
///     // A short read has drained the stream, so this makes no system call.
///     let blocked = stream.recv(&mut ev, &mut buffer).unwrap_err();
///     assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EdgeStream<S = Stream> {
    stream: S,
    token: Token,
    /// No call has drained the stream since the last report.
    readable: bool,
    /// No call has filled the socket's buffer since the last report.
    writable: bool,
    /// The end, a hang-up or an error was reported. It may follow the data directly, and is not
    /// reported again.
    ending: bool,
    /// The calls in `turn`, the latest one that had any.
    calls: u8,
    turn: u64,
}

impl<S: Transport + Source> EdgeStream<S> {
    /// Makes the loop watch both sides of a stream under a new token.
    ///
    /// [`Connections::add`](crate::Connections::add) calls it, and keeps both. Dropping an `EdgeStream`
    /// closes its descriptor and does not end its token: without a call of [`EventLoop::remove`] that token
    /// keeps its slot and counts as a connection until the loop ends.
    ///
    /// # Errors
    ///
    /// Those of [`EventLoop::add`]. The stream is dropped then, which closes it.
    pub fn add<L: Acceptor>(ev: &mut EventLoop<L>, stream: S) -> Result<Self> {
        let token = ev.add(&stream, Interest::BOTH, Mode::Edge)?;
        Ok(Self {
            stream,
            token,
            readable: false,
            writable: false,
            ending: false,
            calls: 0,
            turn: 0,
        })
    }
}

impl<S: Transport> EdgeStream<S> {
    /// Takes note of what a [`Step::Ready`](crate::Step::Ready) reports.
    ///
    /// Readiness that is not true does no harm: a call that fails with `WouldBlock` corrects it. So
    /// `on_ready(Ready::READABLE)` tries to receive in any case, for example before an eviction.
    #[inline]
    pub fn on_ready(&mut self, ready: Ready) {
        self.ending |= ready.is_read_closed() || ready.is_write_closed() || ready.is_error();
        self.readable |= ready.is_readable() || self.ending;
        self.writable |= ready.is_writable();
    }

    /// Receives as [`Stream::recv`] does. 0 is the end, and remains readable.
    ///
    /// A short read drains the stream, unless the end was reported. Data that urgent data or passed
    /// descriptors have cut short counts as drained, too: receive those by
    /// [`read_with`](Self::read_with).
    ///
    /// # Errors
    ///
    /// Those of [`Stream::recv`]; [`WouldBlock`](ErrorKind::WouldBlock) without a system call if the
    /// stream is drained.
    #[inline]
    pub fn recv<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let received = self.read_with(ev, |stream| stream.recv(buffer))?;
        // The end is no short read: nothing follows it.
        if (1..buffer.len()).contains(&received) && !self.ending {
            self.on_drained(ev);
        }
        Ok(received)
    }

    /// Sends as [`Stream::send`] does. If it sends less than `bytes`, the next call
    /// fails with [`WouldBlock`](ErrorKind::WouldBlock).
    ///
    /// # Errors
    ///
    /// Those of [`Stream::send`]; [`WouldBlock`](ErrorKind::WouldBlock) without a system call if the
    /// socket's buffer is full.
    #[inline]
    pub fn send<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.write_with(ev, |stream| stream.send(bytes))?;
        if sent < bytes.len() {
            self.on_full(ev);
        }
        Ok(sent)
    }

    /// Receives as [`recv`](Self::recv) does, into the spare capacity of `buffer`, behind what it
    /// holds. The buffer does not grow.
    ///
    /// # Errors
    ///
    /// Those of [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// If `buffer` has no spare capacity.
    #[inline]
    pub fn recv_buf<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        buffer: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let received = self.read_with(ev, |stream| stream.recv_buf(buffer))?;
        if received > 0 && buffer.len() < buffer.capacity() && !self.ending {
            self.on_drained(ev);
        }
        Ok(received)
    }

    /// Sends as [`send`](Self::send) does, from several buffers, one after another. At most 1,024 of
    /// them are used.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send).
    pub fn send_vectored<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        buffers: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        // A call takes no more than these.
        let buffers = &buffers[..buffers.len().min(BUFFERS_MAX)];
        let sent = self.write_with(ev, |stream| stream.send_vectored(buffers))?;
        if sent < buffers.iter().map(|buffer| buffer.len()).sum() {
            self.on_full(ev);
        }
        Ok(sent)
    }

    /// Borrows the stream as [`Read`](io::Read) and [`Write`](io::Write), for a library that calls
    /// these: TLS, WebSocket, SSH. Its calls are [`recv`](Self::recv), [`send`](Self::send) and
    /// [`send_vectored`](Self::send_vectored); nothing is buffered.
    ///
    /// ```
    /// use evcore::{EdgeStream, EventLoop, Step, Stream};
    /// use std::{io::{BufRead, BufReader, Write}, os::{fd::OwnedFd, unix::net::UnixStream}};
    ///
    /// let (mut near, far) = UnixStream::pair()?;
    /// let mut ev = EventLoop::builder().build()?;
    /// let mut stream = EdgeStream::add(&mut ev, Stream::from(OwnedFd::from(far)))?;
    /// near.write_all(b"hello\n")?;
    /// ev.wait()?;
    /// while let Some(Step::Ready(_, ready)) = ev.next_step() {
    ///     stream.on_ready(ready);
    ///     let mut io = stream.io(&mut ev);
    ///     let mut line = String::new();
    ///     BufReader::new(&mut io).read_line(&mut line)?;
    ///     io.write_all(line.as_bytes())?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn io<'a, L: Acceptor>(&'a mut self, ev: &'a mut EventLoop<L>) -> EdgeIo<'a, S, L> {
        EdgeIo::new(self, ev)
    }

    /// Calls `read`, which receives from the stream in its own way, unless the stream is drained. It is
    /// drained when `read` fails with [`WouldBlock`](ErrorKind::WouldBlock), and not by a short read.
    ///
    /// # Errors
    ///
    /// Those of `read`; [`WouldBlock`](ErrorKind::WouldBlock) if the stream is drained.
    #[inline]
    pub fn read_with<L: Acceptor, T>(
        &mut self,
        ev: &mut EventLoop<L>,
        read: impl FnOnce(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.readable || !self.may_call(ev) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = read(&self.stream);
        if would_block(&result) {
            self.on_drained(ev);
        }
        result
    }

    /// Calls `write`, which sends to the stream in its own way, unless the socket's buffer is full. It
    /// is full when `write` fails with [`WouldBlock`](ErrorKind::WouldBlock), and not by a short write.
    ///
    /// # Errors
    ///
    /// Those of `write`; [`WouldBlock`](ErrorKind::WouldBlock) if the socket's buffer is full.
    #[inline]
    pub fn write_with<L: Acceptor, T>(
        &mut self,
        ev: &mut EventLoop<L>,
        write: impl FnOnce(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.writable || !self.may_call(ev) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = write(&self.stream);
        if would_block(&result) {
            self.on_full(ev);
        }
        result
    }

    /// Counts a call. If there were enough in this turn, the stream continues in the next one.
    #[inline]
    fn may_call<L: Acceptor>(&mut self, ev: &mut EventLoop<L>) -> bool {
        let turn = ev.stats().turns;
        if self.turn != turn {
            self.turn = turn;
            self.calls = 0;
        }
        self.calls += 1;
        self.calls <= CALLS_MAX || self.continue_next_turn(ev)
    }

    #[cold]
    fn continue_next_turn<L: Acceptor>(&mut self, ev: &mut EventLoop<L>) -> bool {
        self.calls = CALLS_MAX;
        ev.post_next(self.token, Ready::NONE);
        false
    }

    /// Fills a pipe as [`SplicePipe::fill_from`] does. 0 is the end, and remains readable.
    ///
    /// A short read drains the stream, as in [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// Those of [`Stream::recv`]; [`WouldBlock`](ErrorKind::WouldBlock) without a system call if the
    /// stream is drained.
    ///
    /// # Panics
    ///
    /// If the pipe still holds bytes.
    pub fn fill<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
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

    fn on_drained<L: Acceptor>(&mut self, ev: &mut EventLoop<L>) {
        self.readable = false;
        ev.rearm(self.token, Interest::READ);
    }

    fn on_full<L: Acceptor>(&mut self, ev: &mut EventLoop<L>) {
        self.writable = false;
        ev.rearm(self.token, Interest::WRITE);
    }
}

impl<S> EdgeStream<S> {
    /// The token under which the loop watches the stream.
    #[inline]
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Whether a call that receives may find data or the end.
    #[inline]
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether a call that sends may find room.
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

    /// The stream. The loop watches it until its token is [closed](EventLoop::remove).
    #[must_use]
    pub fn into_inner(self) -> S {
        self.stream
    }
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}
