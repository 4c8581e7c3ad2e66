//! The balancer of one worker. For each turn (iteration) of the worker's event loop, it decides
//! whether and how the worker listens for clients, and how long the loop may wait.
//!
//! The balancer is pure: it has no clock, no descriptor and no lock of its own. The caller passes
//! the time and the load, registers the listeners and releases the lock.

use std::time::Duration;

use crate::{
    inputs::{GroupView, Inputs},
    plan::Plan,
    policy::{
        NS_PER_MS, Policy, exclusive::Exclusive, least_loaded::LeastLoaded, lock::LockPolicy,
        nanos, slack::Slack,
    },
    rebalance::Rebalance,
    worker_id::WorkerId,
};

/// Decides whether and how its worker listens, as a [`Plan`] for each turn.
///
/// Each worker has a balancer of its own. After a balancer is made, it allocates nothing, except
/// for a list of workers that could not be given connections.
///
/// ```
/// use evcore_balancer::{Balancer, GroupView, Inputs, Load, Policy};
/// use std::time::Duration;
///
/// let mut balancer = Balancer::new(Policy::mutex());
/// let load = Load { active: 10, capacity: 1024 };
///
/// // The lock is free: listen, and release the lock before running handlers.
/// let inputs = Inputs { load, ..Inputs::at(Duration::ZERO) };
/// let plan = balancer.plan(&inputs, || true, GroupView::alone);
/// assert!(plan.listening && plan.holds_lock);
///
/// // Another worker has the lock: do not listen, and try again in half a second.
/// let inputs = Inputs { load, ..Inputs::at(Duration::from_millis(3)) };
/// let plan = balancer.plan(&inputs, || false, GroupView::alone);
/// assert!(!plan.listening);
/// assert_eq!(plan.wait_at_most, Some(Duration::from_millis(500)));
/// ```
#[derive(Clone, Debug)]
pub struct Balancer {
    policy: Policy,
    state: PolicyState,
    rebalance: Rebalance,
}

#[derive(Clone, Debug)]
enum PolicyState {
    Off,
    Mutex(LockPolicy),
    Exclusive(Exclusive),
    LeastLoaded(LeastLoaded),
}

impl Balancer {
    /// Creates a balancer for a worker that does not listen yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let state = match policy {
            Policy::Off => PolicyState::Off,
            Policy::Mutex { delay } => {
                PolicyState::Mutex(LockPolicy::new(Slack::new(Policy::MUTEX_SLACK), delay))
            }
            Policy::Exclusive { readd_every, delay } => {
                PolicyState::Exclusive(Exclusive::new(readd_every, delay))
            }
            Policy::LeastLoaded { slack, delay } => {
                PolicyState::LeastLoaded(LeastLoaded::new(Slack::new(slack), delay))
            }
        };
        Self {
            policy,
            state,
            rebalance: Rebalance::default(),
        }
    }

    /// The policy of this balancer.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Plans the turn that begins now.
    ///
    /// * `try_lock` tries the accept lock and returns whether this worker holds it now. It is
    ///   called at most once, and only if the policy uses a lock and this worker may have it. If it
    ///   returns true, [`Plan::holds_lock`] is true, and the caller must release the lock.
    /// * `sync` is [`GroupMember::sync`](crate::GroupMember::sync), or [`GroupView::alone`] for a
    ///   worker without a group. It is called at most once, and only by the policies that
    ///   [use a group](Policy::uses_group).
    ///
    /// A turn in which the last plan [stands](Plan::stands) needs no call of `plan`.
    #[must_use = "the lock may be held from here on"]
    pub fn plan(
        &mut self,
        now: &Inputs,
        try_lock: impl FnOnce() -> bool,
        sync: impl FnOnce() -> GroupView,
    ) -> Plan {
        let (plan, stands) = match &mut self.state {
            PolicyState::Off if now.load.is_full() => (Plan::away(None), true),
            PolicyState::Off => (Plan::listen(), true),
            PolicyState::Mutex(mutex) => {
                let plan = mutex.plan(now, try_lock, sync);
                (plan, plan.stands)
            }
            PolicyState::Exclusive(exclusive) => (exclusive.plan(now, sync), true),
            PolicyState::LeastLoaded(least_loaded) => {
                let plan = least_loaded.plan(now, try_lock, sync);
                (plan, least_loaded.is_settled(now, &plan))
            }
        };
        self.even_out(Plan { stands, ..plan }, now)
    }

    /// The workers that get no connections for a while, because an attempt to give them connections
    /// failed.
    pub(crate) fn avoided(&self, now_ns: u64) -> &[WorkerId] {
        self.rebalance.avoided(now_ns)
    }

    fn even_out(&mut self, plan: Plan, now: &Inputs) -> Plan {
        let now_ns = nanos(now.now);
        let moves = self.rebalance.plan(now, now_ns);
        let left_ns = moves.ends_ns.map(|ns| ns.saturating_sub(now_ns));
        let left = left_ns.map(|ns| Duration::from_nanos(ns.max(NS_PER_MS)));
        let left = moves.give.map_or(left, |_| Some(Duration::ZERO));
        let limits = [plan.wait_at_most, left].into_iter().flatten();
        Plan {
            wait_at_most: limits.min(),
            stands: plan.stands && moves.give.is_none(),
            give: moves.give,
            calls: moves.calls,
            ..plan
        }
    }
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::inputs::{GroupView, Load};

    #[test]
    fn off_listens_unless_the_worker_is_full() {
        let mut balancer = Balancer::new(Policy::Off);
        for (active, expected) in [
            (0, Plan::listen()),
            (64, Plan::away(None)),
            (63, Plan::listen()),
        ] {
            let load = Load {
                active,
                capacity: 64,
            };
            let inputs = Inputs {
                load,
                exclusive: true,
                ..Inputs::at(Duration::ZERO)
            };
            let plan = balancer.plan(
                &inputs,
                || panic!("the policy tried the lock"),
                || panic!("the policy looked at the group"),
            );
            let expected = Plan {
                stands: true,
                ..expected
            };
            assert_eq!(plan, expected, "{load:?}");
        }
    }

    #[test]
    fn a_plan_stands_if_the_lock_is_held_without_a_limit() {
        let plan = |active, gets_lock: bool| {
            let load = Load {
                active,
                capacity: 64,
            };
            let inputs = Inputs {
                load,
                ..Inputs::at(Duration::ZERO)
            };
            let mut balancer = Balancer::new(Policy::mutex());
            balancer.plan(&inputs, || gets_lock, GroupView::alone)
        };
        assert!(plan(0, true).stands);
        assert!(
            !plan(0, false).stands,
            "a refused worker tries the lock in each turn"
        );
        assert!(!plan(64, true).stands, "a full worker has no lock to hold");
    }
}
