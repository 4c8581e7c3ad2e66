//! Tests the least-loaded policy of one worker, with views of the group that the tests make up.

use super::*;
use crate::{
    inputs::{Load, Peer},
    worker_id::WorkerId,
};

const DELAY: Duration = Duration::from_millis(500);

fn worker() -> LeastLoaded {
    LeastLoaded::new(Slack::new(4), DELAY)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(now_ms: u64, active: u32) -> Inputs {
    Inputs {
        load: Load {
            active,
            capacity: 1000,
        },
        exclusive: true,
        in_group: true,
        ..Inputs::at(ms(now_ms))
    }
}

/// Makes the inputs after a turn that accepted this many clients. If that turn accepted none, the
/// policy lets the next turn accept fewer clients, because the view of the group may be old when
/// they come.
fn accepted(accepted: u32, now: Inputs) -> Inputs {
    Inputs { accepted, ..now }
}

fn notified(now: Inputs) -> Inputs {
    Inputs {
        notified: true,
        ..now
    }
}

fn left_clients(now: Inputs) -> Inputs {
    Inputs {
        may_have_left_clients: true,
        ..now
    }
}

fn other() -> WorkerId {
    WorkerId::from_slot(7)
}

/// The view of a worker where the least loaded of the others has this many connections.
fn view(leader: Leader, least: u32) -> GroupView {
    GroupView {
        leader,
        least_loaded: Some(Peer {
            id: other(),
            active: least,
        }),
        alone: false,
        ..GroupView::alone()
    }
}

fn none_left(leader: Leader) -> GroupView {
    GroupView {
        leader,
        least_loaded: None,
        alone: false,
        ..GroupView::alone()
    }
}

fn no_lock() -> bool {
    panic!("the policy tried the lock")
}

impl LeastLoaded {
    fn see(&mut self, now: &Inputs, leader: Leader, least: u32) -> Plan {
        self.plan(now, no_lock, || view(leader, least))
    }

    fn see_none_left(&mut self, now: &Inputs, leader: Leader) -> Plan {
        self.plan(now, no_lock, || none_left(leader))
    }

    fn see_alone(&mut self, now: &Inputs, leader: Leader) -> Plan {
        let alone = GroupView {
            leader,
            ..GroupView::alone()
        };
        self.plan(now, no_lock, || alone)
    }
}

/// Returns whether the plan is the first one of a worker that starts to listen.
fn starts(plan: &Plan) -> bool {
    plan.listening && plan.leadership == Leadership::Acquire
}

#[test]
fn a_new_worker_listens_exclusively_and_becomes_leader() {
    for leader in [Leader::None, Leader::Other] {
        let plan = worker().see(&at(0, 0), leader, 0);
        assert!(starts(&plan) && plan.exclusive && !plan.register_again);
        assert_eq!(plan.wait_at_most, Some(DELAY));
        assert_eq!(plan.accepts_at_most, Some(4));
    }
}

#[test]
fn a_worker_above_the_limit_that_does_not_lead_stops() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);
    let plan = worker.see(&at(1, 4), Leader::Other, 0);
    assert!(plan.listening, "a worker at the limit keeps listening");
    let plan = worker.see(&at(2, 5), Leader::Other, 0);
    assert_eq!(plan, Plan::away(Some(DELAY)));
}

#[test]
fn the_limit_grows_by_a_sixteenth_of_the_least_load() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 170), Leader::Other, 160).listening);
    assert!(worker.see(&at(0, 174), Leader::Other, 160).listening);
    assert!(!worker.see(&at(0, 175), Leader::Other, 160).listening);
}

#[test]
fn the_leader_notifies_once_and_stays_until_another_leads() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);

    let plan = worker.see(&at(1, 5), Leader::Me, 0);
    assert!(plan.listening);
    assert_eq!(
        (plan.notify, plan.accepts_at_most),
        (Some(other()), Some(1))
    );

    let plan = worker.see(&at(2, 6), Leader::Me, 0);
    assert!(plan.listening);
    assert_eq!((plan.notify, plan.accepts_at_most), (None, Some(1)));

    assert!(!worker.see(&at(3, 7), Leader::Other, 0).listening);
}

/// Makes a leader that has just notified the other worker, at 1 ms, and leaves clients waiting.
fn yielding() -> LeastLoaded {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);
    let plan = worker.see(&left_clients(at(1, 5)), Leader::Me, 0);
    assert_eq!(plan.notify, Some(other()));
    assert!(plan.listening && plan.edge_triggered && plan.register_again);
    assert_eq!(
        (plan.accepts_at_most, plan.wait_at_most),
        (Some(0), Some(ms(2)))
    );
    worker
}

impl LeastLoaded {
    /// Plans with a view in which the other worker has this load and has not answered its
    /// notification.
    fn see_pending(&mut self, now: &Inputs, leader: Leader, active: u32) -> Plan {
        let pending = Some(Peer {
            id: other(),
            active,
        });
        self.plan(now, no_lock, || GroupView {
            pending,
            ..none_left(leader)
        })
    }
}

#[test]
fn a_leader_leaves_a_burst_to_the_worker_it_has_notified() {
    let mut worker = yielding();
    let plan = worker.see_pending(&left_clients(at(2, 5)), Leader::Me, 0);
    assert!(plan.listening && plan.edge_triggered && !plan.register_again);
    assert_eq!((plan.notify, plan.accepts_at_most), (None, Some(0)));
    assert_eq!(plan.wait_at_most, Some(ms(1)));

    let plan = worker.see(&left_clients(at(2, 5)), Leader::Other, 1);
    assert!(plan.listening && !plan.edge_triggered && plan.register_again);
    let plan = worker.see(&left_clients(at(2, 6)), Leader::Other, 1);
    assert!(!plan.listening);
}

#[test]
fn a_leader_without_an_answer_accepts_a_few_in_each_interval() {
    let mut worker = yielding();
    let (mut active, mut accepts) = (5, 0);
    let mut plan_at = |now_ms| {
        active += accepts;
        let now = accepted(accepts, left_clients(at(now_ms, active)));
        let plan = worker.see_pending(&now, Leader::Me, 0);
        assert!(plan.listening && plan.notify.is_none());
        assert_eq!(plan.edge_triggered, plan.accepts_at_most == Some(0));
        accepts = plan.accepts_at_most.expect("there is a limit");
        accepts
    };
    let mut interval = |now_ms| -> u32 {
        let turns = std::iter::repeat_with(|| plan_at(now_ms));
        turns.take_while(|accepts| *accepts > 0).sum()
    };
    assert_eq!([2, 3, 5, 7, 9].map(&mut interval), [0, 4, 4, 4, 4]);
    // After 10 ms (`ANSWER_NS`) the leader accepts all clients, at most 16 in a turn.
    assert_eq!([11, 12, 400].map(plan_at), [4, 16, 16]);
}

#[test]
fn a_leader_without_an_answer_notifies_the_next_worker() {
    let mut worker = yielding();
    let next = Peer {
        id: WorkerId::from_slot(8),
        active: 0,
    };
    let sees = || GroupView {
        pending: Some(Peer {
            id: other(),
            active: 0,
        }),
        least_loaded: Some(next),
        ..none_left(Leader::Me)
    };
    let plan = worker.plan(&left_clients(at(2, 5)), no_lock, sees);
    assert_eq!((plan.notify, plan.accepts_at_most), (None, Some(0)));
    let plan = worker.plan(&left_clients(at(3, 5)), no_lock, sees);
    assert_eq!(
        (plan.notify, plan.accepts_at_most),
        (Some(next.id), Some(0))
    );
}

#[test]
fn a_leader_waits_once_for_a_worker_that_another_has_notified() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);
    for (now_ms, most) in [(1, 0), (2, 0), (11, 16), (13, 16), (400, 16)] {
        let now = accepted(1, left_clients(at(now_ms, 5)));
        let plan = worker.see_pending(&now, Leader::Me, 0);
        assert_eq!((plan.notify, plan.accepts_at_most), (None, Some(most)));
        assert!(plan.listening);
    }
    assert!(worker.see(&at(401, 0), Leader::Me, 0).listening);
    let now = left_clients(at(402, 5));
    let plan = worker.see_pending(&now, Leader::Me, 0);
    assert_eq!(plan.accepts_at_most, Some(0));
}

#[test]
fn a_client_that_comes_alone_is_accepted_by_a_leader_that_waits() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);
    let plan = worker.see(&at(1, 5), Leader::Me, 0);
    assert_eq!(plan.notify, Some(other()));
    assert!(!plan.edge_triggered && !plan.register_again);
    assert_eq!(plan.accepts_at_most, Some(1));
}

#[test]
fn a_notification_ends_the_wait_for_another_worker() {
    let mut worker = yielding();
    let plan = worker.see_none_left(&notified(left_clients(at(2, 5))), Leader::Me);
    assert!(starts(&plan) && plan.register_again && !plan.edge_triggered);
    assert_eq!(plan.accepts_at_most, Some(4));
}

#[test]
fn a_leader_without_an_answer_notifies_again() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);
    let mut notifies_at = |now_ms| worker.see(&at(now_ms, 5), Leader::Me, 0).notify;
    assert_eq!(notifies_at(1), Some(other()));
    assert_eq!(notifies_at(2), None);
    assert_eq!(notifies_at(3), Some(other()));
}

#[test]
fn a_leader_that_sees_no_other_with_room_keeps_listening() {
    let mut worker = worker();
    for active in 0..100 {
        let plan = worker.see_none_left(&at(0, active), Leader::Me);
        assert!(plan.listening);
        assert_eq!(plan.notify, None);
    }
}

#[test]
fn a_notified_worker_listens_and_leads_at_any_load() {
    let mut worker = worker();
    let plan = worker.see(&notified(at(0, 50)), Leader::Other, 0);
    assert!(starts(&plan) && !plan.register_again);

    let plan = worker.see(&notified(at(1, 50)), Leader::Other, 0);
    assert!(
        starts(&plan) && plan.register_again,
        "a worker that listened before registers again"
    );
}

#[test]
fn a_notification_that_only_sync_reports_is_followed() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);
    let sync = || GroupView {
        notified: true,
        ..view(Leader::Other, 0)
    };
    let plan = worker.plan(&at(1, 3), no_lock, sync);
    assert!(starts(&plan) && plan.register_again);
}

#[test]
fn a_worker_accepts_up_to_the_least_load_or_the_slack_in_a_turn() {
    for (active, accepts) in [(10, 150), (150, 14), (160, 14), (170, 5), (174, 1)] {
        let now = accepted(1, at(0, active));
        let plan = worker().see(&now, Leader::Other, 160);
        assert_eq!(plan.accepts_at_most, Some(accepts), "{active}");
    }
}

#[test]
fn after_a_sleep_a_worker_looks_again_after_the_first_clients() {
    let mut worker = worker();
    let plan = worker.see(&at(0, 10), Leader::Other, 160);
    assert_eq!(plan.accepts_at_most, Some(4));
    let plan = worker.see(&accepted(4, left_clients(at(0, 14))), Leader::Me, 160);
    assert_eq!(plan.accepts_at_most, Some(146));
    let plan = self::worker().see_none_left(&at(0, 10), Leader::None);
    assert_eq!(plan.accepts_at_most, Some(4));
}

#[test]
fn a_full_worker_forwards_a_notification() {
    let mut worker = worker();
    assert!(!worker.see(&at(0, 1000), Leader::Other, 999).listening);
    let plan = worker.see(&notified(at(1, 1000)), Leader::Other, 999);
    assert_eq!((plan.listening, plan.notify), (false, Some(other())));
}

#[test]
fn a_full_leader_steps_down_and_notifies_another_worker() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 999), Leader::None, 999).listening);
    let plan = worker.see(&at(1, 1000), Leader::Me, 999);
    assert!(!plan.listening);
    assert_eq!(
        (plan.leadership, plan.notify),
        (Leadership::Release, Some(other()))
    );
    assert_eq!(plan.wait_at_most, None);
}

#[test]
fn a_full_worker_that_does_not_lead_stops_quietly() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 999), Leader::None, 999).listening);
    let plan = worker.see(&at(1, 1000), Leader::Other, 999);
    assert_eq!(plan, Plan::away(None));
}

#[test]
fn without_a_leader_the_first_worker_with_room_listens() {
    let mut worker = worker();
    let plan = worker.see_none_left(&at(0, 1000), Leader::None);
    assert!(!plan.listening);
    let plan = worker.see_none_left(&at(1, 999), Leader::None);
    assert!(starts(&plan));
}

#[test]
fn without_a_leader_a_worker_listens_at_any_load() {
    let plan = worker().see(&at(0, 500), Leader::None, 0);
    assert!(starts(&plan));
}

#[test]
fn a_registration_lasts_for_the_delay() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 3), Leader::None, 3).listening);
    let plan = worker.see(&at(500, 3), Leader::Me, 3);
    assert!(plan.listening && plan.register_again);
    assert_eq!(plan.wait_at_most, Some(DELAY));
}

#[test]
fn a_changed_load_keeps_the_registration_and_its_age() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 3), Leader::None, 3).listening);
    let plan = worker.see(&at(100, 4), Leader::Me, 3);
    assert!(plan.listening && plan.exclusive && !plan.register_again);
    assert_eq!(plan.leadership, Leadership::Keep);
    assert_eq!(plan.wait_at_most, Some(ms(400)));
}

#[test]
fn a_listening_worker_leads_if_there_is_no_leader() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 3), Leader::Other, 3).listening);
    let plan = worker.see(&at(1, 4), Leader::None, 3);
    assert!(starts(&plan) && !plan.register_again);
    let plan = worker.see(&at(2, 5), Leader::Other, 3);
    assert_eq!(plan.leadership, Leadership::Keep);
}

#[test]
fn a_worker_away_for_the_delay_probes_once() {
    let mut worker = worker();
    assert!(!worker.see(&at(0, 90), Leader::Other, 3).listening);
    let plan = worker.see(&at(500, 90), Leader::Other, 3);
    let probe = Plan {
        exclusive: true,
        ..Plan::probe()
    };
    assert_eq!(plan, probe);
    let plan = worker.see(&at(501, 90), Leader::Other, 3);
    assert_eq!(plan, Plan::away(Some(ms(499))));
}

#[test]
fn a_worker_whose_probe_finds_a_client_keeps_listening() {
    let mut worker = worker();
    assert!(!worker.see(&at(0, 90), Leader::Other, 3).listening);
    assert!(worker.see(&at(500, 90), Leader::Other, 3).listening);
    for found in [accepted(1, at(501, 91)), left_clients(at(501, 90))] {
        let plan = worker.clone().see(&found, Leader::Other, 3);
        assert!(starts(&plan));
    }
}

#[test]
fn a_worker_that_leaves_clients_waiting_notifies_another() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).listening);
    let plan = worker.see(&left_clients(at(1, 5)), Leader::Other, 0);
    assert!(!plan.listening);
    assert_eq!(plan.notify, Some(other()));
}

#[test]
fn a_worker_alone_is_not_exclusive_and_waits_without_limit() {
    let mut worker = worker();
    let plan = worker.see_alone(&at(0, 0), Leader::None);
    assert!(starts(&plan) && !plan.exclusive);
    assert_eq!(plan.wait_at_most, None);
    let plan = worker.see_alone(&at(100_000, 0), Leader::Me);
    assert!(plan.listening && !plan.exclusive && !plan.register_again);
    assert_eq!(plan.wait_at_most, None);
}

#[test]
fn a_worker_alone_looks_for_others_after_the_first_clients() {
    let mut worker = worker();
    let plan = worker.see_alone(&at(0, 0), Leader::None);
    assert_eq!(plan.accepts_at_most, Some(4));
    let plan = worker.see_alone(&accepted(4, left_clients(at(1, 4))), Leader::Me);
    assert_eq!(plan.accepts_at_most, None);
    let plan = worker.see_alone(&at(2, 40), Leader::Me);
    assert_eq!(plan.accepts_at_most, Some(4));
}

#[test]
fn a_worker_registers_again_when_another_one_joins() {
    let mut worker = worker();
    assert!(!worker.see_alone(&at(0, 0), Leader::None).exclusive);
    let plan = worker.see(&at(1, 0), Leader::Other, 0);
    assert!(plan.listening && plan.exclusive && plan.register_again);
    assert_eq!(plan.wait_at_most, Some(DELAY));
}

#[test]
fn a_worker_registers_again_when_all_others_have_left() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 0), Leader::None, 0).exclusive);
    let plan = worker.see_alone(&at(500, 0), Leader::Me);
    assert!(plan.listening && !plan.exclusive && plan.register_again);
    assert_eq!(plan.wait_at_most, None);
}

#[test]
fn without_exclusive_wake_ups_workers_share_the_lock() {
    let mut worker = worker();
    let shared = |now_ms, active| Inputs {
        exclusive: false,
        ..at(now_ms, active)
    };
    let seen = || view(Leader::None, 0);
    let plan = worker.plan(&shared(0, 3), || true, seen);
    assert!(plan.listening && plan.holds_lock && !plan.exclusive);
    assert_eq!(
        (plan.leadership, plan.accepts_at_most),
        (Leadership::Keep, Some(2))
    );
    let plan = worker.plan(&shared(1, 5), no_lock, seen);
    assert_eq!((plan.listening, plan.notify), (false, Some(other())));
}

#[test]
fn the_plan_of_a_worker_that_listens_or_is_away_stands() {
    let mut worker = worker();
    let now = at(0, 3);
    let plan = worker.see(&now, Leader::None, 3);
    assert!(plan.listening && worker.is_settled(&now, &plan));

    let mut worker = self::worker();
    let now = at(0, 90);
    let plan = worker.see(&now, Leader::Other, 3);
    assert!(!plan.listening && worker.is_settled(&now, &plan));

    let mut worker = self::worker();
    let now = at(0, 1000);
    let plan = worker.see(&now, Leader::Other, 3);
    assert!(!plan.listening && worker.is_settled(&now, &plan), "full");
}

#[test]
fn the_plan_of_a_worker_that_is_alone_or_probes_does_not_stand() {
    let mut worker = worker();
    let now = at(0, 0);
    let plan = worker.see_alone(&now, Leader::None);
    assert!(plan.listening && !worker.is_settled(&now, &plan), "alone");

    let mut worker = self::worker();
    assert!(!worker.see(&at(0, 90), Leader::Other, 3).listening);
    let now = at(500, 90);
    let plan = worker.see(&now, Leader::Other, 3);
    assert!(plan.listening && !worker.is_settled(&now, &plan), "probing");
}

#[test]
fn the_plan_of_a_leader_that_awaits_an_answer_does_not_stand() {
    let mut worker = worker();
    assert!(worker.see(&at(0, 3), Leader::None, 3).listening);
    let now = at(1, 90);
    let plan = worker.see(&now, Leader::Me, 3);
    assert!(plan.notify.is_some() && !worker.is_settled(&now, &plan));
}

#[test]
fn on_the_lock_only_the_plan_of_its_holder_stands() {
    for (is_free, expected) in [(true, true), (false, false)] {
        let mut worker = worker();
        let now = Inputs {
            exclusive: false,
            ..at(0, 3)
        };
        let plan = worker.plan(&now, || is_free, || view(Leader::None, 3));
        assert_eq!(worker.is_settled(&now, &plan), expected);
    }
}

#[test]
fn a_late_leader_hands_over_although_it_has_the_least_load() {
    let outpaced = |leader| GroupView {
        outpaced: true,
        ..view(leader, 9)
    };
    let mut worker = worker();
    assert!(starts(&worker.see(&at(0, 0), Leader::None, 9)));
    let plan = worker.plan(&at(1, 0), no_lock, || outpaced(Leader::Me));
    assert_eq!((plan.listening, plan.notify), (true, Some(other())));
    let plan = worker.plan(&at(2, 0), no_lock, || outpaced(Leader::Other));
    assert!(!plan.listening);
    let plan = worker.plan(&at(3, 0), no_lock, || outpaced(Leader::Other));
    assert!(!plan.listening, "a late worker does not start again");
    assert!(starts(&worker.see(&at(4, 0), Leader::Other, 9)));
}

mod resting;
