//! The flag in front of a waker's descriptor. With it, any number of wakes between two waits cost
//! one write.
//!
//! A waker sets the flag and then notifies the doorbell (the descriptor). The poller clears the
//! doorbell and then the flag. So if a waker finds the flag set, the earlier wake is not reported
//! yet, and both wakes are reported as one.
//!
//! A kernel reports ready descriptors in turn, and the doorbell may come after more of them than
//! fit into one wait. Then the poller finds the wake by the flag, and clears the doorbell itself.
//!
//! If the kernel reports each notification once (an edge), the doorbell need not be cleared, which
//! saves a call. Reported notifications that are left unread are counted, so that they are not
//! taken for another wake.
//!
//! This file uses no other part of the crate, because `tests/loom_waker.rs` includes it and runs it
//! with a flag over loom's atomics.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{self, Relaxed},
};

pub(crate) trait AtomicFlag {
    fn load(&self, order: Ordering) -> bool;

    fn swap(&self, pending: bool, order: Ordering) -> bool;
}

impl AtomicFlag for AtomicBool {
    fn load(&self, order: Ordering) -> bool {
        Self::load(self, order)
    }

    fn swap(&self, pending: bool, order: Ordering) -> bool {
        Self::swap(self, pending, order)
    }
}

/// The notification that ends a wait: a descriptor, or loom's model of one.
pub(crate) trait Doorbell {
    /// Ends the present wait, or the next one.
    fn notify(&self);

    /// Clears the doorbell, so that no wait sees it again. Returns the number of notifications
    /// since the last call. If the notifications of a doorbell are never left unread, any number
    /// above 0 may stand for one or more notifications.
    fn clear(&self) -> u64;
}

/// A doorbell that is notified at most once between two acknowledgements.
#[derive(Debug)]
pub(crate) struct WakeFlag<F, D> {
    /// Set by a wake, and cleared when the poller acknowledges it.
    pending: F,
    doorbell: D,
    /// Number of reported wakes whose notifications were left unread. Only the poller uses it.
    unread: AtomicU64,
    /// True once other code may notify the doorbell without the flag. It is never cleared.
    is_exposed: AtomicBool,
}

impl<F: AtomicFlag, D: Doorbell> WakeFlag<F, D> {
    pub(crate) fn new(pending: F, doorbell: D) -> Self {
        Self {
            pending,
            doorbell,
            unread: AtomicU64::new(0),
            is_exposed: AtomicBool::new(false),
        }
    }

    pub(crate) fn doorbell(&self) -> &D {
        &self.doorbell
    }

    /// Notifies the doorbell, unless a notification is still unacknowledged.
    pub(crate) fn wake(&self) {
        // Release publishes the work before the wake. Acquire orders the notification after the
        // previous clearing (a kernel's own lock orders this, too).
        if !self.pending.swap(true, Ordering::AcqRel) {
            self.doorbell.notify();
        }
    }

    /// Lets other code notify the doorbell without the flag. Several such notifications may be
    /// reported as one wake, so the number of reported wakes does not give the number of unread
    /// notifications any more. From now on no notification is left unread.
    pub(crate) fn expose(&self) {
        // Relaxed is enough, because other code notifies by a call to the kernel, which comes later
        // and is ordered after this store.
        self.is_exposed.store(true, Relaxed);
    }

    /// Returns whether there may be a wake to [`take`](Self::take). Costs one relaxed load.
    ///
    /// After a wake this is true until the wake is reported.
    pub(crate) fn is_pending(&self) -> bool {
        // Relaxed is enough, because `take` makes the work before the wake visible.
        self.pending.load(Relaxed)
    }

    /// Clears the doorbell, and then lets the next wake notify again. Returns whether there was a
    /// wake to report.
    pub(crate) fn take(&self) -> bool {
        let is_wake = self.clear_doorbell();
        // If the flag is set without a new notification, its waker is about to notify. If the flag
        // were cleared now, that notification would be taken for another wake.
        if is_wake {
            self.clear_flag();
        }
        is_wake
    }

    /// Works as [`take`](Self::take), after the kernel has reported an edge. The doorbell mostly
    /// need not be cleared.
    pub(crate) fn acknowledge(&self) -> bool {
        if !self.is_exposed.load(Relaxed) && self.clear_flag() {
            self.unread.fetch_add(1, Relaxed);
            return true;
        }
        // The notification came from other code, or late from a waker whose wake was reported
        // before it notified.
        self.take()
    }

    /// Clears the doorbell before another edge-triggered watch begins, because unread notifications
    /// would be an edge to that watch. Notifies once more if there was a wake that was not
    /// reported.
    pub(crate) fn renew(&self) {
        if self.clear_doorbell() {
            self.doorbell.notify();
        }
    }

    /// Clears the doorbell. Returns whether there was a notification without a report.
    fn clear_doorbell(&self) -> bool {
        let (count, unread) = (self.doorbell.clear(), self.unread.load(Relaxed));
        // `unread` is not reset to 0, because a wake may be reported before its waker has notified.
        self.unread.store(unread.saturating_sub(count), Relaxed);
        count > unread
    }

    /// Clears the flag, and returns whether it was set. If the doorbell is cleared too, it must be
    /// cleared first. Otherwise a notification in between would be cleared while its flag stays
    /// set, and no later wake would notify.
    pub(crate) fn clear_flag(&self) -> bool {
        // This must be a read-modify-write. A store would not read the last `swap` of `wake`, and
        // so would not see the work before a wake that notified nothing.
        self.pending.swap(false, Ordering::AcqRel)
    }
}
