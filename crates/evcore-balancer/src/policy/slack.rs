//! How many connections a worker may have above the least loaded worker.

use crate::{Load, Peer};

/// This many connections above the least loaded worker, and a sixteenth of that worker's
/// connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack(u32);

impl Slack {
    /// 0 counts as 1. With less, two workers with equal loads would make each other stop.
    pub(crate) fn new(connections: u32) -> Self {
        Self(connections.max(1))
    }

    /// Whether a load is at most the limit that the least loaded of the other workers sets.
    pub(crate) fn is_near(self, load: Load, least: Option<Peer>) -> bool {
        least.is_none_or(|least| load.active <= self.limit(least))
    }

    /// How many connections bring this worker above the limit; `None` if no other worker can accept
    /// the rest.
    pub(crate) fn room(self, load: Load, least: Option<Peer>) -> Option<u32> {
        let room = |least| {
            self.limit(least)
                .saturating_sub(load.active)
                .saturating_add(1)
        };
        least.map(room)
    }

    /// The highest load that counts as near.
    fn limit(self, least: Peer) -> u32 {
        least
            .active
            .saturating_add(self.0)
            .saturating_add(least.active / 16)
    }
}
