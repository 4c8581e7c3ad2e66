//! Go's timer queue: a four-ary heap with periodic timers.
//!
//! The keys are in the heap itself, four siblings side by side, so a step down reads neighbouring
//! memory and no other table.
//!
//! # Guarantees
//!
//! - The order is total, by deadline and then by arming;
//!   [`next_deadline`](TimerQueue::next_deadline) is exact and costs a load.
//! - `arm` takes at most log₄ n steps up or down, and none for a deadline later than all others, as
//!   most are. `disarm` and a timer that fires take at most log₄ n steps.
//! - A timer that is armed during a phase with a deadline that has passed is inserted twice: the
//!   call that ends the phase or begins another inserts all such timers again.

mod heaps;

#[cfg(test)]
mod tests;

use std::fmt;

use self::heaps::{HeapId, Heaps};
use crate::queue::{self, TimerQueue};

/// A four-ary heap of timers, with exact wake-ups and periodic timers.
///
/// # Periodic timers
///
/// A timer armed by [`arm_periodic`](Self::arm_periodic) stays armed when it fires.
/// It fires once however many of its periods have passed, and then keeps to its grid: the next
/// deadline is the first after `now` that is a whole number of periods after the one that fired.
/// This is the rule of Go's tickers.
/// If that deadline would be above [`u64::MAX`], the timer is disarmed.
///
/// `arm`, `reinsert_in_phase` and `disarm` make a timer non-periodic; `clear` does so for all.
///
/// # Cost
///
/// `next_deadline` is a load; `arm`, `disarm` and a timer that fires take at most log₄ n steps.
/// One call takes more: the [`pop_expired`](TimerQueue::pop_expired) that ends a phase, or begins
/// another, inserts all timers again that were armed during the phase for a tick at or before its
/// `now`.
///
/// # Memory
///
/// 24 bytes for each armed timer, 4 for each id up to the highest that was armed, and 8 more for
/// each id up to the highest that was ever periodic.
/// The tables grow and do not shrink. An `arm` that makes one grow copies it; see
/// [`with_capacity`](Self::with_capacity).
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
/// // Woken late: it fires once for 200 and 300, and then keeps to its grid.
/// assert_eq!(timers.pop_expired(333), Some((1, 200)));
/// assert_eq!(timers.pop_expired(333), Some((0, 250)));
/// assert_eq!(timers.next_deadline(), Some(400));
/// ```
#[derive(Clone)]
pub struct TimerHeap {
    // Invariant: `HeapId::Deferred` holds the timers that were armed in the current phase and were
    // due at once; outside a phase it is empty.
    heaps: Heaps,
    // Invariant: 0 for ids that are not armed or not periodic; ids beyond its end are neither.
    periods: Vec<u64>,
    /// `now` of the current phase.
    phase: Option<u64>,
}

impl TimerHeap {
    /// The highest id that can be armed, 2²⁷ − 1. With all ids armed the tables take 3.5 GiB.
    pub const ID_MAX: u32 = queue::ID_MAX;

    /// Creates an empty heap, which grows as ids are armed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty heap with memory for the ids below `ids`, so that arming these allocates
    /// nothing. Higher ids make the tables grow.
    ///
    /// Two things still allocate: the first periodic timers, and a phase that defers more timers to
    /// the next one than any phase before.
    #[must_use]
    pub fn with_capacity(ids: usize) -> Self {
        Self {
            heaps: Heaps::with_capacity(ids),
            periods: Vec::new(),
            phase: None,
        }
    }

    /// Arms the timer of `id` to fire at `first`, and every `period` ticks after that.
    ///
    /// # Panics
    ///
    /// If `period` is 0, or `id` is above [`ID_MAX`](Self::ID_MAX).
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

    /// The period of `id`; `None` if its timer is not armed or not periodic.
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

    /// Arms a timer that fired for its next period, or removes it.
    fn rearm_or_remove(&mut self, id: u32, deadline: u64, now: u64) {
        let next = self
            .period(id)
            .and_then(|period| next_on_grid(deadline, period, now));
        if let Some(next) = next {
            self.heaps.insert(HeapId::Main, id, next);
        } else {
            self.end_periods(id);
            self.heaps.remove(id);
        }
    }

    /// Lets the timers that were deferred during a phase fire in the next.
    fn admit_deferred(&mut self) {
        while let Some((id, deadline)) = self.heaps.first(HeapId::Deferred) {
            self.heaps.insert(HeapId::Main, id, deadline);
        }
    }
}

impl TimerQueue for TimerHeap {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        self.end_periods(id);
        let is_deferred = self.phase.is_some_and(|now| deadline <= now);
        let heap = if is_deferred {
            HeapId::Deferred
        } else {
            HeapId::Main
        };
        self.heaps.insert(heap, id, deadline);
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.end_periods(id);
        self.heaps.insert(HeapId::Main, id, deadline);
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        self.end_periods(id);
        self.heaps.remove(id)
    }

    /// Removes one timer that is due at `now`, and returns its id and its deadline.
    ///
    /// A periodic timer is armed for its next period before it is returned.
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        if self.phase != Some(now) {
            self.admit_deferred();
            self.phase = Some(now);
        }
        let first = self.heaps.first(HeapId::Main);
        let Some((id, deadline)) = first.filter(|&(_, deadline)| deadline <= now) else {
            self.admit_deferred();
            self.phase = None;
            return None;
        };
        self.rearm_or_remove(id, deadline, now);
        Some((id, deadline))
    }

    fn clear(&mut self) {
        self.heaps.clear();
        self.periods.fill(0);
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        self.heaps.deadline(id)
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
        let firsts = [HeapId::Deferred, HeapId::Main].map(|heap| self.heaps.first(heap));
        firsts
            .into_iter()
            .flatten()
            .map(|(_, deadline)| deadline)
            .min()
    }

    #[inline]
    fn len(&self) -> usize {
        self.heaps.len()
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

/// The first deadline after `now` that is a whole number of periods after `when`; `None` if it is
/// above `u64::MAX`. `when` must not be after `now`.
fn next_on_grid(when: u64, period: u64, now: u64) -> Option<u64> {
    let missed = (now - when) / period;
    // The last missed deadline is not after `now`, so only the step to the next can overflow.
    (when + missed * period).checked_add(period)
}

#[cfg(test)]
impl TimerHeap {
    /// Panics if an invariant does not hold.
    pub(crate) fn verify(&self) {
        self.heaps.verify();
        let mut deferred = self.heaps.deadlines(HeapId::Deferred);
        assert!(
            deferred.all(|deadline| self.phase.is_some_and(|now| deadline <= now)),
            "a timer is deferred without need"
        );
        for id in (0..).take(self.periods.len()) {
            assert!(
                self.period(id).is_none() || self.is_armed(id),
                "{id} is periodic and not armed"
            );
        }
    }
}
