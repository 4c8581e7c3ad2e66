//! How far above the least loaded worker is near enough.

use crate::{Load, View};

/// So many connections above the least loaded worker, beside a sixteenth of that worker's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack(u32);

impl Slack {
    /// 0 is taken for 1: with less, equals would make each other leave.
    pub(crate) fn new(connections: u32) -> Self {
        Self(connections.max(1))
    }

    /// The highest load that is near the least.
    pub(crate) fn limit(self, load: Load, view: &View) -> u32 {
        let others = view.least.map_or(u32::MAX, |peer| peer.load);
        let least = load.active.min(others);
        least.saturating_add(self.0).saturating_add(least / 16)
    }

    /// How many clients bring this worker above the limit, and so to the end of its turn.
    pub(crate) fn room(self, load: Load, view: &View) -> u32 {
        let limit = self.limit(load, view);
        limit.saturating_sub(load.active).saturating_add(1)
    }
}
