//! A map from the tokens of a loop to values, with calls that add and remove a token together with
//! its value.

use std::ops::{Deref, DerefMut};

use evcore_poller::{Interest, Mode, Source};
use evcore_token::{SecondaryMap, Token};

use crate::{acceptor::Acceptor, error::Result, event_loop::EventLoop};

/// A map from the tokens of one [`EventLoop`] to values of the application, such as jobs, timers,
/// or descriptors that are not streams. [`Connections`](crate::Connections) is a map for streams.
///
/// [`add`](Self::add) adds a value here and its descriptor to the loop, and [`close`](Self::close)
/// removes both. A stale token never finds the value of a later one.
///
/// A token from [`EventLoop::add`], [`EventLoop::add_unwatched`] or
/// [`EdgeStream::add`](crate::EdgeStream::add) has no value before
/// [`insert`](SecondaryMap::insert). Such a token keeps its slot until [`EventLoop::remove`] ends
/// it, even if its value is dropped.
///
/// A loop may have several of these maps, for values of different types. A token is only in the map
/// that it was added to. A value takes the size of an `Option` of it and 4 bytes, and memory is
/// reserved for each index up to the highest that had a value here. All calls that take a token are
/// O(1). A call that adds a value is amortised O(1), because an index above all earlier ones makes
/// the map grow to that index.
///
/// ```
/// use evcore::{TokenMap, EventLoop, Interest, Mode, Step};
/// use std::{io::Write, os::unix::net::UnixStream};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let mut ev = EventLoop::builder().build()?;
/// let mut conns = TokenMap::new();
/// let token = conns.add(&mut ev, far, Interest::READ, Mode::Level)?;
///
/// near.write_all(b"hello")?;
/// ev.wait()?;
/// let Some(Step::Ready(ready, _)) = ev.next_step() else { unreachable!() };
/// assert!(ready == token && conns.get(ready).is_some());
/// assert!(conns.close(&mut ev, token)); // closes the descriptor, too
/// assert!(conns.is_empty() && ev.stats().active == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenMap<T> {
    map: SecondaryMap<T>,
}

impl<T> TokenMap<T> {
    /// Creates an empty map. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            map: SecondaryMap::new(),
        }
    }

    /// Makes the loop watch the descriptor of `value`, and keeps `value` under the new token.
    ///
    /// `T` has a descriptor: it is a stream, or a type of your own whose
    /// [`AsFd`](std::os::fd::AsFd) returns the descriptor of its stream.
    ///
    /// # Errors
    ///
    /// The errors of [`EventLoop::add`]. The value is dropped then, which closes its descriptor.
    pub fn add<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        value: T,
        interest: Interest,
        mode: Mode,
    ) -> Result<Token>
    where
        T: Source,
    {
        let token = ev.add(&value, interest, mode)?;
        self.insert(token, value);
        Ok(token)
    }

    /// Closes a connection: removes its token, as [`EventLoop::remove`] does, and drops the value,
    /// which closes the descriptor. On epoll that is one system call in all. Returns false if the
    /// token has no value here.
    ///
    /// The descriptor must not be duplicated; if it is, use [`remove`](Self::remove).
    pub fn close<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> bool {
        let value = self.map.remove(token);
        let is_known = value.is_some();
        if is_known {
            ev.remove_and_drop(token, value);
        }
        is_known
    }

    /// Removes the token of a connection and returns its value, with the descriptor open. `None` if
    /// the token has no value here.
    pub fn remove<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> Option<T> {
        let value = self.map.remove(token)?;
        ev.remove(token);
        Some(value)
    }

    /// Closes every connection for which `keep` returns false, in the order of indices. O(indices
    /// up to the highest that had a value here).
    pub fn retain<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        mut keep: impl FnMut(Token, &mut T) -> bool,
    ) {
        let mut ended = Vec::new();
        for (token, value) in self.map.iter_mut() {
            if !keep(token, value) {
                ended.push(token);
            }
        }
        for token in ended {
            self.close(ev, token);
        }
    }
}

/// Gives access to the values: [`get`](SecondaryMap::get), [`insert`](SecondaryMap::insert), `len`,
/// `iter` and others.
impl<T> Deref for TokenMap<T> {
    type Target = SecondaryMap<T>;

    #[inline]
    fn deref(&self) -> &SecondaryMap<T> {
        &self.map
    }
}

impl<T> DerefMut for TokenMap<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut SecondaryMap<T> {
        &mut self.map
    }
}

impl<T> Default for TokenMap<T> {
    fn default() -> Self {
        Self::new()
    }
}
