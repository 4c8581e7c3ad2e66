//! What every timer queue promises, whatever it is made of.
//!
//! The trait is the contract: the caller may exchange one queue for another and sees the same
//! timers fire in the same order.
//! There are no handles and no callbacks: a timer is an id of the caller's, and expired ids are
//! pulled.
//! There is no clock either: ticks come in as arguments, and only their order matters.

use std::fmt::Debug;

/// The highest id of every queue, 2²⁷ − 1: beyond it an id is more likely a mistake than an index.
pub(crate) const ID_MAX: u32 = (1 << 27) - 1;

/// At most one deadline for each of many dense ids, served earliest first.
///
/// # Order
///
/// Timers fire in the order of their deadlines; timers of equal deadline in the order they were
/// armed.
/// Arming an armed id again is a new arming: it goes behind all others of the same deadline, also
/// where the deadline is the same as before.
///
/// # Phases
///
/// A *phase* is a run of [`pop_expired`](Self::pop_expired) calls with the same `now`, up to the
/// `None` that ends it.
/// A queue may also *pause* a phase with a `None`, so that no call takes long: see
/// [`has_more`](Self::has_more).
/// A different `now` begins a new phase, also where the old one was left before its `None`; what
/// was left is not lost.
/// A phase yields only timers that were armed before its first call.
/// So a handler that arms a timer with a deadline at or before `now` does not loop: that timer
/// fires in the next phase, and until then [`next_deadline`](Self::next_deadline) tells that it is
/// due.
/// A timer that is disarmed or armed again during the phase does not fire from its old arming.
///
/// `now` should not go back; if it does, nothing breaks: what is not due at the new `now` waits
/// until it is.
///
/// # Example
///
/// Code that takes any queue:
///
/// ```
/// use evcore_timer::{TimerQueue, TimerWheel};
///
/// /// Closes what has been idle too long, and says how many ticks the caller may sleep.
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
    /// Arms the timer of `id` to fire once `deadline` has come, in place of any deadline that it
    /// had.
    ///
    /// Every `u64` is a deadline, 0 and [`u64::MAX`] included.
    ///
    /// # Panics
    ///
    /// Where `id` is above the limit that the queue states.
    fn arm(&mut self, id: u32, deadline: u64);

    /// Disarms the timer of `id`; returns whether it was armed.
    ///
    /// An id that was never armed, or has fired, is not armed: that is `false` and no mistake.
    fn disarm(&mut self, id: u32) -> bool;

    /// Takes one timer that is due at `now`: its id and the deadline that it was armed with.
    ///
    /// The timer is disarmed before it is returned, so a handler may arm it again.
    /// `None` ends the phase, since nothing that was armed before it is still due; or
    /// [pauses](Self::has_more) it.
    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)>;

    /// Arms the timer of `id` as though that had been done just before the phase under way began.
    ///
    /// So it fires in this very phase if `deadline` is at or before its `now`: behind the others of
    /// its deadline that were armed before the phase, and ahead of those armed since.
    /// Outside a phase, and for a deadline after `now`, this is [`arm`](Self::arm).
    ///
    /// It is for a wrapper that takes a timer which came up too soon and files it again, such as
    /// [`Lazy`](crate::Lazy).
    /// A handler that calls it for deadlines at or before `now`, again and again, keeps the phase
    /// from ending.
    ///
    /// # Panics
    ///
    /// As `arm` does.
    fn reinsert_in_phase(&mut self, id: u32, deadline: u64);

    /// Disarms all timers and keeps the memory.
    ///
    /// A phase that is under way goes on: what is armed in it with a deadline at or before its
    /// `now` waits for the next.
    ///
    /// Cost: in proportion to the highest id that was ever armed.
    fn clear(&mut self);

    /// The deadline that `id` is armed with.
    #[must_use]
    fn deadline(&self, id: u32) -> Option<u64>;

    /// A tick by which [`pop_expired`](Self::pop_expired) wants to be called; `None` while no timer
    /// is armed.
    ///
    /// Never later than the earliest deadline.
    /// A queue may answer earlier than that if it says so; the call at that tick may then yield
    /// nothing, but the next answer is later, unless the phase is [paused](Self::has_more).
    #[must_use]
    fn next_deadline(&self) -> Option<u64>;

    /// How many timers are armed.
    #[must_use]
    fn len(&self) -> usize;

    /// Whether the latest `None` of [`pop_expired`](Self::pop_expired) only paused the phase, so
    /// that more timers may be due at the same `now`.
    ///
    /// A queue pauses when one call has done as much work as a call may do; the next call goes on.
    /// Most loops do not need this method: while a phase is paused,
    /// [`next_deadline`](Self::next_deadline) is at or before its `now`, so the loop does its other
    /// work, polls without waiting, and calls `pop_expired` again.
    /// To take everything that is due at once, call `pop_expired` until it returns `None` and this
    /// returns false.
    #[must_use]
    fn has_more(&self) -> bool {
        false
    }

    /// Whether no timer is armed.
    #[must_use]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the timer of `id` is armed.
    #[must_use]
    fn is_armed(&self, id: u32) -> bool {
        self.deadline(id).is_some()
    }
}

/// So that a wrapper can stand over a queue that is chosen at run time.
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
    fn next_deadline(&self) -> Option<u64> {
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

/// Refuses an id for which a table would be large by mistake.
///
/// # Panics
///
/// Where `id` is above [`ID_MAX`].
pub(crate) fn assert_dense(id: u32) {
    assert!(
        id <= ID_MAX,
        "timer id {id} is above {ID_MAX}: ids index a table, so keep them dense",
    );
}
