//! What other threads post, merged by token until the loop takes it.
//!
//! Each index waits at most once, so no limit is needed and no post can fail. It is a map and not a
//! table by index, because the index of a token that a program has made up may be any number.

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroU32,
};

use evcore_poller::Ready;
use evcore_token::Token;

use crate::sync::{Mutex, MutexGuard};

/// Posts that wait for the loop, in the order in which their indices were first posted.
#[derive(Debug, Default)]
pub(crate) struct RemotePosts {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    // Invariant: the keys of `posts`, each once.
    order: VecDeque<u32>,
    posts: HashMap<u32, (NonZeroU32, Ready)>,
    /// The loop has been dropped.
    is_closed: bool,
}

/// What a post makes the thread do that has posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// It is the first that waits: wake the loop.
    First,
    /// The loop was woken for an earlier one.
    Behind,
    /// The loop has been dropped.
    Closed,
}

impl RemotePosts {
    /// Merges readiness into what waits for a token.
    pub(crate) fn post(&self, token: Token, ready: Ready) -> Posted {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Posted::Closed;
        }
        let was_empty = waiting.order.is_empty();
        waiting.merge(token, ready);
        if was_empty {
            Posted::First
        } else {
            Posted::Behind
        }
    }

    /// Takes the oldest `budget` of what waits. Returns whether anything is left.
    pub(crate) fn take(&self, budget: usize, mut taken: impl FnMut(Token, Ready)) -> bool {
        let mut waiting = self.lock();
        for _ in 0..budget {
            let Some(index) = waiting.order.pop_front() else {
                break;
            };
            let post = waiting.posts.remove(&index);
            let (generation, ready) = post.expect("it is in the order");
            taken(Token::new(index, generation), ready);
        }
        !waiting.order.is_empty()
    }

    /// Drops what waits, and refuses what comes later.
    pub(crate) fn close(&self) {
        *self.lock() = Waiting {
            is_closed: true,
            ..Waiting::default()
        };
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics with the lock")
    }
}

impl Waiting {
    /// A later generation of an index takes the place of an earlier one, which has ended.
    fn merge(&mut self, token: Token, ready: Ready) {
        let new = (token.generation(), ready);
        let post = self.posts.entry(token.index()).or_insert_with(|| {
            self.order.push_back(token.index());
            new
        });
        if post.0 == new.0 {
            post.1 |= ready;
        } else if post.0 < new.0 {
            *post = new;
        }
    }
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use super::*;

    fn token(index: u32, generation: u32) -> Token {
        Token::new(index, NonZeroU32::new(generation).unwrap())
    }

    fn taken(posts: &RemotePosts, budget: usize) -> (Vec<(Token, Ready)>, bool) {
        let mut taken = Vec::new();
        let is_left = posts.take(budget, |token, ready| taken.push((token, ready)));
        (taken, is_left)
    }

    #[test]
    fn posts_of_one_token_wait_once_with_all_their_readiness() {
        let posts = RemotePosts::default();
        assert_eq!(posts.post(token(7, 1), Ready::READABLE), Posted::First);
        assert_eq!(posts.post(token(3, 1), Ready::NONE), Posted::Behind);
        for _ in 0..1000 {
            assert_eq!(posts.post(token(7, 1), Ready::WRITABLE), Posted::Behind);
        }
        let both = Ready::READABLE | Ready::WRITABLE;
        assert_eq!(taken(&posts, 1), (vec![(token(7, 1), both)], true));
        assert_eq!(taken(&posts, 9), (vec![(token(3, 1), Ready::NONE)], false));
        assert_eq!(posts.post(token(7, 1), Ready::NONE), Posted::First);
    }

    #[test]
    fn the_latest_generation_of_an_index_is_the_one_that_waits() {
        let posts = RemotePosts::default();
        for generation in [2, 3, 1] {
            posts.post(token(u32::MAX, generation), Ready::READABLE);
        }
        let last = (token(u32::MAX, 3), Ready::READABLE);
        assert_eq!(taken(&posts, 9), (vec![last], false));
    }

    #[test]
    fn after_the_end_nothing_waits() {
        let posts = RemotePosts::default();
        posts.post(token(0, 1), Ready::READABLE);
        posts.close();
        assert_eq!(posts.post(token(1, 1), Ready::READABLE), Posted::Closed);
        assert_eq!(taken(&posts, 9), (vec![], false));
    }
}
