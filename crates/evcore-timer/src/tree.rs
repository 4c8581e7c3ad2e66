//! nginx's timer queue: a red-black tree of deadlines.
//!
//! The tree is always ordered, so the earliest deadline is exact at any moment. A server pays for
//! that order at every re-arm, mostly for timers that never fire. So the wheel is the better choice
//! unless exact wake-ups matter. Timers that are overdue when they are armed are on separate heaps.

mod red_black;

#[cfg(test)]
mod tests;

use std::fmt;

use self::red_black::{RedBlackTree, Spot};
use crate::overdue::{ADMIT_MAX, Overdue};
use crate::queue::{self, TimerQueue};

/// A red-black tree of timers, with exact wake-ups.
///
/// It is nginx's tree, but nodes are indices into one table, timers with equal deadlines keep the
/// order of arming, and the earliest and the latest timer are cached.
///
/// Use it if a wake-up must be exact at any distance. For timeouts that are often re-armed, the
/// [wheel](crate::TimerWheel) takes less than a fifth of the instructions. With 100 timers, a tree
/// of pointers in C, such as nginx's, takes half as many instructions as this tree, and with 10^5
/// timers two thirds. The reason is that this tree checks an index at each step.
///
/// # Cost
///
/// `next_deadline` is a few loads. A removal or an insertion takes at most 2 × log₂(n + 1) steps
/// down the tree and three rotations. `disarm` and a timer that fires are a removal. `arm` is an
/// insertion, after a removal if the timer is armed. The latest deadline of all is inserted without
/// steps down.
///
/// A timer that is armed for a tick at or before the latest `now` is on a heap. If a phase (a run
/// of `pop_expired` calls with one `now`) is left early, the next phase may insert such timers
/// again. A call inserts at most 8 of them, and then [pauses](TimerQueue::has_more).
///
/// # Memory
///
/// 24 bytes for each id, in runs of 128 ids, and 24 for each timer that was overdue when it was
/// armed. The table grows by 3 KiB, copies no timer, and does not shrink.
///
/// Ids that come into use nearly one after the other, or that
/// [`with_capacity`](Self::with_capacity) has made room for, are found by a comparison. An id that
/// is four runs or more above all others allocates one run, and from then on each new run of ids
/// is looked up in a table.
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
    /// The timers that were not overdue when they were armed.
    tree: RedBlackTree,
    /// The overdue timers, by node.
    // Invariant: of timers with equal deadlines, those in the tree were armed before these.
    overdue: Overdue,
    /// The highest `now` so far. A timer is overdue if it is armed for this tick or an earlier one.
    horizon: u64,
    /// `now` of the current phase.
    phase: Option<u64>,
    has_more: bool,
    /// Maximum number of timers that one call admits to a phase. Tests lower it, so that short
    /// scripts pause.
    admit_max: usize,
    armed: usize,
}

impl TimerTree {
    /// The highest id that can be armed, 2²⁷ − 1. With all ids in use the table takes 3 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// Creates an empty tree, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty tree with memory for the ids below `ids`. Higher ids make the table grow.
    ///
    /// Arming these ids allocates nothing, except for a new maximum of timers that were armed for
    /// ticks at or before the latest `now`.
    ///
    /// # Panics
    ///
    /// If `ids` is above [`ID_MAX`](Self::ID_MAX) + 1.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        queue::assert_room(ids);
        Self {
            tree: RedBlackTree::with_capacity(ids),
            overdue: Overdue::new(),
            horizon: 0,
            phase: None,
            has_more: false,
            admit_max: ADMIT_MAX,
            armed: 0,
        }
    }

    /// Returns the node of a timer, which the caller inserts. Removes the timer if it was armed,
    /// and counts it as armed otherwise.
    #[inline]
    fn remove_or_count(&mut self, id: u32) -> u32 {
        let node = self.tree.admit(id);
        if !self.remove(node) {
            self.armed += 1;
        }
        node
    }

    /// Takes a timer out of the tree or off its heap, and returns whether it was armed. Does not
    /// change the node itself.
    #[inline]
    fn remove(&mut self, node: u32) -> bool {
        match self.tree.spot(node) {
            Spot::Unarmed => return false,
            Spot::InTree => self.tree.remove(node),
            Spot::OnHeap(place) => self.overdue.remove(place, &mut self.tree),
        }
        true
    }

    /// Marks a timer that was removed as disarmed.
    fn release(&mut self, node: u32) {
        self.tree.release(node);
        self.armed -= 1;
    }

    fn begin_phase(&mut self, now: u64) {
        self.phase = Some(now);
        self.horizon = self.horizon.max(now);
        self.overdue.begin_phase();
    }

    /// The node and the deadline of the next timer of this phase.
    fn first_due(&self, now: u64) -> Option<(u32, u64)> {
        let in_tree = self.tree.first();
        let in_tree = in_tree.map(|node| (node, self.tree.deadline(node)));
        let first = match (in_tree, self.overdue.first_due()) {
            (Some(in_tree), Some(overdue)) if overdue.1 < in_tree.1 => Some(overdue),
            (in_tree, overdue) => in_tree.or(overdue),
        };
        first.filter(|&(_, deadline)| deadline <= now)
    }

    #[inline]
    fn earliest(&self) -> Option<u64> {
        let in_tree = self.tree.first().map(|node| self.tree.deadline(node));
        let deadlines = [in_tree, self.overdue.next_deadline()];
        deadlines.into_iter().flatten().min()
    }
}

impl TimerQueue for TimerTree {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        let node = self.remove_or_count(id);
        if deadline > self.horizon {
            self.tree.insert(node, deadline);
        } else {
            self.overdue.insert(node, deadline, &mut self.tree);
        }
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        if self.phase.is_some_and(|now| deadline <= now) {
            let node = self.remove_or_count(id);
            self.overdue.insert_in_phase(node, deadline, &mut self.tree);
        } else {
            self.arm(id, deadline);
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let node = self.tree.find(id);
        let Some(node) = node.filter(|&node| self.remove(node)) else {
            return false;
        };
        self.release(node);
        true
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.phase != Some(now) {
            self.begin_phase(now);
        }
        self.has_more =
            self.overdue.is_admitting() && !self.overdue.admit(self.admit_max, &mut self.tree);
        if self.has_more {
            return None;
        }
        let Some((node, deadline)) = self.first_due(now) else {
            self.phase = None;
            return None;
        };
        self.remove(node);
        self.release(node);
        Some((self.tree.id(node), deadline))
    }

    fn clear(&mut self) {
        self.tree.clear();
        self.overdue.clear();
        self.armed = 0;
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        let node = self.tree.find(id)?;
        match self.tree.spot(node) {
            Spot::Unarmed => None,
            Spot::InTree => Some(self.tree.deadline(node)),
            Spot::OnHeap(place) => Some(self.overdue.deadline(place)),
        }
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.earliest()
    }

    #[inline]
    fn len(&self) -> usize {
        self.armed
    }

    fn has_more(&self) -> bool {
        self.has_more
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
            .field("next_deadline", &self.earliest())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl TimerTree {
    pub(crate) fn with_pauses() -> Self {
        Self {
            admit_max: 2,
            ..Self::new()
        }
    }

    pub(crate) fn verify(&self) {
        let place_of = |node| match self.tree.spot(node) {
            Spot::OnHeap(place) => Some(place),
            _ => None,
        };
        let on_heaps = self.overdue.verify(place_of);
        let marked = self.tree.count(|spot| matches!(spot, Spot::OnHeap(_)));
        assert_eq!(
            marked, on_heaps,
            "a timer is marked as on a heap and is not there"
        );
        let timers = self.tree.verify() + on_heaps;
        assert_eq!(timers, self.armed, "number of armed timers");
        assert!(
            self.overdue
                .deadlines()
                .all(|deadline| deadline <= self.horizon),
            "a timer is on a heap without need"
        );
    }
}
