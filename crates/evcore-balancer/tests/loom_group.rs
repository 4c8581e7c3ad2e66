//! Tests the workers of a group in every interleaving, while they join, take over, fill up, get
//! room, leave, and die after any of their operations. (Larger models have a bound on the
//! preemptions.)
//!
//! A worker is the shipped [`Member`](group::Member) and [`Balancer`](balancer::Balancer), with the
//! policy [`LeastLoaded`](policy::Policy::LeastLoaded), over loom's atomics. The kernel
//! (`loom/kernel.rs`) and the part of `evcore` that follows a plan (`loom/worker.rs`) belong to the
//! models.
//!
//! At the end of a model each worker is woken for its events, until all sleep. Then a client
//! connects, which a worker with room must accept. No delay passes meanwhile, because a worker that
//! wakes after its delay would hide a lost notification. Models of the lock and of members that
//! rest (sleep without a limit) are an exception. In models in which no worker fills up, leaves or
//! dies, one worker must listen at any time.
//!
//! In models of two workers, a write to a cell that is not atomic stands for the work of a worker
//! before it leads or notifies. loom fails if the other worker's read of the cell is not ordered
//! after the write. Each mutant is a model over faulty atomics, or with a faulty worker, which loom
//! must reject.
//!
//! CONTRIBUTING.md lists the faults that loom does not find.

#![cfg(evcore_loom)]

#[path = "../src/accept_mutex.rs"]
#[allow(dead_code, reason = "the crate uses the rest")]
pub mod accept_mutex;
#[path = "../src/balancer.rs"]
pub mod balancer;
#[path = "../src/group.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod group;
#[path = "../src/group_member.rs"]
pub mod group_member;
#[path = "../src/inputs.rs"]
pub mod inputs;
#[path = "loom/kernel.rs"]
mod kernel;
#[path = "../src/member_words.rs"]
mod member_words;
#[path = "loom/model.rs"]
mod model;
#[path = "../src/notify.rs"]
pub mod notify;
#[path = "loom/notify_fd.rs"]
mod notify_fd;
#[path = "../src/plan.rs"]
pub mod plan;
#[path = "../src/policy.rs"]
pub mod policy;
#[path = "../src/rebalance.rs"]
mod rebalance;
#[path = "loom/shared_memory.rs"]
mod shared_memory;
#[path = "../src/spread.rs"]
pub mod spread;
#[path = "loom/sync.rs"]
mod sync;
#[path = "loom/worker.rs"]
mod worker;
#[path = "../src/worker_id.rs"]
#[allow(dead_code, reason = "the crate uses the rest")]
pub mod worker_id;

use model::{
    ABSENT, AWAY,
    Act::{self, Has, Joins, Later, Leaves, Sleeps},
    FULL, LISTENS, Model,
};
use notify::Notify;
use sync::{Fault, inject};
use worker::CAPACITY;

/// The second workers of most [`pairs`].
const SECONDS: &[(Option<usize>, Act, usize)] = &[
    (AWAY, Sleeps, 2),
    (AWAY, Has(20), 1),
    (AWAY, Has(CAPACITY), 1),
    (LISTENS, Has(20), 1),
    (LISTENS, Has(CAPACITY), 1),
    (LISTENS, Leaves, 1),
    (FULL, Has(20), 1),
];

/// Checks pairs of workers. The first worker leads and does `first`. Each item of `seconds` has the
/// connections of the second worker at the beginning, the act of that worker, and the number of
/// turns (iterations of the event loop) of each worker. (CI bounds the preemptions.)
fn pairs(first: Act, seconds: &[(Option<usize>, Act, usize)]) {
    for &(begins, second, turns) in seconds {
        let workers = [(LISTENS, first), (begins, second)];
        Model::new(&workers).with_turns(turns).check();
    }
}

/// A model with at most three preemptions, because all interleavings of three workers would take
/// hours.
fn few_preemptions(workers: &[(Option<usize>, Act)]) -> Model {
    Model {
        preemptions: Some(3),
        ..Model::new(workers)
    }
}

/// A model for a worker that dies.
fn dying(workers: &[(Option<usize>, Act)], client: bool) -> Model {
    Model {
        client,
        preemptions: Some(2),
        ..Model::new(workers).with_turns(1)
    }
}

fn deaths(workers: &[(Option<usize>, Act)], client: bool) {
    for dies in 0..workers.len() {
        dying(workers, client).check_deaths_of(dies);
    }
}

#[test]
fn a_leader_above_the_limit_stops_after_another_leads() {
    pairs(Has(20), SECONDS);
    pairs(Has(20), &[(AWAY, Has(0), 1), (AWAY, Leaves, 1)]);
}

#[test]
fn when_the_leader_fills_up_another_with_room_listens() {
    pairs(Has(CAPACITY), SECONDS);
    pairs(Has(CAPACITY), &[(AWAY, Leaves, 1)]);
}

/// Models of members at rest, near the lowest load and above the limit. A client connects.
fn resting(first: Act, seconds: &[(Option<usize>, Act)]) -> impl Iterator<Item = Model> {
    let workers = seconds
        .iter()
        .map(move |second| [(LISTENS, first), *second]);
    workers.map(|workers| Model {
        rests: true,
        client: true,
        delays_pass: true,
        ..Model::new(&workers).with_turns(1)
    })
}

#[test]
fn while_members_rest_and_one_acts_a_client_is_accepted() {
    for first in [Sleeps, Has(20), Has(CAPACITY), Leaves] {
        let seconds = [
            (LISTENS, Sleeps),
            (AWAY, Sleeps),
            (AWAY, Has(0)),
            (AWAY, Leaves),
        ];
        resting(first, &seconds).for_each(|model| drop(model.check()));
    }
}

#[test]
fn while_members_rest_and_one_dies_a_client_is_accepted() {
    for model in resting(Sleeps, &[(LISTENS, Sleeps), (AWAY, Sleeps)]) {
        let model = Model {
            preemptions: Some(2),
            ..model
        };
        (0..2).for_each(|dies| model.check_deaths_of(dies));
    }
}

#[test]
fn when_the_leader_leaves_another_listens() {
    pairs(Leaves, SECONDS);
}

#[test]
fn workers_whose_delays_end_at_the_same_time_listen() {
    pairs(
        Later,
        &[(AWAY, Later, 1), (LISTENS, Later, 1), (FULL, Later, 1)],
    );
}

#[test]
fn a_worker_that_joins_listens_or_is_notified() {
    for first in [Has(20), Has(CAPACITY), Leaves] {
        few_preemptions(&[(LISTENS, first), (ABSENT, Joins(0))]).check();
    }
    few_preemptions(&[(ABSENT, Joins(0)), (ABSENT, Joins(20))]).check();
}

#[test]
fn when_one_of_two_dies_the_other_listens() {
    deaths(&[(LISTENS, Has(20)), (AWAY, Sleeps)], false);
    deaths(&[(LISTENS, Has(CAPACITY)), (AWAY, Sleeps)], false);
    deaths(&[(LISTENS, Leaves), (AWAY, Sleeps)], false);
    deaths(&[(LISTENS, Has(20)), (LISTENS, Has(20))], false);
    deaths(&[(LISTENS, Leaves), (FULL, Has(20))], false);
}

#[test]
fn when_the_worker_that_a_client_woke_dies_another_accepts_it() {
    deaths(&[(LISTENS, Sleeps), (AWAY, Sleeps)], true);
    deaths(&[(LISTENS, Has(0)), (LISTENS, Sleeps)], true);
    the_worker_that_a_client_woke_dies();
}

#[test]
fn of_three_workers_one_always_listens() {
    few_preemptions(&[(LISTENS, Has(20)), (AWAY, Sleeps), (LISTENS, Has(20))]).check();
    for workers in [
        [(LISTENS, Has(20)), (LISTENS, Has(20)), (LISTENS, Has(20))],
        [(LISTENS, Later), (AWAY, Later), (AWAY, Later)],
    ] {
        few_preemptions(&workers).with_turns(1).check();
    }
}

#[test]
fn when_one_of_three_gives_up_another_listens() {
    for first in [Has(CAPACITY), Leaves] {
        let workers = [(LISTENS, first), (FULL, Has(20)), (AWAY, Sleeps)];
        few_preemptions(&workers).with_turns(1).check();
    }
}

#[test]
fn when_one_of_three_dies_another_listens() {
    let workers = [(LISTENS, Has(20)), (AWAY, Sleeps), (LISTENS, Has(20))];
    dying(&workers, false).check_deaths_of(1);
}

/// Checks the death of the worker that a client has woken, the last of three. The first one listens
/// too.
fn the_worker_that_a_client_woke_dies() {
    let workers = [(LISTENS, Has(0)), (FULL, Sleeps), (LISTENS, Sleeps)];
    dying(&workers, true).check_deaths_of(2);
}

/// Checks pairs of workers on a poller without exclusive wake-ups. The owner of the lock listens.
/// At first this is the first worker. Checks all interleavings, with one turn of each worker.
fn pairs_with_lock(first: Act, seconds: &[(Option<usize>, Act)], delays_pass: bool) {
    for &second in seconds {
        let model = Model {
            exclusive: false,
            delays_pass,
            ..Model::new(&[(LISTENS, first), second])
        };
        model.with_turns(1).check();
    }
}

#[test]
fn a_worker_that_is_handed_the_lock_listens_at_once() {
    for first in [Has(30), Has(CAPACITY), Leaves] {
        pairs_with_lock(first, &[(AWAY, Sleeps), (LISTENS, Sleeps)], false);
    }
}

#[test]
fn a_worker_that_is_refused_the_lock_listens_after_its_delay() {
    for first in [Has(30), Has(CAPACITY), Later] {
        pairs_with_lock(
            first,
            &[
                (AWAY, Has(0)),
                (LISTENS, Has(40)),
                (LISTENS, Leaves),
                (FULL, Has(20)),
            ],
            true,
        );
    }
    pairs_with_lock(Leaves, &[(AWAY, Has(0)), (FULL, Has(20))], true);
}

#[test]
fn when_the_owner_of_the_lock_dies_another_listens_at_once() {
    for first in [Has(30), Has(CAPACITY), Sleeps] {
        let model = Model {
            exclusive: false,
            ..dying(&[(LISTENS, first), (AWAY, Sleeps)], true)
        };
        model.check_deaths_of(0);
    }
}

/// The second worker starts by itself and becomes leader, while the first one takes a turn.
fn a_worker_takes_over() {
    pairs(Later, &[(AWAY, Has(0), 1)]);
}

/// The first worker notifies the second one, and stops when the second one leads.
fn a_worker_hands_over() {
    pairs(Has(20), &[(AWAY, Sleeps, 2)]);
}

/// The first worker fills up and notifies the second one.
fn a_worker_is_notified() {
    pairs(Has(CAPACITY), &[(AWAY, Sleeps, 2)]);
}

/// Makes tests that inject a fault, and expect that a model fails with these words.
macro_rules! mutants {
    ($($expected:literal { $($name:ident: $fault:ident => $model:expr;)* })*) => {
        $($(
            #[test]
            #[should_panic(expected = $expected)]
            fn $name() {
                inject(Fault::$fault);
                $model;
            }
        )*)*
    };
}

mutants! {
    "Causality violation" {
        mutant_sync_does_not_acquire_the_leader: NoAcquire
            => a_worker_takes_over();
        mutant_lead_does_not_release: NoRelease
            => a_worker_takes_over();
        mutant_answering_does_not_acquire: NoAcquire
            => a_worker_is_notified();
        mutant_notify_does_not_release: NoRelease
            => a_worker_is_notified();
    }
    "a client waits" {
        mutant_the_lock_is_yielded_without_a_notification: IsMute
            => pairs_with_lock(Has(30), &[(AWAY, Sleeps)], false);
        mutant_sync_has_no_fence: NoFence
            => pairs(Has(CAPACITY), &[(FULL, Has(20), 1)]);
        mutant_leaving_has_no_fence: NoFence
            => pairs(Leaves, &[(FULL, Has(20), 1)]);
        mutant_an_answered_notification_is_ignored: IgnoresAnswer
            => the_worker_that_a_client_woke_dies();
        mutant_a_notifier_is_cleared_after_the_sync: ClearsLate
            => pairs(Has(CAPACITY), &[(AWAY, Has(20), 1)]);
        mutant_a_full_leader_notifies_no_other: IsMute
            => a_worker_is_notified();
        mutant_release_dead_notifies_no_worker: ReleasesMutely
            => dying(&[(LISTENS, Sleeps), (AWAY, Sleeps)], false).check_deaths_of(0);
    }
    "no worker listens" {
        mutant_the_leader_stops_before_another_leads: StopsFirst
            => a_worker_hands_over();
        mutant_a_worker_leads_before_it_registers: LeadsFirst
            => a_worker_hands_over();
    }
}
