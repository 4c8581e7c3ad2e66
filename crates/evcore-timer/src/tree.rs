//! nginx's timer queue: a red-black tree of deadlines.
//!
//! The tree is always ordered, so the earliest deadline is exact at any moment. A server pays for
//! that order at every re-arm, mostly for timers that never fire. So the wheel is the better choice
//! unless exact wake-ups matter.
//!
//! # Guarantees
//!
//! - [`next_deadline`](TimerQueue::next_deadline) is exact and costs a load, because the earliest
//!   timer is cached.
//! - `arm`, `disarm` and a timer that fires take at most 2 × log₂(n + 1) steps down the tree and at
//!   most three rotations.
//! - A timer that is armed during a phase with a deadline that has passed is inserted twice: the
//!   call that ends the phase or begins another inserts all such timers again.

mod trees;

#[cfg(test)]
mod tests;

use std::fmt;

use self::trees::{TreeId, Trees};
use crate::queue::{self, TimerQueue};

/// A red-black tree of timers, with exact wake-ups.
///
/// It is nginx's tree with three differences: nodes are indices into one table, timers with equal
/// deadlines keep the order of arming, and the earliest timer is cached.
///
/// # Cost
///
/// `next_deadline` is a load; `arm`, `disarm` and a timer that fires take at most 2 × log₂(n + 1)
/// steps and three rotations.
/// One call takes more: the [`pop_expired`](TimerQueue::pop_expired) that ends a phase, or begins
/// another, inserts all timers again that were armed during the phase for a tick at or before its
/// `now`.
///
/// # Memory
///
/// 24 bytes for each id up to the highest that was armed, so ids must be dense.
/// The table grows and does not shrink. An `arm` that makes it grow copies it; see
/// [`with_capacity`](Self::with_capacity).
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
/// assert_eq!(timers.next_deadline(), Some(70_000)); // exact at any distance
/// assert_eq!(timers.pop_expired(69_999), None);
/// assert_eq!(timers.pop_expired(70_000), Some((1, 70_000)));
/// ```
#[derive(Clone)]
pub struct TimerTree {
    // Invariant: `TreeId::Deferred` holds the timers that were armed in the current phase and were
    // due at once; outside a phase it is empty.
    trees: Trees,
    /// `now` of the current phase.
    phase: Option<u64>,
    armed: usize,
}

impl TimerTree {
    /// The highest id that can be armed, 2²⁷ − 1. A table of that size takes 3 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// Creates an empty tree, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty tree with memory for the ids below `ids`, so that arming these allocates
    /// nothing. Higher ids make the table grow.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        Self {
            trees: Trees::with_capacity(ids),
            phase: None,
            armed: 0,
        }
    }

    /// The node of a timer that will be inserted: unlinked if it was armed, or counted as armed.
    #[inline]
    fn unlink_or_count(&mut self, id: u32) -> u32 {
        let node = self.trees.admit(id);
        if self.trees.is_linked(node) {
            self.trees.remove(node);
        } else {
            self.armed += 1;
        }
        node
    }

    /// Lets the timers that were deferred during a phase fire in the next.
    fn admit_deferred(&mut self) {
        while let Some(node) = self.trees.first(TreeId::Deferred) {
            let deadline = self.trees.deadline(node);
            self.trees.remove(node);
            self.trees.insert(TreeId::Main, node, deadline);
        }
    }
}

impl TimerQueue for TimerTree {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let node = self.unlink_or_count(id);
        let is_deferred = self.phase.is_some_and(|now| deadline <= now);
        let tree = if is_deferred {
            TreeId::Deferred
        } else {
            TreeId::Main
        };
        self.trees.insert(tree, node, deadline);
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        let node = self.unlink_or_count(id);
        self.trees.insert(TreeId::Main, node, deadline);
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let Some(node) = self.trees.find(id) else {
            return false;
        };
        self.trees.remove(node);
        self.trees.release(node);
        self.armed -= 1;
        true
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.phase != Some(now) {
            self.admit_deferred();
            self.phase = Some(now);
        }
        let first = self.trees.first(TreeId::Main);
        let Some(node) = first.filter(|&node| self.trees.deadline(node) <= now) else {
            self.admit_deferred();
            self.phase = None;
            return None;
        };
        let expired = (self.trees.id(node), self.trees.deadline(node));
        self.trees.remove(node);
        self.trees.release(node);
        self.armed -= 1;
        Some(expired)
    }

    fn clear(&mut self) {
        self.trees.clear();
        self.armed = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.trees.find(id).map(|node| self.trees.deadline(node))
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
        let firsts = [TreeId::Deferred, TreeId::Main].map(|tree| self.trees.first(tree));
        let deadlines = firsts.into_iter().flatten();
        deadlines.map(|node| self.trees.deadline(node)).min()
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
    /// Panics if an invariant does not hold.
    pub(crate) fn verify(&self) {
        assert_eq!(self.trees.verify(), self.armed, "number of armed timers");
        let mut deferred = self.trees.deadlines(TreeId::Deferred);
        assert!(
            deferred.all(|deadline| self.phase.is_some_and(|now| deadline <= now)),
            "a timer is deferred without need"
        );
    }
}
