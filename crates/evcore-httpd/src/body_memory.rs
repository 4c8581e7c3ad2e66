//! The limit on the memory of all unfinished request bodies of a worker (`--bodies`), and of long
//! pages that clients do not read.
//!
//! A body reserves memory before it allocates: its whole length, or a little if it is chunked. If
//! there is not enough memory, the connection waits in order of arrival, and the body stays in the
//! kernel's buffer. A chunked body reserves more as it grows. If there is no memory for the growth,
//! the body is refused.
//!
//! A body that waits holds no memory, and a body that holds memory does not wait for more, so there
//! is no deadlock. A response that repeats the body holds its memory until the response is sent.

use std::collections::VecDeque;

use evcore::Token;
use evcore_recording::Outside;

use crate::headroom::Headroom;

/// The body memory of one worker, and the connections that wait for it. All sizes are in bytes.
#[derive(Debug)]
pub struct BodyMemory {
    limit: usize,
    reserved: usize,
    // Invariant: each of these connections is open and not admitted, so the queue never grows
    // beyond its capacity.
    waiting: VecDeque<(Token, usize)>,
    /// The headroom below a limit on the memory of the process.
    pub headroom: Headroom,
}

impl BodyMemory {
    /// Creates the body memory, of at most `limit` bytes, for a worker with at most this many
    /// connections.
    ///
    /// `limit` has to be at least the size of the largest body; otherwise such a body is never
    /// admitted.
    pub fn new(limit: usize, connections: u32) -> Self {
        Self::with_headroom(limit, connections, Headroom::new(Outside::Direct))
    }

    /// Creates the body memory as [`new`](Self::new) does, with this headroom.
    pub fn with_headroom(limit: usize, connections: u32, headroom: Headroom) -> Self {
        Self {
            limit,
            reserved: 0,
            waiting: VecDeque::with_capacity(connections as usize),
            headroom,
        }
    }

    /// Reserves memory if there is enough. Returns whether there was.
    pub fn reserve(&mut self, size: usize) -> bool {
        let is_enough = size <= self.limit - self.reserved;
        if is_enough {
            self.reserved += size;
        }
        is_enough
    }

    /// Reserves memory if there is enough and no connection waits. Otherwise, adds the connection
    /// to the queue and returns false.
    pub fn reserve_or_wait(&mut self, token: Token, size: usize) -> bool {
        let is_admitted = self.waiting.is_empty() && self.reserve(size);
        if !is_admitted {
            self.waiting.push_back((token, size));
        }
        is_admitted
    }

    /// Removes a connection from the queue. O(n) in the number of waiting connections.
    pub fn cancel_wait(&mut self, token: Token) {
        self.waiting.retain(|(waiting, _)| *waiting != token);
    }

    /// Releases reserved memory.
    pub fn release(&mut self, size: usize) {
        self.reserved -= size;
    }

    /// Returns whether a connection waits.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reserves memory for the first waiting connection, and removes the connection from the queue.
    /// Returns `None` if no connection waits, or if there is not enough memory.
    pub fn admit_next(&mut self) -> Option<Token> {
        let (token, size) = *self.waiting.front()?;
        if !self.reserve(size) {
            return None;
        }
        self.waiting.pop_front();
        Some(token)
    }

    /// The reserved memory, in bytes.
    #[cfg(test)]
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// Number of connections that wait.
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
    fn waiting_bodies_are_admitted_in_order_of_arrival() {
        let mut bodies = BodyMemory::new(100, 3);
        assert!(bodies.reserve_or_wait(token(0), 60));
        assert!(!bodies.reserve_or_wait(token(1), 70));
        // There is enough memory for this body, but another connection was first.
        assert!(!bodies.reserve_or_wait(token(2), 10));
        assert_eq!(bodies.admit_next(), None);
        bodies.release(60);
        assert_eq!(bodies.admit_next(), Some(token(1)));
        assert_eq!(bodies.admit_next(), Some(token(2)));
        assert_eq!((bodies.admit_next(), bodies.reserved()), (None, 80));
    }

    #[test]
    fn a_connection_that_leaves_lets_the_next_in() {
        let mut bodies = BodyMemory::new(100, 3);
        assert!(bodies.reserve_or_wait(token(0), 60));
        assert!(!bodies.reserve_or_wait(token(1), 70));
        assert!(!bodies.reserve_or_wait(token(2), 10));
        bodies.cancel_wait(token(1));
        assert_eq!(bodies.admit_next(), Some(token(2)));
    }

    #[test]
    fn a_body_grows_although_others_wait() {
        let mut bodies = BodyMemory::new(100, 3);
        assert!(bodies.reserve_or_wait(token(0), 40));
        assert!(!bodies.reserve_or_wait(token(1), 70));
        assert!(bodies.reserve(60));
        assert!(!bodies.reserve(1));
    }
}
