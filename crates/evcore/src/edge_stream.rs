//! A stream that the loop watches edge-triggered: `evcore-net`'s `EdgeStream`, for this loop.

use std::ops::{Deref, DerefMut};

use evcore_net::{EdgeLoop, Edges, Side, Stream, Transport};
use evcore_poller::{Interest, Mode, Ready, Source};
use evcore_token::Token;

use crate::{acceptor::Acceptor, error::Result, event_loop::EventLoop};

/// A stream that a loop watches in [`Mode::Edge`], with its readiness.
///
/// An edge-triggered poller reports once that a stream is ready. This type remembers that until a
/// call has drained the stream, and then makes the loop report the stream again
/// ([`rearm`](EventLoop::rearm)). It is used as follows:
///
/// 1. Pass each [`Step::Ready`](crate::Step::Ready) of its [token](evcore_net::EdgeStream::token)
///    to [`on_ready`](Self::on_ready).
/// 2. Then receive and send, until a call fails with [`WouldBlock`](std::io::ErrorKind::WouldBlock)
///    or nothing is left to do. Without `WouldBlock` there may be no further step.
///
/// If you did not receive because sending blocked, do both in the next step. Data that arrived in
/// the meantime causes no further step.
///
/// A stream cannot starve the others: after 32 calls that receive (or send) in one turn (iteration
/// of the loop), the next such call fails with `WouldBlock`, too, and the next turn has a step for
/// the stream.
///
/// On epoll, watching the stream costs one system call, at registration. A `recv` or `send` that is
/// known to block makes no system call. After [`add`](Self::add) both sides count as blocked until
/// the first step. That step comes in the next turn, because a new stream is writable. A
/// [connecting](Stream::connect) stream gets it when connecting ends.
///
/// This type dereferences to [`net::EdgeStream`](evcore_net::EdgeStream), which has the other
/// methods and works with any loop.
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
///
/// A library that takes [`Read`](std::io::Read) and [`Write`](std::io::Write) uses the stream
/// through [`io`](evcore_net::EdgeStream::io):
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
#[derive(Debug)]
pub struct EdgeStream<S = Stream>(evcore_net::EdgeStream<S, Token>);

impl<S: Transport + Source> EdgeStream<S> {
    /// Makes the loop watch both sides of a stream under a new token.
    ///
    /// [`Connections::add`](crate::Connections::add) calls this, and keeps the stream together with
    /// its token. Dropping an `EdgeStream` closes its descriptor and does not end its token:
    /// without a call of [`EventLoop::remove`] that token keeps its slot and counts as a connection
    /// until the loop ends.
    ///
    /// # Errors
    ///
    /// The errors of [`EventLoop::add`]. The stream is dropped then, which closes it.
    pub fn add<L: Acceptor>(ev: &mut EventLoop<L>, stream: S) -> Result<Self> {
        let token = ev.add(&stream, Interest::BOTH, Mode::Edge)?;
        Ok(Self::new(stream, token))
    }
}

impl<S> EdgeStream<S> {
    /// Wraps a stream that the loop already watches under this token, in [`Mode::Edge`] and for
    /// [both sides](Interest::BOTH). No step of the token may have been taken yet.
    #[must_use]
    pub fn new(stream: S, token: Token) -> Self {
        Self(evcore_net::EdgeStream::new(stream, token))
    }

    /// Takes note of the readiness that a [`Step::Ready`](crate::Step::Ready) reports.
    ///
    /// Reporting a stream as ready when it is not does no harm: a call that fails with `WouldBlock`
    /// corrects it. So `on_ready(Ready::READABLE)` makes the next `recv` try, for example before an
    /// eviction.
    #[inline]
    pub fn on_ready(&mut self, ready: Ready) {
        self.0.on_edges(Edges {
            readable: ready.is_readable(),
            writable: ready.is_writable(),
            ending: ready.is_read_closed() || ready.is_write_closed() || ready.is_error(),
        });
    }

    /// Returns the stream, which the loop watches until its token is [removed](EventLoop::remove).
    #[must_use]
    pub fn into_inner(self) -> S {
        self.0.into_inner()
    }
}

impl<S> Deref for EdgeStream<S> {
    type Target = evcore_net::EdgeStream<S, Token>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<S> DerefMut for EdgeStream<S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<L: Acceptor> EdgeLoop for EventLoop<L> {
    type Token = Token;

    #[inline]
    fn turn(&self) -> u64 {
        self.stats.turns
    }

    #[inline]
    fn rearm(&mut self, token: Token, side: Side) {
        let interest = match side {
            Side::Read => Interest::READ,
            Side::Write => Interest::WRITE,
        };
        self.rearm(token, interest);
    }

    fn resume(&mut self, token: Token) {
        self.post_next(token, Ready::NONE);
    }
}
