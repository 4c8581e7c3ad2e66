//! Values by the tokens of a loop: a secondary table, beside the loop's own, which gives out the tokens.
//!
//! It is not over slab, because a slab chooses the index of a value itself. A generation is kept apart
//! from its value: beside it, padding would make it take 8 bytes (decision 0014).

use std::{fmt, iter, num::NonZeroU32};

use evcore_poller::{Interest, Mode, Source};
use evcore_token::Token;

use crate::{acceptor::Acceptor, error::Result, event_loop::EventLoop};

/// A map from the tokens of one [`EventLoop`] to values of the application: descriptors that are not
/// streams, jobs, timers. [`Connections`](crate::Connections) is one for streams.
///
/// [`add`](Self::add) adds a value here and its descriptor to the loop, and [`close`](Self::close)
/// removes both. A stale token never finds the value of a later one.
///
/// A token from [`EventLoop::add`], [`EventLoop::add_unwatched`] or
/// [`EdgeStream::add`](crate::EdgeStream::add) has no value before [`insert`](Self::insert). Such a
/// token keeps its slot until it is closed, also if its value is dropped.
///
/// A loop may have several of these maps, for values of different types. A token is only in the map
/// that it was added to. A value takes 4 bytes in addition to its size, and memory is reserved for
/// each index that the loop has used so far. All calls that take a token are O(1).
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
pub struct TokenMap<T> {
    /// By index: the generation of the value's token; `None` if there is no value.
    generations: Vec<Option<NonZeroU32>>,
    // Invariant: as long as `generations`, with a value exactly where there is a generation.
    values: Vec<Option<T>>,
    // Invariant: the number of values.
    len: usize,
}

impl<T> TokenMap<T> {
    /// Creates an empty map. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            generations: Vec::new(),
            values: Vec::new(),
            len: 0,
        }
    }

    /// Makes the loop watch the descriptor of `value`, and keeps `value` under the new token.
    ///
    /// `T` has a descriptor: a stream, or a type of your own that implements
    /// [`AsFd`](std::os::fd::AsFd) by that of its stream.
    ///
    /// # Errors
    ///
    /// Those of [`EventLoop::add`]. The value is dropped then, which closes its descriptor.
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
        self.reserve(token, ev.slots.expected());
        self.insert(token, value);
        Ok(token)
    }

    /// Keeps `value` under a token that the loop has given out, and returns the value that the token
    /// had before. This is for values that are made after their token or have no descriptor.
    ///
    /// If the program drops the value instead of inserting it, it must remove the token by
    /// [`EventLoop::remove`]. Otherwise the token keeps its slot until the loop ends, and counts as a
    /// connection if it has a descriptor.
    ///
    /// Do not pass a closed token: its index may have a later token by now, whose value it would replace.
    pub fn insert(&mut self, token: Token, value: T) -> Option<T> {
        self.reserve(token, 0);
        let index = token.index() as usize;
        let generation = self.generations[index].replace(token.generation());
        let before = self.values[index].replace(value);
        self.len += usize::from(before.is_none());
        // The value of an ended token is not this token's.
        before.filter(|_| generation == Some(token.generation()))
    }

    /// Closes a connection: removes its token, as [`EventLoop::remove`] does, and drops the value, which
    /// closes the descriptor. On epoll that is one system call in all. Returns false if the token has
    /// no value here.
    ///
    /// The descriptor must not be duplicated; if it is, use [`remove`](Self::remove).
    pub fn close<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> bool {
        let value = self.take(token);
        let is_known = value.is_some();
        if is_known {
            ev.remove_and_drop(token, value);
        }
        is_known
    }

    /// Removes the token of a connection and returns its value, with the descriptor open. `None` if the
    /// token has no value here.
    pub fn remove<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> Option<T> {
        let value = self.take(token)?;
        ev.remove(token);
        Some(value)
    }

    /// Closes every connection for which `keep` returns false, in the order of indices. O(indices that
    /// the loop has used).
    pub fn retain<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        mut keep: impl FnMut(Token, &mut T) -> bool,
    ) {
        for (index, place) in (0..).zip(0..self.values.len()) {
            let token = self.generations[place].map(|generation| Token::new(index, generation));
            let value = self.values[place].as_mut();
            let ended = token
                .zip(value)
                .map(|(token, value)| (token, !keep(token, value)));
            if let Some((token, true)) = ended {
                self.close(ev, token);
            }
        }
    }

    /// The value of a token; `None` if it has none here or is stale.
    #[inline]
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        if !self.contains(token) {
            return None;
        }
        self.values[token.index() as usize].as_ref()
    }

    /// The value of a token, mutable; `None` if it has none here or is stale.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        if !self.contains(token) {
            return None;
        }
        self.values[token.index() as usize].as_mut()
    }

    /// The values of two tokens, mutable; `None` if one of them has none here, or if they are the same.
    #[inline]
    #[must_use]
    pub fn get_disjoint_mut(&mut self, [a, b]: [Token; 2]) -> Option<[&mut T; 2]> {
        if a.index() == b.index() || !self.contains(a) || !self.contains(b) {
            return None;
        }
        let (at_a, at_b) = (a.index() as usize, b.index() as usize);
        let (low, high) = self.values.split_at_mut(at_a.max(at_b));
        let (low, high) = (low[at_a.min(at_b)].as_mut()?, high[0].as_mut()?);
        Some(if at_a < at_b {
            [low, high]
        } else {
            [high, low]
        })
    }

    /// Whether a token has a value here.
    #[inline]
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        let generation = self.generations.get(token.index() as usize);
        generation == Some(&Some(token.generation()))
    }

    /// The number of values.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tokens and values, in the order of indices. O(indices that the loop has used).
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        let places = iter::zip(&self.generations, &self.values);
        iter::zip(0.., places).filter_map(|(index, (generation, value))| {
            Some((Token::new(index, (*generation)?), value.as_ref()?))
        })
    }

    /// The tokens and mutable values, in the order of indices. O(indices that the loop has used).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        let places = iter::zip(&self.generations, &mut self.values);
        iter::zip(0.., places).filter_map(|(index, (generation, value))| {
            Some((Token::new(index, (*generation)?), value.as_mut()?))
        })
    }

    fn take(&mut self, token: Token) -> Option<T> {
        if !self.contains(token) {
            return None;
        }
        let index = token.index() as usize;
        self.generations[index] = None;
        self.len -= 1;
        self.values[index].take()
    }

    /// Makes room for a token. The tables at least double, but the last doubling stops at the
    /// `expected` number.
    fn reserve(&mut self, token: Token, expected: u32) {
        let (len, held) = (token.index() as usize + 1, self.values.len());
        if len <= held {
            return;
        }
        let expected = expected as usize;
        if len > self.values.capacity() && (len..2 * len).contains(&expected) {
            self.generations.reserve_exact(expected - held);
            self.values.reserve_exact(expected - held);
        }
        self.generations.resize(len, None);
        self.values.resize_with(len, || None);
    }
}

impl<T> Default for TokenMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for TokenMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
