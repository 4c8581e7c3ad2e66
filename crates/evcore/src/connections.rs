//! The connections of a program: each stream with its readiness, and the program's value for it.

use std::fmt;

use evcore_net::{Stream, Transport};
use evcore_poller::{Ready, Source};
use evcore_token::Token;

use crate::acceptor::Acceptor;
use crate::edge_stream::EdgeStream;
use crate::error::Result;
use crate::event_loop::EventLoop;
use crate::token_map::TokenMap;

/// The connections of one [`EventLoop`], each an [`EdgeStream`] and a value of the application.
///
/// One call watches a stream and keeps both, and one call ends both. So no token is without a value, no
/// stream without its readiness, and a stale token finds nothing.
///
/// A loop may have several of these maps, for values of different types. A token is only in the map
/// that it was added to. A connection takes 4 bytes in addition to its stream and its value. All calls
/// that take a token are O(1).
///
/// [`TokenMap`] is the map underneath, for descriptors that are not streams, and for values without
/// one.
///
/// ```
/// use evcore::{Connections, EventLoop, Step, Stream};
/// use std::{io::Write, os::{fd::OwnedFd, unix::net::UnixStream}};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let mut ev = EventLoop::builder().build()?;
/// let mut clients = Connections::new();
/// let token = clients.add(&mut ev, Stream::from(OwnedFd::from(far)), "a name")?;
///
/// near.write_all(b"hello")?;
/// ev.wait()?;
/// let Some(Step::Ready(token, ready)) = ev.next_step() else { unreachable!() };
/// let (stream, name) = clients.ready(token, ready).expect("it is open");
/// assert_eq!(stream.recv(&mut ev, &mut [0; 16])?, 5);
/// assert_eq!(*name, "a name");
/// assert!(clients.close(&mut ev, token)); // closes the stream, too
/// assert!(clients.is_empty() && ev.stats().active == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connections<T, S = Stream> {
    map: TokenMap<(EdgeStream<S>, T)>,
}

impl<T, S> Connections<T, S> {
    /// Creates an empty map. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            map: TokenMap::new(),
        }
    }

    /// Makes the loop watch a stream, which was [accepted](crate::Step::Accepted) or
    /// [connects](Stream::connect), and keeps it with `value` under a new token.
    ///
    /// # Errors
    ///
    /// The errors of [`EventLoop::add`]. Stream and value are dropped then, which closes the stream.
    pub fn add<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, stream: S, value: T) -> Result<Token>
    where
        S: Transport + Source,
    {
        Ok(self.insert(EdgeStream::add(ev, stream)?, value))
    }

    /// Keeps a stream that the loop [watches](EdgeStream::add) already, with `value`, and returns its
    /// token.
    pub fn insert(&mut self, stream: EdgeStream<S>, value: T) -> Token {
        let token = stream.token();
        self.map.insert(token, (stream, value));
        token
    }

    /// Takes note of what a [`Step::Ready`](crate::Step::Ready) reports, as
    /// [`EdgeStream::on_ready`] does, and lends the connection. `None` if the token has none here.
    #[inline]
    pub fn ready(&mut self, token: Token, ready: Ready) -> Option<(&mut EdgeStream<S>, &mut T)>
    where
        S: Transport,
    {
        let (stream, value) = self.map.get_mut(token)?;
        stream.on_ready(ready);
        Some((stream, value))
    }

    /// The stream and the value of a token; `None` if it has none here or is stale.
    #[inline]
    #[must_use]
    pub fn get(&self, token: Token) -> Option<(&EdgeStream<S>, &T)> {
        let (stream, value) = self.map.get(token)?;
        Some((stream, value))
    }

    /// The stream and the value of a token, mutable; `None` if it has none here or is stale.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, token: Token) -> Option<(&mut EdgeStream<S>, &mut T)> {
        let (stream, value) = self.map.get_mut(token)?;
        Some((stream, value))
    }

    /// Two connections at once, mutable, for a program that moves bytes from one to the other. `None`
    /// if one of them is not here, or if both are the same.
    #[inline]
    #[must_use]
    pub fn get_disjoint_mut(
        &mut self,
        tokens: [Token; 2],
    ) -> Option<[(&mut EdgeStream<S>, &mut T); 2]> {
        let both = self.map.get_disjoint_mut(tokens)?;
        Some(both.map(|(stream, value)| (stream, value)))
    }

    /// Closes a connection: removes its token, as [`EventLoop::remove`] does, and drops stream and value,
    /// which closes the descriptor. On epoll that is one system call in all. Returns false if the token
    /// has no connection here.
    pub fn close<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> bool {
        self.map.close(ev, token)
    }

    /// Removes the token of a connection, and returns its stream, which stays open, with its value. `None`
    /// if the token has no connection here.
    pub fn remove<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> Option<(S, T)> {
        let (stream, value) = self.map.remove(ev, token)?;
        Some((stream.into_inner(), value))
    }

    /// Closes every connection for which `keep` returns false, in the order of indices. O(indices that
    /// the loop has used).
    pub fn retain<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        mut keep: impl FnMut(&mut EdgeStream<S>, &mut T) -> bool,
    ) {
        self.map
            .retain(ev, |_, (stream, value)| keep(stream, value));
    }

    /// Returns whether a token has a connection here.
    #[inline]
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        self.map.contains(token)
    }

    /// The number of connections.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether there is no connection.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The streams and values, in the order of indices. O(indices that the loop has used).
    pub fn iter(&self) -> impl Iterator<Item = (&EdgeStream<S>, &T)> {
        self.map.iter().map(|(_, (stream, value))| (stream, value))
    }

    /// The mutable streams and values, in the order of indices. O(indices that the loop has used).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&mut EdgeStream<S>, &mut T)> {
        let all = self.map.iter_mut();
        all.map(|(_, (stream, value))| (stream, value))
    }
}

impl<T, S> Default for Connections<T, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug, S: fmt::Debug> fmt::Debug for Connections<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}
