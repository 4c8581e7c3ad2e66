//! Tests a late worker, whose turns (iterations of its event loop) were long repeatedly, in a group
//! whose members share the accept lock.

use evcore_balancer::{Coordinator, GroupMember, Load, Member, Policy, WorkerGroup, WorkerId};

const MS: u64 = 1_000_000;

fn load(active: u32) -> Load {
    Load {
        active,
        capacity: 64,
    }
}

/// A worker on a poller without exclusive wake-ups, and a member with 9 connections that is on
/// time.
struct Pair {
    worker: Coordinator,
    other: Member,
    plans: u32,
}

impl Pair {
    fn new(policy: Policy) -> Self {
        let group = WorkerGroup::new(policy, 2).unwrap();
        let other = group.join(WorkerId::from_slot(1));
        let _ = other.sync(load(9));
        let member = group.join(WorkerId::from_slot(0));
        Self {
            worker: Coordinator::new(None, Some(Box::new(member))).unwrap(),
            other,
            plans: 0,
        }
    }

    /// Plans the turn that begins now, after a turn of this length. Returns whether the new turn
    /// holds the lock.
    fn turn(&mut self, now_ms: u64, active: u32, lasted_ms: u64) -> bool {
        let now_ns = now_ms * MS;
        self.worker.on_turn_end(lasted_ms * MS, now_ns);
        let is_over = self.worker.plan_ends_at_ns() <= now_ns;
        if is_over || !self.worker.keeps_plan(active, || load(active)) {
            let plan = self.worker.plan(now_ms, load(active));
            self.worker.publish(&plan);
            self.worker.keep_plan(&plan, now_ns, load(active));
            self.plans += 1;
        }
        let held = self.worker.holds_lock();
        self.worker.release_lock();
        held
    }
}

fn pairs() -> [Pair; 2] {
    [Policy::mutex(), Policy::least_loaded()].map(Pair::new)
}

#[test]
fn the_holder_of_the_lock_yields_when_it_becomes_late() {
    for mut pair in pairs() {
        assert!(pair.turn(0, 3, 0));
        assert!(pair.turn(50, 3, 50), "a single long turn");
        assert!(!pair.turn(110, 3, 50));
        assert!(pair.other.is_notified());
    }
}

#[test]
fn a_worker_that_is_always_late_takes_single_turns() {
    for mut pair in pairs() {
        // Each turn closes the connection that it accepts.
        let turns = (0..200).filter(|turn| {
            let held = pair.turn(turn * 50, 3, 50);
            if held {
                pair.worker.on_accepted();
            }
            held
        });
        // The worker holds the lock in two turns until it is late, and then once in each delay of
        // ten turns.
        let held = turns.count();
        assert!((15..=25).contains(&held), "{held}");
    }
}

#[test]
fn a_worker_that_is_on_time_again_keeps_the_lock() {
    for mut pair in pairs() {
        pair.turn(0, 3, 0);
        pair.turn(50, 3, 50);
        pair.turn(110, 3, 50);
        assert!(!pair.turn(111, 4, 0), "the worker is still late");
        pair.plans = 0;
        for turn in 0..100 {
            assert!(pair.turn(5_000 + turn * 700, 4, 0), "turn {turn}");
        }
        assert_eq!(pair.plans, 1);
    }
}

#[test]
fn a_notified_worker_above_its_limit_yields_after_a_turn() {
    for mut pair in pairs() {
        let _ = pair.other.sync(load(0));
        assert!(!pair.turn(0, 50, 0));
        pair.other.notify(WorkerId::from_slot(0));
        pair.worker.on_notified(false);
        assert!(pair.turn(1, 50, 0));
        assert!(!pair.turn(2, 50, 0));
    }
}
