//! What a worker tells of itself, as plain numbers.

/// The numbers of one worker at (about) one moment, or of all workers together.
///
/// Counters only grow; gauges go up and down.
///
/// ```
/// let start = evcore_balancer::Snapshot::default();
/// assert_eq!(start.active, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Gauge: connections open now.
    pub active: u64,
    /// Counter: connections accepted.
    pub accepted: u64,
    /// Counter: connections served, that is accepted and not dropped for want of a resource.
    pub handled: u64,
    /// Counter: requests.
    pub requests: u64,
    /// Gauge: connections on which a request is being read.
    pub reading: u64,
    /// Gauge: connections on which a response is being written.
    pub writing: u64,
    /// Gauge: connections that are idle between two requests.
    pub waiting: u64,
    /// A number that changes as long as the worker's loop turns, such as its clock in milliseconds;
    /// 0 only where nobody writes.
    ///
    /// Who watches a worker reads it twice: one that has not changed has not turned.
    pub heartbeat: u64,
}

impl Snapshot {
    /// Whether a worker writes to this line: it has published a heartbeat, and its parent has not
    /// [cleared](crate::Board::reset_gauges) it since.
    ///
    /// ```
    /// use evcore_balancer::{Board, Snapshot};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let board = Board::shared(8)?; // for two workers, and those that replace them
    /// for index in [0, 5] {
    ///     board.line(index).publish(&Snapshot { active: 10, heartbeat: 17, ..Snapshot::default() });
    /// }
    /// assert!(board.snapshot(5).is_live() && !board.snapshot(1).is_live());
    /// assert_eq!(board.jain(), 1.0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.heartbeat != 0
    }

    /// Both together, as [`Board::sum`](crate::Board::sum) adds them.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            active: self.active.saturating_add(other.active),
            accepted: self.accepted.saturating_add(other.accepted),
            handled: self.handled.saturating_add(other.handled),
            requests: self.requests.saturating_add(other.requests),
            reading: self.reading.saturating_add(other.reading),
            writing: self.writing.saturating_add(other.writing),
            waiting: self.waiting.saturating_add(other.waiting),
            heartbeat: match (self.heartbeat, other.heartbeat) {
                (0, beat) | (beat, 0) => beat,
                (one, another) => one.min(another),
            },
        }
    }
}
