//! Two timers for each index, in milliseconds that are never early.
//!
//! The queue counts whole milliseconds of the loop's clock, which counts nanoseconds. A deadline is
//! rounded up and the present down, so a timer fires when its whole time has passed, not before.

use std::time::Duration;

use evcore_timer::{TimerQueue, TimerWheel};

use crate::Side;

/// The timers of one loop.
#[derive(Debug)]
pub(crate) struct Timers {
    /// Its ids: two for each index, the read side's first. Behind a pointer, so that the choice of
    /// a queue is one of run time and no type of the user's carries it: an indirect call an arm.
    queue: Box<dyn TimerQueue>,
    /// What is added to the time of a deadline before it is rounded down: what rounds it up, and
    /// what the clock may be behind when a timer is armed.
    added_ns: u64,
}

impl Timers {
    /// Over an empty queue, by a clock that may be so much behind.
    pub(crate) fn new(mut queue: Box<dyn TimerQueue>, now_ms: u64, behind_ns: u64) -> Self {
        // A wheel that is not told the time counts from 0, and would ask to be woken on its way.
        let expired = queue.pop_expired(now_ms);
        debug_assert!(expired.is_none(), "the queue is to be empty");
        Self {
            queue,
            added_ns: behind_ns.saturating_add(ROUNDS_UP_NS),
        }
    }

    /// Arms a side's timer, or moves it.
    #[inline]
    pub(crate) fn arm(&mut self, index: u32, side: Side, now_ns: u64, after: Duration) {
        let deadline = tick_after(now_ns, after, self.added_ns);
        self.queue.arm(timer_id(index, side), deadline);
    }

    /// Clears a side's timer, and says whether it was armed.
    #[inline]
    pub(crate) fn disarm(&mut self, index: u32, side: Side) -> bool {
        self.queue.disarm(timer_id(index, side))
    }

    /// Clears both timers.
    pub(crate) fn disarm_both(&mut self, index: u32) {
        self.disarm(index, Side::Read);
        self.disarm(index, Side::Write);
    }

    /// The next timer of this turn that has expired, and when it was due; it is no longer armed.
    ///
    /// `left` is what the turn may still do: a timer takes 1 of it, a pause of the queue
    /// [`PAUSE_COST`]. A turn must do more than one such piece, or a loop of long turns would fall
    /// behind with its sorting.
    #[inline]
    pub(crate) fn pop_expired(
        &mut self,
        now_ms: u64,
        left: &mut usize,
    ) -> Option<(u32, Side, u64)> {
        while *left > 0 {
            if let Some((id, due_ms)) = self.queue.pop_expired(now_ms) {
                *left -= 1;
                let (index, side) = timer_owner(id);
                return Some((index, side, due_ms));
            }
            if !self.queue.is_paused() {
                break;
            }
            *left = left.saturating_sub(PAUSE_COST);
        }
        None
    }

    /// How many timers are armed.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no timer is armed.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many timers of these indices are armed.
    pub(crate) fn armed_of(&self, indices: impl Iterator<Item = u32>) -> usize {
        let ids =
            indices.flat_map(|index| [Side::Read, Side::Write].map(|side| timer_id(index, side)));
        ids.filter(|id| self.queue.is_armed(*id)).count()
    }

    /// How long until the queue wants to be asked again; zero if a timer is due.
    #[inline]
    pub(crate) fn wait(&self, now_ns: u64) -> Option<Duration> {
        let tick = self.queue.next_deadline()?;
        Some(until_tick(now_ns, tick))
    }
}

/// What a pause of the queue takes of the budget of timers: it has moved some dozens of list nodes,
/// or filed sixteen timers again, which is as long as a few handlers take.
const PAUSE_COST: usize = 16;

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// What is added before rounding down, so as to round up.
const ROUNDS_UP_NS: u64 = NS_PER_MS - 1;

/// The first millisecond that is not before `after` has passed, and what is `added` beside that
/// which rounds it up.
#[inline]
fn tick_after(now_ns: u64, after: Duration, added_ns: u64) -> u64 {
    let after_ns = after.as_secs().saturating_mul(1_000_000_000);
    let after_ns = after_ns.saturating_add(u64::from(after.subsec_nanos()));
    // Not `div_ceil`, which would take the remainder too: this is done for every event.
    now_ns.saturating_add(after_ns).saturating_add(added_ns) / NS_PER_MS
}

/// How long it is since a tick began, in nanoseconds; 0 if it has not.
#[inline]
pub(crate) fn late_ns(now_ns: u64, due_ms: u64) -> u64 {
    now_ns.saturating_sub(due_ms.saturating_mul(NS_PER_MS))
}

/// How long it is from now until a tick begins.
#[inline]
fn until_tick(now_ns: u64, tick: u64) -> Duration {
    Duration::from_nanos(tick.saturating_mul(NS_PER_MS).saturating_sub(now_ns))
}

/// The queue's id of one side of an index, which is at most that of the poller's highest id.
#[inline]
fn timer_id(index: u32, side: Side) -> u32 {
    2 * index + u32::from(side == Side::Write)
}

/// The index and the side that an id of the queue means.
#[inline]
fn timer_owner(id: u32) -> (u32, Side) {
    (id / 2, if id % 2 == 0 { Side::Read } else { Side::Write })
}

// The poller's ids are the narrower: every index that it has a place for has two timers.
const _: () = assert!(2 * evcore_poller::MAX_ID < TimerWheel::ID_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early() {
        let ms = Duration::from_millis;
        let tick_after = |now_ns, after| tick_after(now_ns, after, ROUNDS_UP_NS);
        assert_eq!(tick_after(10_000_000, ms(5)), 15);
        assert_eq!(tick_after(10_000_001, ms(5)), 16);
        assert_eq!(tick_after(10_999_999, Duration::ZERO), 11);
        assert_eq!(tick_after(0, Duration::MAX), u64::MAX / NS_PER_MS);
    }

    #[test]
    fn a_deadline_is_later_by_what_the_clock_is_behind() {
        let added_ns = |behind_ns| Timers::new(Box::new(TimerWheel::new()), 0, behind_ns).added_ns;
        let after = Duration::from_millis(5);
        assert_eq!(tick_after(10_000_000, after, added_ns(0)), 15);
        assert_eq!(tick_after(10_000_000, after, added_ns(100_000_000)), 115);
        assert_eq!(tick_after(10_000_000, after, added_ns(100_000_001)), 116);
        assert_eq!(
            tick_after(1, after, added_ns(u64::MAX)),
            u64::MAX / NS_PER_MS
        );
    }

    #[test]
    fn a_timer_is_late_by_what_has_passed_of_its_tick_and_beyond() {
        assert_eq!(late_ns(10_999_999, 10), 999_999);
        assert_eq!(late_ns(12_000_000, 10), 2_000_000);
        assert_eq!(late_ns(9_999_999, 10), 0, "a queue with slack may be early");
        assert_eq!(late_ns(u64::MAX, u64::MAX), 0);
    }

    #[test]
    fn the_wait_ends_when_the_tick_begins() {
        assert_eq!(until_tick(10_999_999, 11), Duration::from_nanos(1));
        assert_eq!(until_tick(11_000_000, 11), Duration::ZERO);
        assert_eq!(until_tick(12_000_000, 11), Duration::ZERO);
        assert_eq!(until_tick(0, u64::MAX), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn a_loop_that_begins_late_in_the_life_of_its_clock_is_not_woken_for_that() {
        let now_ms = 1 << 40;
        let mut timers = Timers::new(Box::new(TimerWheel::new()), now_ms, 0);
        let after = Duration::from_millis(30);
        timers.arm(0, Side::Read, now_ms * NS_PER_MS, after);
        assert_eq!(timers.wait(now_ms * NS_PER_MS), Some(after));
    }

    #[test]
    fn each_side_has_a_timer_of_its_own() {
        for index in [0, 1, evcore_poller::MAX_ID] {
            for side in [Side::Read, Side::Write] {
                assert_eq!(timer_owner(timer_id(index, side)), (index, side));
            }
        }
    }
}
