//! The inputs of a balancer: the time, the load of its worker, and the view of the group.

use std::time::Duration;

use crate::{spread::Spread, worker_id::WorkerId};

/// The state of a worker when it plans a turn, which is one iteration of its event loop.
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
    /// The present load of this worker.
    pub load: Load,
    /// Number of connections that this worker has accepted since its last plan.
    pub accepted: u32,
    /// True if the poller has reported a listener since the last plan.
    pub reported: bool,
    /// True if this worker stopped accepting before the backlog was empty, so clients may wait
    /// there.
    pub may_have_left_clients: bool,
    /// True if another worker has notified this one since its last sync. A notification that
    /// arrives after this field was set is in [`GroupView::notified`].
    pub notified: bool,
    /// True if the poller can register a listener for exclusive wake-ups (`EPOLLEXCLUSIVE`).
    pub exclusive: bool,
    /// True if this worker is a [`Member`](crate::Member) of a group, so it sees the loads of the
    /// others.
    pub in_group: bool,
    /// True if this worker is late, as its group sees it; see
    /// [`GroupMember::set_late`](crate::GroupMember::set_late).
    pub late: bool,
    /// The spread of the group's open connections; `None` stands for the spread of the last plan. A
    /// worker that takes no part in evening out connections gets an even spread.
    pub spread: Option<Spread>,
    /// The numbers of this worker's connections that can leave or have moved.
    pub moves: MoveCounts,
}

/// Numbers of a worker's connections that can leave for other members of its group, or have moved.
///
/// ```
/// assert_eq!(evcore_balancer::MoveCounts::default().leaving, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Number of connections that are idle, so that they can leave.
    pub idle: u32,
    /// Number of connections that have left and whose receiver has not answered yet.
    pub leaving: u32,
    /// Number of connections that have left since the last plan.
    pub left: u32,
    /// Number of connections that have come back since the last plan.
    pub came_back: u32,
    /// Number of connections that have arrived from other members since the last plan.
    pub arrived: u32,
}

/// Connections that have moved, as a worker reports them to its
/// [`Coordinator`](crate::Coordinator::on_moved).
///
/// ```
/// use evcore_balancer::Moved;
///
/// // A worker gives three connections away, and gets one of them back.
/// let reports = [Moved::Left(3), Moved::Taken(2), Moved::CameBack(1)];
/// assert_eq!(reports[0], Moved::Left(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// This many connections have left for another worker. They count for this worker until the
    /// other one has answered.
    Left(u32),
    /// The other worker has taken this many of the connections that left.
    Taken(u32),
    /// This many of the connections that left have come back.
    CameBack(u32),
    /// This many connections have arrived from another worker.
    Arrived(u32),
}

impl Inputs {
    /// Makes inputs with this time. All other fields are 0, false or `None`, so the worker counts
    /// as full.
    #[must_use]
    pub fn at(now: Duration) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    pub(crate) fn has_met_clients(&self) -> bool {
        self.reported || self.accepted > 0 || self.may_have_left_clients
    }
}

/// The number of a worker's connections, and its capacity. A worker below its capacity has *room*.
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
    /// The number of open connections. It may exceed `capacity`.
    pub active: u32,
    /// The largest number of connections. With 0 the worker is always full.
    pub capacity: u32,
}

impl Load {
    /// Number of connections that the worker still has room for.
    #[must_use]
    pub const fn free(self) -> u32 {
        self.capacity.saturating_sub(self.active)
    }

    /// Returns whether the worker has no room for a connection.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.free() == 0
    }

    /// Returns whether less than an eighth of the capacity is free (nginx: `ngx_accept_disabled` is
    /// positive).
    ///
    /// A worker with a capacity below eight is never crowded, because an eighth rounds down to 0.
    #[must_use]
    pub const fn is_crowded(self) -> bool {
        self.free() < self.capacity / 8
    }
}

/// The state of a worker group as one member sees it.
///
/// The parts of a view may have been read at slightly different moments.
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
    /// The leader of the group.
    pub leader: Leader,
    /// The least loaded of the *other* members that have room and no unanswered notification. Late
    /// members are considered only if this worker is late or full itself, and no member that is on
    /// time has room.
    pub least_loaded: Option<Peer>,
    /// The least loaded of the other members that have room and have not answered a notification
    /// yet, under the same rule for late ones. Such a member is usually about to listen. A
    /// stopped member (`SIGSTOP`) does not answer until it continues.
    pub pending: Option<Peer>,
    /// True if the sync that made this view has answered a notification.
    pub notified: bool,
    /// True if this worker is the only member of the group.
    pub alone: bool,
    /// True if this worker is [late](crate::GroupMember::set_late), and another member that has
    /// room is on time.
    pub outpaced: bool,
    /// Number of clients that the members of the group have accepted, this one and former ones
    /// included. It wraps.
    pub clients: u32,
    /// True if another member [rests](crate::Plan::rests).
    pub others_rest: bool,
    /// True if another member has [roused](crate::GroupMember::rouse) this one, which rests.
    pub roused: bool,
}

impl GroupView {
    /// The view of a worker that has no group, or is the only member of its group.
    #[must_use]
    pub const fn alone() -> Self {
        Self {
            leader: Leader::None,
            least_loaded: None,
            pending: None,
            notified: false,
            alone: true,
            outpaced: false,
            clients: 0,
            others_rest: false,
            roused: false,
        }
    }

    pub(crate) fn least_loaded_id(&self) -> Option<WorkerId> {
        self.least_loaded.map(|peer| peer.id)
    }
}

/// The leader of a worker group, as one member sees it.
///
/// The leader must not stop listening until either another member has become leader, or the leader
/// itself has stepped down. Every other member may stop at any time, because the leader listens.
/// [`WorkerGroup`](crate::WorkerGroup) compares this with the Leader/Followers pattern.
///
/// ```
/// use evcore_balancer::Leader;
///
/// assert_ne!(Leader::Me, Leader::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// No member leads, for example because all are full, or because the last leader has left or
    /// died.
    None,
    /// This worker leads.
    Me,
    /// Another member leads. Its listeners are registered, unless it has died.
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
    /// The id of the member.
    pub id: WorkerId,
    /// The number of the member's open connections.
    pub active: u32,
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_worker_with_a_capacity_below_eight_is_never_crowded() {
        for capacity in 0..8 {
            for active in 0..=capacity + 1 {
                assert!(!Load { active, capacity }.is_crowded());
            }
        }
    }

    proptest! {
        #[test]
        fn crowded_agrees_with_nginx(active: u32, capacity: u32) {
            let load = Load { active, capacity };
            let accept_disabled = i64::from(capacity / 8) - i64::from(load.free());
            prop_assert_eq!(load.is_crowded(), accept_disabled > 0);
        }
    }
}
