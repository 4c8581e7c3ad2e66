//! Tests the lock policy, first without a group (a crowded worker yields, as in nginx) and then in
//! a group.

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn never() -> bool {
    panic!("the policy tried the lock")
}

fn unseen() -> GroupView {
    panic!("the policy synced with the group")
}

mod without_a_group {
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

    fn away(ms_left: u64) -> Plan {
        Plan::away(Some(ms(ms_left)))
    }

    fn holding(wait_at_most: Option<Duration>) -> Plan {
        Plan {
            holds_lock: true,
            wait_at_most,
            stands: wait_at_most.is_none(),
            ..Plan::listen()
        }
    }

    struct Worker(LockPolicy);

    impl Worker {
        fn new(delay_ms: u64) -> Self {
            Self(LockPolicy::new(Slack::new(4), ms(delay_ms)))
        }

        fn plan(&mut self, now_ms: u64, load: Load, try_lock: impl FnOnce() -> bool) -> Plan {
            let now = Inputs {
                load,
                ..Inputs::at(ms(now_ms))
            };
            self.0.plan(&now, try_lock, GroupView::alone)
        }
    }

    #[test]
    fn the_holder_listens_and_waits_without_limit() {
        assert_eq!(Worker::new(500).plan(0, IDLE, || true), holding(None));
    }

    #[test]
    fn a_refused_worker_tries_the_lock_again_after_the_delay() {
        assert_eq!(Worker::new(500).plan(0, IDLE, || false), away(500));
    }

    #[test]
    fn a_refused_worker_tries_the_lock_in_each_turn() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        assert!(worker.plan(1, IDLE, || true).listening);
    }

    #[test]
    fn a_worker_refused_for_the_delay_probes_without_the_lock() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        assert_eq!(worker.plan(499, IDLE, || false), away(1));
        assert_eq!(worker.plan(500, IDLE, || false), Plan::probe());
        assert_eq!(worker.plan(500, IDLE, || false), away(500));
        assert_eq!(worker.plan(1000, IDLE, || false), Plan::probe());
    }

    #[test]
    fn a_probe_registers_again_and_does_not_wait() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        let probe = worker.plan(500, IDLE, || false);
        assert!(probe.listening && probe.register_again && !probe.holds_lock);
        assert_eq!(probe.wait_at_most, Some(Duration::ZERO));
    }

    #[test]
    fn probes_go_on_while_they_leave_clients_waiting() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        let found = Inputs {
            load: IDLE,
            may_have_left_clients: true,
            ..Inputs::at(ms(500))
        };
        let mut probe = |now| worker.0.plan(now, || false, GroupView::alone);
        assert_eq!(probe(&found), Plan::probe());
        assert_eq!(probe(&found), Plan::probe());
        assert!(!worker.plan(500, IDLE, || false).listening);
        let plan = worker.0.plan(&found, || false, GroupView::alone);
        assert!(!plan.listening);
    }

    #[test]
    fn a_worker_that_has_just_listened_does_not_probe() {
        let mut worker = Worker::new(500);
        assert!(worker.plan(0, IDLE, || true).holds_lock);
        // It waited for ten seconds with the lock.
        assert_eq!(worker.plan(10_000, IDLE, || false), away(500));
    }

    #[test]
    fn a_worker_that_becomes_crowded_stops_without_trying_the_lock() {
        let mut worker = Worker::new(500);
        assert!(worker.plan(0, IDLE, || true).listening);
        assert_eq!(worker.plan(7, CROWDED, never), away(500));
    }

    #[test]
    fn a_crowded_worker_yields_for_the_delay_and_takes_one_turn() {
        let mut worker = Worker::new(500);
        assert_eq!(worker.plan(1000, CROWDED, never), away(500));
        assert_eq!(worker.plan(1499, CROWDED, never), away(1));
        assert_eq!(
            worker.plan(1500, CROWDED, || true),
            holding(Some(ms(500))),
            "the turn has a limit"
        );
        assert_eq!(worker.plan(1501, CROWDED, never), away(500));
    }

    #[test]
    fn a_crowded_worker_repeats_a_turn_that_accepted_no_client() {
        let mut worker = Worker::new(500);
        assert_eq!(worker.plan(0, CROWDED, never), away(500));
        assert!(worker.plan(500, CROWDED, || true).holds_lock);
        // The application has left the turn before the worker accepted.
        let mut left = Inputs {
            load: CROWDED,
            may_have_left_clients: true,
            ..Inputs::at(ms(501))
        };
        let plan = worker.0.plan(&left, || true, GroupView::alone);
        assert_eq!(plan, holding(Some(ms(500))));
        left.accepted = 1;
        let plan = worker.0.plan(&left, never, GroupView::alone);
        assert!(!plan.listening);
    }

    #[test]
    fn a_crowded_worker_that_is_refused_probes_and_yields_again() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, CROWDED, never).listening);
        assert_eq!(worker.plan(500, CROWDED, || false), Plan::probe());
        assert_eq!(worker.plan(501, CROWDED, never), away(499));
    }

    #[test]
    fn a_second_probe_does_not_prolong_the_yield() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, CROWDED, never).listening);
        assert_eq!(worker.plan(500, CROWDED, || false), Plan::probe());
        let found = Inputs {
            load: CROWDED,
            may_have_left_clients: true,
            ..Inputs::at(ms(600))
        };
        let plan = worker.0.plan(&found, never, GroupView::alone);
        assert_eq!(plan, Plan::probe());
        assert_eq!(worker.plan(600, CROWDED, never), away(400));
    }

    #[test]
    fn the_time_since_a_refusal_counts_as_yielding() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, IDLE, || false).listening);
        assert_eq!(worker.plan(400, CROWDED, never), away(100));
        assert!(worker.plan(500, CROWDED, || true).listening);
    }

    #[test]
    fn yielding_ends_when_a_worker_is_no_longer_crowded() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, CROWDED, never).listening);
        assert_eq!(worker.plan(1, IDLE, || true), holding(None));
    }

    #[test]
    fn a_full_worker_does_not_try_the_lock_and_sets_no_limit() {
        assert_eq!(Worker::new(500).plan(0, FULL, never), Plan::away(None));
    }

    #[test]
    fn the_time_in_which_a_worker_was_full_counts_as_yielding() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(0, FULL, never).listening);
        assert!(!worker.plan(400, FULL, never).listening);
        assert!(worker.plan(500, CROWDED, || true).listening);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_wait_longer_than_the_delay() {
        let mut worker = Worker::new(500);
        assert!(!worker.plan(10_000, CROWDED, never).listening);
        assert_eq!(worker.plan(0, CROWDED, never), away(500));
    }

    proptest! {
        #[test]
        fn a_plan_holds_the_lock_exactly_when_try_lock_got_it(
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
        fn a_worker_with_room_listens_once_in_each_delay(
            delay_ms in 1_u64..20,
            turns in prop::collection::vec((0_u64..30, 0_u32..64, any::<bool>()), 1..80),
        ) {
            let mut worker = Worker::new(delay_ms);
            let delay = ms(delay_ms);
            let (mut now, mut listened_at) = (Duration::ZERO, Duration::ZERO);
            for (event_after_ms, active, free) in turns {
                let load = Load { active, capacity: 64 };
                let now_ms = u64::try_from(now.as_millis()).unwrap();
                let plan = worker.plan(now_ms, load, || free);
                prop_assert!(plan.listening || now - listened_at < delay);
                let event_after = ms(event_after_ms);
                now += plan.wait_at_most.map_or(event_after, |limit| limit.min(event_after));
                if plan.listening {
                    listened_at = now;
                }
            }
        }
    }
}

mod in_a_group {
    use super::*;
    use crate::{
        inputs::{Leader, Peer},
        worker_id::WorkerId,
    };

    fn worker() -> LockPolicy {
        LockPolicy::new(Slack::new(4), ms(500))
    }

    fn at(now_ms: u64, active: u32) -> Inputs {
        Inputs {
            load: Load {
                active,
                capacity: 1000,
            },
            in_group: true,
            ..Inputs::at(ms(now_ms))
        }
    }

    fn notified(now: Inputs) -> Inputs {
        Inputs {
            notified: true,
            ..now
        }
    }

    fn other() -> WorkerId {
        WorkerId::from_slot(7)
    }

    /// The view of a group in which the least loaded other worker has this many connections.
    fn least(active: u32) -> GroupView {
        GroupView {
            leader: Leader::None,
            least_loaded: Some(Peer {
                id: other(),
                active,
            }),
            alone: false,
            ..GroupView::alone()
        }
    }

    /// A worker that has held the lock with this load. The other worker has no connection.
    fn holder(active: u32) -> LockPolicy {
        let mut worker = worker();
        let plan = worker.plan(&at(0, active), || true, || least(0));
        assert!(plan.holds_lock);
        worker
    }

    #[test]
    fn near_the_least_load_the_holder_accepts_until_it_is_above() {
        let plan = worker().plan(&at(0, 3), || true, || least(0));
        assert!(plan.holds_lock);
        assert_eq!((plan.accepts_at_most, plan.notify), (Some(2), None));
    }

    #[test]
    fn above_the_limit_the_holder_yields_and_notifies_once() {
        let mut worker = holder(4);
        let plan = worker.plan(&at(1, 5), never, || least(0));
        assert!(!plan.listening);
        assert_eq!(plan.notify, Some(other()));
        let plan = worker.plan(&at(2, 5), never, unseen);
        assert_eq!(plan, Plan::away(Some(ms(499))));
    }

    #[test]
    fn a_crowded_worker_yields_only_without_a_group() {
        for in_group in [false, true] {
            let now = Inputs {
                in_group,
                ..at(0, 900)
            };
            let plan = worker().plan(&now, || true, GroupView::alone);
            assert_eq!(plan.listening, in_group);
        }
    }

    #[test]
    fn a_holder_that_becomes_full_notifies_another_worker() {
        let mut worker = holder(4);
        let plan = worker.plan(&at(1, 1000), never, || least(999));
        assert_eq!((plan.listening, plan.notify), (false, Some(other())));
    }

    #[test]
    fn a_refused_worker_notifies_none_because_another_listens() {
        let mut worker = holder(4);
        let plan = worker.plan(&at(1, 4), || false, unseen);
        assert_eq!((plan.listening, plan.notify), (false, None));
    }

    #[test]
    fn a_notified_worker_tries_the_lock_at_any_load() {
        let mut worker = holder(4);
        assert!(!worker.plan(&at(1, 50), never, || least(0)).listening);
        let plan = worker.plan(&notified(at(2, 50)), || true, || least(0));
        assert!(plan.holds_lock);
    }

    #[test]
    fn a_full_worker_forwards_a_notification() {
        let mut worker = worker();
        let full = at(0, 1000);
        let plan = worker.plan(&full, never, || least(0));
        assert_eq!(plan, Plan::away(None));
        let plan = worker.plan(&notified(full), never, || least(0));
        assert_eq!((plan.listening, plan.notify), (false, Some(other())));
    }

    #[test]
    fn a_worker_that_sees_no_other_keeps_the_lock_and_accepts_all() {
        let mut worker = worker();
        for active in 0..100 {
            let now = at(u64::from(active), active);
            let plan = worker.plan(&now, || true, GroupView::alone);
            assert!(plan.holds_lock);
            assert_eq!((plan.accepts_at_most, plan.notify), (None, None));
        }
    }

    #[test]
    fn a_probe_accepts_all_clients_and_ends_without_a_notification() {
        let mut worker = worker();
        let plan = worker.plan(&at(0, 50), never, || least(0));
        assert!(!plan.listening);
        let plan = worker.plan(&at(500, 50), || false, unseen);
        assert_eq!(plan, Plan::probe());
        let plan = worker.plan(&at(501, 51), never, || least(0));
        assert_eq!((plan.listening, plan.notify), (false, None));
    }

    #[test]
    fn a_probe_that_finds_more_than_fits_notifies_another_worker() {
        let mut worker = worker();
        assert!(!worker.plan(&at(0, 50), never, || least(0)).listening);
        let plan = worker.plan(&at(500, 50), || false, unseen);
        assert_eq!(plan, Plan::probe());
        let left = Inputs {
            may_have_left_clients: true,
            ..at(501, 1000)
        };
        let plan = worker.plan(&left, never, || least(0));
        assert_eq!((plan.listening, plan.notify), (false, Some(other())));
    }

    #[test]
    fn a_notification_that_only_sync_reports_counts_once() {
        let mut worker = holder(4);
        let sync = || GroupView {
            notified: true,
            ..least(0)
        };
        assert!(worker.plan(&at(1, 50), || true, sync).holds_lock);
        let plan = worker.plan(&at(2, 50), never, unseen);
        assert_eq!(plan.notify, Some(other()), "the worker yields again");
    }

    #[test]
    fn a_turn_that_only_served_connections_does_not_sync() {
        let mut worker = holder(3);
        assert!(worker.plan(&at(100, 3), || true, unseen).holds_lock);
        let left = Inputs {
            may_have_left_clients: true,
            ..at(101, 3)
        };
        let plan = worker.plan(&left, || true, || least(3));
        assert_eq!(plan.accepts_at_most, Some(5), "this turn has synced");
    }
}
