//! Bugs that are there on purpose, to see that the tests which are to find such bugs do.
//!
//! With `--cfg evcore_planted`, which only `cargo xtask canary` sets, a test can plant one of them
//! in its thread, and in the children that it forks. Without it, none can be, and nothing is left
//! of this.

/// A mistake that somebody might make in how workers share listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(evcore_planted),
    allow(unreachable_pub, reason = "public only where it can be planted")
)]
#[cfg_attr(
    evcore_loom,
    allow(
        dead_code,
        reason = "what is planted in shared memory is not built for loom"
    )
)]
pub enum Bug {
    /// The lock of the dead is not freed.
    LockOutlives,
    /// Nobody sits on the seat of the dead again.
    SeatOutlives,
    /// Nobody is called when one has died.
    DeathUntold,
    /// A bell does not ring.
    BellMute,
    /// Who has not listened for the delay does not look who waits.
    LookLeftOut,
}

#[cfg(evcore_planted)]
mod planting {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in this thread, in place of the one before.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(evcore_planted)]
pub use planting::plant;

#[cfg(evcore_planted)]
pub(crate) use planting::is_planted;

/// It never is.
#[cfg(not(evcore_planted))]
#[inline(always)]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}
