//! Limits on the work of one turn.

/// The most work of each kind that a turn (iteration of the loop) does. The work beyond a budget is
/// carried over to the next turn, which then does not wait.
///
/// ```
/// use evcore::{Budgets, EventLoop};
///
/// let budgets = Budgets { accepts: 16, ..Budgets::default() };
/// let ev = EventLoop::builder().budgets(budgets).build()?;
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Events of one wait (nginx: `epoll_events`). Default 256; 0 counts as 1.
    pub batch: usize,
    /// Connections accepted, from all listeners together (nginx: `multi_accept`), including those
    /// that were [lost](crate::Stats::aborted) before they could be accepted. Default 64; 0 counts
    /// as 1.
    pub accepts: usize,
    /// Timers expired. Default 256; 0 counts as 1. If the timer queue
    /// [pauses](evcore_timer::TimerQueue::has_more) to sort its timers in several parts, each pause
    /// counts as 16.
    pub expired: usize,
    /// Posted steps, and posts taken in from other threads. Default 256; 0 counts as 1.
    pub posted: usize,
    /// Idle connections evicted. Default 256; 0 counts as 1. (To make room for new clients, a turn
    /// evicts at most 32, even if this budget is higher.)
    pub evictions: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            batch: 256,
            accepts: 64,
            expired: 256,
            posted: 256,
            evictions: 256,
        }
    }
}

impl Budgets {
    /// Makes each budget at least 1, because a budget of 0 would stop the loop.
    pub(crate) fn at_least_one(self) -> Self {
        Self {
            batch: self.batch.max(1),
            accepts: self.accepts.max(1),
            expired: self.expired.max(1),
            posted: self.posted.max(1),
            evictions: self.evictions.max(1),
        }
    }
}
