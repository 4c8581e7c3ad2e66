//! Go's timer queue: a heap of four-way branches, and periodic timers.
//!
//! A heap orders only as far as it must to know the earliest.
//! The keys stand in the heap itself, four siblings side by side, so that a step down reads
//! neighbouring memory and no timer's record.
//!
//! # What may be relied on
//!
//! - The order is total, by deadline and then by arming;
//!   [`next_deadline`](TimerQueue::next_deadline) is exact and costs a load.
//! - `arm`: at most log₄ n steps up or down, and none for a deadline later than those below it, as
//!   most are. `disarm` and a timer that fires: at most log₄ n steps.
//! - A timer that was armed during a phase with a deadline that had come is filed twice: the call
//!   that ends the phase, or begins another, files all of these anew, however many they are.

mod piles;

#[cfg(test)]
mod tests;

use std::fmt;

use self::piles::{Pile, Piles};
use crate::queue::{self, TimerQueue};

/// A four-ary heap: the timer queue with exact wake-ups and periodic timers.
///
/// # Periodic timers
///
/// A timer armed by [`arm_periodic`](Self::arm_periodic) stays armed when it fires.
/// It fires once however many of its periods have passed, and then keeps to its grid: the next
/// deadline is the first after `now` that is a whole number of periods from the one that fired.
/// This is the rule of Go's tickers.
/// Where that deadline would be above [`u64::MAX`] there is none, and the timer is disarmed.
///
/// `arm`, `reinsert_in_phase` and `disarm` end the periods; `clear` ends those of all timers.
///
/// # Cost
///
/// `next_deadline` is a load; `arm`, `disarm` and a timer that fires are at most log₄ n steps.
/// One call takes more: what was armed during a phase for a tick at or before its `now` is filed
/// again, all of it, by the [`pop_expired`](TimerQueue::pop_expired) that ends the phase or begins
/// another.
///
/// # Memory
///
/// 24 bytes for each armed timer, and 4 for each id up to the highest that was armed; 8 more for
/// each id up to the highest that was ever periodic.
/// The tables grow and do not shrink; the `arm` that makes one grow copies it, unless there was
/// [room](Self::with_capacity).
///
/// # Example
///
/// ```
/// use evcore_timer::{TimerHeap, TimerQueue};
///
/// let mut timers = TimerHeap::new();
/// timers.arm(0, 250);
/// timers.arm_periodic(1, 100, 100);
///
/// assert_eq!(timers.pop_expired(100), Some((1, 100)));
/// assert_eq!(timers.next_deadline(), Some(200));
///
/// // Woken late: one fire for 200 and 300, and on with the grid.
/// assert_eq!(timers.pop_expired(333), Some((1, 200)));
/// assert_eq!(timers.pop_expired(333), Some((0, 250)));
/// assert_eq!(timers.next_deadline(), Some(400));
/// ```
#[derive(Clone)]
pub struct TimerHeap {
    // Invariant: on `Pile::Late` is what was armed in the phase under way and was due at once;
    // outside a phase nothing.
    piles: Piles,
    // Invariant: 0 for what is not armed or not periodic, as for all ids beyond its end.
    periods: Vec<u64>,
    /// `now` of the phase under way.
    phase: Option<u64>,
}

impl TimerHeap {
    /// The highest id that can be armed, 2²⁷ − 1: with all below it armed the tables take 3.5 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// An empty heap, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty heap with memory for the ids below `ids`, so that arming these allocates nothing.
    ///
    /// Two things still allocate: the first periods, and more timers held back in one phase than in
    /// any before.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        Self {
            piles: Piles::with_capacity(ids),
            periods: Vec::new(),
            phase: None,
        }
    }

    /// Arms the timer of `id` to fire once `first` has come, and every `period` ticks after it.
    ///
    /// # Panics
    ///
    /// Where `period` is 0, and where `id` is above [`ID_MAX`](Self::ID_MAX).
    pub fn arm_periodic(&mut self, id: u32, first: u64, period: u64) {
        assert!(
            period > 0,
            "timer {id} has period 0: it would never stop firing"
        );
        self.arm(id, first);
        let index = id as usize;
        if index >= self.periods.len() {
            self.periods.resize(index + 1, 0);
        }
        self.periods[index] = period;
    }

    /// The period of `id`, where its timer is armed and periodic.
    #[must_use]
    pub fn period(&self, id: u32) -> Option<u64> {
        let period = self.periods.get(id as usize).copied();
        period.filter(|&period| period > 0)
    }

    #[inline]
    fn end_periods(&mut self, id: u32) {
        if let Some(period) = self.periods.get_mut(id as usize) {
            *period = 0;
        }
    }

    /// Files a timer that fired for its next period, or takes it off.
    fn settle_fired(&mut self, id: u32, deadline: u64, now: u64) {
        let next = self
            .period(id)
            .and_then(|period| next_on_grid(deadline, period, now));
        if let Some(next) = next {
            self.piles.insert(Pile::Main, id, next);
        } else {
            self.end_periods(id);
            self.piles.remove(id);
        }
    }

    /// Lets what was held back during a phase fire in the next.
    fn readmit_late(&mut self) {
        while let Some((id, deadline)) = self.piles.first(Pile::Late) {
            self.piles.insert(Pile::Main, id, deadline);
        }
    }
}

impl TimerQueue for TimerHeap {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        self.end_periods(id);
        let late = self.phase.is_some_and(|now| deadline <= now);
        let pile = if late { Pile::Late } else { Pile::Main };
        self.piles.insert(pile, id, deadline);
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.end_periods(id);
        self.piles.insert(Pile::Main, id, deadline);
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        self.end_periods(id);
        self.piles.remove(id)
    }

    /// Takes one timer that is due at `now`: its id and the deadline that it was armed with.
    ///
    /// A periodic timer is armed for its next period before it is returned.
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.phase != Some(now) {
            self.readmit_late();
            self.phase = Some(now);
        }
        let first = self.piles.first(Pile::Main);
        let Some((id, deadline)) = first.filter(|&(_, deadline)| deadline <= now) else {
            self.readmit_late();
            self.phase = None;
            return None;
        };
        self.settle_fired(id, deadline, now);
        Some((id, deadline))
    }

    fn clear(&mut self) {
        self.piles.clear();
        self.periods.fill(0);
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.piles.deadline(id)
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
        let firsts = [Pile::Late, Pile::Main].map(|pile| self.piles.first(pile));
        firsts
            .into_iter()
            .flatten()
            .map(|(_, deadline)| deadline)
            .min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.piles.len()
    }
}

impl Default for TimerHeap {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TimerHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHeap")
            .field("armed", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}

/// The first deadline after `now` that is a whole number of periods after `when`, which is not
/// after `now`.
///
/// `None` where it is above `u64::MAX`.
fn next_on_grid(when: u64, period: u64, now: u64) -> Option<u64> {
    let missed = (now - when) / period;
    // The latest that has passed is not after `now`: only the step to the next can overflow.
    (when + missed * period).checked_add(period)
}

#[cfg(test)]
impl TimerHeap {
    /// Panics where an invariant does not hold.
    pub(crate) fn verify(&self) {
        self.piles.verify();
        let mut late = self.piles.deadlines(Pile::Late);
        assert!(
            late.all(|deadline| self.phase.is_some_and(|now| deadline <= now)),
            "a timer is held back without need"
        );
        for id in (0..).take(self.periods.len()) {
            assert!(
                self.period(id).is_none() || self.is_armed(id),
                "{id} is periodic and not armed"
            );
        }
    }
}
