//! How a worker coordinates with the other workers of its server.

use std::{fmt, mem, time::Duration};

use evcore_balancer::{
    Balancer, GroupView, Inputs, Leadership, Load, Member, MutexHandle, Peer, Plan, Policy,
    WorkerId,
};
use evcore_poller::{Interest, Mode, Poller, Ready, Target};

use crate::{Error, Result, Stats, keys::NOTIFY_KEY};

/// What an event loop needs of the other workers of its server: the accept lock, and the group.
///
/// A [`Member`] of a [`WorkerGroup`](evcore_balancer::WorkerGroup) has both. A [`MutexHandle`] has
/// only the lock. A test or a simulator has its own type. A type that shares only a lock implements
/// just [`try_lock`](Self::try_lock) and [`unlock`](Self::unlock).
///
/// ```
/// use evcore::GroupMember;
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
    /// The policy of a loop that is built with this member and without a
    /// [policy](crate::Builder::policy) of its own. `None` stands for [`Policy::Off`].
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

    /// Whether this worker sees the others. If not, the loop calls no method below.
    #[must_use]
    fn in_group(&self) -> bool {
        false
    }

    /// Whether another worker has notified this one since its last [`sync`](Self::sync). The loop
    /// calls it when it makes a plan. It calls it in each turn only if there is no
    /// [`notifier`](Self::notifier), or if the last wait may have left out the notifier's event.
    #[must_use]
    fn is_notified(&self) -> bool {
        false
    }

    /// Publishes the load of this worker, answers a notification, and reads the state of the
    /// others.
    #[must_use]
    fn sync(&self, load: Load) -> GroupView {
        let _ = load;
        GroupView::alone()
    }

    /// Makes this worker the leader. Its listeners are registered now.
    fn lead(&self) {}

    /// Leaves the group without a leader if this worker leads. Its listeners are still registered.
    fn step_down(&self) {}

    /// Wakes another worker, so that it looks at the group and listens.
    fn notify(&self, peer: WorkerId) {
        let _ = peer;
    }

    /// What the poller watches for notifications, level-triggered; `None` if a notification ends a
    /// wait by other means. The loop calls it once, when it is built.
    ///
    /// A notification that makes [`is_notified`](Self::is_notified) true must then make it readable,
    /// until [`clear_notifier`](Self::clear_notifier).
    #[must_use]
    fn notifier(&self) -> Option<Target<'_>> {
        None
    }

    /// Clears what the poller watches, before the next [`sync`](Self::sync).
    fn clear_notifier(&self) {}
}

impl GroupMember for MutexHandle {
    /// [`Policy::mutex`], because no other policy does with just a lock.
    fn policy(&self) -> Option<Policy> {
        Some(Policy::mutex())
    }

    fn try_lock(&self) -> bool {
        self.try_lock()
    }

    fn unlock(&self) {
        self.unlock();
    }
}

impl GroupMember for Member {
    fn policy(&self) -> Option<Policy> {
        Some(self.policy())
    }

    fn try_lock(&self) -> bool {
        self.try_lock()
    }

    fn unlock(&self) {
        self.unlock();
    }

    fn in_group(&self) -> bool {
        self.in_group()
    }

    fn is_notified(&self) -> bool {
        self.is_notified()
    }

    fn sync(&self, load: Load) -> GroupView {
        self.sync(load)
    }

    fn lead(&self) {
        self.lead();
    }

    fn step_down(&self) {
        self.step_down();
    }

    fn notify(&self, peer: WorkerId) {
        self.notify(peer);
    }

    fn notifier(&self) -> Option<Target<'_>> {
        self.notify_fd().map(Target::Descriptor)
    }

    fn clear_notifier(&self) {
        self.clear_notifier();
    }
}

/// How one worker coordinates with the others.
#[derive(Debug)]
pub(crate) struct Coordination {
    balancer: Balancer,
    member: Option<Box<dyn GroupMember>>,
    in_group: bool,
    // Invariant: only from a plan to the end of that turn's accepts.
    holds_lock: bool,
    /// The last plan was made for a turn that holds the lock.
    needs_lock: bool,
    /// Each turn looks for a notification, because no event reports it.
    polls_notification: bool,
    /// A turn that keeps the plan has to call the member. One test finds that a turn
    /// has neither the lock to get nor a notification to look for.
    // Invariant: `needs_lock || polls_notification`, after each plan.
    calls_member: bool,
    /// Connections accepted since the last plan.
    accepted: u32,
    /// A notification was answered since the last plan, and no plan has followed it yet.
    was_notified: bool,
    /// The policy has delays, and so depends on the time.
    has_delay: bool,
    /// The policy looks at nothing but this worker's load.
    is_alone: bool,
}

impl Coordination {
    /// Begins to watch for notifications. It is an error if the policy needs a lock or a group and
    /// the worker has none.
    pub(crate) fn new(
        policy: Option<Policy>,
        member: Option<Box<dyn GroupMember>>,
        poller: &mut Poller,
    ) -> Result<Self> {
        let of_group = member.as_ref().and_then(|member| member.policy());
        let policy = policy.or(of_group).unwrap_or(Policy::Off);
        let in_group = member.as_ref().is_some_and(|member| member.in_group());
        let is_missing = match policy {
            Policy::Mutex { .. } => member.is_none(),
            Policy::LeastLoaded { .. } => !in_group,
            _ => false,
        };
        if is_missing {
            return Err(Error::NoGroup { policy });
        }
        let group = member.as_ref().filter(|_| in_group);
        let notifier = group.and_then(|member| member.notifier());
        if let Some(notifier) = &notifier {
            poller.add(notifier, NOTIFY_KEY, Interest::READ, Mode::Level)?;
        }
        let polls_notification = in_group && notifier.is_none();
        Ok(Self {
            balancer: Balancer::new(policy),
            member,
            in_group,
            holds_lock: false,
            needs_lock: false,
            polls_notification,
            calls_member: polls_notification,
            accepted: 0,
            was_notified: false,
            has_delay: policy.delay().is_some(),
            is_alone: policy == Policy::Off,
        })
    }

    /// The balancer's plan for this turn. The lock may be held from here on.
    pub(crate) fn plan(
        &mut self,
        now_ms: u64,
        load: Load,
        may_have_left_clients: bool,
        exclusive: bool,
    ) -> Plan {
        let notified = mem::take(&mut self.was_notified) || self.is_notified();
        // A policy without delays does not depend on the time.
        let now = if self.has_delay {
            Duration::from_millis(now_ms)
        } else {
            Duration::ZERO
        };
        let member = self.member.as_deref();
        let inputs = Inputs {
            load,
            accepted: mem::take(&mut self.accepted),
            may_have_left_clients,
            notified,
            exclusive,
            in_group: self.in_group,
            ..Inputs::at(now)
        };
        let plan = self.balancer.plan(
            &inputs,
            || member.is_some_and(|member| member.try_lock()),
            || member.map_or(GroupView::alone(), |member| member.sync(load)),
        );
        self.holds_lock = plan.holds_lock;
        self.needs_lock = plan.holds_lock;
        self.calls_member = self.needs_lock || self.polls_notification;
        plan
    }

    /// Whether the member lets the last plan be kept for another turn: it has no notification that
    /// no event reports, and gets the lock again if the plan had it.
    #[inline]
    pub(crate) fn keeps_plan(&mut self) -> bool {
        !self.calls_member || self.member_keeps_plan()
    }

    fn member_keeps_plan(&mut self) -> bool {
        if self.polls_notification && self.is_notified() {
            return false;
        }
        if self.needs_lock {
            let member = self.member.as_deref();
            self.holds_lock = member.is_some_and(GroupMember::try_lock);
        }
        !self.needs_lock || self.holds_lock
    }

    /// Leaves the group without a leader if this worker leads, before its listeners are taken out.
    pub(crate) fn step_down(&mut self) {
        if let Some(member) = self.group() {
            member.step_down();
        }
    }

    /// Publishes what the plan decided, once the listeners are as planned.
    #[inline]
    pub(crate) fn publish(&mut self, plan: &Plan, stats: &mut Stats) {
        let Some(member) = self.group() else {
            return;
        };
        if plan.leadership == Leadership::Acquire {
            member.lead();
        }
        if let Some(peer) = plan.notify {
            member.notify(peer);
            stats.notifications += 1;
        }
    }

    /// Publishes that this worker has no free place, and returns what it sees of the others. The
    /// next plan follows a notification that this has answered. A worker whose policy does not look
    /// at the group sees none, because the others publish nothing either.
    pub(crate) fn mark_full(&mut self) -> GroupView {
        let view = match self.group() {
            Some(member) => member.sync(NO_PLACE),
            None => GroupView::alone(),
        };
        self.was_notified |= view.notified;
        view
    }

    /// Notifies another worker in place of this one, if there is any.
    pub(crate) fn notify(&mut self, peer: Option<Peer>, stats: &mut Stats) {
        let (Some(member), Some(peer)) = (self.group(), peer) else {
            return;
        };
        member.notify(peer.id);
        stats.notifications += 1;
        // That follows the notification that this worker has answered, if any.
        self.was_notified = false;
    }

    /// Whether the policy looks at nothing but this worker's load.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether the policy depends on the time.
    #[inline]
    pub(crate) fn has_delay(&self) -> bool {
        self.has_delay
    }

    /// Whether another worker has notified this one since the last plan.
    pub(crate) fn is_notified(&self) -> bool {
        self.group().is_some_and(GroupMember::is_notified)
    }

    /// Another worker has notified this one, and the next plan answers that. Returns false if there
    /// is no group.
    pub(crate) fn on_notified(&mut self, ready: Ready) -> bool {
        // The poller also reports this if the kernel has refused or dropped the registration.
        self.polls_notification |= ready.is_error();
        self.group().map(GroupMember::clear_notifier).is_some()
    }

    /// Counts a client that was accepted.
    pub(crate) fn accepted(&mut self) {
        // A plan that stands may never take the count.
        self.accepted = self.accepted.saturating_add(1);
    }

    /// Whether the accept lock is held.
    #[inline]
    pub(crate) fn holds_lock(&self) -> bool {
        self.holds_lock
    }

    /// Releases the accept lock, if this turn holds it.
    #[inline]
    pub(crate) fn release_lock(&mut self) {
        if self.holds_lock {
            self.unlock();
        }
    }

    #[inline(never)]
    fn unlock(&mut self) {
        self.holds_lock = false;
        if let Some(member) = &self.member {
            member.unlock();
        }
    }

    /// The member, if it sees others.
    #[inline]
    fn group(&self) -> Option<&dyn GroupMember> {
        if self.in_group {
            self.member.as_deref()
        } else {
            None
        }
    }
}

/// The load of a worker that no client can go to.
const NO_PLACE: Load = Load {
    active: 0,
    capacity: 0,
};
