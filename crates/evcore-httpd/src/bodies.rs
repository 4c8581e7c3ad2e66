//! How much of a worker's memory the bodies of requests hold, all of them together.
//!
//! A body takes room before it takes memory. One whose length is known takes all of its room when
//! its head has come. If there is not enough, the connection is not read until there is: the rest
//! of the body waits in the kernel, and the clients that wait are admitted in the order in which
//! they came. A chunked body takes a little room at first, in the same way, and more as it grows;
//! if there is no more, it is refused.
//!
//! So a body that waits holds no room, and one that holds room never waits for more: no two bodies
//! can wait for each other. The room is given back when the answer, which repeats the body, has
//! been sent.

use std::collections::VecDeque;

use evcore::Token;

/// The room of one worker, and the connections that wait for some.
#[derive(Debug)]
pub struct Bodies {
    limit: usize,
    held: usize,
    /// How much each of them needs, the first first.
    // Invariant: each lives, and has not been admitted. So it never grows.
    waiting: VecDeque<(Token, usize)>,
}

impl Bodies {
    /// Room for so many bytes, in a worker of so many connections. With less room than the largest
    /// body may take, some are never admitted.
    pub fn new(limit: usize, connections: u32) -> Self {
        Self {
            limit,
            held: 0,
            waiting: VecDeque::with_capacity(connections as usize),
        }
    }

    /// Takes room, if there is enough.
    pub fn take(&mut self, room: usize) -> bool {
        let is_enough = room <= self.limit - self.held;
        if is_enough {
            self.held += room;
        }
        is_enough
    }

    /// Takes room if there is enough and nobody waits; otherwise the connection waits for it.
    pub fn take_or_wait(&mut self, token: Token, room: usize) -> bool {
        let is_admitted = self.waiting.is_empty() && self.take(room);
        if !is_admitted {
            self.waiting.push_back((token, room));
        }
        is_admitted
    }

    /// A connection waits no longer. O(waiting).
    pub fn leave(&mut self, token: Token) {
        self.waiting.retain(|(waiting, _)| *waiting != token);
    }

    pub fn give_back(&mut self, room: usize) {
        self.held -= room;
    }

    /// The next connection that waits, if there is room for it, which it now has.
    pub fn admit_next(&mut self) -> Option<Token> {
        let (token, room) = *self.waiting.front()?;
        if !self.take(room) {
            return None;
        }
        self.waiting.pop_front();
        Some(token)
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held
    }

    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn token(index: u32) -> Token {
        Token::new(index, NonZeroU32::MIN)
    }

    #[test]
    fn those_that_wait_are_admitted_in_their_order() {
        let mut bodies = Bodies::new(100, 3);
        assert!(bodies.take_or_wait(token(0), 60));
        assert!(!bodies.take_or_wait(token(1), 70));
        // There would be room, but another one came before.
        assert!(!bodies.take_or_wait(token(2), 10));
        assert_eq!(bodies.admit_next(), None);
        bodies.give_back(60);
        assert_eq!(bodies.admit_next(), Some(token(1)));
        assert_eq!(bodies.admit_next(), Some(token(2)));
        assert_eq!((bodies.admit_next(), bodies.held()), (None, 80));
    }

    #[test]
    fn one_that_leaves_makes_room_for_the_next() {
        let mut bodies = Bodies::new(100, 3);
        assert!(bodies.take_or_wait(token(0), 60));
        assert!(!bodies.take_or_wait(token(1), 70));
        assert!(!bodies.take_or_wait(token(2), 10));
        bodies.leave(token(1));
        assert_eq!(bodies.admit_next(), Some(token(2)));
    }

    #[test]
    fn a_body_grows_although_others_wait() {
        let mut bodies = Bodies::new(100, 3);
        assert!(bodies.take_or_wait(token(0), 40));
        assert!(!bodies.take_or_wait(token(1), 70));
        assert!(bodies.take(60));
        assert!(!bodies.take(1));
    }
}
