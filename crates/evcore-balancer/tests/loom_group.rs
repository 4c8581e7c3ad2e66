//! The workers of a group that listen in turn, in every interleaving: they join, take over, fill up,
//! get room, leave, and die after any of their operations.
//!
//! A worker is the [`Member`](group::Member) and the [`Balancer`](balancer::Balancer) that ship, with
//! the policy [`LeastLoaded`](policy::Policy::LeastLoaded). The models include the files of `src`,
//! over loom's atomics. The kernel (`loom/kernel.rs`) and what `evcore` does with a plan
//! (`loom/worker.rs`) belong to the models. Time stands still, so no worker finds a client by a probe.
//!
//! At the end of a model each worker is woken for what has happened, until all sleep. Then a client
//! connects, which a worker with room must accept. So a notification that is lost is found, whatever
//! it was for. While no worker fills up, leaves or dies, one must listen at any time.
//!
//! What two workers do before they lead or notify is modelled by a cell that is not atomic, which the
//! other one reads. loom fails if the two are not ordered. Each mutant is a model over faulty atomics,
//! or with a faulty worker, which loom must reject.
//!
//! What loom does not find is in CONTRIBUTING.md.

#![cfg(evcore_loom)]
#![allow(unsafe_code, reason = "the test shares a cell between threads")]

#[path = "../src/accept_mutex.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod accept_mutex;
#[path = "../src/balancer.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod balancer;
#[path = "../src/group.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod group;
#[path = "../src/inputs.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod inputs;
#[path = "loom/kernel.rs"]
mod kernel;
#[path = "loom/notify_fd.rs"]
mod notify_fd;
#[path = "../src/plan.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod plan;
#[path = "../src/policy.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod policy;
#[path = "loom/shared_memory.rs"]
mod shared_memory;
#[path = "loom/sync.rs"]
mod sync;
#[path = "loom/worker.rs"]
mod worker;
#[path = "../src/worker_id.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod worker_id;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use accept_mutex::{AcceptMutex, MutexHandle};
use group::Notify;
use inputs::{GroupView, Inputs, Leader, Load, Peer};
use loom::thread;
use plan::{Leadership, Plan};
use policy::Policy;
use sync::{Fault, inject};
use worker::{CAPACITY, Server, Worker};
use worker_id::WorkerId;

/// What a worker does in a model, before it takes the turns that follow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Nothing, until it is woken.
    Sleeps,
    /// It has so many connections now.
    Has(usize),
    /// Its delay is over.
    Later,
    /// It closes its listener and leaves the group.
    Leaves,
    /// It joins with so many connections.
    Joins(usize),
}
use Act::{Has, Joins, Later, Leaves, Sleeps};

/// A model. The first worker leads if it is a member.
#[derive(Clone, Debug)]
struct Model {
    /// The number of connections of each member, and what the worker does.
    workers: Vec<(Option<usize>, Act)>,
    /// A client waits at the beginning.
    client: bool,
    /// The worker that dies, and how many operations it has left.
    dies: Option<(usize, u32)>,
    /// How many turns a worker takes at most while the others run.
    turns: usize,
    preemptions: Option<usize>,
}

const AWAY: Option<usize> = Some(9);
const LISTENS: Option<usize> = Some(0);
const FULL: Option<usize> = Some(CAPACITY);
const ABSENT: Option<usize> = None;

impl Model {
    fn new(workers: &[(Option<usize>, Act)]) -> Self {
        Self {
            workers: workers.into(),
            client: false,
            dies: None,
            turns: 2,
            preemptions: None,
        }
    }

    fn with_turns(self, turns: usize) -> Self {
        Self { turns, ..self }
    }

    /// Runs it in all interleavings. Returns whether a worker has died in any of them.
    fn check(&self) -> bool {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = match (builder.preemption_bound, self.preemptions) {
            // A bound of all models is that of CI, which has less time.
            (Some(all), Some(own)) => Some(all.min(own - 1)),
            (all, own) => all.or(own),
        };
        let (model, has_died) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let died = Arc::clone(&has_died);
        builder.check(move || {
            if model.run() {
                died.store(true, Relaxed);
            }
        });
        has_died.load(Relaxed)
    }

    /// Runs it once for each operation after which this worker can die.
    fn check_deaths_of(&self, slot: usize) {
        let mut operations = 0;
        let dies = |operations| Self {
            dies: Some((slot, operations)),
            ..self.clone()
        };
        while dies(operations).check() {
            operations += 1;
        }
        assert!(operations > 0, "the worker does nothing");
    }

    /// Runs it in one interleaving. Returns whether a worker has died.
    fn run(&self) -> bool {
        sync::all_live();
        let server = Server::new(self.workers.len(), self.one_always_listens());
        let mut workers = self.members(&server);
        if self.client {
            server.kernel.connect();
        }
        let spawn = |slot| Some(self.spawn(slot, &server, workers[slot].take()));
        let mut threads: Vec<_> = (0..self.workers.len()).map(spawn).collect();
        let (mut living, mut dead) = (Vec::new(), None);
        // The parent reaps the dead worker while the others run.
        if let Some((slot, _)) = self.dies {
            let thread = threads[slot].take().expect("each worker has a thread");
            match thread.join().unwrap() {
                (worker, true) => {
                    release_dead(&server, slot);
                    dead = Some(worker);
                }
                (worker, false) => living.push(worker),
            }
        }
        for thread in threads.into_iter().flatten() {
            living.push(thread.join().unwrap().0);
        }
        check_that_clients_are_accepted(&server, &mut living);
        // What workers do when they are dropped does not count.
        sync::die_after(0);
        let has_died = dead.is_some();
        living.into_iter().chain(dead).for_each(Worker::end);
        has_died
    }

    /// The members of the group before the threads begin. The first one leads, and all sleep.
    fn members(&self, server: &Arc<Server>) -> Vec<Option<Worker>> {
        let begins = self.workers.iter().map(|(active, _)| *active).enumerate();
        let mut members: Vec<_> = begins
            .rev()
            .filter_map(|(slot, active)| active.map(|active| Worker::new(server, slot, active)))
            .collect();
        // A worker that starts to listen becomes leader, so the first one comes last.
        for _ in 0..2 {
            members.iter_mut().for_each(Worker::turn);
        }
        settle(server, &mut members);
        let mut workers: Vec<_> = self.workers.iter().map(|_| None).collect();
        for mut member in members {
            member.begin();
            let slot = member.slot();
            workers[slot] = Some(member);
        }
        workers
    }

    /// The thread of a worker. It returns the worker, and whether that has died.
    fn spawn(
        &self,
        slot: usize,
        server: &Arc<Server>,
        worker: Option<Worker>,
    ) -> thread::JoinHandle<(Worker, bool)> {
        let (server, (_, act), turns) = (Arc::clone(server), self.workers[slot], self.turns);
        let dies = self.dies.filter(|&(mortal, _)| mortal == slot);
        thread::spawn(move || {
            if let Some((_, operations)) = dies {
                sync::die_after(operations);
            }
            let worker = act.play(&server, slot, worker, turns);
            let has_died = dies.is_some() && sync::has_died();
            if has_died {
                server.kernel.end_process(slot);
            }
            (worker, has_died)
        })
    }

    /// Whether no worker gives up the leadership without a successor.
    fn one_always_listens(&self) -> bool {
        let stays = |act: Act| !matches!(act, Leaves | Has(CAPACITY));
        self.dies.is_none() && self.workers.iter().all(|&(_, act)| stays(act))
    }
}

impl Act {
    fn play(
        self,
        server: &Arc<Server>,
        slot: usize,
        worker: Option<Worker>,
        turns: usize,
    ) -> Worker {
        let member = || worker.expect("it is a member");
        let mut worker = match self {
            Joins(active) => Worker::new(server, slot, active),
            _ => member(),
        };
        match self {
            Sleeps => {
                worker.wake();
                if !worker.is_due {
                    return worker;
                }
            }
            Leaves => {
                worker.leave();
                return worker;
            }
            Has(active) => worker.active = active,
            Later => worker.now += Policy::DEFAULT_DELAY,
            Joins(_) => {}
        }
        for _ in 0..turns {
            worker.turn();
        }
        worker
    }
}

/// Reaps a dead worker.
fn release_dead(server: &Server, slot: usize) {
    let is_mute = sync::is_injected(Fault::ReleasesMutely);
    server.kernel.mute_this_thread(is_mute);
    server.group.release_dead(WorkerId::from_slot(slot));
    server.kernel.mute_this_thread(false);
}

/// Lets workers take turns until all sleep.
fn settle(server: &Server, workers: &mut [Worker]) {
    for _ in 0..20 {
        let mut all_sleep = true;
        for worker in workers.iter_mut() {
            if server.kernel.wakes(worker.slot()) {
                worker.wake();
            }
            all_sleep &= !worker.is_due;
            if worker.is_due {
                worker.turn();
            }
        }
        if all_sleep {
            return;
        }
    }
    panic!("the workers do not come to rest");
}

/// Each client that has connected so far, and one more, must have been accepted when all sleep.
fn check_that_clients_are_accepted(server: &Server, living: &mut Vec<Worker>) {
    living.retain(Worker::is_member);
    for connects in [false, true] {
        if connects {
            server.kernel.connect();
        }
        settle(server, living);
        let waits = server.kernel.clients() > 0 && living.iter().any(Worker::has_room);
        assert!(!waits, "a client waits for a worker with room");
    }
}

/// All interleavings of two workers, of which the first one leads and does this, and the second one
/// begins and acts as given, with so many turns of each.
fn pairs(first: Act, seconds: &[(Option<usize>, Act, usize)]) {
    for &(begins, second, turns) in seconds {
        let workers = [(LISTENS, first), (begins, second)];
        Model::new(&workers).with_turns(turns).check();
    }
}

/// All interleavings of three workers would take hours.
fn few_preemptions(workers: &[(Option<usize>, Act)]) -> Model {
    Model {
        preemptions: Some(3),
        ..Model::new(workers)
    }
}

/// A model for a worker that dies. It runs once for each operation of that worker.
fn dying(workers: &[(Option<usize>, Act)], client: bool) -> Model {
    Model {
        client,
        preemptions: Some(2),
        ..Model::new(workers).with_turns(1)
    }
}

/// Each of two workers dies.
fn deaths(workers: &[(Option<usize>, Act)], client: bool) {
    for dies in 0..workers.len() {
        dying(workers, client).check_deaths_of(dies);
    }
}

#[test]
fn a_leader_above_the_limit_stops_after_another_leads() {
    pairs(
        Has(20),
        &[
            (AWAY, Sleeps, 2),
            (AWAY, Has(0), 1),
            (AWAY, Has(20), 2),
            (AWAY, Has(CAPACITY), 1),
            (AWAY, Leaves, 2),
            (LISTENS, Has(20), 2),
            (LISTENS, Has(CAPACITY), 1),
            (LISTENS, Leaves, 2),
            (FULL, Has(20), 2),
        ],
    );
}

#[test]
fn when_the_leader_fills_up_another_with_room_listens() {
    pairs(
        Has(CAPACITY),
        &[
            (AWAY, Sleeps, 2),
            (AWAY, Has(20), 1),
            (AWAY, Has(CAPACITY), 2),
            (AWAY, Leaves, 2),
            (LISTENS, Has(20), 2),
            (LISTENS, Has(CAPACITY), 1),
            (LISTENS, Leaves, 2),
            (FULL, Has(20), 1),
        ],
    );
}

#[test]
fn when_the_leader_leaves_another_listens() {
    pairs(
        Leaves,
        &[
            (AWAY, Sleeps, 2),
            (AWAY, Has(20), 1),
            (AWAY, Has(CAPACITY), 2),
            (LISTENS, Has(20), 1),
            (LISTENS, Has(CAPACITY), 1),
            (LISTENS, Leaves, 1),
            (FULL, Has(20), 1),
        ],
    );
}

#[test]
fn workers_whose_delays_end_at_once_listen() {
    pairs(
        Later,
        &[(AWAY, Later, 2), (LISTENS, Later, 2), (FULL, Later, 2)],
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
    for second in [(LISTENS, Has(20)), (AWAY, Has(0))] {
        let workers = [(LISTENS, Has(20)), second, (LISTENS, Has(20))];
        few_preemptions(&workers).with_turns(1).check();
    }
    let workers = [(LISTENS, Later), (AWAY, Later), (AWAY, Later)];
    few_preemptions(&workers).with_turns(1).check();
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

/// The client has woken the last one of three workers. The first one listens too.
fn the_worker_that_a_client_woke_dies() {
    let workers = [(LISTENS, Has(0)), (FULL, Sleeps), (LISTENS, Sleeps)];
    dying(&workers, true).check_deaths_of(2);
}

/// The second worker starts by itself and becomes leader, while the first one takes a turn.
fn a_worker_takes_over() {
    pairs(Later, &[(AWAY, Has(0), 1)]);
}

/// The first worker notifies the second one, which leads, and then stops.
fn a_worker_hands_over() {
    pairs(Has(20), &[(AWAY, Sleeps, 2)]);
}

/// The first worker fills up and notifies the second one.
fn a_worker_is_notified() {
    pairs(Has(CAPACITY), &[(AWAY, Sleeps, 2)]);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_sync_does_not_acquire_the_leader() {
    inject(Fault::NoAcquire);
    a_worker_takes_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_lead_does_not_release() {
    inject(Fault::NoRelease);
    a_worker_takes_over();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_answering_does_not_acquire() {
    inject(Fault::NoAcquire);
    a_worker_is_notified();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_notify_does_not_release() {
    inject(Fault::NoRelease);
    a_worker_is_notified();
}

#[test]
#[should_panic(expected = "a client waits")]
fn mutant_sync_has_no_fence() {
    inject(Fault::NoFence);
    pairs(Has(CAPACITY), &[(FULL, Has(20), 1)]);
}

#[test]
#[should_panic(expected = "a client waits")]
fn mutant_leaving_has_no_fence() {
    inject(Fault::NoFence);
    pairs(Leaves, &[(FULL, Has(20), 1)]);
}

#[test]
#[should_panic(expected = "a client waits")]
fn mutant_an_answered_notification_is_ignored() {
    inject(Fault::IgnoresAnswer);
    the_worker_that_a_client_woke_dies();
}

#[test]
#[should_panic(expected = "a client waits")]
fn mutant_a_notifier_is_cleared_after_the_sync() {
    inject(Fault::ClearsLate);
    pairs(Has(CAPACITY), &[(AWAY, Has(20), 1)]);
}

#[test]
#[should_panic(expected = "a client waits")]
fn mutant_a_full_leader_notifies_no_other() {
    inject(Fault::FullAndMute);
    a_worker_is_notified();
}

#[test]
#[should_panic(expected = "a client waits")]
fn mutant_release_dead_notifies_no_worker() {
    inject(Fault::ReleasesMutely);
    dying(&[(LISTENS, Sleeps), (AWAY, Sleeps)], false).check_deaths_of(0);
}

#[test]
#[should_panic(expected = "no worker listens")]
fn mutant_the_leader_stops_before_another_leads() {
    inject(Fault::StopsFirst);
    a_worker_hands_over();
}

#[test]
#[should_panic(expected = "no worker listens")]
fn mutant_a_worker_leads_before_it_registers() {
    inject(Fault::LeadsFirst);
    a_worker_hands_over();
}
