//! One worker's decision, once a turn: do I listen, how, and how long may I wait?
//!
//! Pure: no clock, no descriptor, no lock of its own. It is told the time and the load, may ask for
//! the lock once, and may look at the others once.
//! It does not register listeners and does not release the lock: a [`Plan`] says, the caller does.
//!
//! A policy a file: `by_lock.rs` and `handing_over.rs`, `exclusive.rs`, `least_loaded.rs`.

use crate::{
    Plan, Policy, Situation, View, exclusive::Exclusive, handing_over::HandingOver,
    least_loaded::LeastLoaded, slack::Slack,
};

/// Decides, turn by turn, whether this worker listens.
///
/// Each worker has its own; what workers share is the lock behind `try_lock` and what `look` sees.
///
/// ```
/// use evcore_balancer::{Balancer, Load, Policy, Situation, View};
///
/// let mut balancer = Balancer::new(Policy::mutex());
/// let load = Load { active: 10, capacity: 1024 };
///
/// // The lock is free: listen, and release it before running handlers.
/// let situation = Situation { load, ..Situation::at(0) };
/// let plan = balancer.plan(&situation, || true, View::alone);
/// assert!(plan.listening && plan.holds_lock);
///
/// // Another worker has it: do not listen, and look again in half a second.
/// let situation = Situation { load, ..Situation::at(3) };
/// let plan = balancer.plan(&situation, || false, View::alone);
/// assert!(!plan.listening);
/// assert_eq!(plan.wait_at_most_ms, Some(500));
/// ```
#[derive(Clone, Debug)]
pub struct Balancer {
    policy: Policy,
    decider: Decider,
}

/// The state of a policy.
#[derive(Clone, Debug)]
enum Decider {
    /// Of those that listen whenever there is a free place.
    None,
    Mutex(HandingOver),
    Exclusive(Exclusive),
    LeastLoaded(LeastLoaded),
}

impl Balancer {
    /// The balancer of a worker that does not listen yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let decider = match policy {
            Policy::Off | Policy::ReusePort => Decider::None,
            Policy::Mutex { delay } => {
                let slack = Slack::new(Policy::MUTEX_SLACK);
                Decider::Mutex(HandingOver::new(slack, delay))
            }
            Policy::Exclusive { readd_every, delay } => {
                Decider::Exclusive(Exclusive::new(readd_every, delay))
            }
            Policy::LeastLoaded { slack, delay } => {
                Decider::LeastLoaded(LeastLoaded::new(Slack::new(slack), delay))
            }
        };
        Self { policy, decider }
    }

    /// The policy that this balancer follows.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Decides about the turn that begins now.
    ///
    /// * `try_lock`: asks for the accept lock and says whether this worker holds it now.
    ///   Called at most once, and only if the policy uses a lock and it is this worker's time to
    ///   try.
    ///   If it says yes, so does [`Plan::holds_lock`], and the caller must release the lock.
    /// * `look`: shows this worker's load to the others, answers a call, and tells whether there
    ///   was one and what is seen of them; a worker without a seat sees [nobody](View::alone).
    ///   Called at most once, and only by [`Mutex`](Policy::Mutex) and
    ///   [`LeastLoaded`](Policy::LeastLoaded) where something has changed: a turn that has only
    ///   served its connections looks at nobody.
    #[must_use = "the plan says whether the lock is held now"]
    pub fn plan(
        &mut self,
        now: &Situation,
        try_lock: impl FnOnce() -> bool,
        look: impl FnOnce() -> View,
    ) -> Plan {
        match &mut self.decider {
            Decider::None if now.load.is_full() => Plan::away(None),
            Decider::None => Plan::listen(),
            Decider::Mutex(handing_over) => handing_over.plan(now, try_lock, look),
            Decider::Exclusive(exclusive) => exclusive.plan(now),
            Decider::LeastLoaded(least_loaded) => least_loaded.plan(now, try_lock, look),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Load;

    #[test]
    fn off_and_reuseport_listen_until_they_are_full_and_again_at_the_first_free_place() {
        for policy in [Policy::Off, Policy::ReusePort] {
            let mut balancer = Balancer::new(policy);
            for (active, expected) in [(0, true), (64, false), (63, true)] {
                let load = Load {
                    active,
                    capacity: 64,
                };
                let situation = Situation {
                    load,
                    exclusive: true,
                    ..Situation::at(0)
                };
                let plan = balancer.plan(
                    &situation,
                    || panic!("the lock was asked for"),
                    || panic!("somebody looked"),
                );
                let expected = if expected {
                    Plan::listen()
                } else {
                    Plan::away(None)
                };
                assert_eq!(plan, expected, "{load:?}");
            }
        }
    }
}
