//! The flag in front of a waker's descriptor: any number of wakes, one write.
//!
//! The order makes it right, on both sides. The waker raises the flag and then rings; the poller
//! silences the bell and then lowers the flag. So whoever finds the flag raised knows that a wait
//! that has not yet returned will return, and that its return comes after.
//!
//! Nothing here names another part of the crate: `tests/loom_waker.rs` includes this very file and
//! runs it over loom's atomics.

use std::sync::atomic::{AtomicBool, Ordering};

/// The flag, raised or not.
pub(crate) trait Word {
    /// Puts `raised` in its place, and says what it was before.
    fn swap(&self, raised: bool, order: Ordering) -> bool;
}

impl Word for AtomicBool {
    fn swap(&self, raised: bool, order: Ordering) -> bool {
        Self::swap(self, raised, order)
    }
}

/// What ends a wait: a descriptor, or loom's model of one.
pub(crate) trait Bell {
    /// Ends the present wait, or the next one.
    fn ring(&self);

    /// Takes back what was rung, so that a level-triggered wait does not see it again.
    fn silence(&self);
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

    /// Lets the next wake ring again. Enough where the wait sees each ring once.
    pub(crate) fn acknowledge(&self) {
        // A read-modify-write, not a store: only by reading the last `swap` of `wake` does it see
        // what was done before a wake that rang nothing.
        self.raised.swap(false, Ordering::AcqRel);
    }

    /// Silences the bell, and then acknowledges. The other way round, a ring in between would be
    /// silenced with its flag still raised, and no wake would ring again.
    pub(crate) fn drain(&self) {
        self.bell.silence();
        self.acknowledge();
    }
}
