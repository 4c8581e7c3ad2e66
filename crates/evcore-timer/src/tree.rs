//! nginx's timer queue: a red-black tree of deadlines.
//!
//! The order is kept at every moment, so the earliest deadline is known exactly and at once, and a
//! timer is filed and found by as many steps as the tree is high.
//! That order is what a server pays for on every re-arm, mostly for timers that never fire: so the
//! wheel is the better choice unless exact wake-ups matter.
//!
//! # What may be relied on
//!
//! - [`next_deadline`](TimerQueue::next_deadline) is exact and costs a load: the earliest timer is
//!   cached.
//! - `arm`, `disarm` and a timer that fires: at most 2 × log₂(n + 1) steps down the tree, and at
//!   most three rotations.
//! - A timer that was armed during a phase with a deadline that had come is filed twice: the call
//!   that ends the phase, or begins another, files all of these anew, however many they are.

mod forest;

#[cfg(test)]
mod tests;

use std::fmt;

use self::forest::{Forest, Tree};
use crate::queue::{self, TimerQueue};

/// A red-black tree: the timer queue with exact wake-ups, and log n steps whatever is armed.
///
/// Equal deadlines stand in the order they were armed.
/// The shape is nginx's, with three things changed: nodes are indices in one table, equal keys keep
/// their order, and the earliest is cached.
///
/// # Cost
///
/// `next_deadline` is a load; `arm`, `disarm` and a timer that fires are at most 2 × log₂(n + 1)
/// steps and three rotations.
/// One call takes more: what was armed during a phase for a tick at or before its `now` is filed
/// again, all of it, by the [`pop_expired`](TimerQueue::pop_expired) that ends the phase or begins
/// another.
///
/// # Memory
///
/// 24 bytes for each id up to the highest that was armed: ids must be dense.
/// The table grows and does not shrink; the `arm` that makes it grow copies it, unless there was
/// [room](Self::with_capacity).
///
/// # Example
///
/// ```
/// use evcore_timer::{TimerQueue, TimerTree};
///
/// let mut timers = TimerTree::new();
/// timers.arm(0, 100_000);
/// timers.arm(1, 70_000);
///
/// assert_eq!(timers.next_deadline(), Some(70_000)); // exact, however far
/// assert_eq!(timers.pop_expired(69_999), None);
/// assert_eq!(timers.pop_expired(70_000), Some((1, 70_000)));
/// ```
#[derive(Clone)]
pub struct TimerTree {
    // Invariant: on `Tree::Late` is what was armed in the phase under way and was due at once;
    // outside a phase nothing.
    forest: Forest,
    /// `now` of the phase under way.
    phase: Option<u64>,
    armed: usize,
}

impl TimerTree {
    /// The highest id that can be armed, 2²⁷ − 1: a table up to it takes 3 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// An empty tree, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty tree with memory for the ids below `ids`, so that arming these allocates nothing.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        Self {
            forest: Forest::with_capacity(ids),
            phase: None,
            armed: 0,
        }
    }

    /// The node of a timer that is about to be filed, counted and on no tree.
    #[inline]
    fn take_up(&mut self, id: u32) -> u32 {
        let node = self.forest.admit(id);
        if self.forest.is_linked(node) {
            self.forest.remove(node);
        } else {
            self.armed += 1;
        }
        node
    }

    /// Lets what was held back during a phase fire in the next.
    fn readmit_late(&mut self) {
        while let Some(node) = self.forest.first(Tree::Late) {
            let deadline = self.forest.deadline(node);
            self.forest.remove(node);
            self.forest.insert(Tree::Main, node, deadline);
        }
    }
}

impl TimerQueue for TimerTree {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let node = self.take_up(id);
        let late = self.phase.is_some_and(|now| deadline <= now);
        let tree = if late { Tree::Late } else { Tree::Main };
        self.forest.insert(tree, node, deadline);
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        let node = self.take_up(id);
        self.forest.insert(Tree::Main, node, deadline);
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let Some(node) = self.forest.find(id) else {
            return false;
        };
        self.forest.remove(node);
        self.forest.release(node);
        self.armed -= 1;
        true
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.phase != Some(now) {
            self.readmit_late();
            self.phase = Some(now);
        }
        let first = self.forest.first(Tree::Main);
        let Some(node) = first.filter(|&node| self.forest.deadline(node) <= now) else {
            self.readmit_late();
            self.phase = None;
            return None;
        };
        let expired = (self.forest.id(node), self.forest.deadline(node));
        self.forest.remove(node);
        self.forest.release(node);
        self.armed -= 1;
        Some(expired)
    }

    fn clear(&mut self) {
        self.forest.clear();
        self.armed = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.forest.find(id).map(|node| self.forest.deadline(node))
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
        let firsts = [Tree::Late, Tree::Main].map(|tree| self.forest.first(tree));
        let deadlines = firsts.into_iter().flatten();
        deadlines.map(|node| self.forest.deadline(node)).min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.armed
    }
}

impl Default for TimerTree {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TimerTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerTree")
            .field("armed", &self.armed)
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl TimerTree {
    /// Panics where an invariant does not hold.
    pub(crate) fn verify(&self) {
        assert_eq!(self.forest.verify(), self.armed, "count of armed timers");
        let mut late = self.forest.deadlines(Tree::Late);
        assert!(
            late.all(|deadline| self.phase.is_some_and(|now| deadline <= now)),
            "a timer is held back without need"
        );
    }
}
