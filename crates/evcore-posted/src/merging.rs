//! A queue of ids for an event loop. Other threads *post* ids, which means that they add ids to
//! the queue. Posts of the same id are merged until the loop takes them.
//!
//! Each id waits at most once, so no limit is needed. The ids are keys of a map and not indices of
//! a table, because another thread may post any `u32`.

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroU32,
    ops::BitOrAssign,
};

use crate::sync::Mutex;

/// Posts that wait for a loop, in the order in which their ids were first posted.
///
/// A post belongs to a generation of its id. A later generation begins only after the earlier one
/// has ended. So a post replaces a waiting post of an earlier generation, and is dropped if a post
/// of a later generation waits. Values of one generation merge.
#[derive(Debug)]
pub(crate) struct Merging<V> {
    waiting: Mutex<Waiting<V>>,
}

#[derive(Debug)]
struct Waiting<V> {
    // Invariant: it has each key of `posts` once.
    order: VecDeque<u32>,
    posts: HashMap<u32, (NonZeroU32, V)>,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Posted {
    /// The post is the first that waits: wake the loop.
    First,
    /// The loop has been woken for an earlier post, or is about to be.
    Behind,
    /// The loop has been dropped.
    Closed,
}

impl<V: Copy + BitOrAssign> Merging<V> {
    pub(crate) fn new() -> Self {
        let waiting = Mutex::new(Waiting::new(false));
        Self { waiting }
    }

    pub(crate) fn post(&self, id: u32, generation: NonZeroU32, value: V) -> Posted {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return Posted::Closed;
        }
        let was_empty = waiting.order.is_empty();
        waiting.merge(id, (generation, value));
        if was_empty {
            Posted::First
        } else {
            Posted::Behind
        }
    }

    /// Takes the oldest waiting posts, at most `budget` of them. Returns whether any post is left.
    /// If not, the result of the next post is [`Posted::First`]. `taken` is called under the lock,
    /// so it must not post.
    pub(crate) fn take(&self, budget: usize, mut taken: impl FnMut(u32, NonZeroU32, V)) -> bool {
        let mut waiting = self.waiting.lock();
        for _ in 0..budget {
            let Some(id) = waiting.order.pop_front() else {
                break;
            };
            let post = waiting.posts.remove(&id);
            let (generation, value) = post.expect("it is in the order");
            taken(id, generation, value);
        }
        !waiting.order.is_empty()
    }

    /// Drops the posts that wait, and refuses later ones.
    pub(crate) fn close(&self) {
        *self.waiting.lock() = Waiting::new(true);
    }
}

impl<V: Copy + BitOrAssign> Waiting<V> {
    fn new(is_closed: bool) -> Self {
        Self {
            order: VecDeque::new(),
            posts: HashMap::new(),
            is_closed,
        }
    }

    fn merge(&mut self, id: u32, new: (NonZeroU32, V)) {
        let post = self.posts.entry(id).or_insert_with(|| {
            self.order.push_back(id);
            new
        });
        if post.0 == new.0 {
            post.1 |= new.1;
        } else if post.0 < new.0 {
            *post = new;
        }
    }
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use super::*;

    fn post(posts: &Merging<u8>, id: u32, generation: u32, bits: u8) -> Posted {
        posts.post(id, NonZeroU32::new(generation).unwrap(), bits)
    }

    fn taken(posts: &Merging<u8>, budget: usize) -> (Vec<(u32, u32, u8)>, bool) {
        let mut taken = Vec::new();
        let is_left = posts.take(budget, |id, generation, bits| {
            taken.push((id, generation.get(), bits));
        });
        (taken, is_left)
    }

    #[test]
    fn posts_of_one_id_wait_once_with_all_their_bits() {
        let posts = Merging::new();
        assert_eq!(post(&posts, 7, 1, 1), Posted::First);
        assert_eq!(post(&posts, 3, 1, 0), Posted::Behind);
        for _ in 0..1000 {
            assert_eq!(post(&posts, 7, 1, 2), Posted::Behind);
        }
        assert_eq!(taken(&posts, 1), (vec![(7, 1, 3)], true));
        assert_eq!(taken(&posts, 9), (vec![(3, 1, 0)], false));
        assert_eq!(post(&posts, 7, 1, 0), Posted::First);
    }

    #[test]
    fn the_latest_generation_of_an_id_is_the_one_that_waits() {
        let posts = Merging::new();
        for generation in [2, 3, 1] {
            let _ = post(&posts, u32::MAX, generation, 1);
        }
        assert_eq!(taken(&posts, 9), (vec![(u32::MAX, 3, 1)], false));
    }

    #[test]
    fn a_closed_loop_refuses_posts_and_has_none_waiting() {
        let posts = Merging::new();
        let _ = post(&posts, 0, 1, 1);
        posts.close();
        assert_eq!(post(&posts, 1, 1, 1), Posted::Closed);
        assert_eq!(taken(&posts, 9), (vec![], false));
    }
}
