//! The connections of a program: each stream with its readiness, and the program's value for it.

use std::ops::{Deref, DerefMut};

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
/// One call watches a stream and stores it with its value, and one call ends the watch and drops
/// both. So no token is without a value, no stream without its readiness, and a stale token finds
/// nothing.
///
/// A loop may have several of these maps, for values of different types. A token is only in the map
/// that it was added to. A connection takes 4 bytes in addition to its stream and its value. All
/// calls that take a token are O(1), amortised where a connection is added.
///
/// This type dereferences to the [`TokenMap`] underneath, so it also has the calls of that map:
/// `get`, `close`, `retain`, `iter` and others. The values of that map are pairs of a stream and a
/// value of the application. For descriptors that are not streams, use a `TokenMap` directly.
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
#[derive(Debug)]
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
    /// The errors of [`EventLoop::add`]. Stream and value are dropped then, which closes the
    /// stream.
    pub fn add<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, stream: S, value: T) -> Result<Token>
    where
        S: Transport + Source,
    {
        Ok(self.insert(EdgeStream::add(ev, stream)?, value))
    }

    /// Keeps a stream that the loop [watches](EdgeStream::add) already, with `value`, and returns
    /// its token.
    pub fn insert(&mut self, stream: EdgeStream<S>, value: T) -> Token {
        let token = stream.token();
        self.map.insert(token, (stream, value));
        token
    }

    /// Takes note of the readiness that a [`Step::Ready`](crate::Step::Ready) reports, as
    /// [`EdgeStream::on_ready`] does, and lends the connection. `None` if the token has no
    /// connection here.
    #[inline]
    pub fn ready(&mut self, token: Token, ready: Ready) -> Option<(&mut EdgeStream<S>, &mut T)> {
        let (stream, value) = self.map.get_mut(token)?;
        stream.on_ready(ready);
        Some((stream, value))
    }

    /// Removes the token of a connection, and returns its stream, which stays open, with its value.
    /// `None` if the token has no connection here.
    pub fn remove<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> Option<(S, T)> {
        let (stream, value) = self.map.remove(ev, token)?;
        Some((stream.into_inner(), value))
    }
}

/// Gives access to each connection as a pair of its stream and its value:
/// [`get`](evcore_token::SecondaryMap::get),
/// [`get_disjoint_mut`](evcore_token::SecondaryMap::get_disjoint_mut), [`close`](TokenMap::close),
/// [`retain`](TokenMap::retain), `len`, `iter` and others.
impl<T, S> Deref for Connections<T, S> {
    type Target = TokenMap<(EdgeStream<S>, T)>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl<T, S> DerefMut for Connections<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.map
    }
}

impl<T, S> Default for Connections<T, S> {
    fn default() -> Self {
        Self::new()
    }
}
