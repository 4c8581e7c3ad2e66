//! A queue of posted ids that separates this turn of an event loop from the next.
//!
//! An id that is posted for the next turn cannot be popped before that turn begins. So work that
//! posts itself again and again leaves room for a poll of the kernel in between.
//!
//! The queue deliberately does not wait. The loop waits, and must not sleep unless
//! [`TurnQueue::is_empty`] returns true.

use std::fmt;

use crate::links::{self, Links, List};

/// A queue of the ids that are due in this turn (iteration) of an event loop, and of those that are
/// due in the next turn.
///
/// An id is due in at most one of the two turns. If it is posted for both, it is due once, in this
/// turn.
///
/// A loop calls [`begin_turn`](Self::begin_turn), then waits (without sleeping, unless the queue
/// [is empty](Self::is_empty)), handles the events, and calls [`pop`](Self::pop) within a budget.
/// Ids over the budget are still due when the next turn begins, ahead of those that were posted for
/// that turn.
///
/// The table of links takes 8 bytes for each id up to the highest that was ever posted, for either
/// turn. It never shrinks.
///
/// Source: nginx's `ngx_posted_events` and `ngx_posted_next_events`. In nginx an event that is
/// posted for the next turn keeps its place when it is posted for this turn, too; here it moves to
/// this turn.
///
/// # Examples
///
/// ```
/// use evcore_posted::TurnQueue;
///
/// let mut queue = TurnQueue::new();
/// queue.post(1);
/// queue.post_next(2); // has used its share of this turn and has more to read
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
    /// The highest id that can be posted, 2,147,483,645: the table of links uses the higher numbers
    /// for other purposes.
    pub const MAX_ID: u32 = links::MAX_ID;

    /// Creates an empty queue. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            links: Links::new(),
            due: List::new(),
            next: List::second(),
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
            ..Self::new()
        }
    }

    /// Queues `id` for this turn at the back and returns true. If it is already due in this turn,
    /// it keeps its place and the result is false.
    ///
    /// An id that is queued for the next turn moves to this one. O(1), except when the table grows.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`](Self::MAX_ID).
    #[inline]
    pub fn post(&mut self, id: u32) -> bool {
        self.links.remove(&mut self.next, id);
        self.links.push(&mut self.due, id)
    }

    /// Queues `id` for the next turn and returns true. If it is already queued, for this turn or
    /// the next, it keeps its place and the result is false.
    ///
    /// O(1), except when the table grows.
    ///
    /// # Panics
    ///
    /// If `id` is above [`MAX_ID`](Self::MAX_ID).
    #[inline]
    pub fn post_next(&mut self, id: u32) -> bool {
        self.links.push(&mut self.next, id)
    }

    /// Removes `id`, whichever turn it is queued for, and returns whether it was queued. O(1).
    #[inline]
    pub fn cancel(&mut self, id: u32) -> bool {
        self.links.remove(&mut self.due, id) || self.links.remove(&mut self.next, id)
    }

    /// Begins a turn. The ids that were posted for it are now due, behind the ids that the previous
    /// turn has left.
    ///
    /// O(1) if none was left, otherwise O(ids posted for this turn).
    #[inline]
    pub fn begin_turn(&mut self) {
        if self.due.is_empty() {
            std::mem::swap(&mut self.due, &mut self.next);
        } else {
            self.links.append(&mut self.due, &mut self.next);
        }
    }

    /// Removes and returns the id that was due first; `None` if none is due in this turn. O(1).
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.links.pop(&mut self.due)
    }

    /// Removes all ids and keeps the table. Costs O(queued ids).
    pub fn clear(&mut self) {
        self.links.clear(&mut self.due);
        self.links.clear(&mut self.next);
    }

    /// Returns whether `id` is queued, for this turn or the next. O(1).
    #[inline]
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.links.has(&self.due, id) || self.links.has(&self.next, id)
    }

    /// Iterates over the ids that are due in this turn, in the order in which they were queued.
    pub fn due(&self) -> impl Iterator<Item = u32> {
        self.links.iter(&self.due)
    }

    /// Iterates over the ids that are due in the next turn, in the order in which they were queued.
    pub fn due_next(&self) -> impl Iterator<Item = u32> {
        self.links.iter(&self.next)
    }

    /// The number of queued ids, for this turn and the next.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.due.len() + self.next.len()
    }

    /// Returns whether no id is queued, for this turn or the next. If one is, a loop must not
    /// sleep.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.due.is_empty() && self.next.is_empty()
    }

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
    /// The ids of each turn, in the order in which they were queued.
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
    fn an_id_posted_for_the_next_turn_is_not_due_in_this_one() {
        let mut queue = TurnQueue::new();
        assert!(queue.post_next(1));
        assert_eq!(queue.pop(), None);
        assert!(!queue.is_empty());
        queue.begin_turn();
        assert_eq!(queue.pop(), Some(1));
        assert!(queue.is_empty());
    }

    #[test]
    fn an_id_that_posts_itself_for_the_next_turn_runs_once_a_turn() {
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
    fn an_id_carried_over_goes_first() {
        let mut queue = TurnQueue::new();
        queue.post_next(1);
        queue.post(2);
        queue.begin_turn();
        assert!(queue.due().eq([2, 1]));
    }

    #[test]
    fn posting_for_this_turn_moves_an_id_from_the_next() {
        let mut queue = TurnQueue::new();
        queue.post_next(1);
        assert!(queue.post(1));
        assert_eq!(queue.due_next().count(), 0);
        assert_eq!(queue.pop(), Some(1));
        queue.begin_turn();
        assert_eq!(queue.pop(), None, "posted for both turns, but due once");
    }

    #[test]
    fn posting_for_the_next_turn_leaves_a_due_id_in_its_place() {
        let mut queue = TurnQueue::new();
        queue.post(1);
        assert!(!queue.post_next(1));
        assert!(queue.due().eq([1]) && queue.due_next().eq([]));
    }

    #[test]
    fn cancel_finds_an_id_of_either_turn() {
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
