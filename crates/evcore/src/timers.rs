//! The timers of each index, in milliseconds that are never early.
//!
//! The queue counts whole milliseconds of the loop's clock, which counts nanoseconds. A deadline is
//! rounded up and the present down, so a timer fires when its whole time has passed, not before.

use std::time::Duration;

use evcore_timer::{TimerQueue, TimerWheel};

use crate::Timer;

/// The timers of one loop.
#[derive(Debug)]
pub(crate) struct Timers {
    /// Its ids: those of an index stand together. Behind a pointer, so that the choice of a queue
    /// is one of run time and no type of the user's carries it: an indirect call an arm.
    queue: Box<dyn TimerQueue>,
    /// What is added to the time of a deadline before it is rounded down: what rounds it up, and
    /// what the clock may be behind when a timer is armed.
    added_ns: u64,
    /// How many timers an index has.
    per_token: u8,
    /// How far the ids of two indices are apart: a power of two. Kept, since every event needs it.
    stride: u32,
}

impl Timers {
    /// Over an empty queue, by a clock that may be so much behind.
    pub(crate) fn new(
        mut queue: Box<dyn TimerQueue>,
        per_token: u8,
        now_ms: u64,
        behind_ns: u64,
    ) -> Self {
        // A wheel that is not told the time counts from 0, and would ask to be woken on its way.
        let expired = queue.pop_expired(now_ms);
        debug_assert!(expired.is_none(), "the queue is to be empty");
        Self {
            queue,
            added_ns: behind_ns.saturating_add(ROUNDS_UP_NS),
            per_token,
            stride: u32::from(per_token.next_power_of_two()),
        }
    }

    /// Arms a timer, or moves it.
    #[inline]
    pub(crate) fn arm(&mut self, index: u32, timer: Timer, now_ns: u64, after: Duration) {
        let deadline = tick_after(now_ns, after, self.added_ns);
        let id = self.id(index, timer);
        self.queue.arm(id, deadline);
    }

    /// Clears a timer, and returns whether it was armed.
    #[inline]
    pub(crate) fn disarm(&mut self, index: u32, timer: Timer) -> bool {
        let id = self.id(index, timer);
        self.queue.disarm(id)
    }

    /// Clears every timer of an index.
    pub(crate) fn disarm_all(&mut self, index: u32) {
        for number in 0..self.per_token {
            self.disarm(index, Timer::new(number));
        }
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
    ) -> Option<(u32, Timer, u64)> {
        while *left > 0 {
            if let Some((id, due_ms)) = self.queue.pop_expired(now_ms) {
                *left -= 1;
                let (index, timer) = self.owner(id);
                return Some((index, timer, due_ms));
            }
            if !self.queue.has_more() {
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
        let timers = (0..self.per_token).map(Timer::new);
        let ids = indices.flat_map(|index| timers.clone().map(move |timer| self.id(index, timer)));
        ids.filter(|id| self.queue.is_armed(*id)).count()
    }

    /// How long until the queue wants to be asked again; zero if a timer is due.
    #[inline]
    pub(crate) fn wait(&self, now_ns: u64) -> Option<Duration> {
        let tick = self.queue.next_deadline()?;
        Some(until_tick(now_ns, tick))
    }

    /// The queue's id of one timer of an index.
    ///
    /// # Panics
    ///
    /// If a token has no such timer.
    #[inline]
    fn id(&self, index: u32, timer: Timer) -> u32 {
        if timer.number() >= self.per_token {
            no_such_timer(timer, self.per_token);
        }
        index * self.stride + u32::from(timer.number())
    }

    /// The index and the timer that an id of the queue means.
    #[inline]
    fn owner(&self, id: u32) -> (u32, Timer) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the timers of a token"
        )]
        let number = (id & (self.stride - 1)) as u8;
        (id >> self.stride.trailing_zeros(), Timer::new(number))
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

/// Apart, so that what is inlined into each handler is short.
#[cold]
#[inline(never)]
fn no_such_timer(timer: Timer, per_token: u8) -> ! {
    panic!("{timer:?}: a token has {per_token} timers; ask for more by Builder::timers_per_token")
}

// The poller's ids are the narrower: every index that it has a place for has all its timers.
const _: () =
    assert!((evcore_poller::MAX_ID + 1) * (Timer::MAX_PER_TOKEN as u32) - 1 <= TimerWheel::ID_MAX);

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
        let added_ns =
            |behind_ns| Timers::new(Box::new(TimerWheel::new()), 2, 0, behind_ns).added_ns;
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
        let mut timers = Timers::new(Box::new(TimerWheel::new()), 2, now_ms, 0);
        let after = Duration::from_millis(30);
        timers.arm(0, Timer::READ, now_ms * NS_PER_MS, after);
        assert_eq!(timers.wait(now_ms * NS_PER_MS), Some(after));
    }

    #[test]
    fn each_timer_of_an_index_has_an_id_of_its_own() {
        for per_token in 1..=Timer::MAX_PER_TOKEN {
            let timers = Timers::new(Box::new(TimerWheel::new()), per_token, 0, 0);
            for index in [0, 1, evcore_poller::MAX_ID] {
                for timer in (0..per_token).map(Timer::new) {
                    assert_eq!(timers.owner(timers.id(index, timer)), (index, timer));
                    assert!(timers.id(index, timer) <= TimerWheel::ID_MAX);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "Timer(2): a token has 2 timers")]
    fn a_timer_that_a_token_has_not_is_refused() {
        let mut timers = Timers::new(Box::new(TimerWheel::new()), 2, 0, 0);
        timers.arm(0, Timer::new(2), 0, Duration::ZERO);
    }
}
