//! Compares the coordinator, which keeps a plan for several turns (iterations of the event loop),
//! with a balancer that plans each turn.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use proptest::prelude::*;

use super::*;
use crate::{accept_mutex::AcceptMutex, inputs::Leader, policy::slack::Slack, worker_id::WorkerId};

/// A member that sees one other member. Tests set its view, its lock and its notification.
#[derive(Clone, Debug)]
struct Fake {
    view: Arc<Mutex<GroupView>>,
    is_notified: Arc<AtomicBool>,
    is_free: Arc<AtomicBool>,
    is_late: Arc<AtomicBool>,
}

impl Fake {
    fn new(leader: Leader, least: u32) -> Self {
        let peer = Peer {
            id: WorkerId::from_slot(1),
            active: least,
        };
        let view = GroupView {
            leader,
            least_loaded: Some(peer),
            alone: false,
            ..GroupView::alone()
        };
        Self {
            view: Arc::new(Mutex::new(view)),
            is_notified: Arc::default(),
            is_free: Arc::new(AtomicBool::new(true)),
            is_late: Arc::default(),
        }
    }

    fn view(&self) -> GroupView {
        *self.view.lock().unwrap()
    }
}

impl GroupMember for Fake {
    fn try_lock(&self) -> bool {
        self.is_free.load(Relaxed)
    }

    fn unlock(&self) {}

    fn in_group(&self) -> bool {
        true
    }

    fn is_notified(&self) -> bool {
        self.is_notified.load(Relaxed)
    }

    fn sync(&self, _load: Load) -> GroupView {
        GroupView {
            notified: self.is_notified.swap(false, Relaxed),
            outpaced: self.is_late.load(Relaxed),
            ..self.view()
        }
    }

    fn set_late(&self, late: bool) {
        self.is_late.store(late, Relaxed);
    }

    fn lead(&self) {
        self.view.lock().unwrap().leader = Leader::Me;
    }

    fn step_down(&self) {
        self.view.lock().unwrap().leader = Leader::None;
    }
}

fn load(active: u32) -> Load {
    Load {
        active,
        capacity: 64,
    }
}

#[derive(Clone, Debug)]
struct Turn {
    ms: u64,
    /// True if the turn lasts for 50 ms longer than `ms`.
    is_long: bool,
    active: u32,
    accepted: u32,
    leaves_clients: bool,
    is_notified: bool,
    lock_is_free: bool,
}

fn turn() -> impl Strategy<Value = Turn> {
    let rarely = || prop::bool::weighted(0.1);
    let active = prop_oneof![8 => Just(3), 1 => 0..65_u32];
    let accepted = prop_oneof![8 => Just(0), 1 => 1..20_u32];
    let reports = (rarely(), rarely(), rarely());
    let parts = (0..9_u64, rarely(), active, accepted, reports);
    parts.prop_map(
        |(ms, is_long, active, accepted, (leaves_clients, is_notified, refused))| Turn {
            ms,
            is_long,
            active,
            accepted,
            leaves_clients,
            is_notified,
            lock_is_free: !refused,
        },
    )
}

fn policies() -> [Policy; 4] {
    let delay = Duration::from_millis(20);
    let policies = [Policy::mutex(), Policy::exclusive(), Policy::least_loaded()];
    let [mutex, exclusive, least_loaded] = policies.map(|policy| policy.with_delay(delay));
    [Policy::Off, mutex, exclusive, least_loaded]
}

/// The slack (the allowed excess over the lowest load) of a worker that needs the lock to listen;
/// `None` if the worker can listen without the lock.
fn lock_slack(policy: Policy, exclusive: bool) -> Option<Slack> {
    match policy {
        Policy::Mutex { .. } => Some(Slack::new(Policy::MUTEX_SLACK)),
        Policy::LeastLoaded { slack, .. } if !exclusive => Some(Slack::new(slack)),
        _ => None,
    }
}

proptest! {
    #[test]
    fn a_plan_is_kept_only_if_a_new_one_would_do_the_same(
        policy in prop::sample::select(policies().to_vec()),
        leader in prop::sample::select(vec![Leader::None, Leader::Me, Leader::Other]),
        least in 0_u32..12,
        exclusive: bool,
        turns in prop::collection::vec(turn(), 1..60),
    ) {
        let member = Fake::new(leader, least);
        let mut worker = Coordinator::new(Some(policy), Some(Box::new(member.clone())))
            .unwrap()
            .exclusive(exclusive);
        let mut oracle = Balancer::new(policy);
        let mut lateness = Lateness::default();
        let (mut now_ms, mut listening) = (0, false);
        for turn in turns {
            let lasted_ms = if turn.is_long { 50 + turn.ms } else { turn.ms };
            now_ms += lasted_ms;
            let now_ns = now_ms * NS_PER_MS;
            worker.on_turn_end(lasted_ms * NS_PER_MS, now_ns);
            if turn.is_long {
                lateness.add(lasted_ms * NS_PER_MS, now_ns);
            }
            lateness.ends(now_ns);
            let late = lateness.is_late();
            member.is_notified.fetch_or(turn.is_notified, Relaxed);
            member.is_free.store(turn.lock_is_free, Relaxed);
            let (notified, load) = (member.is_notified(), load(turn.active));
            let inputs = Inputs {
                load,
                accepted: turn.accepted,
                may_have_left_clients: turn.leaves_clients,
                notified,
                exclusive,
                in_group: true,
                late,
                ..Inputs::at(Duration::from_millis(now_ms))
            };
            let view = GroupView { notified, outpaced: late, ..member.view() };
            let expected = oracle.plan(&inputs, || turn.lock_is_free, || view);

            (0..turn.accepted).for_each(|_| worker.on_accepted());
            if turn.leaves_clients {
                worker.on_clients_left();
            }
            if now_ns < worker.plan_ends_at_ns() && worker.keeps_plan(turn.active, || load) {
                let is_quiet = policy == Policy::Off || !notified;
                prop_assert!(is_quiet && !expected.register_again, "{:?}", expected);
                prop_assert_eq!(expected.listening, listening);
                prop_assert_eq!(expected.leadership, Leadership::Keep);
                prop_assert_eq!((expected.holds_lock, expected.notify), (worker.holds_lock(), None));
            } else {
                let plan = worker.plan(now_ms, load);
                if plan.leadership == Leadership::Release {
                    worker.step_down();
                }
                worker.publish(&plan);
                worker.keep_plan(&plan, now_ns, load);
                prop_assert_eq!(plan, expected);
                listening = plan.listening;
            }
            prop_assert_eq!(member.is_late.load(Relaxed), late);
            if let Some(slack) = lock_slack(policy, exclusive).filter(|_| !notified) {
                let is_near = slack.is_near(load, view.least_loaded);
                let may_hold = turn.lock_is_free && !load.is_full();
                prop_assert!(!late && is_near || !expected.stands, "the plan of a worker that yields stands");
                prop_assert!(late || !is_near || expected.holds_lock == may_hold, "a worker near the lowest load takes the lock if it can");
            }
            worker.release_lock();
        }
    }
}

#[test]
fn a_plan_is_kept_from_turn_to_turn_while_nothing_changes() {
    for policy in policies() {
        let member = Fake::new(Leader::Me, 3);
        let mut worker = Coordinator::new(Some(policy), Some(Box::new(member)))
            .unwrap()
            .exclusive(true);
        for turn in 0..10 {
            if !worker.keeps_plan(3, || load(3)) {
                assert!(turn < 2, "{policy:?} plans turn {turn} again");
                let plan = worker.plan(0, load(3));
                worker.keep_plan(&plan, 0, load(3));
            }
        }
    }
}

#[test]
fn the_second_long_turn_ends_the_plan_and_makes_the_worker_late() {
    const MS: u64 = NS_PER_MS;
    let member = Fake::new(Leader::Me, 3);
    let mut worker = Coordinator::new(Some(Policy::least_loaded()), Some(Box::new(member.clone())))
        .unwrap()
        .exclusive(true);
    let mut turn = |now_ns, lasted_ns| {
        worker.on_turn_end(lasted_ns, now_ns);
        let is_over = worker.plan_ends_at_ns() <= now_ns;
        let is_kept = !is_over && worker.keeps_plan(3, || load(3));
        if !is_kept {
            let plan = worker.plan(now_ns / MS, load(3));
            worker.publish(&plan);
            worker.keep_plan(&plan, now_ns, load(3));
        }
        (is_kept, member.is_late.load(Relaxed))
    };
    assert_eq!(turn(0, 0), (false, false));
    assert_eq!(turn(50 * MS, 50 * MS), (true, false), "a single long turn");
    assert_eq!(turn(100 * MS + 1, 20 * MS), (false, true));
    // The lateness lasts for eight times the length of the long turns: until 50 + 8 * 50 + 8 * 20 =
    // 610 ms. The plan ends with it.
    assert_eq!(
        turn(610 * MS - 1, 0),
        (false, true),
        "the registration is old"
    );
    assert_eq!(turn(610 * MS, 0), (false, false));
    assert_eq!(turn(611 * MS, 0), (true, false));
}

#[test]
fn a_policy_without_its_lock_or_group_is_refused() {
    let lock = || {
        AcceptMutex::new()
            .unwrap()
            .lock_handle(WorkerId::from_slot(0))
    };
    for policy in [Policy::mutex(), Policy::least_loaded()] {
        assert_eq!(Coordinator::new(Some(policy), None).unwrap_err(), policy);
    }
    assert!(Coordinator::new(None, Some(Box::new(lock()))).is_ok());
    let refused = Coordinator::new(Some(Policy::least_loaded()), Some(Box::new(lock())));
    assert_eq!(refused.unwrap_err(), Policy::least_loaded());
}
