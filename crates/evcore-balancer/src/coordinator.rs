//! Makes a worker's plans, which decide how it listens in each turn (iteration of its event loop).
//!
//! A plan is used for several turns, as long as its inputs stay the same. The worker reports its
//! events, which are inputs of the next plan. Without reports and with the same load, a new plan
//! would be the same. So [`keeps_plan`](Coordinator::keeps_plan) compares only the load and the
//! reports.

use std::{fmt, mem, ops::BitOrAssign, time::Duration};

use crate::{
    balancer::Balancer,
    group_member::GroupMember,
    inputs::{GroupView, Inputs, Load, MoveCounts, Moved, Peer},
    lateness::{LONG_NS, Lateness},
    notify::Notifier,
    plan::{Leadership, Plan},
    policy::Policy,
    spread::Spread,
};

/// Plans the turns of one worker, with the worker's [`Balancer`], its `GroupMember` and its last
/// plan.
///
/// ```
/// use evcore_balancer::{Coordinator, Load, Policy, WorkerGroup, WorkerId};
///
/// let group = WorkerGroup::new(Policy::mutex(), 4)?;
/// let member = group.join(WorkerId::from_slot(2));
/// let mut worker = Coordinator::new(None, Some(Box::new(member))).expect("it has a group");
///
/// let load = Load { active: 3, capacity: 1024 };
/// let plan = worker.plan(0, load);
/// assert!(plan.listening && plan.holds_lock);
/// worker.publish(&plan); // when the listeners are registered
/// worker.keep_plan(&plan, 0, load);
/// // Wait, accept, and release the lock before handlers run:
/// worker.release_lock();
///
/// // In the next turn the plan is still the right one, and the lock is held again.
/// assert!(worker.keeps_plan(load.active, || load));
/// assert!(worker.holds_lock());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Coordinator {
    balancer: Balancer,
    member: Option<Box<dyn GroupMember>>,
    in_group: bool,
    exclusive: bool,
    // Invariant: true only from the call that makes or keeps a turn's plan to the end of that
    // turn's accepts.
    holds_lock: bool,
    /// True if this worker has published that it rests (`Plan::rests`).
    rests: bool,
    /// All inputs of the next plan, except the load and the time.
    reports: Reports,
    accepted: u32,
    /// Number of connections for which the last plan was made; [`FULL`] if the worker had no room.
    planned_active: u32,
    ends_ns: u64,
    rebalances: bool,
    /// The number of open connections that the group sees for this worker.
    open: u32,
    /// True if the next plan reads the `Spread` of the group's connections again.
    reads_spread_again: bool,
    moves: MoveCounts,
    // Invariant: its `is_late` is the value that this worker has published to the group.
    lateness: Lateness,
}

const NS_PER_MS: u64 = 1_000_000;

const NEVER: u64 = u64::MAX;

impl Coordinator {
    /// Minimum length of a long turn, in nanoseconds. [`on_turn_end`](Self::on_turn_end) ignores
    /// shorter turns.
    pub const LONG_TURN_NS: u64 = LONG_NS;

    /// Makes the coordinator of a worker that does not listen yet. Without a `policy`, the worker
    /// follows the policy of the member. Without that too, it follows [`Policy::Off`].
    ///
    /// # Errors
    ///
    /// Returns the policy if it needs a lock or a group that the worker does not have.
    pub fn new(
        policy: Option<Policy>,
        member: Option<Box<dyn GroupMember>>,
    ) -> Result<Self, Policy> {
        let group_policy = member.as_ref().and_then(|member| member.policy());
        let policy = policy.or(group_policy).unwrap_or(Policy::Off);
        let in_group = member.as_ref().is_some_and(|member| member.in_group());
        let is_missing = match policy {
            Policy::Mutex { .. } => member.is_none(),
            Policy::LeastLoaded { .. } => !in_group,
            Policy::Off | Policy::Exclusive { .. } => false,
        };
        if is_missing {
            return Err(policy);
        }
        let mut reports = Reports::UNSETTLED;
        if in_group
            && member
                .as_ref()
                .is_some_and(|member| member.notifier().is_none())
        {
            reports |= Reports::POLLED;
        }
        Ok(Self {
            balancer: Balancer::new(policy),
            member,
            in_group,
            exclusive: false,
            holds_lock: false,
            rests: false,
            reports,
            accepted: 0,
            planned_active: 0,
            ends_ns: NEVER,
            rebalances: false,
            open: 0,
            reads_spread_again: false,
            moves: MoveCounts::default(),
            lateness: Lateness::default(),
        })
    }

    /// Sets whether the worker's poller has exclusive wake-ups (`EPOLLEXCLUSIVE`). The default is
    /// false.
    #[must_use]
    pub fn exclusive(self, exclusive: bool) -> Self {
        Self { exclusive, ..self }
    }

    /// The notifier by which other workers wake this one, for the poller to watch level-triggered;
    /// `None` without a group, or if a notification ends a wait by other means. Report the
    /// notifier's events by [`on_notified`](Self::on_notified).
    #[must_use]
    pub fn notifier(&self) -> Option<Notifier<'_>> {
        self.group().and_then(GroupMember::notifier)
    }

    /// Returns whether the last plan still fits a turn with this many connections. Call it only
    /// before the plan [ends](Self::plan_ends_at_ns). If the plan holds the lock, this call takes
    /// the lock again, or returns false. `offer` returns the load for which a new plan would be
    /// made. The number of connections in that load may differ from `active`.
    #[inline]
    pub fn keeps_plan(&mut self, active: u32, offer: impl FnOnce() -> Load) -> bool {
        let is_planned = active == self.planned_active;
        is_planned && self.reports == Reports::NONE
            || self.keeps_plan_despite_reports(is_planned, offer)
    }

    #[inline(never)]
    fn keeps_plan_despite_reports(
        &mut self,
        is_planned: bool,
        offer: impl FnOnce() -> Load,
    ) -> bool {
        if is_planned && self.reports == Reports::LOCKED {
            return self.locks_again();
        }
        self.keeps_plan_with(offer())
    }

    fn locks_again(&mut self) -> bool {
        self.holds_lock = self.member.as_deref().is_some_and(GroupMember::try_lock);
        self.holds_lock
    }

    /// Returns whether the plan still fits although the load has changed or reports have come,
    /// because the policy ignores these inputs.
    #[inline(never)]
    fn keeps_plan_with(&mut self, offer: Load) -> bool {
        let is_off = self.balancer.policy() == Policy::Off;
        if !self.fits(offer, is_off, Reports::ignored(is_off)) || self.is_notified() {
            return false;
        }
        !self.reports.has(Reports::LOCKED) || self.locks_again()
    }

    /// Returns whether the plan of this turn still fits, given this load and the reports since the
    /// plan. Call it between the plan and the wait. Unlike [`keeps_plan`](Self::keeps_plan), this
    /// call takes no lock.
    #[must_use]
    pub fn fits_plan(&self, offer: Load) -> bool {
        let is_off = self.balancer.policy() == Policy::Off;
        self.fits(offer, is_off, Reports::OF_PLANNED)
    }

    #[inline]
    fn fits(&self, offer: Load, is_off: bool, ignored: Reports) -> bool {
        let (active, planned) = (planned_active(offer), self.planned_active);
        let is_alike = active == planned || is_off && (active == FULL) == (planned == FULL);
        is_alike && !self.reports.any_but(ignored)
    }

    /// Sets whether this worker takes part in evening out open connections. The call has no effect
    /// if the worker sees no others. A worker that takes part follows [`Plan::give`], and calls
    /// [`plan_moves`](Self::plan_moves) before each plan.
    pub fn set_rebalancing(&mut self, rebalances: bool) {
        self.rebalances = rebalances && self.in_group;
        self.reports |= Reports::MOVED;
        if !self.rebalances {
            let group = self.group();
            group
                .into_iter()
                .for_each(|member| member.publish_open(None));
        }
    }

    /// Reports the number of open connections, and how many of them are idle, for the next plan.
    pub fn plan_moves(&mut self, open: u32, idle: u32) {
        if self.rebalances {
            let open = open.saturating_add(self.moves.leaving);
            self.reads_spread_again |= mem::replace(&mut self.open, open) != open;
            self.moves.idle = idle;
        }
    }

    /// Reports that connections have moved. Report an arrival before you answer the worker that has
    /// sent the connections. Then the group counts them twice until that worker gets the answer,
    /// but never fails to count them.
    ///
    /// # Panics
    ///
    /// In debug builds, if more connections were taken or came back than have left.
    pub fn on_moved(&mut self, moved: Moved) {
        if let (Moved::Arrived(connections), true) = (moved, self.rebalances) {
            self.open = self.open.saturating_add(connections);
            let group = self.group();
            group
                .into_iter()
                .for_each(|member| member.publish_open(Some(self.open)));
        }
        let moves = &mut self.moves;
        let (count, connections) = match moved {
            Moved::Left(connections) => (&mut moves.left, connections),
            Moved::CameBack(connections) => (&mut moves.came_back, connections),
            Moved::Arrived(connections) => (&mut moves.arrived, connections),
            Moved::Taken(connections) => (&mut 0, connections),
        };
        *count = count.saturating_add(connections);
        moves.leaving = match moved {
            Moved::Left(_) => moves.leaving.saturating_add(connections),
            Moved::Taken(_) | Moved::CameBack(_) => {
                debug_assert!(connections <= moves.leaving, "fewer have left");
                moves.leaving.saturating_sub(connections)
            }
            Moved::Arrived(_) => moves.leaving,
        };
        self.reports |= Reports::MOVED;
    }

    fn take_moves(&mut self) -> MoveCounts {
        let now = MoveCounts {
            idle: self.moves.idle,
            leaving: self.moves.leaving,
            ..MoveCounts::default()
        };
        mem::replace(&mut self.moves, now)
    }

    /// Returns the spread of the connections, or `None` if it need not be read again.
    fn read_spread(&mut self, reports: Reports, now_ns: u64) -> Option<Spread> {
        if !self.rebalances {
            return Some(Spread::default());
        }
        let is_called = reports.has(Reports::MOVED.with(Reports::NOTIFIED));
        if !(self.reads_spread_again || is_called) {
            return None;
        }
        let group = self.group()?;
        group.publish_open(Some(self.open));
        let spread = group.spread(self.balancer.avoided(now_ns));
        // While connections are uneven, each plan reads the spread again.
        self.reads_spread_again = spread.is_uneven || spread.give.is_some();
        Some(spread)
    }

    /// Plans a turn, from the reports since the last plan. Pass a load without room if the worker
    /// cannot accept, for whatever reason. If the plan [holds the lock](Plan::holds_lock), the
    /// caller must [release](Self::release_lock) it.
    pub fn plan(&mut self, now_ms: u64, load: Load) -> Plan {
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        self.end_lateness(now_ns);
        let polled = self.reports.only(Reports::POLLED);
        let reports = mem::replace(&mut self.reports, polled);
        let inputs = Inputs {
            load,
            accepted: mem::take(&mut self.accepted),
            reported: reports.has(Reports::LISTENER_EVENT),
            may_have_left_clients: reports.has(Reports::LEFT_CLIENTS),
            notified: reports.has(Reports::ANSWERED) || self.is_notified(),
            exclusive: self.exclusive,
            in_group: self.in_group,
            late: self.lateness.is_late(),
            spread: self.read_spread(reports, now_ns),
            moves: self.take_moves(),
            ..Inputs::at(Duration::from_millis(now_ms))
        };
        let member = self.member.as_deref();
        if let Some(member) = self.group().filter(|_| inputs.accepted > 0) {
            member.add_clients(inputs.accepted);
        }
        let plan = self.balancer.plan(
            &inputs,
            || member.is_some_and(|member| member.try_lock()),
            || member.map_or(GroupView::alone(), |member| member.sync(load)),
        );
        self.holds_lock = plan.holds_lock;
        plan
    }

    /// Publishes the decisions of a plan to the group: leadership, notifications and rest. Call it
    /// when the listeners are registered as planned. Does nothing without a group.
    #[inline]
    pub fn publish(&mut self, plan: &Plan) {
        let has_changed = mem::replace(&mut self.rests, plan.rests) != plan.rests;
        let Some(member) = self.group() else {
            return;
        };
        if has_changed {
            member.set_resting(plan.rests);
        }
        if plan.rouses {
            member.rouse();
        }
        if plan.calls {
            member.rouse_loaded();
        }
        if plan.leadership == Leadership::Acquire {
            member.lead();
        }
        if let Some(peer) = plan.notify {
            member.notify(peer);
        }
    }

    /// Keeps this plan, made at this time for this load, until it ends or an event is reported.
    pub fn keep_plan(&mut self, plan: &Plan, now_ns: u64, load: Load) {
        let limit_ns = plan.wait_at_most.map_or(NEVER, nanos);
        self.ends_ns = now_ns.saturating_add(limit_ns);
        self.end_plan_at(self.lateness.ends_at_ns().unwrap_or(NEVER));
        self.planned_active = planned_active(load);
        if plan.holds_lock {
            self.reports |= Reports::LOCKED;
        }
        if !plan.stands {
            self.reports |= Reports::UNSETTLED;
        }
    }

    /// Ends the last plan at this time, unless it ends earlier.
    pub fn end_plan_at(&mut self, ns: u64) {
        self.ends_ns = self.ends_ns.min(ns);
    }

    /// The time at which the last plan ends; `u64::MAX` if it has no end.
    #[inline]
    #[must_use]
    pub fn plan_ends_at_ns(&self) -> u64 {
        self.ends_ns
    }

    /// Reports that the last turn ends now, and has lasted this long. After some turns of
    /// [`LONG_TURN_NS`](Self::LONG_TURN_NS) or more, a worker is late for a while. Under
    /// [`Mutex`](Policy::Mutex) or [`LeastLoaded`](Policy::LeastLoaded), a late worker leaves new
    /// clients to other members, if these have room and are not late.
    ///
    /// Report each turn once, and without the time that the worker slept. Do not measure with a
    /// clock that handlers can update, because the part of a turn before the update would be
    /// missing.
    #[inline]
    pub fn on_turn_end(&mut self, lasted_ns: u64, now_ns: u64) {
        if lasted_ns >= LONG_NS {
            self.on_long_turn(lasted_ns, now_ns);
        }
    }

    #[cold]
    fn on_long_turn(&mut self, lasted_ns: u64, now_ns: u64) {
        if !self.in_group {
            return;
        }
        let was_late = self.lateness.is_late();
        self.lateness.add(lasted_ns, now_ns);
        if self.lateness.is_late() && !was_late {
            let group = self.group();
            group.into_iter().for_each(|member| member.set_late(true));
            self.reports |= Reports::LATE;
        }
    }

    fn end_lateness(&mut self, now_ns: u64) {
        if self.lateness.ends(now_ns) {
            let group = self.group();
            group.into_iter().for_each(|member| member.set_late(false));
        }
    }

    /// Reports that a client was accepted.
    pub fn on_accepted(&mut self) {
        // The count is not reset while a plan is kept, so it could overflow.
        self.accepted = self.accepted.saturating_add(1);
        self.on_listener_event();
    }

    /// Reports an event of a listener.
    pub fn on_listener_event(&mut self) {
        self.reports |= Reports::LISTENER_EVENT;
    }

    /// Reports that clients may wait in the backlog.
    pub fn on_clients_left(&mut self) {
        self.reports |= Reports::LEFT_CLIENTS;
    }

    /// Reports that the set of accepting listeners has changed, or that their registration is in
    /// doubt.
    pub fn on_listeners_changed(&mut self) {
        self.reports |= Reports::LISTENERS_CHANGED;
    }

    /// Reports an event of the [notifier](Self::notifier), and clears the notifier. If `is_lost` is
    /// true, the poller may report no further event of the notifier, so each turn looks for a
    /// notification. Returns false if the worker has no group.
    pub fn on_notified(&mut self, is_lost: bool) -> bool {
        self.reports |= Reports::NOTIFIED;
        if is_lost {
            self.reports |= Reports::POLLED;
        }
        self.group().map(GroupMember::clear_notifier).is_some()
    }

    /// Reports that the last wait may have left out the event of the notifier.
    pub fn on_full_batch(&mut self) {
        if self.is_notified() {
            self.reports |= Reports::NOTIFIED;
        }
    }

    /// Ends the leadership of this worker, if it leads. The group then has no leader. Call it while
    /// the listeners are still registered.
    pub fn step_down(&self) {
        self.group().into_iter().for_each(GroupMember::step_down);
    }

    /// Publishes that no client can go to this worker, and returns its view of the others. If the
    /// policy uses no group, the view shows no others. If this call answers a notification, the
    /// next plan acts on that notification.
    #[must_use]
    pub fn mark_full(&mut self) -> GroupView {
        let view = self
            .group()
            .map_or(GroupView::alone(), |member| member.sync(Load::default()));
        if view.notified {
            self.reports |= Reports::ANSWERED;
        }
        view
    }

    /// Passes a notification on to another worker. The next plan of this worker does not act on it.
    pub fn notify_instead(&mut self, peer: Peer) {
        self.group()
            .into_iter()
            .for_each(|member| member.notify(peer.id));
        // The other worker acts on the notification that this one has answered.
        self.reports = self.reports.without(Reports::ANSWERED);
    }

    /// Returns whether this worker holds the accept lock.
    #[inline]
    #[must_use]
    pub fn holds_lock(&self) -> bool {
        self.holds_lock
    }

    /// Releases the accept lock if this worker holds it.
    #[inline]
    pub fn release_lock(&mut self) {
        if self.holds_lock {
            self.unlock();
        }
    }

    #[inline(never)]
    fn unlock(&mut self) {
        self.holds_lock = false;
        self.member
            .as_deref()
            .into_iter()
            .for_each(GroupMember::unlock);
    }

    fn is_notified(&self) -> bool {
        self.group().is_some_and(GroupMember::is_notified)
    }

    #[inline]
    fn group(&self) -> Option<&dyn GroupMember> {
        self.member.as_deref().filter(|_| self.in_group)
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("policy", &self.balancer.policy())
            .field("member", &self.member)
            .field("holds_lock", &self.holds_lock)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reports(u16);

impl Reports {
    const NONE: Self = Self(0);
    const LISTENER_EVENT: Self = Self(1);
    const LEFT_CLIENTS: Self = Self(1 << 1);
    const LISTENERS_CHANGED: Self = Self(1 << 2);
    /// The poller has reported the notifier.
    const NOTIFIED: Self = Self(1 << 3);
    /// A notification was answered, and no plan has followed it yet.
    const ANSWERED: Self = Self(1 << 4);
    /// The worker has no plan yet, or its last plan was for one turn only.
    const UNSETTLED: Self = Self(1 << 5);
    /// The last plan holds the lock, which each turn has to get again.
    const LOCKED: Self = Self(1 << 6);
    /// Each turn looks for a notification, because no event reports it.
    // Invariant: the bit stays, once it is set.
    const POLLED: Self = Self(1 << 7);
    /// The worker has become late.
    const LATE: Self = Self(1 << 8);
    /// Connections have moved, or this worker has begun or stopped taking part in moves.
    const MOVED: Self = Self(1 << 9);

    /// The reports that may be set right after a plan. They do not show a later event, so
    /// `fits_plan` ignores them.
    const OF_PLANNED: Self = Self(
        Self::LISTENER_EVENT.0
            | Self::LEFT_CLIENTS.0
            | Self::UNSETTLED.0
            | Self::LOCKED.0
            | Self::POLLED.0,
    );

    const fn ignored(policy_is_off: bool) -> Self {
        let by_all = Self::LOCKED.0 | Self::POLLED.0;
        let by_off = Self::LISTENER_EVENT.0 | Self::LEFT_CLIENTS.0;
        Self(if policy_is_off {
            by_all | by_off
        } else {
            by_all
        })
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, report: Self) -> bool {
        self.only(report) != Self::NONE
    }

    fn any_but(self, others: Self) -> bool {
        self.without(others) != Self::NONE
    }

    fn only(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl BitOrAssign for Reports {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Stands for the number of connections of a worker that has no room.
const FULL: u32 = u32::MAX;

/// The part of a load on which a plan depends: the number of connections, or [`FULL`].
fn planned_active(load: Load) -> u32 {
    if load.is_full() { FULL } else { load.active }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

#[cfg(all(test, not(evcore_loom)))]
mod tests;
