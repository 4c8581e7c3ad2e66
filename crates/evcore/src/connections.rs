//! What an application keeps for the tokens of a loop.

use std::{fmt, iter, num::NonZeroU32};

use evcore_poller::{Interest, Mode, Source};
use evcore_token::Token;

use crate::{Acceptor, EventLoop, Result};

/// Values by the tokens of one [`EventLoop`]: connections, mostly.
///
/// It adds a value and its descriptor to the loop in one call, and takes both out in one call. So
/// no program forgets one of the two, and no value outlives its token: a value is found by the
/// token of its own generation alone.
///
/// A loop may have several of these, for values of different types; a token is then in the one that
/// it was added to, and unknown to the others. A value takes 4 bytes beside itself, and a place is
/// reserved for each index that the loop has used so far. All calls that take a token are O(1).
///
/// ```
/// use evcore::{Connections, EventLoop, Interest, Mode, Step};
/// use std::{io::Write, os::unix::net::UnixStream};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let mut ev = EventLoop::builder().build()?;
/// let mut conns = Connections::new();
/// let token = conns.add(&mut ev, far, Interest::READ, Mode::Level)?;
///
/// near.write_all(b"hello")?;
/// ev.wait()?;
/// let Some(Step::Ready(ready, _)) = ev.next_step() else { unreachable!() };
/// assert!(ready == token && conns.get(ready).is_some());
/// assert!(conns.close(&mut ev, token)); // closes the descriptor, too
/// assert!(conns.is_empty() && ev.status().active == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connections<T> {
    /// By index: the generation of the value's token; nothing where there is no value.
    generations: Vec<Option<NonZeroU32>>,
    // Invariant: as many as generations, and a value exactly where there is one.
    values: Vec<Option<T>>,
    // Invariant: how many values there are.
    len: usize,
}

impl<T> Connections<T> {
    /// No connections. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            generations: Vec::new(),
            values: Vec::new(),
            len: 0,
        }
    }

    /// Adds `value` to the loop, which watches its descriptor, and keeps it under the new token.
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
        self.reserve(token, ev.limit());
        self.insert(token, value);
        Ok(token)
    }

    /// Keeps `value` under a token that the loop has given out: for a value that is made after its
    /// token, or has no descriptor. Returns the value that the token had before.
    pub fn insert(&mut self, token: Token, value: T) -> Option<T> {
        self.reserve(token, 0);
        let index = token.index() as usize;
        let generation = self.generations[index].replace(token.generation());
        let before = self.values[index].replace(value);
        self.len += usize::from(before.is_none());
        // What an ended token has left behind is not this token's.
        before.filter(|_| generation == Some(token.generation()))
    }

    /// Closes a connection: takes the token out of the loop, as [`EventLoop::close`] does, and
    /// drops the value, which closes its descriptor. On epoll that is one system call in all.
    ///
    /// The descriptor must be the only one of its file; of a duplicated one, use
    /// [`remove`](Self::remove). `false`: the token has no value here.
    pub fn close<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> bool {
        let value = self.take(token);
        let is_known = value.is_some();
        if is_known {
            ev.close_and_drop(token, value);
        }
        is_known
    }

    /// Takes a connection out of the loop and hands its value back, with its descriptor open;
    /// `None` if the token has no value here.
    pub fn remove<L: Acceptor>(&mut self, ev: &mut EventLoop<L>, token: Token) -> Option<T> {
        let value = self.take(token)?;
        ev.close(token);
        Some(value)
    }

    /// Closes every connection for which `keep` returns false, in the order of their indices.
    /// O(indices that the loop has used).
    pub fn retain<L: Acceptor>(
        &mut self,
        ev: &mut EventLoop<L>,
        mut keep: impl FnMut(Token, &mut T) -> bool,
    ) {
        for index in 0..self.values.len() {
            let Some(token) = self.token_at(index) else {
                continue;
            };
            if self.get_mut(token).is_some_and(|value| !keep(token, value)) {
                self.close(ev, token);
            }
        }
    }

    /// The value of a token; `None` if it has none here, as a stale token.
    #[inline]
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&T> {
        let index = token.index() as usize;
        if *self.generations.get(index)? != Some(token.generation()) {
            return None;
        }
        self.values[index].as_ref()
    }

    /// The value of a token, to be changed; `None` if it has none here, as a stale token.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let index = token.index() as usize;
        if *self.generations.get(index)? != Some(token.generation()) {
            return None;
        }
        self.values[index].as_mut()
    }

    /// Whether a token has a value here.
    #[inline]
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        self.get(token).is_some()
    }

    /// How many values there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values with their tokens, in the order of their indices. O(indices that the loop has
    /// used).
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        let places = iter::zip(&self.generations, &self.values);
        iter::zip(0.., places).filter_map(|(index, (generation, value))| {
            Some((Token::new(index, (*generation)?), value.as_ref()?))
        })
    }

    /// The values with their tokens, in the order of their indices, to change the values. O(indices
    /// that the loop has used).
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        let places = iter::zip(&self.generations, &mut self.values);
        iter::zip(0.., places).filter_map(|(index, (generation, value))| {
            Some((Token::new(index, (*generation)?), value.as_mut()?))
        })
    }

    fn token_at(&self, index: usize) -> Option<Token> {
        let generation = self.generations[index]?;
        let index = u32::try_from(index).expect("an index is a u32");
        Some(Token::new(index, generation))
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

    /// Makes room for a token. The room at least doubles, until it covers the `expected` number:
    /// more would be of no use.
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

impl<T> Default for Connections<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Connections<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
