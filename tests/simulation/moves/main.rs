//! Connections that move between simulated workers, which faults kill before and after calls on a
//! channel.
//!
//! `evcore-handover`, and the parts of `evcore-serve` below, run unchanged over simulated streams
//! and descriptors. Workers of three generations serve, and two reloads move the connections from
//! one to the next. Some runs also rebalance, or have descriptor stores (processes that keep the
//! idle connections of a worker that dies).
//!
//! Invariants: each client gets its own answers, in their order, without a gap. A client may lose
//! its connection if a kill hits the worker that owns it and no store keeps the connection, or if
//! that worker stops and no successor takes the connection. The owner is the worker whose poller
//! watches the connection, or the only one that has a descriptor of it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the files of evcore-serve have items that only its other files use"
)]

#[path = "../../../crates/evcore-serve/src/arrival.rs"]
mod arrival;
#[path = "../../../crates/evcore-serve/src/departure.rs"]
mod departure;
#[path = "../../../crates/evcore-serve/src/deposit.rs"]
mod deposit;
#[path = "../../../crates/evcore-serve/src/giving.rs"]
mod giving;
#[path = "../../../crates/evcore-serve/src/handing_on.rs"]
mod handing_on;
#[path = "../../../crates/evcore-serve/src/handover.rs"]
mod handover;
#[path = "../../../crates/evcore-serve/src/leaving.rs"]
mod leaving;
#[path = "../../../crates/evcore-serve/src/mailbox_ends.rs"]
mod mailbox_ends;

mod clients;
mod echo;
mod store;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    time::Duration,
};

use evcore::{EventLoop, Step, balancer::Policy};
use evcore_prefork::Stop;
use evcore_sim::{
    App, Fault, Faults, Probability, Rng, Sim, SimGroup, SimListener, SimStream, Workers, check,
};

use clients::TestClient;
use echo::{EchoWorker, ParentMailboxes};
use store::{Kept, Slot, Store};

const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

const GENERATIONS: usize = 3;

const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The configuration of one seed, and the stops that were requested.
#[derive(Clone)]
struct Server {
    /// Number of workers of a generation.
    workers: usize,
    rebalances: bool,
    /// True if each worker has a descriptor store. Each request then has all that its answer needs.
    keeps: bool,
    group: SimGroup,
    mailboxes: Rc<ParentMailboxes>,
    /// The requested stop of each worker, which also applies to the replacement of a killed one.
    stops: Rc<[Cell<Option<Stop>>]>,
    slots: Rc<[Slot]>,
    totals: Rc<Totals>,
}

/// Facts about the connections that have moved, over all workers.
#[derive(Debug, Default)]
struct Totals {
    arrived: Cell<u64>,
    came_back: Cell<u64>,
    kept: Kept,
    /// The addresses of the clients whose connections a worker or a store has closed, because no
    /// successor took them.
    closed: RefCell<BTreeSet<String>>,
}

impl Server {
    fn new(sim: &Sim, rng: &mut Rng) -> Self {
        let workers = 1 + rng.index(2);
        let all = workers * GENERATIONS;
        Self {
            workers,
            rebalances: rng.below(2) == 0,
            keeps: rng.below(2) == 0,
            group: sim.group(Policy::least_loaded(), all),
            mailboxes: Rc::new(ParentMailboxes::new(sim, workers, all)),
            stops: (0..all).map(|_| Cell::new(None)).collect(),
            slots: (0..all).map(|_| Slot::default()).collect(),
            totals: Rc::default(),
        }
    }

    /// Stops the workers of a generation. The workers of the next generation take their
    /// connections.
    fn reload(&self, workers: &mut Workers<Role>, generation: usize) {
        for index in generation * self.workers..(generation + 1) * self.workers {
            self.stops[index].set(Some(Stop::Graceful));
            // The call ends the worker's wait, as a signal does.
            workers.app_mut(index);
        }
    }
}

/// A process of the server. The workers come first, and then their stores.
enum Role {
    Worker(Box<EchoWorker>),
    Store(Box<Store>),
}

impl Role {
    fn app(&self) -> &dyn App {
        match self {
            Self::Worker(app) => &**app,
            Self::Store(app) => &**app,
        }
    }

    fn app_mut(&mut self) -> &mut dyn App {
        match self {
            Self::Worker(app) => &mut **app,
            Self::Store(app) => &mut **app,
        }
    }
}

impl App for Role {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        self.app_mut().event_loop()
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        self.app_mut().on_step(step);
    }

    fn on_turn_end(&mut self) {
        self.app_mut().on_turn_end();
    }

    fn on_turn_abandoned(&mut self) {
        self.app_mut().on_turn_abandoned();
    }

    fn is_done(&self) -> bool {
        self.app().is_done()
    }
}

fn run(sim: &Sim, faults: Faults) -> (Vec<TestClient>, Rc<Totals>) {
    sim.set_faults(faults);
    let mut rng = sim.rng();
    let server = Server::new(sim, &mut rng);
    let of_workers = server.clone();
    let all = server.workers * GENERATIONS;
    let count = if server.keeps { 2 * all } else { all };
    let mut workers = Workers::new(sim, count, move |process, index| {
        match index.checked_sub(all) {
            None => Role::Worker(Box::new(EchoWorker::new(process, index, &of_workers))),
            Some(index) => Role::Store(Box::new(Store::new(process, index, &of_workers))),
        }
    });
    let slots = Rc::clone(&server.slots);
    workers.on_death(move |index| slots.get(index).into_iter().for_each(Slot::wake_store));
    let mut clients = Vec::new();
    let pause = |workers: &mut Workers<_>, rng: &mut Rng| {
        workers.run_for(rng.duration(&(Duration::ZERO..=Duration::from_millis(500))));
    };
    for (number, mut choices) in sim.clients(10..=30).enumerate() {
        clients.push(TestClient::start(sim, number, server.keeps, &mut choices));
        if rng.below(3) == 0 {
            pause(&mut workers, &mut rng);
        }
    }
    for generation in 0..GENERATIONS - 1 {
        pause(&mut workers, &mut rng);
        server.reload(&mut workers, generation);
    }
    let ends = workers.run_until(TIME_LIMIT, |_| clients.iter().all(TestClient::is_done));
    // A client with a wrong answer waits for ever, so wrong answers are reported first.
    clients.iter().for_each(TestClient::check_answers);
    assert!(ends, "a client was neither answered nor closed");
    server.reload(&mut workers, GENERATIONS - 1);
    let are_done = |workers: &Workers<Role>| {
        (0..all).all(|index| workers.app(index).is_some_and(App::is_done))
    };
    let ends = workers.run_until(TIME_LIMIT, are_done);
    assert!(ends, "a worker does not end: {workers:?}");
    (clients, server.totals)
}

/// All faults except pauses and clock jumps, after which a worker gives up handing over its
/// connections.
fn faults() -> Faults {
    Faults::all()
        .without(Fault::Pause)
        .without(Fault::ClockJump)
        .with(Fault::StreamKill, Probability::one_in(256))
}

#[test]
fn a_client_is_lost_only_with_the_worker_that_owns_it() {
    let (mut arrived, mut came_back, mut kills, mut lost, mut closed) = (0, 0, 0, 0, 0);
    let (mut kept, mut taken) = (0, 0);
    let name = "a_client_is_lost_only_with_the_worker_that_owns_it";
    let seeds = check(name, 0..400, |sim| {
        let (clients, totals) = run(sim, faults());
        lost += clients
            .iter()
            .filter(|client| !client.check(&totals))
            .count();
        closed += totals.closed.borrow().len();
        arrived += totals.arrived.get();
        came_back += totals.came_back.get();
        kills += sim.fault_count(Fault::ChannelKill);
        kept += totals.kept.all.get();
        taken += totals.kept.taken.get();
    });
    if seeds >= 100 {
        // If these numbers are small, the test shows nothing.
        println!(
            "{arrived} arrived, {came_back} came back, {kills} kills, {lost} lost, {closed} closed; \
             {kept} kept, {taken} taken"
        );
        assert!(
            arrived > 5 * seeds && came_back > 0 && kills > seeds,
            "too few"
        );
        assert!(kept as u64 > seeds && 2 * taken > kept, "too few");
    }
}

#[test]
fn under_lossless_faults_no_client_is_lost() {
    check("under_lossless_faults_no_client_is_lost", 0..100, |sim| {
        let faults = Faults::lossless().without(Fault::Pause);
        let (clients, totals) = run(sim, faults);
        for client in &clients {
            assert!(client.check(&totals), "{client:?}");
        }
        assert!(totals.arrived.get() > 0, "no connection has moved");
    });
}

/// A worker dies with a probability of one half before each call on a channel, and again after a
/// send or a receive.
#[test]
fn workers_that_die_around_most_calls_lose_only_their_own() {
    let name = "workers_that_die_around_most_calls_lose_only_their_own";
    check(name, 0..100, |sim| {
        let faults = Faults::none().with(Fault::ChannelKill, Probability::one_in(2));
        let (clients, totals) = run(sim, faults);
        clients.iter().for_each(|client| _ = client.check(&totals));
    });
}
