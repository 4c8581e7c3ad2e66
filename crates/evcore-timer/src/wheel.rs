//! A hierarchical timing wheel, and heaps for the timers that do not fit it.
//!
//! A server arms, re-arms and disarms timers all the time, and few of them ever fire. So the wheel
//! sorts as little as possible: a timer is put into a slot whose width grows with its distance, and
//! is not moved again until that slot is reached.
//! The design follows G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels*, 1987
//! (their scheme 7), with a bitmap of the slots, so that empty slots are skipped without a walk.
//!
//! The slots cover the ticks whose high 32 bits equal those of the wheel's *position*, the tick to
//! which the wheel has moved. Two kinds of timers are on heaps: those *far* ahead, with other high
//! bits, and those that were *overdue* when they were armed. Both are few if ticks are milliseconds
//! and deadlines are in the future.
//!
//! # Why the order is exact
//!
//! - Slots are lists in the order of arming. A coarse slot is emptied from its back, and each timer
//!   goes to the front of its finer slot. So timers that are armed meanwhile stay behind.
//! - The slot of a deadline depends only on the position, which a phase (a run of `pop_expired`
//!   calls with one `now`) does not move if nothing is due.
//! - The position and the horizon (the highest `now`) never go back. So of timers with equal
//!   deadlines, the far ones were armed first, then those in a slot, then the overdue ones.

mod deadline_slot;
mod lists;
mod nodes;
mod phase;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verify;

use std::fmt;

use self::deadline_slot::{last_with_slot, low, slot_of, with_low};
use self::lists::Lists;
use self::nodes::{Node, Nodes, Spot};
use crate::keyed_heap::{Entry, Heap};
use crate::overdue::Overdue;
use crate::queue::{self, TimerQueue};

/// The number of the heap of far timers.
const FAR: u8 = Overdue::HEAPS;

/// A hierarchical timing wheel, for timeouts that are often re-armed and rarely fire.
///
/// [`next_deadline`](TimerQueue::next_deadline) may be early, but never late. Early results cost at
/// most one wake for each of the three coarser levels of slots, and one for each 64 slots whose
/// timers have all left (were disarmed or moved). They cost one more if the earliest timer was
/// armed again to a later deadline, or if the only armed timer was disarmed.
///
/// # Cost
///
/// Arming, re-arming and disarming are at most a removal from one list and an addition to another,
/// whether a thousand timers are armed or a million; only the cache misses grow. Disarming the
/// earliest timer also searches for the next one. While nothing is due, `next_deadline` and
/// [`pop_expired`](TimerQueue::pop_expired) are a load and a comparison. A call of `pop_expired`
/// moves timers and drops slots that timers have left, 64 in all, and then
/// [pauses](TimerQueue::has_more). A search for the next timer, at the end of a phase or when the
/// earliest timer is disarmed, drops at most 64 slots.
///
/// Two kinds of timers are on heaps, where these calls take log₄ n steps: those that are armed for
/// a tick at or before the latest `now`, and those armed for a tick whose high 32 bits differ from
/// those of the wheel's position (which is at or before the latest `now`). If ticks are
/// milliseconds, the high bits change every 49 days. Before the first timer is armed, call
/// `pop_expired` with the current tick, so that the wheel begins there and not at 0.
///
/// # Memory
///
/// 8 bytes for each id, in blocks of 512 ids. Some 6 bytes for each armed timer, because up to 14
/// timers of one slot share 64 bytes. A timer that is alone in its slot takes all 64. In addition,
/// the wheel takes 16 KiB, and at most 128 KiB for slots that timers have left. Each of these slots
/// keeps 64 or 128 bytes until it is reached.
///
/// The tables grow by 4 KiB, copy nothing, and do not shrink. An id far above the others allocates
/// one block, and each call for the id takes a search in a map, until about half of the blocks
/// below its block are in use. So keep ids dense.
///
/// # Example
///
/// ```
/// use evcore_timer::{TimerQueue, TimerWheel};
///
/// let mut timers = TimerWheel::new();
/// timers.arm(0, 100);
/// timers.arm(1, 50);
/// timers.arm(2, 100);
/// timers.arm(1, 100); // re-armed: now behind 2
///
/// let fired: Vec<u32> = std::iter::from_fn(|| timers.pop_expired(100)).map(|(id, _)| id).collect();
/// assert_eq!(fired, [0, 2, 1]);
/// ```
#[derive(Clone)]
pub struct TimerWheel {
    nodes: Nodes,
    // Invariant: a timer is in the slot that is being drained, in the slot of its deadline as seen
    // from `position`, or on a heap. The deadline of a timer in a slot has the high half of
    // `position`.
    lists: Lists,
    /// Timers that were too far ahead for a slot when they were armed.
    far: Heap,
    overdue: Overdue,
    // Invariant: no deadline in a slot is before it, and it is not after `horizon`.
    position: u64,
    /// The last tick that has a slot. It is cached, because every arming needs it.
    // Invariant: the last tick with the high half of `position`.
    reach: u64,
    /// The coarse slot whose timers are being moved to finer slots, while it still holds some.
    // Invariant: it starts at `position`, and its timers were armed before those with the same
    // deadline in finer slots.
    draining: Option<u32>,
    /// The highest `now` so far. A timer is overdue if it is armed for this tick or an earlier one.
    // Invariant: outside a phase, every deadline in a slot is after the latest `now`.
    horizon: u64,
    /// `now` of the current phase.
    now: u64,
    /// No timer is due before this tick.
    // Invariant: not after any deadline.
    quiet_until: u64,
    /// A deadline after this tick is neither overdue nor the earliest. It is cached, because every
    /// arming needs it.
    // Invariant: the later of `horizon` and the tick before `quiet_until`.
    plain_after: u64,
    in_phase: bool,
    has_more: bool,
    /// Maximum number of timers that one call moves. Tests lower it, so that short scripts pause.
    moves_max: usize,
    armed: usize,
    /// The number of far timers that were ever inserted, which orders equal deadlines.
    far_sequence: u64,
}

/// The default of `moves_max`. With a million armed timers, each move costs a few cache misses, so
/// a call takes some 10 µs (docs/performance.md, the longest call).
const MOVES_MAX: usize = 64;

impl TimerWheel {
    /// The highest id that can be armed, 2²⁷ − 1. The table of all ids takes 1 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// Creates an empty wheel, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty wheel with memory for the ids below `ids`. Higher ids make the table grow.
    ///
    /// Arming these ids allocates nothing, with two exceptions: timers on [heaps](TimerWheel#cost),
    /// and slots that most of their timers have left.
    ///
    /// # Panics
    ///
    /// If `ids` is above [`ID_MAX`](Self::ID_MAX) + 1.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        queue::assert_room(ids);
        let mut lists = Lists::new();
        lists.reserve(ids);
        Self {
            nodes: Nodes::with_capacity(ids),
            lists,
            far: Heap::new(FAR),
            overdue: Overdue::new(),
            position: 0,
            reach: last_with_slot(0),
            draining: None,
            horizon: 0,
            now: 0,
            quiet_until: u64::MAX,
            plain_after: u64::MAX - 1,
            in_phase: false,
            has_more: false,
            moves_max: MOVES_MAX,
            armed: 0,
            far_sequence: 0,
        }
    }

    #[inline]
    fn set_quiet_until(&mut self, tick: u64) {
        self.quiet_until = tick;
        self.plain_after = self.horizon.max(tick.saturating_sub(1));
    }

    /// Returns whether a deadline has a slot. If not, its timer goes on a heap.
    fn fits(&self, deadline: u64) -> bool {
        deadline > self.horizon && deadline <= self.reach
    }

    /// Arms a timer that is not on a heap, in a slot that has no chunk (see `lists.rs`), or whose
    /// last chunk is full.
    #[inline(never)]
    fn arm_in_next_chunk(&mut self, id: u32, deadline: u64, slot: u32) {
        if !self.lists.can_grow(slot) {
            return self.arm_slow(id, deadline);
        }
        let spot = self.lists.push_back_chunk(slot, id);
        let node = self.nodes.at_mut(id);
        let old = node.spot;
        (node.low, node.spot) = (low(deadline), spot);
        if old.is_armed() {
            self.lists.remove(old);
        } else {
            self.armed += 1;
        }
    }

    /// Arms a timer in the general case.
    #[inline(never)]
    fn arm_slow(&mut self, id: u32, deadline: u64) {
        self.set_quiet_until(deadline.min(self.quiet_until));
        self.nodes.admit(id);
        self.detach(id);
        self.insert(id, deadline);
    }

    /// Like [`disarm`](TimerQueue::disarm), for an id that is far above the others.
    #[cold]
    #[inline(never)]
    fn disarm_far(&mut self, id: u32) -> bool {
        let Some(node) = self.nodes.get(id) else {
            return false;
        };
        let spot = node.spot;
        if !spot.is_armed() {
            return false;
        }
        self.release(id);
        self.take_off_first(spot);
        true
    }

    /// Takes an armed timer off its list or heap, and counts an unarmed one as armed. Does not
    /// change the spot.
    fn detach(&mut self, id: u32) {
        let spot = self.nodes.at_mut(id).spot;
        if spot.is_armed() {
            self.take_off(spot);
        } else {
            self.armed += 1;
        }
    }

    fn take_off(&mut self, spot: Spot) {
        match spot.place() {
            None => self.lists.remove(spot),
            Some(place) if place.heap() == FAR => self.far.remove(place.index(), &mut self.nodes),
            Some(place) => self.overdue.remove(place, &mut self.nodes),
        }
    }

    /// Inserts a detached timer into the slot or onto the heap for its deadline.
    fn insert(&mut self, id: u32, deadline: u64) {
        if self.fits(deadline) {
            let slot = slot_of(deadline, self.position);
            let node = self.nodes.at_mut(id);
            self.lists.push_back(slot, id, node, low(deadline));
        } else if deadline > self.horizon {
            self.insert_far(id, deadline);
        } else {
            self.overdue.insert(id, deadline, &mut self.nodes);
        }
    }

    fn insert_far(&mut self, id: u32, deadline: u64) {
        self.far_sequence += 1;
        let entry = Entry {
            deadline,
            sequence: self.far_sequence,
            minor: 0,
            id,
        };
        self.far.push(entry, &mut self.nodes);
    }

    /// Marks a detached timer as disarmed.
    #[inline]
    fn release(&mut self, id: u32) {
        self.nodes.at_mut(id).spot = Spot::UNARMED;
        self.armed -= 1;
    }

    fn deadline_at(&self, spot: Spot, low: u32) -> u64 {
        match spot.place() {
            None => with_low(self.position, low),
            Some(place) if place.heap() == FAR => self.far.at(place.index()).deadline,
            Some(place) => self.overdue.deadline(place),
        }
    }
}

impl TimerQueue for TimerWheel {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        // This is the hot path. A call that is not inlined is always the last step, because saving
        // registers for a call would cost as much as all the rest.
        if deadline > self.plain_after && deadline <= self.reach {
            if let Some(node) = self.nodes.near_mut(id) {
                let (old, low) = (node.spot, low(deadline));
                if old.is_in_slot() {
                    let slot = slot_of(deadline, self.position);
                    if !self.lists.try_push_back(slot, id, node, low) {
                        return self.arm_in_next_chunk(id, deadline, slot);
                    }
                    return self.lists.remove(old);
                }
                if !old.is_armed() {
                    let slot = slot_of(deadline, self.position);
                    if !self.lists.try_push_back(slot, id, node, low) {
                        return self.arm_in_next_chunk(id, deadline, slot);
                    }
                    self.armed += 1;
                    return;
                }
            }
        }
        self.arm_slow(id, deadline);
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.set_quiet_until(deadline.min(self.quiet_until));
        self.nodes.admit(id);
        self.detach(id);
        if self.in_phase && deadline <= self.now {
            self.overdue.insert_in_phase(id, deadline, &mut self.nodes);
        } else {
            self.insert(id, deadline);
        }
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        let Some(node) = self.nodes.near_mut(id) else {
            return self.disarm_far(id);
        };
        let Node { low, spot } = *node;
        if !spot.is_armed() {
            return false;
        }
        node.spot = Spot::UNARMED;
        self.armed -= 1;
        if spot.is_in_slot() && low != deadline_slot::low(self.quiet_until) {
            self.lists.remove(spot);
        } else {
            self.take_off_first(spot);
        }
        true
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.armed == 0 {
            self.pass_empty(now);
            return None;
        }
        if now < self.quiet_until {
            self.pass_quiet(now);
            return None;
        }
        self.pop_armed(now)
    }

    fn clear(&mut self) {
        self.nodes.clear();
        self.lists.clear();
        self.far.clear();
        self.overdue.clear();
        self.draining = None;
        self.armed = 0;
        self.set_quiet_until(u64::MAX);
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        let node = self.nodes.get(id)?;
        node.spot
            .is_armed()
            .then(|| self.deadline_at(node.spot, node.low))
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        (self.armed > 0).then_some(self.quiet_until)
    }

    #[inline]
    fn len(&self) -> usize {
        self.armed
    }

    fn has_more(&self) -> bool {
        self.has_more
    }
}

impl Default for TimerWheel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TimerWheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerWheel")
            .field("armed", &self.armed)
            .field("quiet_until", &self.quiet_until)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
