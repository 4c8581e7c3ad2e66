//! A queue that holds each id at most once.
//!
//! The ids are linked through a side table that is indexed by id. So posting, cancelling and
//! looking up are O(1), and posting an id again allocates nothing.
//!
//! The queue deliberately has no payloads, because the caller keeps them by id. It has no
//! priorities, because the caller can use several queues. It does not detect that an id was reused
//! (no generations), because the code that frees an id also cancels it.

use std::fmt;

use crate::links::{self, Links, List};

/// A first-in first-out queue of dense ids, each queued at most once.
///
/// The table of links takes 8 bytes for each id up to the highest that was ever posted, whether the
/// ids in between are used or not: ids 0 to 9,999 cost 80 kB, and so does id 9,999 alone.
/// So ids should be dense. The table may reserve about a quarter more, and never shrinks.
///
/// # Examples
///
/// ```
/// use evcore_posted::PostedQueue;
///
/// let mut posted = PostedQueue::new();
/// posted.post(4);
/// posted.post(2);
/// assert_eq!(posted.pop(), Some(4));
/// posted.post(4); // no longer queued, so it goes to the back
/// assert!(posted.iter().eq([2, 4]));
/// ```
#[derive(Clone)]
pub struct PostedQueue {
    links: Links,
    list: List,
}

impl PostedQueue {
    /// The highest id that can be posted, 2,147,483,645: the table of links uses the higher numbers
    /// for other purposes.
    pub const MAX_ID: u32 = links::MAX_ID;

    /// Creates an empty queue. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            links: Links::new(),
            list: List::new(),
        }
    }

    /// Creates an empty queue with memory for the ids below `ids`, so that posting these allocates
    /// nothing. Higher ids make the table grow.
    ///
    /// # Panics
    ///
    /// If `ids` is above `MAX_ID + 1`.
    #[must_use]
    pub fn with_capacity(ids: u32) -> Self {
        Self {
            links: Links::covering(ids),
            list: List::new(),
        }
    }

    /// Queues `id` at the back and returns true. If it is already queued, it keeps its place and
    /// the result is false.
    ///
    /// O(1), except when the table grows because `id` is higher than any before.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`](Self::MAX_ID).
    #[inline]
    pub fn post(&mut self, id: u32) -> bool {
        self.links.push(&mut self.list, id)
    }

    /// Removes `id` from the queue, and returns whether it was queued. O(1).
    #[inline]
    pub fn cancel(&mut self, id: u32) -> bool {
        self.links.remove(&mut self.list, id)
    }

    /// Removes and returns the id that was queued first; `None` if the queue is empty. O(1).
    ///
    /// The id may be posted again at once, and then goes to the back. So a loop that pops until
    /// `None` may never end: give it a budget.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.links.pop(&mut self.list)
    }

    /// Removes all ids and keeps the table. Costs O(queued ids).
    pub fn clear(&mut self) {
        self.links.clear(&mut self.list);
    }

    /// The id that was queued first; `None` if the queue is empty. It stays queued.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Option<u32> {
        self.list.front()
    }

    /// Returns whether `id` is queued.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.links.has(&self.list, id)
    }

    /// The number of queued ids.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.list.len()
    }

    /// Returns whether no id is queued.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over the queued ids, the one that was queued first at the front.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.links.iter(&self.list)
    }

    #[cfg(test)]
    pub(crate) fn verify(&self) {
        self.links.verify(&[&self.list]);
    }
}

impl Default for PostedQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PostedQueue {
    /// The ids, the one that was queued first at the front.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn queue_of<const N: usize>(ids: [u32; N]) -> PostedQueue {
        let mut queue = PostedQueue::new();
        for id in ids {
            queue.post(id);
        }
        queue
    }

    #[test]
    fn posting_twice_queues_once() {
        let mut queue = PostedQueue::new();
        assert!(queue.post(1));
        assert!(queue.post(2));
        assert!(!queue.post(1));
        assert!(queue.iter().eq([1, 2]));
    }

    #[test]
    fn a_popped_id_can_be_posted_again() {
        let mut queue = queue_of([1, 2]);
        assert_eq!(queue.pop(), Some(1));
        assert!(queue.post(1));
        assert!(queue.iter().eq([2, 1]));
    }

    #[test]
    fn cancel_works_at_the_front_in_the_middle_and_at_the_back() {
        let mut queue = queue_of([1, 2, 3, 4, 5]);
        for id in [1, 3, 5] {
            assert!(queue.cancel(id));
            queue.verify();
        }
        assert!(queue.iter().eq([2, 4]));
    }

    #[test]
    fn cancelling_an_id_that_is_not_queued_returns_false() {
        let mut queue = queue_of([3]);
        assert!(!queue.cancel(2));
        assert!(!queue.cancel(1000));
        assert!(!queue.cancel(u32::MAX));
    }

    #[test]
    fn a_cleared_queue_accepts_the_same_ids_again() {
        let mut queue = queue_of([5, 1]);
        queue.clear();
        queue.verify();
        assert!(queue.is_empty());
        assert!(queue.post(5));
    }

    #[test]
    #[should_panic(expected = "is above")]
    fn posting_an_id_above_the_highest_panics() {
        PostedQueue::new().post(PostedQueue::MAX_ID + 1);
    }

    #[test]
    fn debug_lists_the_ids() {
        assert_eq!(format!("{:?}", queue_of([7, 3])), "[7, 3]");
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Post(u32),
        Cancel(u32),
        Pop,
        Clear,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let id = 0..24u32;
        prop_oneof![
            8 => id.clone().prop_map(Operation::Post),
            4 => id.clone().prop_map(Operation::Cancel),
            4 => Just(Operation::Pop),
            1 => Just(Operation::Clear),
        ]
    }

    fn post(oracle: &mut VecDeque<u32>, id: u32) -> bool {
        let queued = oracle.contains(&id);
        if !queued {
            oracle.push_back(id);
        }
        !queued
    }

    proptest! {
        #[test]
        fn the_queue_agrees_with_a_vec_deque(
            operations in prop::collection::vec(operation(), 0..200),
        ) {
            let mut queue = PostedQueue::new();
            let mut oracle = VecDeque::new();
            for operation in operations {
                match operation {
                    Operation::Post(id) => {
                        prop_assert_eq!(queue.post(id), post(&mut oracle, id));
                    }
                    Operation::Cancel(id) => {
                        let queued = oracle.contains(&id);
                        oracle.retain(|other| *other != id);
                        prop_assert_eq!(queue.cancel(id), queued);
                    }
                    Operation::Pop => prop_assert_eq!(queue.pop(), oracle.pop_front()),
                    Operation::Clear => {
                        queue.clear();
                        oracle.clear();
                    }
                }
                queue.verify();
                prop_assert_eq!(queue.len() as usize, oracle.len());
                prop_assert_eq!(queue.is_empty(), oracle.is_empty());
                prop_assert_eq!(queue.front(), oracle.front().copied());
                prop_assert!(queue.iter().eq(oracle.iter().copied()));
                for id in 0..30 {
                    prop_assert_eq!(queue.contains(id), oracle.contains(&id));
                }
            }
        }
    }
}
