//! Bugs that are there on purpose, to see that the tests which are to find such bugs do.
//!
//! With `--cfg evcore_planted`, which only `cargo xtask canary` sets, a test can plant one of them
//! in its thread. Without it, none can be, and nothing is left of this.

/// A mistake that somebody might make in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(evcore_planted),
    allow(unreachable_pub, reason = "public only where it can be planted")
)]
pub enum Bug {
    /// An index alone is taken for a token.
    AnyGeneration,
    /// Closing leaves timers armed.
    TimersOutlive,
    /// Closing leaves posted what was.
    PostsOutlive,
    /// Deadlines are rounded down.
    EarlyTimers,
    /// What was carried over is waited beside.
    CarriedOverWaits,
    /// The accept lock is kept through the handlers.
    LockKept,
    /// No budget bounds the accepts.
    AcceptsUnbounded,
    /// Who is busy again still counts as idle.
    BusyStaysIdle,
    /// A shutdown is done while somebody is there.
    DoneEarly,
    /// Who is idle again keeps its old place among the idle.
    IdlePlaceKept,
    /// One of what others have posted is lost.
    PostLost,
    /// A bell that has rung is silenced, and nothing else.
    CallUnseen,
}

#[cfg(evcore_planted)]
mod planting {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in this thread's loops, in place of the one before.
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
