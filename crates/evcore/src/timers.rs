//! The timers of each index, in milliseconds that are never early.
//!
//! The queue counts whole milliseconds, the loop's clock nanoseconds. A deadline is rounded up and
//! the present down, so a timer never expires before its whole time has passed.

use std::time::Duration;

use evcore_timer::{TimerQueue, TimerWheel};

use crate::{
    time::{NEVER, NS_PER_MS},
    timer_slot::Timer,
};

/// The timers of one loop.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The ids of the timers of one index are adjacent. The queue is boxed, so that it is chosen at
    /// run time and is not a type parameter of the loop. That costs an indirect call for each arm.
    queue: Box<dyn TimerQueue>,
    /// No timer expires before this time; [`NEVER`] if none is armed. It spares most turns the
    /// calls of the queue. If a timer was moved to later, the loop may wake up early for it, once.
    // Invariant: the beginning of a tick or `NEVER`, and at most the queue's next deadline.
    not_before_ns: u64,
    /// Timers that are due at this tick expire in this turn, also if the clock is updated meanwhile. So
    /// a timer that the handler of a timer arms waits for the next turn.
    phase_ms: u64,
    /// True if a timer was disarmed or has expired since `not_before_ns` was computed.
    is_outdated: bool,
    /// A summand for each deadline before it is rounded down: [`ROUNDS_UP_NS`], and the lag of the
    /// clock when a timer is armed.
    added_ns: u64,
    /// Number of timers of an index.
    per_token: u8,
    /// A timer from this number on takes the slow way when it is armed: it is recorded, or a token
    /// has no such timer. One comparison finds both, so a loop without records pays nothing for them.
    // Invariant: 0 if arming is recorded, otherwise `per_token`.
    unrecorded: u8,
    /// The distance between the ids of two indices, a power of two. It is kept here because every
    /// event needs it.
    stride: u32,
}

impl Timers {
    /// Creates the timers over an empty queue. The clock may be behind by `lag_ns`.
    pub(crate) fn new(
        mut queue: Box<dyn TimerQueue>,
        per_token: u8,
        now_ms: u64,
        lag_ns: u64,
    ) -> Self {
        // Without this a wheel would count from 0, and would have to be woken on its way to now.
        let expired = queue.pop_expired(now_ms);
        debug_assert!(expired.is_none(), "the queue must be empty");
        Self {
            queue,
            not_before_ns: NEVER,
            phase_ms: now_ms,
            is_outdated: false,
            added_ns: lag_ns.saturating_add(ROUNDS_UP_NS),
            per_token,
            unrecorded: per_token,
            stride: u32::from(per_token.next_power_of_two()),
        }
    }

    /// From now on, [`arms_plainly`](Self::arms_plainly) returns false.
    pub(crate) fn record(&mut self) {
        self.unrecorded = 0;
    }

    /// Returns whether arming this timer makes neither a record nor a panic.
    #[inline]
    pub(crate) fn arms_plainly(&self, timer: Timer) -> bool {
        timer.number() < self.unrecorded
    }

    /// The millisecond at which a timer will be due that is armed now.
    ///
    /// # Panics
    ///
    /// If a token has no such timer.
    pub(crate) fn deadline_after(&self, timer: Timer, now_ns: u64, after: Duration) -> u64 {
        self.check(timer);
        ready_at_ns(now_ns, after, self.added_ns) / NS_PER_MS
    }

    /// Arms a timer, or moves it. Each token must have this timer.
    #[inline]
    pub(crate) fn arm_known(&mut self, index: u32, timer: Timer, now_ns: u64, after: Duration) {
        let due_ns = ready_at_ns(now_ns, after, self.added_ns);
        let (id, deadline_ms) = (self.id_of_known(index, timer), due_ns / NS_PER_MS);
        // This branch is rarely taken, and comparing is cheaper than always storing.
        if due_ns <= self.not_before_ns {
            self.not_before_ns = deadline_ms * NS_PER_MS;
        }
        self.queue.arm(id, deadline_ms);
    }

    /// Clears a timer, and returns whether it was armed.
    #[inline]
    pub(crate) fn disarm(&mut self, index: u32, timer: Timer) -> bool {
        let id = self.id(index, timer);
        let was_armed = self.queue.disarm(id);
        self.is_outdated |= was_armed;
        was_armed
    }

    /// Clears every timer of an index.
    pub(crate) fn disarm_all(&mut self, index: u32) {
        for number in 0..self.per_token {
            self.disarm(index, Timer::new(number));
        }
    }

    /// Returns whether a timer may have expired. If not, there is no need to call the queue.
    #[inline]
    pub(crate) fn may_expire(&self, now_ns: u64) -> bool {
        self.not_before_ns <= now_ns
    }

    /// From now on, timers that are due at the tick of this time expire.
    #[inline]
    pub(crate) fn begin_phase(&mut self, now_ns: u64) {
        self.phase_ms = now_ns / NS_PER_MS;
    }

    /// Takes the next timer that had expired when the phase began, with its deadline.
    ///
    /// `left` is the rest of the turn's budget: a timer takes 1, a pause of the queue
    /// [`PAUSE_COST`]. A turn sorts more than one such piece; otherwise a loop with long turns
    /// would fall behind with its sorting.
    #[inline]
    pub(crate) fn pop_expired(&mut self, left: &mut usize) -> Option<(u32, Timer, u64)> {
        let now_ms = self.phase_ms;
        if !self.may_expire(now_ms * NS_PER_MS) {
            return None;
        }
        self.is_outdated = true;
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

    /// The millisecond at which a timer is due; `None` if it is not armed.
    pub(crate) fn deadline(&self, index: u32, timer: Timer) -> Option<u64> {
        self.queue.deadline(self.id(index, timer))
    }

    /// The number of armed timers.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether no timer is armed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The number of armed timers of these indices.
    pub(crate) fn armed_of(&self, indices: impl Iterator<Item = u32>) -> usize {
        let timers = (0..self.per_token).map(Timer::new);
        let ids = indices.flat_map(|index| timers.clone().map(move |timer| self.id(index, timer)));
        ids.filter(|id| self.queue.is_armed(*id)).count()
    }

    /// The deadline of the next timer, in nanoseconds; [`NEVER`] if none is armed.
    #[inline]
    pub(crate) fn due_at_ns(&mut self) -> u64 {
        if self.is_outdated {
            self.look_up_next();
        }
        self.not_before_ns
    }

    #[inline(never)]
    fn look_up_next(&mut self) {
        self.is_outdated = false;
        let next_ms = self.queue.next_deadline().unwrap_or(NEVER);
        self.not_before_ns = next_ms.saturating_mul(NS_PER_MS);
    }

    /// The queue's id of one timer of an index.
    ///
    /// # Panics
    ///
    /// If a token has no such timer.
    #[inline]
    fn id(&self, index: u32, timer: Timer) -> u32 {
        self.check(timer);
        self.id_of_known(index, timer)
    }

    /// Panics if a token has no such timer.
    #[inline]
    fn check(&self, timer: Timer) {
        if timer.number() >= self.per_token {
            no_such_timer(timer, self.per_token);
        }
    }

    #[inline]
    fn id_of_known(&self, index: u32, timer: Timer) -> u32 {
        index * self.stride + u32::from(timer.number())
    }

    /// The index and the timer of an id of the queue.
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

/// Cost of a pause of the queue, in the budget of timers. The queue has then moved some dozens of
/// list nodes or inserted sixteen timers again, which takes as long as a few handlers.
const PAUSE_COST: usize = 16;

/// A summand before rounding down, which makes it rounding up.
const ROUNDS_UP_NS: u64 = NS_PER_MS - 1;

/// A time within the first millisecond at which `after` has passed. `added_ns` includes the summand
/// that rounds it up.
#[inline]
fn ready_at_ns(now_ns: u64, after: Duration, added_ns: u64) -> u64 {
    let after_ns = after.as_secs().saturating_mul(1_000_000_000);
    let after_ns = after_ns.saturating_add(u64::from(after.subsec_nanos()));
    now_ns.saturating_add(after_ns).saturating_add(added_ns)
}

/// This is out of line, so that the code that is inlined into each handler is short.
#[cold]
#[inline(never)]
fn no_such_timer(timer: Timer, per_token: u8) -> ! {
    panic!("{timer:?}: a token has {per_token} timers; Builder::timers_per_token sets how many")
}

// The poller has fewer ids: each index that fits there has ids for all its timers.
const _: () =
    assert!((evcore_poller::MAX_ID + 1) * (Timer::MAX_PER_TOKEN as u32) - 1 <= TimerWheel::ID_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early() {
        let ms = Duration::from_millis;
        let tick_after = |now_ns, after| ready_at_ns(now_ns, after, ROUNDS_UP_NS) / NS_PER_MS;
        assert_eq!(tick_after(10_000_000, ms(5)), 15);
        assert_eq!(tick_after(10_000_001, ms(5)), 16);
        assert_eq!(tick_after(10_999_999, Duration::ZERO), 11);
        assert_eq!(tick_after(0, Duration::MAX), u64::MAX / NS_PER_MS);
    }

    #[test]
    fn a_deadline_is_later_by_the_lag_of_the_clock() {
        let deadline_ms = |now_ns, lag_ns| {
            let timers = Timers::new(Box::new(TimerWheel::new()), 2, 0, lag_ns);
            timers.deadline_after(Timer::READ, now_ns, Duration::from_millis(5))
        };
        assert_eq!(deadline_ms(10_000_000, 0), 15);
        assert_eq!(deadline_ms(10_000_000, 100_000_000), 115);
        assert_eq!(deadline_ms(10_000_000, 100_000_001), 116);
        assert_eq!(deadline_ms(1, u64::MAX), u64::MAX / NS_PER_MS);
    }

    #[test]
    fn a_timer_is_due_when_its_tick_begins() {
        let mut timers = Timers::new(Box::new(TimerWheel::new()), 2, 0, 0);
        assert_eq!(timers.due_at_ns(), NEVER);
        timers.arm_known(0, Timer::READ, 999_999, Duration::from_millis(10));
        assert_eq!(timers.due_at_ns(), 11_000_000);
        timers.disarm(0, Timer::READ);
        assert_eq!(timers.due_at_ns(), NEVER);
        timers.arm_known(0, Timer::READ, 0, Duration::MAX);
        assert_ne!(timers.due_at_ns(), NEVER);
    }

    #[test]
    fn a_late_first_time_causes_no_extra_wake_up() {
        let now_ms = 1 << 40;
        let mut timers = Timers::new(Box::new(TimerWheel::new()), 2, now_ms, 0);
        let after = Duration::from_millis(30);
        timers.arm_known(0, Timer::READ, now_ms * NS_PER_MS, after);
        assert_eq!(timers.due_at_ns(), (now_ms + 30) * NS_PER_MS);
    }

    #[test]
    fn each_timer_of_an_index_has_its_own_id() {
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
    fn a_timer_that_a_token_does_not_have_is_refused() {
        let timers = Timers::new(Box::new(TimerWheel::new()), 2, 0, 0);
        assert!(timers.arms_plainly(Timer::new(1)));
        assert!(!timers.arms_plainly(Timer::new(2)));
        let _ = timers.deadline_after(Timer::new(2), 0, Duration::ZERO);
    }
}
