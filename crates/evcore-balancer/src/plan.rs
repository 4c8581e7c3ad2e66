//! The plan of one turn (an iteration of a worker's event loop): the decision of a balancer, as
//! data.

use std::time::Duration;

use crate::{spread::Give, worker_id::WorkerId};

/// The actions of a worker in this turn of its event loop.
///
/// Follow the plan in this order:
///
/// 1. If [`leadership`](Plan::leadership) is [`Release`](Leadership::Release), call
///    [`GroupMember::step_down`](crate::GroupMember::step_down).
/// 2. Register or deregister the listeners if [`listening`](Plan::listening) has changed. To
///    [register them again](Plan::register_again), deregister them first.
/// 3. If `leadership` is [`Acquire`](Leadership::Acquire), call
///    [`GroupMember::lead`](crate::GroupMember::lead).
/// 4. If [`notify`](Plan::notify) is `Some(peer)`, call
///    [`GroupMember::notify`](crate::GroupMember::notify) with `peer`. If [`rests`](Plan::rests)
///    has changed since the last plan, call
///    [`GroupMember::set_resting`](crate::GroupMember::set_resting). If [`rouses`](Plan::rouses) is
///    set, call [`GroupMember::rouse`](crate::GroupMember::rouse), and if [`calls`](Plan::calls) is
///    set, call [`GroupMember::rouse_loaded`](crate::GroupMember::rouse_loaded).
///    [`Coordinator::publish`](crate::Coordinator::publish) does steps 3 and 4.
/// 5. Wait, for [`wait_at_most`](Plan::wait_at_most) at most, and accept at most
///    [`accepts_at_most`](Plan::accepts_at_most) clients.
/// 6. If the plan [holds the lock](Plan::holds_lock), call
///    [`GroupMember::unlock`](crate::GroupMember::unlock) before running handlers.
///
/// The wait must also end when [`GroupMember::notifier`](crate::GroupMember::notifier) becomes
/// readable. Then call [`GroupMember::clear_notifier`](crate::GroupMember::clear_notifier), and
/// make the next plan with [`Inputs::notified`](crate::Inputs::notified) set from
/// [`GroupMember::is_notified`](crate::GroupMember::is_notified).
///
/// ```
/// use evcore_balancer::{Balancer, GroupView, Inputs, Load, Policy};
/// use std::time::Duration;
///
/// let mut registered = false;
/// let full = Load { active: 8, capacity: 8 };
/// let inputs = Inputs { load: full, ..Inputs::at(Duration::ZERO) };
/// let no_lock = || unreachable!("this policy has no lock");
/// let plan = Balancer::new(Policy::Off).plan(&inputs, no_lock, GroupView::alone);
/// match (registered, plan.listening) {
///     (false, true) => registered = true,  // poller.add(..)
///     (true, false) => registered = false, // poller.remove(..)
///     _ => {}
/// }
/// assert!(!registered);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Plan {
    /// The listeners must be registered with the poller while this turn waits.
    pub listening: bool,

    /// Register the listeners for exclusive wake-ups. This is true only if
    /// [`Inputs::exclusive`](crate::Inputs::exclusive) is. While a worker keeps listening, this
    /// field changes only together with [`register_again`](Self::register_again).
    pub exclusive: bool,

    /// Register the listeners edge-triggered, because this turn leaves clients in the backlog, and
    /// the kernel must not report them again and again. This is true only if
    /// [`exclusive`](Self::exclusive) is. While a worker keeps listening, this field changes only
    /// together with [`register_again`](Self::register_again).
    ///
    /// A client that was reported, and is left in the backlog, counts for the next plan as
    /// [`Inputs::may_have_left_clients`](crate::Inputs::may_have_left_clients). It need not be
    /// reported to later plans.
    pub edge_triggered: bool,

    /// Register the listeners again even if they are registered. The kernel then wakes this worker
    /// after the others, and reports the clients that wait already.
    pub register_again: bool,

    /// The worker holds the accept lock from this plan on. Queue this turn's events instead of
    /// delivering them, accept, release the lock, and only then run handlers.
    ///
    /// This implies [`listening`](Plan::listening). If this is false, deliver events directly.
    pub holds_lock: bool,

    /// The longest time that this turn may wait; `None` if the balancer sets no limit.
    ///
    /// [`Duration::ZERO`] makes the turn poll the listeners once. If no connections move, a second
    /// such plan follows only if the first one found clients, so the loop does not spin. The wait
    /// is also zero if the plan has connections to [give](Self::give).
    pub wait_at_most: Option<Duration>,

    /// Maximum number of connections that this turn may accept; `None` if the balancer sets no
    /// limit. It is 0 only if the listeners are [edge-triggered](Self::edge_triggered), or if this
    /// worker [rests](Self::rests). A worker that rests, and leaves a client in the backlog, does
    /// not rest in the next plan.
    pub accepts_at_most: Option<u32>,

    /// The plan may be used for more turns, without a call of
    /// [`Balancer::plan`](crate::Balancer::plan). It ends when [`wait_at_most`](Self::wait_at_most)
    /// has passed since it was made, or when an input other than
    /// [`Inputs::now`](crate::Inputs::now) changes.
    ///
    /// If the plan [holds the lock](Self::holds_lock), each of these turns first tries the lock.
    /// When the lock is refused, the plan ends.
    pub stands: bool,

    /// A change of leadership: this worker becomes leader of its group, or steps down.
    pub leadership: Leadership,

    /// The worker to notify, so that it syncs with the group and listens.
    pub notify: Option<WorkerId>,

    /// No member of the group has met a client for some time. This worker listens without
    /// [exclusive](Self::exclusive) wake-ups, and its policy sets no limit on the wait. The kernel
    /// wakes the worker for the next client.
    pub rests: bool,

    /// Clients connect again. Wake the members that rest, by
    /// [`GroupMember::rouse`](crate::GroupMember::rouse). Otherwise the kernel would wake all of
    /// them for each client.
    pub rouses: bool,

    /// The idle connections that this worker should give to another one. This turn does not wait.
    /// Give fewer if some cannot leave. Report those that leave by
    /// [`Coordinator::on_moved`](crate::Coordinator::on_moved).
    pub give: Option<Give>,

    /// This worker has had fewer connections than the mean for some time. Wake the members that
    /// have more, by [`GroupMember::rouse_loaded`](crate::GroupMember::rouse_loaded).
    pub calls: bool,
}

/// The change of leadership in a plan; see [`Leader`](crate::Leader).
///
/// ```
/// assert_eq!(evcore_balancer::Leadership::default(), evcore_balancer::Leadership::Keep);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// No change.
    #[default]
    Keep,
    /// Become leader by [`GroupMember::lead`](crate::GroupMember::lead), after the listeners are
    /// registered.
    Acquire,
    /// Step down by [`GroupMember::step_down`](crate::GroupMember::step_down), before the listeners
    /// are deregistered, because this worker is full.
    Release,
}

impl Plan {
    pub(crate) const fn away(wait_at_most: Option<Duration>) -> Self {
        Self {
            listening: false,
            exclusive: false,
            edge_triggered: false,
            register_again: false,
            holds_lock: false,
            wait_at_most,
            accepts_at_most: None,
            stands: false,
            leadership: Leadership::Keep,
            notify: None,
            rests: false,
            rouses: false,
            give: None,
            calls: false,
        }
    }

    /// A turn that listens without the lock.
    pub(crate) const fn listen() -> Self {
        Self {
            listening: true,
            ..Self::away(None)
        }
    }

    pub(crate) const fn rest() -> Self {
        Self {
            rests: true,
            ..Self::listen()
        }
    }

    /// A turn that polls the listeners once, without the lock and without waiting.
    pub(crate) const fn probe() -> Self {
        Self {
            // Only a new registration reports the clients that waited before it.
            register_again: true,
            wait_at_most: Some(Duration::ZERO),
            ..Self::listen()
        }
    }
}
