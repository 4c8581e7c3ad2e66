//! The flag in front of a waker's descriptor: any number of wakes, one write.
//!
//! The order makes it right, on both sides. The waker raises the flag and then rings; the poller
//! silences the bell and then lowers the flag. So if a waker finds the flag raised, a wait that has
//! not yet returned will return, and its return comes after that wake.
//!
//! A poller reports a wake in one of two ways. Mostly its kernel reports that the bell was rung. But
//! a kernel reports what is ready in turn, and the bell may be behind more than fits into a wait; then
//! the poller needs_scan at the flag, and silences the bell itself.
//!
//! Where the kernel reports each ring once (an edge), the bell need not be silenced: that saves a
//! call. The rings that were reported and left are counted, so that they are taken for no other wake.
//!
//! Nothing here names another part of the crate: `tests/loom_waker.rs` includes this very file and
//! runs it over loom's atomics.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{self, Relaxed},
};

/// The flag, raised or not.
pub(crate) trait Word {
    /// Whether it is raised.
    fn load(&self, order: Ordering) -> bool;

    /// Puts `raised` in its place, and says what it was before.
    fn swap(&self, raised: bool, order: Ordering) -> bool;
}

impl Word for AtomicBool {
    fn load(&self, order: Ordering) -> bool {
        Self::load(self, order)
    }

    fn swap(&self, raised: bool, order: Ordering) -> bool {
        Self::swap(self, raised, order)
    }
}

/// What ends a wait: a descriptor, or loom's model of one.
pub(crate) trait Doorbell {
    /// Ends the present wait, or the next one.
    fn ring(&self);

    /// Takes back what was rung, so that no wait sees it again. Returns how many rings that were; where
    /// none is ever left, it is enough that this is not 0 if there were any.
    fn silence(&self) -> u64;
}

/// A bell that is rung at most once between two acknowledgements.
#[derive(Debug)]
pub(crate) struct WakeFlag<W, B> {
    /// Set from a wake until the acknowledgement of the wait that it ended.
    raised: W,
    bell: B,
    /// How many wakes were reported whose rings were left. The poller's alone.
    left: AtomicU64,
    /// The bell is rung by others too, who do not raise the flag. Never lowered again.
    is_lent: AtomicBool,
}

impl<W: Word, B: Doorbell> WakeFlag<W, B> {
    pub(crate) fn new(raised: W, bell: B) -> Self {
        Self {
            raised,
            bell,
            left: AtomicU64::new(0),
            is_lent: AtomicBool::new(false),
        }
    }

    pub(crate) fn bell(&self) -> &B {
        &self.bell
    }

    /// Rings, unless a ring is still to be acknowledged.
    pub(crate) fn wake(&self) {
        // Releases what was done before the wake. Acquires, so that a ring comes after the
        // silencing before it (which a kernel's own lock sees to as well).
        if !self.raised.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// From here on others may ring too, without the flag. Several rings may then be reported as one
    /// wake, so the reports no longer count the rings, and none of those is left.
    pub(crate) fn lend(&self) {
        // Relaxed: a ring that comes after this is a call to the kernel, which orders it.
        self.is_lent.store(true, Relaxed);
    }

    /// Whether there may be a wake to [`take`](Self::take). Costs one relaxed load.
    ///
    /// Never `false` after a wake that came before, until that is reported.
    pub(crate) fn is_raised(&self) -> bool {
        // Relaxed: `take` is what makes visible what was done before the wake.
        self.raised.load(Relaxed)
    }

    /// Silences the bell, and then lets the next wake ring again. Returns whether there was a wake to
    /// report.
    pub(crate) fn take(&self) -> bool {
        let is_wake = self.silence();
        // If the flag is raised and there was no new ring, its waker is about to ring. Were the flag
        // lowered now, that ring would be taken for another wake.
        if is_wake {
            self.lower();
        }
        is_wake
    }

    /// As [`take`](Self::take), where the kernel has reported an edge: the bell is mostly left as it
    /// is.
    pub(crate) fn acknowledge(&self) -> bool {
        if !self.is_lent.load(Relaxed) && self.lower() {
            self.left.fetch_add(1, Relaxed);
            return true;
        }
        // Rung by hand; or late, by a waker whose wake was reported before it rang.
        self.take()
    }

    /// Silences the bell before another watch of edges begins, to which the rings that were left would
    /// be an edge; rings once more if there was a wake that was not reported.
    pub(crate) fn renew(&self) {
        if self.silence() {
            self.bell.ring();
        }
    }

    /// Silences the bell. Returns whether there was a ring that no report was for.
    fn silence(&self) -> bool {
        let (rings, left) = (self.bell.silence(), self.left.load(Relaxed));
        // Not 0: a wake may be reported before its waker has rung, which it is then about to do.
        self.left.store(left.saturating_sub(rings), Relaxed);
        rings > left
    }

    /// Lowers the flag, and returns whether it was raised. If the bell is silenced too, that comes
    /// first: a ring in between would be silenced with its flag still raised, and no wake would ring
    /// again.
    pub(crate) fn lower(&self) -> bool {
        // A read-modify-write, not a store: only by reading the last `swap` of `wake` does it see
        // what was done before a wake that rang nothing.
        self.raised.swap(false, Ordering::AcqRel)
    }
}
