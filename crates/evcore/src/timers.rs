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
}

impl Timers {
    pub(crate) fn new(queue: Box<dyn TimerQueue>) -> Self {
        Self { queue }
    }

    /// Arms a side's timer, or moves it.
    #[inline]
    pub(crate) fn arm(&mut self, index: u32, side: Side, now_ns: u64, after: Duration) {
        self.queue
            .arm(timer_id(index, side), tick_after(now_ns, after));
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

    /// The next timer of this turn that has expired; it is no longer armed.
    #[inline]
    pub(crate) fn pop_expired(&mut self, now_ms: u64) -> Option<(u32, Side)> {
        let (id, _) = self.queue.pop_expired(now_ms)?;
        Some(timer_owner(id))
    }

    /// How long until the queue wants to be asked again; zero if a timer is due.
    #[inline]
    pub(crate) fn wait(&self, now_ns: u64) -> Option<Duration> {
        let tick = self.queue.next_deadline()?;
        Some(until_tick(now_ns, tick))
    }
}

const NS_PER_MS: u64 = 1_000_000;

/// The first millisecond that is not before `after` has passed.
#[inline]
fn tick_after(now_ns: u64, after: Duration) -> u64 {
    let after_ns = after.as_secs().saturating_mul(1_000_000_000);
    let after_ns = after_ns.saturating_add(u64::from(after.subsec_nanos()));
    // Not `div_ceil`, which would take the remainder too: this is done for every event.
    now_ns
        .saturating_add(after_ns)
        .saturating_add(NS_PER_MS - 1)
        / NS_PER_MS
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
        assert_eq!(tick_after(10_000_000, ms(5)), 15);
        assert_eq!(tick_after(10_000_001, ms(5)), 16);
        assert_eq!(tick_after(10_999_999, Duration::ZERO), 11);
        assert_eq!(tick_after(0, Duration::MAX), u64::MAX / NS_PER_MS);
    }

    #[test]
    fn the_wait_ends_when_the_tick_begins() {
        assert_eq!(until_tick(10_999_999, 11), Duration::from_nanos(1));
        assert_eq!(until_tick(11_000_000, 11), Duration::ZERO);
        assert_eq!(until_tick(12_000_000, 11), Duration::ZERO);
        assert_eq!(until_tick(0, u64::MAX), Duration::from_nanos(u64::MAX));
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
