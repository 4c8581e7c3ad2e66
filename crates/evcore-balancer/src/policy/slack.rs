use crate::inputs::{Load, Peer};

/// The number of connections by which a worker may exceed the lowest load and still listen. A
/// sixteenth of the lowest load is added to this number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack(u32);

impl Slack {
    /// Makes a slack. 0 counts as 1, because the slack also limits the number of clients that a
    /// worker accepts in one turn (iteration of its event loop).
    pub(crate) fn new(connections: u32) -> Self {
        Self(connections.max(1))
    }

    /// Returns whether a load is at most the limit that the least loaded other worker sets.
    pub(crate) fn is_near(self, load: Load, least: Option<Peer>) -> bool {
        least.is_none_or(|least| load.active <= self.limit(least))
    }

    /// Number of further connections that bring this worker above the limit; `None` if no other
    /// worker has room.
    pub(crate) fn room(self, load: Load, least: Option<Peer>) -> Option<u32> {
        let room = |least| {
            self.limit(least)
                .saturating_sub(load.active)
                .saturating_add(1)
        };
        least.map(room)
    }

    /// A multiple of the slack, without the sixteenth of the lowest load.
    pub(crate) fn times(self, factor: u32) -> u32 {
        self.0.saturating_mul(factor)
    }

    /// Number of connections that a worker may accept before it looks at the others again, because
    /// their loads change meanwhile. If no other worker has room, the number is four times the
    /// slack. Otherwise it is the result of `room`, but at most the larger of two numbers: the
    /// difference from the lowest load, and the slack plus a sixteenth of that load.
    pub(crate) fn batch(self, load: Load, least: Option<Peer>) -> u32 {
        let Some(least) = least else {
            return self.times(4);
        };
        let most = least.active.saturating_sub(load.active);
        let most = most.max(self.width(least));
        self.room(load, Some(least))
            .map_or(most, |room| room.min(most))
    }

    fn limit(self, least: Peer) -> u32 {
        least.active.saturating_add(self.width(least))
    }

    fn width(self, least: Peer) -> u32 {
        self.0.saturating_add(least.active / 16)
    }
}
