//! The flag in front of a waker's descriptor: any number of wakes, one write.
//!
//! The order makes it right, on both sides. The waker raises the flag and then rings; the poller
//! silences the bell and then lowers the flag. So if a waker finds the flag raised, a wait that has
//! not yet returned will return, and its return comes after that wake.
//!
//! A wake is taken once: by the poller that finds the bell rung. A raised flag alone is not enough,
//! since the waker that raised it may not have rung yet. But it is cheap to look at, so a poller
//! need not rely on its kernel to report the bell before all else that is ready.
//!
//! Nothing here names another part of the crate: `tests/loom_waker.rs` includes this very file and
//! runs it over loom's atomics.

use std::sync::atomic::{AtomicBool, Ordering};

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
pub(crate) trait Bell {
    /// Ends the present wait, or the next one.
    fn ring(&self);

    /// Takes back what was rung, so that no wait sees it again. Returns whether anything was.
    fn silence(&self) -> bool;
}

/// A bell that is rung at most once between two acknowledgements.
#[derive(Debug)]
pub(crate) struct Alarm<W, B> {
    /// Set from a wake until the acknowledgement of the wait that it ended.
    raised: W,
    bell: B,
}

impl<W: Word, B: Bell> Alarm<W, B> {
    pub(crate) fn new(raised: W, bell: B) -> Self {
        Self { raised, bell }
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

    /// Whether there may be a wake to [`take`](Self::take). Costs one relaxed load.
    ///
    /// Never `false` after a wake that came before, until that is taken.
    pub(crate) fn is_raised(&self) -> bool {
        // Relaxed: `take` is what makes visible what was done before the wake.
        self.raised.load(Ordering::Relaxed)
    }

    /// Takes the wakes that were made: silences the bell, and then lets the next wake ring again.
    /// Returns whether there were any.
    pub(crate) fn take(&self) -> bool {
        let rung = self.bell.silence();
        // Not rung: if the flag is raised, its waker is about to ring. Were the flag lowered now,
        // that ring would be taken for another wake.
        if rung {
            self.acknowledge();
        }
        rung
    }

    /// Lets the next wake ring again. Only after the bell was silenced: a ring in between would be
    /// silenced with its flag still raised, and no wake would ring again.
    pub(crate) fn acknowledge(&self) {
        // A read-modify-write, not a store: only by reading the last `swap` of `wake` does it see
        // what was done before a wake that rang nothing.
        self.raised.swap(false, Ordering::AcqRel);
    }
}
