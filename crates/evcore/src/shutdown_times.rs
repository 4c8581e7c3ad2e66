//! The times of a graceful shutdown, and whether `Step::ShuttingDown` has announced it.

use std::mem;

use crate::time::NEVER;

/// The times of a shutdown, in nanoseconds of the loop's clock; [`NEVER`] while the loop does not
/// shut down.
#[derive(Debug)]
pub(crate) struct ShutdownTimes {
    /// The end of the timeout.
    over_ns: u64,
    /// The end of the grace of the connections that became idle just before the shutdown; [`NEVER`]
    /// if there are none.
    grace_ends_ns: u64,
    // Invariant: the earlier of `over_ns` and `grace_ends_ns`.
    next_ns: u64,
    is_announced: bool,
}

impl ShutdownTimes {
    /// Begins a shutdown, or makes its end earlier.
    pub(crate) fn limit(&mut self, over_ns: u64) {
        self.over_ns = self.over_ns.min(over_ns).min(NEVER - 1);
        self.next_ns = self.over_ns.min(self.grace_ends_ns);
    }

    pub(crate) fn set_grace_end(&mut self, ends_ns: u64) {
        self.grace_ends_ns = ends_ns;
        self.next_ns = self.over_ns.min(ends_ns);
    }

    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.over_ns != NEVER
    }

    #[inline]
    pub(crate) fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Takes the announcement of a shutdown that has begun. Returns false if it was taken before.
    pub(crate) fn take_announcement(&mut self) -> bool {
        self.has_begun() && !mem::replace(&mut self.is_announced, true)
    }

    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        self.over_ns <= now_ns
    }

    /// Returns whether the grace is over, and [`set_grace_end`](Self::set_grace_end) has not been
    /// called since.
    pub(crate) fn grace_is_over(&self, now_ns: u64) -> bool {
        self.grace_ends_ns <= now_ns
    }

    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }
}

impl Default for ShutdownTimes {
    fn default() -> Self {
        Self {
            over_ns: NEVER,
            grace_ends_ns: NEVER,
            next_ns: NEVER,
            is_announced: false,
        }
    }
}
