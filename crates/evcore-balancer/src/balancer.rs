//! One worker's decision, once a turn: do I listen, and how long may I wait?
//!
//! Pure: no clock, no descriptor, no lock of its own. It is told the time and the load, and may ask
//! for the lock once.
//! It does not register listeners and does not release the lock: a [`Plan`] says, the caller does.

use std::time::Duration;

use crate::Policy;

/// Decides, turn by turn, whether this worker listens.
///
/// Each worker has its own; what workers share is the lock behind `try_lock`.
///
/// ```
/// use evcore_balancer::{Balancer, Load, Policy};
///
/// let mut balancer = Balancer::new(Policy::mutex());
/// let load = Load { active: 10, capacity: 1024 };
///
/// // The lock is free: listen, and release it before running handlers.
/// let plan = balancer.plan(0, load, || true);
/// assert!(plan.listening && plan.holds_lock);
///
/// // Another worker has it: do not listen, and look again in half a second.
/// let plan = balancer.plan(3, load, || false);
/// assert!(!plan.listening);
/// assert_eq!(plan.wait_at_most_ms, Some(500));
/// ```
#[derive(Clone, Debug)]
pub struct Balancer {
    policy: Policy,
    // Invariant (under `Mutex`): `None` until the first plan and while this worker listens;
    // otherwise the time at which it stopped listening or last failed to get the lock.
    away_since_ms: Option<u64>,
}

impl Balancer {
    /// The balancer of a worker that does not listen yet.
    #[must_use]
    pub const fn new(policy: Policy) -> Self {
        Self {
            policy,
            away_since_ms: None,
        }
    }

    /// The policy that this balancer follows.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Decides about the turn that begins now.
    ///
    /// * `now_ms`: the time in milliseconds since any fixed point, from a clock that does not go back.
    /// * `load`: this worker's load at this moment.
    /// * `try_lock`: asks for the accept lock and says whether this worker holds it now.
    ///   Called at most once, and only if the policy uses a lock and it is this worker's time to try.
    ///   If it says yes, so does [`Plan::holds_lock`], and the caller must release the lock.
    #[must_use = "the plan says whether the lock is held now"]
    pub fn plan(&mut self, now_ms: u64, load: Load, try_lock: impl FnOnce() -> bool) -> Plan {
        match self.policy {
            Policy::Off => Plan {
                listening: !load.is_full(),
                holds_lock: false,
                wait_at_most_ms: None,
            },
            Policy::Mutex { delay } => self.plan_by_lock(whole_ms(delay), now_ms, load, try_lock),
        }
    }

    fn plan_by_lock(
        &mut self,
        delay_ms: u64,
        now_ms: u64,
        load: Load,
        try_lock: impl FnOnce() -> bool,
    ) -> Plan {
        let away_ms = self
            .away_since_ms
            .map_or(0, |since_ms| now_ms.saturating_sub(since_ms));

        if load.is_full() {
            self.away_since_ms.get_or_insert(now_ms);
            // No limit: only this worker's own handlers can free a place, and a plan follows them.
            return Plan::away(None);
        }
        if load.is_crowded() && away_ms < delay_ms {
            self.away_since_ms.get_or_insert(now_ms);
            return Plan::away(Some(delay_ms - away_ms));
        }
        if !try_lock() {
            self.away_since_ms = Some(now_ms);
            return Plan::away(Some(delay_ms));
        }
        self.away_since_ms = None;
        Plan {
            listening: true,
            holds_lock: true,
            // A crowded worker serves one turn; without an end to it nobody else would get theirs.
            wait_at_most_ms: load.is_crowded().then_some(delay_ms),
        }
    }
}

/// What a worker should do in this turn, as data.
///
/// Whether to register or deregister its listeners, or to leave them as they are, follows from
/// [`listening`](Plan::listening) and from what is registered now.
///
/// ```
/// use evcore_balancer::{Balancer, Load, Policy};
///
/// let mut registered = false;
/// let full = Load { active: 8, capacity: 8 };
/// let plan = Balancer::new(Policy::Off).plan(0, full, || unreachable!("no lock here"));
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
    /// The listeners should be registered with the poller during this turn's wait.
    pub listening: bool,

    /// The accept lock is held since this plan: post this turn's events instead of delivering them,
    /// run the accepts, release the lock, and only then run handlers.
    ///
    /// Implies [`listening`](Plan::listening). Where it is false, events are delivered directly.
    pub holds_lock: bool,

    /// The wait may not be longer than this many milliseconds, at least one; `None`: no limit from here.
    pub wait_at_most_ms: Option<u64>,
}

impl Plan {
    /// A turn without listening.
    fn away(wait_at_most_ms: Option<u64>) -> Self {
        Self {
            listening: false,
            holds_lock: false,
            wait_at_most_ms,
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
    /// Places taken. More than `capacity` counts as full.
    pub active: u32,
    /// Places in all. None at all counts as full.
    pub capacity: u32,
}

impl Load {
    /// How many more connections fit.
    #[must_use]
    pub const fn free(self) -> u32 {
        self.capacity.saturating_sub(self.active)
    }

    /// Not one more connection fits.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.free() == 0
    }

    /// Less than an eighth of the places is free (nginx: `ngx_accept_disabled` is positive).
    ///
    /// With fewer than eight places in all, an eighth is no whole place and this is never so.
    #[must_use]
    pub const fn is_crowded(self) -> bool {
        self.free() < self.capacity / 8
    }
}

/// Rounds up, so that a delay is never cut short, to at least 1, so that nobody spins.
fn whole_ms(delay: Duration) -> u64 {
    let begun_ms = u64::from(delay.subsec_nanos() % 1_000_000 != 0);
    u64::try_from(delay.as_millis())
        .unwrap_or(u64::MAX)
        .saturating_add(begun_ms)
        .max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE: Load = Load {
        active: 0,
        capacity: 64,
    };
    const CROWDED: Load = Load {
        active: 57,
        capacity: 64,
    };
    const FULL: Load = Load {
        active: 64,
        capacity: 64,
    };

    fn never() -> bool {
        panic!("the lock was asked for")
    }

    fn listening(wait_at_most_ms: Option<u64>) -> Plan {
        Plan {
            listening: true,
            holds_lock: true,
            wait_at_most_ms,
        }
    }

    fn mutex(delay_ms: u64) -> Balancer {
        Balancer::new(Policy::Mutex {
            delay: Duration::from_millis(delay_ms),
        })
    }

    #[test]
    fn off_listens_until_it_is_full_and_again_at_the_first_free_place() {
        let mut balancer = Balancer::new(Policy::Off);
        let one_free = Load {
            active: 63,
            capacity: 64,
        };
        for (load, expected) in [(IDLE, true), (FULL, false), (one_free, true)] {
            let plan = balancer.plan(0, load, never);
            assert_eq!(plan.listening, expected, "{load:?}");
            assert!(!plan.holds_lock);
            assert_eq!(plan.wait_at_most_ms, None);
        }
    }

    #[test]
    fn whoever_gets_the_lock_listens_and_waits_without_limit() {
        assert_eq!(mutex(500).plan(0, IDLE, || true), listening(None));
    }

    #[test]
    fn whoever_does_not_get_the_lock_tries_again_after_the_delay_at_the_latest() {
        assert_eq!(mutex(500).plan(0, IDLE, || false), Plan::away(Some(500)));
    }

    #[test]
    fn a_worker_that_was_refused_tries_each_turn() {
        let mut balancer = mutex(500);
        assert!(!balancer.plan(0, IDLE, || false).listening);
        assert!(balancer.plan(1, IDLE, || true).listening);
    }

    #[test]
    fn becoming_crowded_stops_listening_without_asking_for_the_lock() {
        let mut balancer = mutex(500);
        assert!(balancer.plan(0, IDLE, || true).listening);
        assert_eq!(balancer.plan(7, CROWDED, never), Plan::away(Some(500)));
    }

    #[test]
    fn a_crowded_worker_gives_way_for_the_delay_and_then_serves_one_turn() {
        let mut balancer = mutex(500);
        assert_eq!(balancer.plan(1000, CROWDED, never), Plan::away(Some(500)));
        assert_eq!(balancer.plan(1499, CROWDED, never), Plan::away(Some(1)));
        assert_eq!(
            balancer.plan(1500, CROWDED, || true),
            listening(Some(500)),
            "a turn that has an end"
        );
        assert_eq!(balancer.plan(1501, CROWDED, never), Plan::away(Some(500)));
    }

    #[test]
    fn a_crowded_worker_that_is_refused_gives_way_for_another_delay() {
        let mut balancer = mutex(500);
        assert!(!balancer.plan(0, CROWDED, never).listening);
        assert_eq!(balancer.plan(500, CROWDED, || false), Plan::away(Some(500)));
        assert_eq!(balancer.plan(501, CROWDED, never), Plan::away(Some(499)));
    }

    #[test]
    fn the_time_since_a_refusal_counts_for_a_worker_that_became_crowded_since() {
        let mut balancer = mutex(500);
        assert!(!balancer.plan(0, IDLE, || false).listening);
        assert_eq!(balancer.plan(400, CROWDED, never), Plan::away(Some(100)));
        assert!(balancer.plan(500, CROWDED, || true).listening);
    }

    #[test]
    fn giving_way_ends_when_enough_places_are_free() {
        let mut balancer = mutex(500);
        assert!(!balancer.plan(0, CROWDED, never).listening);
        assert_eq!(balancer.plan(1, IDLE, || true), listening(None));
    }

    #[test]
    fn a_full_worker_neither_listens_nor_asks_nor_wakes_for_it() {
        assert_eq!(mutex(500).plan(0, FULL, never), Plan::away(None));
    }

    #[test]
    fn the_time_in_which_it_was_full_counts_as_giving_way() {
        let mut balancer = mutex(500);
        assert!(!balancer.plan(0, FULL, never).listening);
        assert!(!balancer.plan(400, FULL, never).listening);
        assert!(balancer.plan(500, CROWDED, || true).listening);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_wait_longer_than_the_delay() {
        let mut balancer = mutex(500);
        assert!(!balancer.plan(10_000, CROWDED, never).listening);
        assert_eq!(balancer.plan(0, CROWDED, never), Plan::away(Some(500)));
    }

    #[test]
    fn delays_round_up_to_whole_milliseconds_and_at_least_one() {
        for (delay, expected_ms) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_nanos(999_999), 1),
            (Duration::from_millis(1), 1),
            (Duration::new(0, 1_000_001), 2),
            (Policy::DEFAULT_DELAY, 500),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(whole_ms(delay), expected_ms, "{delay:?}");
        }
    }

    #[test]
    fn without_an_eighth_nobody_is_crowded() {
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

        #[test]
        fn the_plan_holds_the_lock_exactly_when_it_was_given(
            delay_ms in 0_u64..4,
            turns in prop::collection::vec((0_u64..6, any::<u32>(), 0_u32..40, any::<bool>()), 1..50),
        ) {
            let mut balancer = mutex(delay_ms);
            let mut now_ms = 0;
            for (passed_ms, active, capacity, free) in turns {
                now_ms += passed_ms;
                let load = Load { active: active % 41, capacity };
                let mut given = false;
                let plan = balancer.plan(now_ms, load, || { given = free; free });
                prop_assert_eq!(plan.holds_lock, given);
                prop_assert_eq!(plan.listening, given);
                prop_assert!(plan.wait_at_most_ms.is_none_or(|ms| (1..=delay_ms.max(1)).contains(&ms)));
            }
        }
    }
}
