//! A loom model of a group: its workers, the act of each (such as joining or leaving), and the
//! checks at the end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use loom::thread;

use crate::{
    policy::Policy,
    sync::{self, Fault},
    worker::{CAPACITY, Server, Worker},
    worker_id::WorkerId,
};

/// The act of a worker. Most acts are followed by turns (iterations of the worker's event loop).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// It sleeps until it is woken, and then takes one turn.
    Sleeps,
    /// Its number of connections becomes this one.
    Has(usize),
    /// The delay of the policy passes for it.
    Later,
    /// It closes its listener and leaves the group.
    Leaves,
    /// It joins with this many connections.
    Joins(usize),
}
use Act::{Has, Joins, Later, Leaves, Sleeps};

/// A model of a group. The first worker leads if it is a member.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// For each worker, its number of connections (`None` if it is not a member yet), and its act.
    pub(crate) workers: Vec<(Option<usize>, Act)>,
    pub(crate) exclusive: bool,
    /// At the end, the sleeping workers wake after their delays.
    pub(crate) delays_pass: bool,
    pub(crate) client: bool,
    pub(crate) rests: bool,
    /// The worker that dies, and the number of operations after which it dies.
    pub(crate) dies: Option<(usize, u32)>,
    /// Maximum number of turns of a worker while the others run.
    pub(crate) turns: usize,
    pub(crate) preemptions: Option<usize>,
}

pub(crate) const AWAY: Option<usize> = Some(9);
pub(crate) const LISTENS: Option<usize> = Some(0);
pub(crate) const FULL: Option<usize> = Some(CAPACITY);
pub(crate) const ABSENT: Option<usize> = None;

impl Model {
    pub(crate) fn new(workers: &[(Option<usize>, Act)]) -> Self {
        Self {
            workers: workers.into(),
            exclusive: true,
            delays_pass: false,
            client: false,
            rests: false,
            dies: None,
            turns: 2,
            preemptions: None,
        }
    }

    pub(crate) fn with_turns(self, turns: usize) -> Self {
        Self { turns, ..self }
    }

    /// Runs the model in all interleavings that the bound of preemptions allows. Returns whether a
    /// worker has died in any of them.
    pub(crate) fn check(&self) -> bool {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = match (builder.preemption_bound, self.preemptions) {
            // CI sets a bound for all models. A model with a bound of its own then gets at least
            // one preemption fewer than its own bound.
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

    /// Runs the model once for each operation after which this worker can die.
    pub(crate) fn check_deaths_of(&self, slot: usize) {
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

    /// Runs the model in one interleaving. Returns whether a worker has died.
    fn run(&self) -> bool {
        sync::all_live();
        let server = Server::new(
            self.workers.len(),
            self.exclusive,
            self.one_always_listens(),
        );
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
        self.check_that_clients_are_accepted(&server, &mut living);
        // Operations of the workers that are dropped here have no effect.
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
        // A worker that starts to listen becomes leader, so the first worker takes its turn last.
        // Without exclusive wake-ups, the first turn gets the lock, so the first worker takes that
        // turn.
        if !self.exclusive {
            members.reverse();
        }
        for _ in 0..2 {
            members.iter_mut().for_each(Worker::turn);
        }
        settle(server, &mut members);
        while self.rests && !members.iter().all(|worker| worker.rests) {
            members.iter_mut().for_each(Worker::time_out);
            settle(server, &mut members);
        }
        let mut workers: Vec<_> = self.workers.iter().map(|_| None).collect();
        for mut member in members {
            member.begin();
            let slot = member.slot();
            workers[slot] = Some(member);
        }
        workers
    }

    /// Starts the thread of a worker. The thread returns the worker, and whether the worker has
    /// died.
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

    /// Checks that each client that has connected so far, and one more, is accepted.
    fn check_that_clients_are_accepted(&self, server: &Server, living: &mut Vec<Worker>) {
        living.retain(Worker::is_member);
        for connects in [false, true] {
            if connects {
                server.kernel.connect();
            }
            settle(server, living);
            if self.delays_pass {
                // In the first turn the lock is refused, and the second turn probes.
                for _ in 0..2 {
                    living.iter_mut().for_each(Worker::time_out);
                    settle(server, living);
                }
            }
            let waits = server.kernel.clients() > 0 && living.iter().any(Worker::has_room);
            assert!(!waits, "a client waits for a worker with room");
        }
    }

    /// Returns whether one worker must always listen, because none fills up, leaves or dies.
    fn one_always_listens(&self) -> bool {
        let stays = |act: Act| !matches!(act, Leaves | Has(CAPACITY));
        self.exclusive && self.dies.is_none() && self.workers.iter().all(|&(_, act)| stays(act))
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
        let member = || worker.expect("a worker with this act is a member");
        let mut worker = match self {
            Joins(active) => Worker::new(server, slot, active),
            _ => member(),
        };
        match self {
            Sleeps => {
                worker.wake();
                if worker.is_due {
                    worker.turn();
                }
                return worker;
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

fn release_dead(server: &Server, slot: usize) {
    let is_mute = sync::is_injected(Fault::ReleasesMutely);
    server.kernel.mute_this_thread(is_mute);
    server.group.release_dead(WorkerId::from_slot(slot));
    server.kernel.mute_this_thread(false);
}

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
    panic!("the workers do not fall asleep");
}
