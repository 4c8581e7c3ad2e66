//! What a balancer decides from: the time, the worker's own load, and the group as it sees it.

use std::time::Duration;

use crate::WorkerId;

/// The state of a worker when it plans a turn.
///
/// ```
/// use evcore_balancer::{Inputs, Load};
/// use std::time::Duration;
///
/// let now = Duration::from_millis(17);
/// let load = Load { active: 3, capacity: 1024 };
/// let inputs = Inputs { load, accepted: 2, ..Inputs::at(now) };
/// assert_eq!(inputs.now, now);
/// assert!(!inputs.exclusive && !inputs.notified);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The time since any fixed point, from a clock that does not go back.
    pub now: Duration,
    /// The load of this worker at this moment.
    pub load: Load,
    /// How many connections this worker has accepted since its last plan.
    pub accepted: u32,
    /// This worker stopped accepting before the backlog was empty, and no other worker has been
    /// notified of the clients that may wait there.
    pub may_have_left_clients: bool,
    /// Another worker has notified this one since its last look at the group.
    /// [`GroupView::notified`] reports a notification that arrives later than this flag was read.
    pub notified: bool,
    /// The poller can register a listener exclusively.
    pub exclusive: bool,
    /// This worker is a [`Member`](crate::Member) of a group, so it sees the loads of the others.
    pub in_group: bool,
}

impl Inputs {
    /// Inputs of which only the time is known. A worker without a known load counts as full.
    #[must_use]
    pub fn at(now: Duration) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }
}

/// How many connections a worker has, and how many it can have.
///
/// ```
/// use evcore_balancer::Load;
///
/// let load = Load { active: 897, capacity: 1024 };
/// assert_eq!(load.free(), 127);
/// assert!(load.is_crowded() && !load.is_full());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Places in use. More than `capacity` counts as full.
    pub active: u32,
    /// All places. A worker with no place at all counts as full.
    pub capacity: u32,
}

impl Load {
    /// How many more connections fit.
    #[must_use]
    pub const fn free(self) -> u32 {
        self.capacity.saturating_sub(self.active)
    }

    /// No further connection fits.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.free() == 0
    }

    /// Less than an eighth of the places is free (nginx: `ngx_accept_disabled` is positive).
    ///
    /// A worker with fewer than eight places is never crowded, because an eighth of them is less
    /// than one place.
    #[must_use]
    pub const fn is_crowded(self) -> bool {
        self.free() < self.capacity / 8
    }
}

/// The other members of a worker group, at about one moment, as one member sees them.
///
/// ```
/// use evcore_balancer::{GroupView, Leader};
///
/// let view = GroupView::alone();
/// assert_eq!((view.leader, view.least_loaded), (Leader::None, None));
/// assert!(view.alone);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Which member leads.
    pub leader: Leader,
    /// The least loaded of the *other* members that have a free place and no unanswered
    /// notification.
    pub least_loaded: Option<Peer>,
    /// This look at the group has answered a notification.
    pub notified: bool,
    /// No other worker has joined the group, or all others have left it.
    pub alone: bool,
}

impl GroupView {
    /// What a worker sees that has no group, or is its only member.
    #[must_use]
    pub const fn alone() -> Self {
        Self {
            leader: Leader::None,
            least_loaded: None,
            notified: false,
            alone: true,
        }
    }

    pub(crate) fn least_loaded_id(&self) -> Option<WorkerId> {
        self.least_loaded.map(|peer| peer.id)
    }
}

/// Which member of a worker group leads, as one member sees it.
///
/// The leader must not stop listening before another member has become leader. Every other member
/// may stop at any time, because the leader listens.
///
/// ```
/// use evcore_balancer::Leader;
///
/// assert_ne!(Leader::Me, Leader::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// No member: all are full, or the last leader has died.
    None,
    /// This worker.
    Me,
    /// Another member, and its listeners are registered.
    Other,
}

/// Another member of a worker group.
///
/// ```
/// use evcore_balancer::{Peer, WorkerId};
///
/// let peer = Peer { id: WorkerId::from_slot(3), active: 17 };
/// assert_eq!(peer.active, 17);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which worker it is.
    pub id: WorkerId,
    /// How many connections it has.
    pub active: u32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_worker_with_fewer_than_eight_places_is_never_crowded() {
        for capacity in 0..8 {
            for active in 0..=capacity + 1 {
                assert!(!Load { active, capacity }.is_crowded());
            }
        }
    }

    proptest! {
        #[test]
        fn crowded_is_what_nginx_computes(active: u32, capacity: u32) {
            let load = Load { active, capacity };
            let accept_disabled = i64::from(capacity / 8) - i64::from(load.free());
            prop_assert_eq!(load.is_crowded(), accept_disabled > 0);
        }
    }
}
