//! The contract of all timer queues.
//!
//! Wheel, tree and heap fire the same timers in the same order, so a caller may exchange one for
//! another. The caller chooses the id of a timer, and pulls expired ids. Ticks are arguments, and
//! their unit does not matter.

use std::fmt::Debug;

/// The highest id of every queue, 2²⁷ − 1. A higher id is more likely a mistake than an index.
pub(crate) const ID_MAX: u32 = (1 << 27) - 1;

/// A queue of timers: at most one deadline for each id, served earliest first.
///
/// # Order
///
/// Timers fire in the order of their deadlines, and timers with equal deadlines in the order of
/// arming. Arming an armed id again is a new arming: the timer goes behind all others with the same
/// deadline, even if its deadline did not change.
///
/// # Phases
///
/// A *phase* is a run of [`pop_expired`](Self::pop_expired) calls with the same `now`, up to the
/// `None` that ends it. A queue may also *pause* a phase with a `None`, so that no call takes long:
/// see [`has_more`](Self::has_more). A different `now` begins a new phase, even before the old one
/// has returned its `None`; timers that have not fired are not lost.
///
/// A phase yields only timers that were armed before its first call, or that
/// [`reinsert_in_phase`](Self::reinsert_in_phase) has put back. So a handler that arms a timer with
/// a deadline at or before `now` does not loop: that timer fires in the next phase, and until then
/// [`next_deadline`](Self::next_deadline) reports it as due. A timer that is disarmed during the
/// phase does not fire. A timer that is armed again fires only for its new arming.
///
/// `now` should not go back. If it does, timers that are not due at the new `now` wait until they
/// are.
///
/// # Example
///
/// A function that accepts any queue:
///
/// ```
/// use evcore_timer::{TimerQueue, TimerWheel};
///
/// /// Closes idle connections, and returns how many ticks the caller may sleep.
/// fn expire(timers: &mut dyn TimerQueue, now: u64, mut close: impl FnMut(u32)) -> Option<u64> {
///     while let Some((id, _deadline)) = timers.pop_expired(now) {
///         close(id);
///     }
///     Some(timers.next_deadline()?.saturating_sub(now))
/// }
///
/// let mut timers = TimerWheel::new();
/// timers.arm(1, 10);
/// timers.arm(2, 15);
///
/// let mut closed = Vec::new();
/// assert_eq!(expire(&mut timers, 12, |id| closed.push(id)), Some(3));
/// assert_eq!(closed, [1]);
/// ```
pub trait TimerQueue: Debug + Send {
    /// Arms the timer of `id` to fire at `deadline`, which replaces an earlier deadline of the
    /// timer.
    ///
    /// Every `u64` is a deadline, 0 and [`u64::MAX`] included.
    ///
    /// The call may allocate a few blocks of up to 4 KiB, for example if the id is new. If the
    /// system has no memory left, the process aborts, as with any collection of the standard
    /// library. A queue's `with_capacity` allocates most of the memory early.
    ///
    /// # Panics
    ///
    /// If `id` is above the `ID_MAX` of the queue. A panic in a function that C calls aborts the
    /// process, so check ids that come from C first.
    fn arm(&mut self, id: u32, deadline: u64);

    /// Disarms the timer of `id`, and returns whether it was armed. Any id is allowed.
    fn disarm(&mut self, id: u32) -> bool;

    /// Removes one timer that is due at `now`, and returns its id and its deadline.
    ///
    /// The timer is disarmed before it is returned, so a handler may arm it again. `None` ends the
    /// phase, or [pauses](Self::has_more) it.
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)>;

    /// Arms the timer of `id` as if it had been armed just before the current phase began.
    ///
    /// If `deadline` is at or before the phase's `now`, the timer fires in this phase, behind
    /// timers with the same deadline that were armed before the phase. Outside a phase, and for a
    /// deadline after `now`, the call does the same as [`arm`](Self::arm).
    ///
    /// A wrapper that pops a timer too early, such as [`Lazy`](crate::Lazy), puts the timer back by
    /// this call. A handler that makes the call again and again for deadlines at or before `now`
    /// keeps the phase from ending.
    ///
    /// # Panics
    ///
    /// If `id` is above the `ID_MAX` of the queue.
    fn reinsert_in_phase(&mut self, id: u32, deadline: u64);

    /// Disarms all timers and keeps the memory. Costs time proportional to the number of ids that
    /// the tables have room for.
    ///
    /// The current phase does not end: a timer that is armed after this call for a tick at or
    /// before the phase's `now` still waits for the next phase.
    fn clear(&mut self);

    /// The deadline of `id`; `None` if its timer is not armed.
    #[must_use]
    fn deadline(&self, id: u32) -> Option<u64>;

    /// The tick at which to call [`pop_expired`](Self::pop_expired) next; `None` if no timer is
    /// armed.
    ///
    /// The result is never later than the earliest deadline. Some queues document that it may be
    /// earlier. `pop_expired` at that tick may then yield no timer, and afterwards this method
    /// returns a later tick, unless the phase is [paused](Self::has_more). The method takes
    /// `&mut self` because a queue may tidy up after timers that were disarmed.
    #[must_use]
    fn next_deadline(&mut self) -> Option<u64>;

    /// The number of armed timers.
    #[must_use]
    fn len(&self) -> usize;

    /// Returns whether the latest `None` of [`pop_expired`](Self::pop_expired) only paused the
    /// phase, so that more timers may be due at the same `now`.
    ///
    /// A queue pauses when one call has done as much work as a call may do; the next call goes on.
    /// Most loops do not need this method: while a timer is due in a paused phase,
    /// [`next_deadline`](Self::next_deadline) is at or before `now`, so the loop does its other
    /// work, polls without waiting, and calls `pop_expired` again. To take all due timers at once,
    /// call `pop_expired` until it returns `None` and this method returns false.
    #[must_use]
    fn has_more(&self) -> bool {
        false
    }

    /// Returns whether no timer is armed.
    #[must_use]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the timer of `id` is armed.
    #[must_use]
    fn is_armed(&self, id: u32) -> bool {
        self.deadline(id).is_some()
    }
}

/// Lets a wrapper hold a queue that is chosen at run time.
impl<Q: TimerQueue + ?Sized> TimerQueue for Box<Q> {
    #[inline]
    fn arm(&mut self, id: u32, deadline: u64) {
        (**self).arm(id, deadline);
    }

    #[inline]
    fn disarm(&mut self, id: u32) -> bool {
        (**self).disarm(id)
    }

    #[inline]
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        (**self).pop_expired(now)
    }

    #[inline]
    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        (**self).reinsert_in_phase(id, deadline);
    }

    fn clear(&mut self) {
        (**self).clear();
    }

    #[inline]
    fn deadline(&self, id: u32) -> Option<u64> {
        (**self).deadline(id)
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        (**self).next_deadline()
    }

    #[inline]
    fn len(&self) -> usize {
        (**self).len()
    }

    fn has_more(&self) -> bool {
        (**self).has_more()
    }
}

pub(crate) fn assert_room(ids: usize) {
    assert!(
        ids <= ID_MAX as usize + 1,
        "{ids} timer ids are too many: the highest is {ID_MAX}",
    );
}

/// Panics if `id` is above [`ID_MAX`], because a place on a heap has no bits for more ids.
pub(crate) fn assert_dense(id: u32) {
    assert!(
        id <= ID_MAX,
        "timer id {id} is above {ID_MAX}: ids index a table, so keep them dense",
    );
}
