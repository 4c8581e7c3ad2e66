//! Tests of the least-loaded policy, for a worker whose group meets no client.

use super::*;

/// Makes a worker with this many connections. Its group meets no client for 4,000 ms, so that the
/// worker rests. A worker with more than 4 connections is above the limit.
fn resting(active: u32) -> LeastLoaded {
    let mut worker = worker();
    let quiet_ms = (0..=4_000).step_by(250);
    let plans = quiet_ms.map(|now_ms| worker.see(&at(now_ms, active), Leader::Other, 0));
    let last = plans.last().unwrap();
    assert!(last.rests && last.listening && !last.exclusive);
    assert_eq!(last.wait_at_most, None);
    worker
}

fn reported(now: Inputs) -> Inputs {
    Inputs {
        reported: true,
        ..now
    }
}

#[test]
fn a_worker_rests_after_four_delays_without_a_client() {
    let mut worker = worker();
    for now_ms in [0, 500, 1_000, 1_500] {
        assert!(!worker.see(&at(now_ms, 0), Leader::Me, 0).rests);
    }
    let plan = worker.see(&at(2_000, 0), Leader::Me, 0);
    assert!(plan.rests && plan.register_again);
    assert_eq!(plan.accepts_at_most, Some(4));
    let plan = worker.see(&at(9_000, 1), Leader::Me, 0);
    assert!(plan.rests && !plan.register_again);
}

#[test]
fn a_client_of_another_worker_puts_off_the_rest() {
    let mut worker = worker();
    let mut see = |now_ms, clients| {
        let view = || GroupView {
            clients,
            ..view(Leader::Other, 0)
        };
        worker.plan(&at(now_ms, 0), no_lock, view).rests
    };
    assert_eq!([0, 500, 1_000, 1_500].map(|ms| see(ms, 7)), [false; 4]);
    assert_eq!(
        [2_000, 2_500, 3_000, 3_500].map(|ms| see(ms, 8)),
        [false; 4]
    );
    assert!(see(4_000, 8));
}

#[test]
fn a_client_ends_the_rest_of_a_worker_near_the_least_load() {
    let plan = resting(0).see(&reported(at(4_001, 0)), Leader::Other, 0);
    assert!(plan.listening && plan.exclusive && plan.register_again && !plan.rests);
    assert_eq!(plan.wait_at_most, Some(DELAY));
}

#[test]
fn a_resting_worker_above_the_limit_accepts_only_after_the_delay() {
    let mut worker = resting(30);
    let plan = worker.see(&at(4_001, 30), Leader::Other, 0);
    assert_eq!((plan.rests, plan.accepts_at_most), (true, Some(0)));
    let left = left_clients(reported(at(4_002, 30)));
    let plan = worker.see(&left, Leader::Other, 0);
    assert_eq!(
        plan,
        Plan::away(Some(DELAY)),
        "the worker stops, and notifies no other"
    );
    let plan = worker.see(&at(4_502, 30), Leader::Other, 0);
    assert!(plan.listening && plan.wait_at_most == Some(Duration::ZERO));
}

#[test]
fn a_leader_that_gets_above_the_limit_ends_its_rest() {
    let plan = resting(4).see(&at(4_001, 5), Leader::Me, 0);
    assert!(plan.exclusive && plan.register_again);
    assert_eq!(plan.notify, Some(other()));
}

#[test]
fn a_roused_or_notified_worker_ends_its_rest() {
    let roused = || GroupView {
        roused: true,
        ..view(Leader::Other, 0)
    };
    for active in [0, 30] {
        let plan = resting(active).plan(&at(4_001, active), no_lock, roused);
        assert!(!plan.rests && plan.wait_at_most == Some(DELAY));
        let plan = resting(active).see(&notified(at(4_001, active)), Leader::Other, 0);
        assert!(starts(&plan) && plan.exclusive);
    }
}

#[test]
fn the_second_client_rouses_the_others_and_the_first_does_not() {
    let mut worker = resting(0);
    let mut see = |inputs: Inputs, clients| {
        let view = || GroupView {
            clients,
            others_rest: true,
            ..view(Leader::Other, 0)
        };
        worker.plan(&inputs, no_lock, view).rouses
    };
    assert!(!see(accepted(1, at(4_001, 1)), 1));
    assert!(
        !see(at(4_002, 1), 2),
        "another worker has accepted the client"
    );
    assert!(see(accepted(1, at(4_003, 2)), 3));
}
