//! How far above the least loaded worker is near enough.

use crate::{Load, Peer};

/// So many connections above the least loaded worker, beside a sixteenth of that worker's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack(u32);

impl Slack {
    /// 0 is taken for 1: with less, equals would make each other leave.
    pub(crate) fn new(connections: u32) -> Self {
        Self(connections.max(1))
    }

    /// Whether a load is near that of the least loaded of the others, or below it.
    pub(crate) fn is_near(self, load: Load, least: Option<Peer>) -> bool {
        least.is_none_or(|least| load.active <= self.limit(least))
    }

    /// How many clients bring this worker above the limit, and so to the end of its turn; `None`:
    /// there is nobody to leave the rest to.
    pub(crate) fn room(self, load: Load, least: Option<Peer>) -> Option<u32> {
        let room = |least| {
            self.limit(least)
                .saturating_sub(load.active)
                .saturating_add(1)
        };
        least.map(room)
    }

    /// The highest load that is near the least.
    fn limit(self, least: Peer) -> u32 {
        least
            .load
            .saturating_add(self.0)
            .saturating_add(least.load / 16)
    }
}
