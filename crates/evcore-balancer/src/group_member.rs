//! The link of a worker to the other workers of its server, as a trait.

use std::fmt;

use crate::{
    accept_mutex::MutexHandle,
    inputs::{GroupView, Load},
    notify::Notifier,
    policy::Policy,
    spread::Spread,
    worker_id::WorkerId,
};

/// The accept lock of a worker, and its place in a group.
///
/// A [`Member`](crate::Member) of a [`WorkerGroup`](crate::WorkerGroup) has both. A [`MutexHandle`]
/// has only the lock. A test or a simulator implements the trait for a type of its own. A type that
/// shares only a lock implements just [`try_lock`](Self::try_lock) and [`unlock`](Self::unlock).
///
/// ```
/// use evcore_balancer::GroupMember;
///
/// #[derive(Debug)]
/// struct AlwaysMine;
///
/// impl GroupMember for AlwaysMine {
///     fn try_lock(&self) -> bool {
///         true
///     }
///     fn unlock(&self) {}
/// }
///
/// let member: Box<dyn GroupMember> = Box::new(AlwaysMine);
/// assert!(member.try_lock() && !member.in_group());
/// ```
pub trait GroupMember: fmt::Debug + Send {
    /// The policy that all workers of this server follow, if the member has one.
    #[must_use]
    fn policy(&self) -> Option<Policy> {
        None
    }

    /// Gets the accept lock if no other worker owns it, without waiting, and returns whether this
    /// worker owns it now.
    #[must_use = "it returns whether the lock is held"]
    fn try_lock(&self) -> bool;

    /// Releases the accept lock if this worker owns it.
    fn unlock(&self);

    /// Returns whether this worker sees the others. If not, [`sync`](Self::sync) is the only one of
    /// the methods below that is called. The members of a group do not see each other if their
    /// policy [does not use the group](crate::Policy::uses_group).
    #[must_use]
    fn in_group(&self) -> bool {
        false
    }

    /// Returns whether another worker has notified this one since its last [`sync`](Self::sync).
    /// For a [`Member`](crate::Member) this costs one atomic load.
    #[must_use]
    fn is_notified(&self) -> bool {
        false
    }

    /// Publishes the load of this worker, answers a notification, and then reads the state of the
    /// other workers.
    ///
    /// If two members do this at the same time, at least one of them sees the load that the other
    /// has published. A [`Member`](crate::Member) reads a cache line for each slot of the group.
    #[must_use]
    fn sync(&self, load: Load) -> GroupView {
        let _ = load;
        GroupView::alone()
    }

    /// Publishes whether this worker is late: its turns have lasted so long that clients should go
    /// to others. The others see it when they sync.
    fn set_late(&self, late: bool) {
        let _ = late;
    }

    /// Adds `accepted`, the number of clients that this worker has accepted since the last call, to
    /// the total that it publishes. It is called before [`sync`](Self::sync). The view that `sync`
    /// returns has the [sum](GroupView::clients) over all members.
    fn add_clients(&self, accepted: u32) {
        let _ = accepted;
    }

    /// Publishes whether this worker [rests](crate::Plan::rests).
    fn set_resting(&self, rests: bool) {
        let _ = rests;
    }

    /// Wakes the other members that rest, so that they plan, and see that they are
    /// [roused](GroupView::roused).
    fn rouse(&self) {}

    /// Publishes the number of this worker's open connections, or `None` if it takes no part in
    /// evening them out.
    fn publish_open(&self, open: Option<u32>) {
        let _ = open;
    }

    /// Returns the spread of the group's open connections, as if the members in `without` could get
    /// no further connections. A [`Member`](crate::Member) reads a cache line for each slot, a few
    /// times.
    #[must_use]
    fn spread(&self, without: &[WorkerId]) -> Spread {
        let _ = without;
        Spread::default()
    }

    /// Wakes the other members that have more connections than the mean, so that they plan.
    fn rouse_loaded(&self) {}

    /// Makes this worker the leader, even if another member leads now.
    ///
    /// Its listeners must be registered, and stay so until another member leads or this one [steps
    /// down](Self::step_down).
    fn lead(&self) {}

    /// Ends the leadership of this worker, if it leads. The group then has no leader. It is called
    /// while the listeners are still registered.
    fn step_down(&self) {}

    /// Notifies another member, which then syncs with the group and listens. If that member has an
    /// unanswered notification, nothing happens.
    ///
    /// # Panics
    ///
    /// If the group has no such slot.
    fn notify(&self, peer: WorkerId) {
        let _ = peer;
    }

    /// The notifier that the poller watches, level-triggered; `None` if a notification ends a wait
    /// by other means.
    ///
    /// If there is a notifier, a notification that makes [`is_notified`](Self::is_notified) true
    /// must also make the notifier readable, until [`clear_notifier`](Self::clear_notifier).
    #[must_use]
    fn notifier(&self) -> Option<Notifier<'_>> {
        None
    }

    /// Clears the notifier. It is called before the [`sync`](Self::sync) that answers the
    /// notification.
    fn clear_notifier(&self) {}
}

impl GroupMember for MutexHandle {
    /// Returns [`Policy::mutex`], the only policy that uses a lock and needs no group.
    fn policy(&self) -> Option<Policy> {
        Some(Policy::mutex())
    }

    fn try_lock(&self) -> bool {
        self.mutex().try_lock(self.id())
    }

    fn unlock(&self) {
        self.mutex().unlock(self.id());
    }
}
