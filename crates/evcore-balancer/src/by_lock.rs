//! Taking turns by a lock: only its holder listens.
//!
//! Who is refused comes back after the delay, and so does who gives way.
//! Nobody with a free place goes for longer than the delay without having listened: who has not for
//! so long looks once, without the lock, since its holder may be stopped. That breaks no promise of
//! the lock, which is that few are woken, not that only one accepts.

use std::time::Duration;

use crate::{Plan, Situation, policy::whole_ms};

/// The state of a worker that listens by the lock.
#[derive(Clone, Debug)]
pub(crate) struct ByLock {
    delay_ms: u64,
    // Invariant: `None` until the first plan and while this worker has the lock; otherwise the time
    // at which it stopped listening or was last refused.
    away_since_ms: Option<u64>,
    /// When it last listened; at first, when it first planned.
    heard_ms: Option<u64>,
    /// The plan before this one had the lock.
    held: bool,
    /// The plan before this one was a look.
    looked: bool,
}

impl ByLock {
    pub(crate) fn new(delay: Duration) -> Self {
        Self {
            delay_ms: whole_ms(delay),
            away_since_ms: None,
            heard_ms: None,
            held: false,
            looked: false,
        }
    }

    /// Decides about a turn; a worker that `gives_way` leaves the others the lock for the delay,
    /// and then takes one turn.
    pub(crate) fn plan(
        &mut self,
        now: &Situation,
        gives_way: bool,
        try_lock: impl FnOnce() -> bool,
    ) -> Plan {
        if self.held || self.heard_ms.is_none() {
            self.heard_ms = Some(now.now_ms);
        }
        let plan = self.decide(now, gives_way, try_lock);
        self.held = plan.holds_lock;
        self.looked = plan.listening && !plan.holds_lock;
        if plan.listening {
            self.heard_ms = Some(now.now_ms);
        }
        plan
    }

    fn decide(
        &mut self,
        now: &Situation,
        gives_way: bool,
        try_lock: impl FnOnce() -> bool,
    ) -> Plan {
        let now_ms = now.now_ms;
        let away_ms = passed(self.away_since_ms, now_ms);
        if now.load.is_full() {
            self.away_since_ms.get_or_insert(now_ms);
            // No limit: only this worker's own handlers can free a place, and a plan follows them.
            return Plan::away(None);
        }
        if gives_way && away_ms < self.delay_ms {
            self.away_since_ms.get_or_insert(now_ms);
            return self.stay_away(now, self.delay_ms - away_ms);
        }
        if !try_lock() {
            self.away_since_ms = Some(now_ms);
            return self.stay_away(now, self.delay_ms);
        }
        self.away_since_ms = None;
        Plan {
            holds_lock: true,
            // Who gives way serves one turn; without an end to it nobody else would get theirs.
            wait_at_most_ms: gives_way.then_some(self.delay_ms),
            ..Plan::listen()
        }
    }

    /// Away for so long, but for a look when it is time to, which lasts until nobody is left.
    fn stay_away(&self, now: &Situation, at_most_ms: u64) -> Plan {
        let deaf_ms = passed(self.heard_ms, now.now_ms);
        let looks_on = self.looked && now.left_waiting;
        if deaf_ms >= self.delay_ms || looks_on {
            return Plan::look();
        }
        Plan::away(Some(at_most_ms.min(self.delay_ms - deaf_ms)))
    }
}

/// How long it is since then; nothing where there is no then, or where it is to come.
fn passed(since_ms: Option<u64>, now_ms: u64) -> u64 {
    since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Load;

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

    fn holding(wait_at_most_ms: Option<u64>) -> Plan {
        Plan {
            holds_lock: true,
            wait_at_most_ms,
            ..Plan::listen()
        }
    }

    /// A worker under nginx's rule of who gives way.
    struct Worker(ByLock);

    impl Worker {
        fn new(delay_ms: u64) -> Self {
            Self(ByLock::new(Duration::from_millis(delay_ms)))
        }

        fn plan(&mut self, now_ms: u64, load: Load, try_lock: impl FnOnce() -> bool) -> Plan {
            let now = Situation {
                load,
                ..Situation::at(now_ms)
            };
            self.0.plan(&now, load.is_crowded(), try_lock)
        }
    }

    #[test]
    fn whoever_gets_the_lock_listens_and_waits_without_limit() {
        assert_eq!(Worker::new(500).plan(0, IDLE, || true), holding(None));
    }

    #[test]
    fn whoever_does_not_get_the_lock_tries_again_after_the_delay_at_the_latest() {
        let plan = Worker::new(500).plan(0, IDLE, || false);
        assert_eq!(plan, Plan::away(Some(500)));
    }

    #[test]
    fn a_worker_that_was_refused_tries_each_turn() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        assert!(worker.plan(1, IDLE, || true).listening);
    }

    #[test]
    fn whoever_was_refused_for_the_delay_looks_once_without_the_lock() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        assert_eq!(worker.plan(499, IDLE, || false), Plan::away(Some(1)));
        assert_eq!(worker.plan(500, IDLE, || false), Plan::look());
        assert_eq!(worker.plan(500, IDLE, || false), Plan::away(Some(500)));
        assert_eq!(worker.plan(1000, IDLE, || false), Plan::look());
    }

    #[test]
    fn a_look_that_leaves_somebody_waiting_goes_on() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        let found = Situation {
            load: IDLE,
            left_waiting: true,
            ..Situation::at(500)
        };
        assert_eq!(worker.0.plan(&found, false, || false), Plan::look());
        assert_eq!(worker.0.plan(&found, false, || false), Plan::look());
        assert!(!worker.plan(500, IDLE, || false).listening);
        assert!(!worker.0.plan(&found, false, || false).listening);
    }

    #[test]
    fn whoever_has_just_listened_does_not_look_when_it_is_refused() {
        let mut worker = Worker::new(500);
        assert!(worker.plan(0, IDLE, || true).holds_lock);
        // It waited for ten seconds, with the lock.
        assert_eq!(worker.plan(10_000, IDLE, || false), Plan::away(Some(500)));
    }

    #[test]
    fn becoming_crowded_stops_listening_without_asking_for_the_lock() {
        let mut worker = Worker::new(500);
        assert!(worker.plan(0, IDLE, || true).listening);
        assert_eq!(worker.plan(7, CROWDED, never), Plan::away(Some(500)));
    }

    #[test]
    fn a_crowded_worker_gives_way_for_the_delay_and_then_serves_one_turn() {
        let mut worker = Worker::new(500);
        assert_eq!(worker.plan(1000, CROWDED, never), Plan::away(Some(500)));
        assert_eq!(worker.plan(1499, CROWDED, never), Plan::away(Some(1)));
        assert_eq!(
            worker.plan(1500, CROWDED, || true),
            holding(Some(500)),
            "a turn that has an end"
        );
        assert_eq!(worker.plan(1501, CROWDED, never), Plan::away(Some(500)));
    }

    #[test]
    fn a_crowded_worker_that_is_refused_looks_and_gives_way_for_another_delay() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, CROWDED, never).listening);
        assert_eq!(worker.plan(500, CROWDED, || false), Plan::look());
        assert_eq!(worker.plan(501, CROWDED, never), Plan::away(Some(499)));
    }

    #[test]
    fn the_time_since_a_refusal_counts_for_a_worker_that_became_crowded_since() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        assert_eq!(worker.plan(400, CROWDED, never), Plan::away(Some(100)));
        assert!(worker.plan(500, CROWDED, || true).listening);
    }

    #[test]
    fn giving_way_ends_when_enough_places_are_free() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, CROWDED, never).listening);
        assert_eq!(worker.plan(1, IDLE, || true), holding(None));
    }

    #[test]
    fn a_full_worker_neither_listens_nor_asks_nor_wakes_for_it() {
        assert_eq!(Worker::new(500).plan(0, FULL, never), Plan::away(None));
    }

    #[test]
    fn the_time_in_which_it_was_full_counts_as_giving_way() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, FULL, never).listening);
        assert!(!worker.plan(400, FULL, never).listening);
        assert!(worker.plan(500, CROWDED, || true).listening);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_wait_longer_than_the_delay() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(10_000, CROWDED, never).listening);
        assert_eq!(worker.plan(0, CROWDED, never), Plan::away(Some(500)));
    }

    proptest! {
        #[test]
        fn the_plan_holds_the_lock_exactly_when_it_was_given(
            delay_ms in 0_u64..4,
            turns in prop::collection::vec((0_u64..6, any::<u32>(), 0_u32..40, any::<bool>()), 1..50),
        ) {
            let mut worker = Worker::new(delay_ms);
            let mut now_ms = 0;
            for (passed_ms, active, capacity, free) in turns {
                now_ms += passed_ms;
                let mut got = false;
                let load = Load { active: active % (capacity + 2), capacity };
                let plan = worker.plan(now_ms, load, || {
                    got = free;
                    free
                });
                prop_assert_eq!(plan.holds_lock, got);
                prop_assert!(plan.listening || !plan.holds_lock);
                prop_assert!(!(plan.listening && load.is_full()));
            }
        }

        #[test]
        fn nobody_with_a_free_place_goes_without_a_look_for_longer_than_the_delay(
            delay_ms in 1_u64..20,
            turns in prop::collection::vec((0_u64..30, 0_u32..64, any::<bool>()), 1..80),
        ) {
            let mut worker = Worker::new(delay_ms);
            let (mut now_ms, mut heard_ms) = (0, 0);
            for (event_after_ms, active, free) in turns {
                let load = Load { active, capacity: 64 };
                let plan = worker.plan(now_ms, load, || free);
                prop_assert!(plan.listening || now_ms - heard_ms < delay_ms);
                now_ms += plan.wait_at_most_ms.map_or(event_after_ms, |ms| ms.min(event_after_ms));
                if plan.listening {
                    heard_ms = now_ms;
                }
            }
        }
    }
}
