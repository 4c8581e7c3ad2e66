//! A posted queue that knows this turn from the next.
//!
//! What is posted for the next turn stays out of reach until that turn begins, so that whoever
//! posts itself again and again lets the kernel have its say in between.
//!
//! Deliberately absent: the wait. Whoever waits asks [`TurnQueue::is_empty`] how long it may.

use std::fmt;

use crate::links::{self, Links, List};

/// A queue of ids that are due in this turn, and of those that are due in the next.
///
/// An id is in one of the two at most. If it is posted for both, the sooner counts: it is due once.
///
/// A loop uses it so: [`begin_turn`](Self::begin_turn); wait, no longer than zero unless the queue
/// [is empty](Self::is_empty); handle what was reported; then [`pop`](Self::pop), within a budget.
/// What is over the budget is still due when the next turn begins, and goes before what waited for
/// that turn.
///
/// The table of links takes 8 bytes for each id up to the highest ever posted, for whichever turn.
/// It never shrinks.
///
/// Source: nginx's `ngx_posted_events` and `ngx_posted_next_events`. There an event that waits for
/// the next turn stays there when it is posted for this one; here it moves up.
///
/// # Examples
///
/// ```
/// use evcore_posted::TurnQueue;
///
/// let mut queue = TurnQueue::new();
/// queue.post(1);
/// queue.post_next(2); // has read its share, and wants to read on
/// assert_eq!(queue.pop(), Some(1));
/// assert_eq!(queue.pop(), None, "the turn is over");
/// assert!(!queue.is_empty(), "so the wait must be zero");
///
/// queue.begin_turn();
/// assert_eq!(queue.pop(), Some(2));
/// ```
#[derive(Clone)]
pub struct TurnQueue {
    links: Links,
    due: List,
    next: List,
}

impl TurnQueue {
    /// The highest id that can be posted, 2,147,483,645: higher numbers are needed as marks.
    pub const MAX_ID: u32 = links::MAX_ID;

    /// Makes an empty queue. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            links: Links::new(),
            due: List::new(),
            next: List::second(),
        }
    }

    /// Makes an empty queue whose table covers the ids below `ids`, so that posting them allocates
    /// nothing.
    #[must_use]
    pub fn with_capacity(ids: u32) -> Self {
        Self {
            links: Links::covering(ids),
            ..Self::new()
        }
    }

    /// Queues `id` for this turn behind all others, and returns true; or false if it is due in this
    /// turn already, in which case it keeps its place.
    ///
    /// An id that waits for the next turn moves up to this one. O(1), but for growth.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`](Self::MAX_ID).
    #[inline]
    pub fn post(&mut self, id: u32) -> bool {
        self.links.remove(&mut self.next, id);
        self.links.push(&mut self.due, id)
    }

    /// Queues `id` for the next turn, and returns true; or false if it is queued already, for this
    /// turn or the next, in which case it keeps its place.
    ///
    /// O(1), but for growth.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`](Self::MAX_ID).
    #[inline]
    pub fn post_next(&mut self, id: u32) -> bool {
        self.links.push(&mut self.next, id)
    }

    /// Takes `id` out, whichever turn it is queued for, and returns whether it was. O(1).
    #[inline]
    pub fn cancel(&mut self, id: u32) -> bool {
        self.links.remove(&mut self.due, id) || self.links.remove(&mut self.next, id)
    }

    /// Begins a turn: what waited for it is due, behind what the turn before has left.
    ///
    /// O(1) if nothing was left, otherwise O(ids that waited).
    #[inline]
    pub fn begin_turn(&mut self) {
        if self.due.is_empty() {
            std::mem::swap(&mut self.due, &mut self.next);
        } else {
            self.links.append(&mut self.due, &mut self.next);
        }
    }

    /// Takes out the id that has been due the longest; `None` if none is due in this turn. O(1).
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.links.pop(&mut self.due)
    }

    /// Takes out all ids, and keeps the table. Costs O(queued ids).
    pub fn clear(&mut self) {
        self.links.clear(&mut self.due);
        self.links.clear(&mut self.next);
    }

    /// Whether `id` is queued, for this turn or the next. O(1).
    #[inline]
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.links.has(&self.due, id) || self.links.has(&self.next, id)
    }

    /// Walks the ids that are due in this turn, the one that has been due the longest first.
    pub fn due(&self) -> impl Iterator<Item = u32> {
        self.links.iter(&self.due)
    }

    /// Walks the ids that wait for the next turn, the one that has waited the longest first.
    pub fn due_next(&self) -> impl Iterator<Item = u32> {
        self.links.iter(&self.next)
    }

    /// The number of ids that are queued, for this turn and the next.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.due.len() + self.next.len()
    }

    /// Whether nothing is queued, neither for this turn nor for the next. If not, a loop must not
    /// sleep.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.due.is_empty() && self.next.is_empty()
    }

    /// Panics where an invariant does not hold.
    #[cfg(test)]
    pub(crate) fn verify(&self) {
        self.links.verify(&[&self.due, &self.next]);
    }
}

impl Default for TurnQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TurnQueue {
    /// The ids, those that have waited the longest first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ids: &List| self.links.iter(ids).collect::<Vec<_>>();
        f.debug_struct("TurnQueue")
            .field("due", &list(&self.due))
            .field("next", &list(&self.next))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn what_waits_for_the_next_turn_is_not_due_in_this_one() {
        let mut queue = TurnQueue::new();
        assert!(queue.post_next(1));
        assert_eq!(queue.pop(), None);
        assert!(!queue.is_empty());
        queue.begin_turn();
        assert_eq!(queue.pop(), Some(1));
        assert!(queue.is_empty());
    }

    #[test]
    fn one_that_posts_itself_for_the_next_turn_comes_once_a_turn() {
        let mut queue = TurnQueue::new();
        queue.post(7);
        for _ in 0..3 {
            assert_eq!(queue.pop(), Some(7));
            assert!(queue.post_next(7));
            assert_eq!(queue.pop(), None);
            queue.begin_turn();
        }
    }

    #[test]
    fn what_was_carried_over_goes_first() {
        let mut queue = TurnQueue::new();
        queue.post_next(1);
        queue.post(2);
        queue.begin_turn();
        assert!(queue.due().eq([2, 1]));
    }

    #[test]
    fn posting_for_this_turn_moves_up_what_waited_for_the_next() {
        let mut queue = TurnQueue::new();
        queue.post_next(1);
        assert!(queue.post(1));
        assert_eq!(queue.due_next().count(), 0);
        assert_eq!(queue.pop(), Some(1));
        queue.begin_turn();
        assert_eq!(queue.pop(), None, "posted for both turns, it was due once");
    }

    #[test]
    fn posting_for_the_next_turn_leaves_what_is_due_where_it_is() {
        let mut queue = TurnQueue::new();
        queue.post(1);
        assert!(!queue.post_next(1));
        assert!(queue.due().eq([1]) && queue.due_next().eq([]));
    }

    #[test]
    fn cancelling_finds_an_id_in_either_turn() {
        let mut queue = TurnQueue::new();
        queue.post(1);
        queue.post_next(2);
        assert!(queue.cancel(1) && queue.cancel(2));
        assert!(!queue.cancel(1) && !queue.cancel(3));
        assert!(queue.is_empty());
    }

    #[test]
    fn debug_lists_the_ids_of_both_turns() {
        let mut queue = TurnQueue::new();
        queue.post(7);
        queue.post_next(3);
        assert_eq!(format!("{queue:?}"), "TurnQueue { due: [7], next: [3] }");
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Post(u32),
        PostNext(u32),
        Cancel(u32),
        Pop,
        BeginTurn,
        Clear,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let id = 0..16u32;
        prop_oneof![
            6 => id.clone().prop_map(Operation::Post),
            6 => id.clone().prop_map(Operation::PostNext),
            4 => id.prop_map(Operation::Cancel),
            4 => Just(Operation::Pop),
            3 => Just(Operation::BeginTurn),
            1 => Just(Operation::Clear),
        ]
    }

    /// What is due and what waits, written as plainly as can be.
    #[derive(Default)]
    struct Oracle {
        due: VecDeque<u32>,
        next: VecDeque<u32>,
    }

    impl Oracle {
        fn cancel(&mut self, id: u32) -> bool {
            let before = self.due.len() + self.next.len();
            self.due.retain(|other| *other != id);
            self.next.retain(|other| *other != id);
            self.due.len() + self.next.len() < before
        }

        fn post(&mut self, id: u32) -> bool {
            if self.due.contains(&id) {
                return false;
            }
            self.cancel(id);
            self.due.push_back(id);
            true
        }

        fn post_next(&mut self, id: u32) -> bool {
            if self.due.contains(&id) || self.next.contains(&id) {
                return false;
            }
            self.next.push_back(id);
            true
        }
    }

    proptest! {
        #[test]
        fn the_queue_agrees_with_two_vec_deques(
            operations in prop::collection::vec(operation(), 0..200),
        ) {
            let mut queue = TurnQueue::new();
            let mut oracle = Oracle::default();
            for operation in operations {
                match operation {
                    Operation::Post(id) => prop_assert_eq!(queue.post(id), oracle.post(id)),
                    Operation::PostNext(id) => {
                        prop_assert_eq!(queue.post_next(id), oracle.post_next(id));
                    }
                    Operation::Cancel(id) => prop_assert_eq!(queue.cancel(id), oracle.cancel(id)),
                    Operation::Pop => prop_assert_eq!(queue.pop(), oracle.due.pop_front()),
                    Operation::BeginTurn => {
                        queue.begin_turn();
                        oracle.due.append(&mut oracle.next);
                    }
                    Operation::Clear => {
                        queue.clear();
                        oracle = Oracle::default();
                    }
                }
                queue.verify();
                prop_assert!(queue.due().eq(oracle.due.iter().copied()));
                prop_assert!(queue.due_next().eq(oracle.next.iter().copied()));
                let len = oracle.due.len() + oracle.next.len();
                prop_assert_eq!(queue.len() as usize, len);
                prop_assert_eq!(queue.is_empty(), len == 0);
                for id in 0..20 {
                    let queued = oracle.due.contains(&id) || oracle.next.contains(&id);
                    prop_assert_eq!(queue.contains(id), queued);
                }
            }
        }
    }
}
