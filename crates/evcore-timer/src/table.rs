//! Several timers for each index, with times in nanoseconds.
//!
//! The queue counts whole milliseconds, and the clock nanoseconds. A deadline is rounded up and the
//! current time is rounded down, so a timer never expires before its whole time has passed.

use std::num::NonZero;
use std::time::Duration;

use crate::queue::TimerQueue;
use crate::timer::Timer;

/// Several timers for each index, over a queue of milliseconds, for a loop with a clock of
/// nanoseconds.
///
/// A loop with one timer for each id, and with a clock of milliseconds, needs only a
/// [`TimerQueue`]. This table adds what other loops need:
///
/// - up to eight [timers](Timer) for each index, whose ids in the queue are adjacent;
/// - deadlines that are never early: a timer expires when at least its whole time has passed;
/// - a [comparison](Self::may_expire) in place of a call of the queue if nothing can expire;
/// - a budget for the timers that expire in one turn (iteration) of the loop.
///
/// Times in nanoseconds are of one monotonic clock, which the caller reads.
///
/// ```
/// use evcore_timer::{Lazy, TimerTable, Timer, TimerWheel};
/// use std::time::Duration;
///
/// let mut now_ns = 0;
/// let mut timers = TimerTable::new(Lazy::new(TimerWheel::new()), 2, now_ns);
/// timers.arm(7, Timer::READ, now_ns, Duration::from_secs(60));
/// timers.arm(7, Timer::WRITE, now_ns, Duration::from_millis(5));
/// assert_eq!(timers.due_at_ns(), 5_000_000); // wait until then
///
/// now_ns = 5_000_000;
/// let mut budget = 256;
/// timers.begin_phase(now_ns);
/// assert_eq!(timers.pop_expired(&mut budget), Some((7, Timer::WRITE, 5)));
/// assert_eq!((timers.pop_expired(&mut budget), timers.len()), (None, 1));
/// ```
#[derive(Clone, Debug)]
pub struct TimerTable<Q> {
    queue: Q,
    /// No timer expires before this time, so most turns do not call the queue.
    // Invariant: the beginning of a tick or `NEVER`, and at most the queue's next deadline.
    not_before_ns: u64,
    /// The tick of the phase. It stays the same even if the clock is read meanwhile, so that a
    /// timer that a handler arms waits for the next phase.
    phase_ms: u64,
    /// True if a timer was disarmed or may have expired since `not_before_ns` was looked up.
    is_outdated: bool,
    /// Nanoseconds that are added to each deadline before it is rounded down: [`ROUNDS_UP_NS`], and
    /// the lag of the clock.
    added_ns: u64,
    /// Number of timers of an index. Nonzero, so that a call with timer 0 needs no comparison.
    per_index: NonZero<u8>,
    /// The distance between the ids of two indices, a power of two.
    stride: u32,
    /// The last index whose ids are numbers of 32 bits.
    last_index: u32,
}

impl<Q: TimerQueue> TimerTable<Q> {
    /// A time that never arrives.
    pub const NEVER: u64 = u64::MAX;

    /// Creates a table over an empty queue, with this many timers for each index, at the current
    /// time.
    ///
    /// Three timers take as many ids of the queue as four; five or more take as many as eight.
    ///
    /// # Panics
    ///
    /// If `per_index` is 0 or above [`Timer::MAX_PER_INDEX`], or if the queue is not empty.
    #[must_use]
    pub fn new(mut queue: Q, per_index: u8, now_ns: u64) -> Self {
        let most = Timer::MAX_PER_INDEX;
        assert!(
            per_index <= most,
            "{per_index} timers for each index; from 1 to {most} are possible"
        );
        // Without this call, a wheel would begin at tick 0, and would cause extra wake-ups on its
        // way to the current time.
        let phase_ms = now_ns / NS_PER_MS;
        let expired = queue.pop_expired(phase_ms);
        assert!(
            expired.is_none() && queue.is_empty(),
            "the queue already has timers"
        );
        let stride = u32::from(per_index.next_power_of_two());
        Self {
            queue,
            not_before_ns: Self::NEVER,
            phase_ms,
            is_outdated: false,
            added_ns: ROUNDS_UP_NS,
            per_index: NonZero::new(per_index).expect("an index has a timer"),
            stride,
            last_index: u32::MAX / stride,
        }
    }

    /// Makes each deadline later by `lag_ns`, the time by which `now_ns` may be behind when a timer
    /// is armed.
    #[must_use]
    pub fn with_lag(mut self, lag_ns: u64) -> Self {
        self.added_ns = lag_ns.saturating_add(ROUNDS_UP_NS);
        self
    }

    /// Arms a timer, which expires when `after` has passed, and is then disarmed. An armed timer
    /// gets the new deadline.
    ///
    /// # Panics
    ///
    /// If an index has no such timer, or if the queue cannot have its id.
    #[inline]
    pub fn arm(&mut self, index: u32, timer: Timer, now_ns: u64, after: Duration) {
        let id = self.id(index, timer);
        let due_ns = ready_at_ns(now_ns, after, self.added_ns);
        let deadline_ms = due_ns / NS_PER_MS;
        // This branch is rarely taken, and comparing is cheaper than always storing.
        if due_ns <= self.not_before_ns {
            self.not_before_ns = deadline_ms * NS_PER_MS;
        }
        self.queue.arm(id, deadline_ms);
    }

    /// The millisecond at which a timer is due if it is armed now for `after`.
    #[must_use]
    pub fn deadline_after(&self, now_ns: u64, after: Duration) -> u64 {
        ready_at_ns(now_ns, after, self.added_ns) / NS_PER_MS
    }

    /// Disarms a timer, and returns whether it was armed.
    ///
    /// # Panics
    ///
    /// If an index has no such timer, or if the id of the timer is above `u32::MAX`.
    #[inline]
    pub fn disarm(&mut self, index: u32, timer: Timer) -> bool {
        let id = self.id(index, timer);
        let was_armed = self.queue.disarm(id);
        self.is_outdated |= was_armed;
        was_armed
    }

    /// Disarms every timer of an index.
    ///
    /// # Panics
    ///
    /// If the ids of the timers are above `u32::MAX`.
    pub fn disarm_all(&mut self, index: u32) {
        for number in 0..self.per_index.get() {
            self.disarm(index, Timer::new(number));
        }
    }

    /// Returns whether a timer may have expired. If not, there is no need to begin a phase.
    #[inline]
    #[must_use]
    pub fn may_expire(&self, now_ns: u64) -> bool {
        self.not_before_ns <= now_ns
    }

    /// Begins a phase, in which timers expire that are due at or before the millisecond of this
    /// time.
    #[inline]
    pub fn begin_phase(&mut self, now_ns: u64) {
        self.phase_ms = now_ns / NS_PER_MS;
    }

    /// Takes the next timer that had expired when the [phase began](Self::begin_phase), with the
    /// millisecond at which it was due.
    ///
    /// `left` is the rest of a turn's budget. A timer takes 1 of it. A
    /// [pause](TimerQueue::has_more) of the queue takes 16, because the queue has then moved many
    /// timers. The call goes on after a pause. Otherwise, in a loop with long turns, the queue
    /// would fall behind with its moves.
    #[inline]
    pub fn pop_expired(&mut self, left: &mut usize) -> Option<(u32, Timer, u64)> {
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
    ///
    /// # Panics
    ///
    /// If an index has no such timer, or if the id of the timer is above `u32::MAX`.
    #[must_use]
    pub fn deadline(&self, index: u32, timer: Timer) -> Option<u64> {
        self.queue.deadline(self.id(index, timer))
    }

    /// The number of armed timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether no timer is armed.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The number of armed timers of these indices.
    ///
    /// # Panics
    ///
    /// If the ids of the timers are above `u32::MAX`.
    pub fn armed_of(&self, indices: impl Iterator<Item = u32>) -> usize {
        let timers = (0..self.per_index.get()).map(Timer::new);
        let ids = indices.flat_map(|index| timers.clone().map(move |timer| self.id(index, timer)));
        ids.filter(|id| self.queue.is_armed(*id)).count()
    }

    /// Returns the time by which the loop must wake up for the next timer; [`NEVER`](Self::NEVER)
    /// if none is armed. The time is early if the earliest timer was moved to a later deadline, or
    /// if the queue's [`next_deadline`](TimerQueue::next_deadline) is early. A phase at that time
    /// then yields no timer.
    #[inline]
    #[must_use]
    pub fn due_at_ns(&mut self) -> u64 {
        if self.is_outdated {
            self.look_up_next();
        }
        self.not_before_ns
    }

    #[inline(never)]
    fn look_up_next(&mut self) {
        self.is_outdated = false;
        let next_ms = self.queue.next_deadline().unwrap_or(Self::NEVER);
        self.not_before_ns = next_ms.saturating_mul(NS_PER_MS);
    }

    #[inline]
    fn id(&self, index: u32, timer: Timer) -> u32 {
        if timer.number() >= self.per_index.get() {
            no_such_timer(timer, self.per_index.get());
        }
        if index > self.last_index {
            no_such_index(index);
        }
        index * self.stride + u32::from(timer.number())
    }

    #[inline]
    fn owner(&self, id: u32) -> (u32, Timer) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the timers of an index"
        )]
        let number = (id & (self.stride - 1)) as u8;
        (id >> self.stride.trailing_zeros(), Timer::new(number))
    }
}

const NS_PER_MS: u64 = 1_000_000;

/// Cost of a pause of the queue, in the budget of timers.
const PAUSE_COST: usize = 16;

/// Nanoseconds that are added before rounding down, so that the result is rounded up.
const ROUNDS_UP_NS: u64 = NS_PER_MS - 1;

/// Returns a time within the first whole millisecond at which `after` has passed. `added_ns`
/// includes [`ROUNDS_UP_NS`].
#[inline]
fn ready_at_ns(now_ns: u64, after: Duration, added_ns: u64) -> u64 {
    let after_ns = after.as_secs().saturating_mul(1_000_000_000);
    let after_ns = after_ns.saturating_add(u64::from(after.subsec_nanos()));
    now_ns.saturating_add(after_ns).saturating_add(added_ns)
}

/// The panic is out of line, so that the code that is inlined into each handler is short.
#[cold]
#[inline(never)]
fn no_such_timer(timer: Timer, per_index: u8) -> ! {
    panic!(
        "{timer:?}: a token or index has {per_index} timers, the number that the table or loop \
         was built with"
    )
}

#[cold]
#[inline(never)]
fn no_such_index(index: u32) -> ! {
    panic!("index {index} is too high for the ids of a queue")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::TimerWheel;

    const NEVER: u64 = TimerTable::<TimerWheel>::NEVER;

    fn timers(per_index: u8, now_ns: u64) -> TimerTable<TimerWheel> {
        TimerTable::new(TimerWheel::new(), per_index, now_ns)
    }

    #[test]
    fn a_deadline_is_never_early() {
        let ms = Duration::from_millis;
        let tick_after = |now_ns, after| timers(1, 0).deadline_after(now_ns, after);
        assert_eq!(tick_after(10_000_000, ms(5)), 15);
        assert_eq!(tick_after(10_000_001, ms(5)), 16);
        assert_eq!(tick_after(10_999_999, Duration::ZERO), 11);
        assert_eq!(tick_after(0, Duration::MAX), u64::MAX / NS_PER_MS);
    }

    #[test]
    fn a_deadline_is_later_by_the_lag_of_the_clock() {
        let deadline_ms = |now_ns, lag_ns| {
            let timers = timers(2, 0).with_lag(lag_ns);
            timers.deadline_after(now_ns, Duration::from_millis(5))
        };
        assert_eq!(deadline_ms(10_000_000, 0), 15);
        assert_eq!(deadline_ms(10_000_000, 100_000_000), 115);
        assert_eq!(deadline_ms(10_000_000, 100_000_001), 116);
        assert_eq!(deadline_ms(1, u64::MAX), u64::MAX / NS_PER_MS);
    }

    #[test]
    fn a_timer_is_due_when_its_tick_begins() {
        let mut timers = timers(2, 0);
        assert_eq!(timers.due_at_ns(), NEVER);
        timers.arm(0, Timer::READ, 999_999, Duration::from_millis(10));
        assert_eq!(timers.due_at_ns(), 11_000_000);
        timers.disarm(0, Timer::READ);
        assert_eq!(timers.due_at_ns(), NEVER);
        timers.arm(0, Timer::READ, 0, Duration::MAX);
        assert_ne!(timers.due_at_ns(), NEVER);
    }

    #[test]
    fn a_late_first_time_causes_no_extra_wake_up() {
        let now_ms = 1 << 40;
        let mut timers = timers(2, now_ms * NS_PER_MS);
        let after = Duration::from_millis(30);
        timers.arm(0, Timer::READ, now_ms * NS_PER_MS, after);
        assert_eq!(timers.due_at_ns(), (now_ms + 30) * NS_PER_MS);
    }

    #[test]
    fn a_timer_that_a_handler_arms_waits_for_the_next_phase() {
        let mut timers = timers(1, 0);
        timers.arm(3, Timer::READ, 0, Duration::ZERO);
        timers.begin_phase(NS_PER_MS);
        let mut left = 10;
        assert_eq!(timers.pop_expired(&mut left), Some((3, Timer::READ, 0)));
        timers.arm(3, Timer::READ, NS_PER_MS, Duration::ZERO);
        assert_eq!(timers.pop_expired(&mut left), None);
        timers.begin_phase(NS_PER_MS);
        assert_eq!(timers.pop_expired(&mut left), Some((3, Timer::READ, 1)));
        assert_eq!(left, 8);
    }

    #[test]
    fn a_budget_that_is_used_up_ends_a_phase() {
        let mut timers = timers(1, 0);
        for index in 0..3 {
            timers.arm(index, Timer::READ, 0, Duration::ZERO);
        }
        timers.begin_phase(0);
        let mut left = 2;
        let mut expired = || timers.pop_expired(&mut left).map(|(index, ..)| index);
        assert_eq!([expired(), expired(), expired()], [Some(0), Some(1), None]);
        assert!(timers.may_expire(0) && timers.len() == 1);
    }

    #[test]
    fn each_timer_of_an_index_has_its_own_id() {
        for per_index in 1..=Timer::MAX_PER_INDEX {
            let timers = timers(per_index, 0);
            for index in [0, 1, TimerWheel::ID_MAX / u32::from(Timer::MAX_PER_INDEX)] {
                for timer in (0..per_index).map(Timer::new) {
                    assert_eq!(timers.owner(timers.id(index, timer)), (index, timer));
                    assert!(timers.id(index, timer) <= TimerWheel::ID_MAX);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "Timer(2): a token or index has 2 timers")]
    fn a_timer_that_an_index_does_not_have_is_refused() {
        timers(2, 0).arm(0, Timer::new(2), 0, Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "index 536870912")]
    fn an_index_that_is_too_high_is_refused() {
        // The index times the stride is 2^32.
        timers(8, 0).arm(1 << 29, Timer::READ, 0, Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "9 timers for each index")]
    fn more_than_eight_timers_for_each_index_are_refused() {
        let _ = timers(9, 0);
    }

    #[test]
    #[should_panic(expected = "the queue already has timers")]
    fn a_queue_with_timers_is_refused() {
        let mut queue = TimerWheel::new();
        queue.arm(0, 7);
        let _ = TimerTable::new(queue, 1, 0);
    }
}
