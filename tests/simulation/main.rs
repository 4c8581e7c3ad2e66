//! A simulated server under all faults that it can meet, with invariants that must hold in hundreds
//! of seeds.
//!
//! `line_server` is a small server, and `invariants` checks each of its steps. `liveness` checks
//! that some worker accepts while clients wait. The mutants in `tests/mutants` show that these
//! tests can fail.

mod clients;
mod config;
mod invariants;
mod late;
mod line_server;
mod liveness;

use std::{ops::RangeInclusive, rc::Rc, time::Duration};

use evcore_sim::{Fault, Rng, Sim, Workers, check};

use clients::{Behaviour, Circumstances, TestClient};
use config::Config;
use line_server::{LineServer, Reason, Reasons};
use liveness::LivenessChecker;

/// The time by which every client has ended, because of the server's own timeouts.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// The time before the last client comes. With the default delay, a group is at rest (its workers
/// sleep without a limit) after two seconds without a client.
const QUIET: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(6);

/// The time for which workers are paused when the last client comes.
const STOP: Duration = Duration::from_secs(4);

/// The faults of outgoing connections, jobs, datagrams and channels, which this server does not
/// use.
const UNUSED_FAULTS: [Fault; 10] = [
    Fault::ImmediateConnect,
    Fault::ConnectRefused,
    Fault::ConnectTimeout,
    Fault::NoLocalPort,
    Fault::SlowJob,
    Fault::JobPanic,
    Fault::DatagramLoss,
    Fault::DatagramDuplicate,
    Fault::DatagramDelay,
    Fault::ChannelKill,
];

struct Served {
    clients: Vec<TestClient>,
    /// Upper bound on the connections that the clients have replaced.
    replaces: usize,
    /// The reason why the server has ended each connection.
    reasons: Reasons,
    circumstances: Circumstances,
}

/// Runs a server with clients to its shutdown.
fn run(sim: &Sim, config: Config, behaviour: Behaviour) -> Served {
    sim.note(&format!("{config:?}"));
    config.prepare(sim);
    let mut rng = sim.rng();
    let (workers, group) = (config.workers, config.group(sim));
    let mut liveness = LivenessChecker::new(sim, config.guarantee());
    let reasons = Reasons::default();
    let shared = Rc::clone(&reasons);
    let (own_listeners, slots) = (config.own_listeners, config.connections as usize);
    let may_pause = config.may_pause();
    let mut server = Workers::new(sim, workers, move |process, index| {
        LineServer::new(process, index, &config, &group, &shared)
    });
    let mut stops_worker = false;
    let mut clients = Vec::new();
    for mut choices in sim.clients(10..=39) {
        clients.push(TestClient::start(sim, &mut choices, behaviour));
        // Some clients start together, so that batches have several events and backlogs several
        // clients.
        if rng.below(3) == 0 {
            let pause = rng.duration(&(Duration::ZERO..=Duration::from_secs(6)));
            run_for(&mut server, pause, &mut liveness);
        }
        if behaviour == Behaviour::Any && workers > 1 && rng.below(64) == 0 {
            stops_worker = true;
            let worker = server.app_mut(0).into_iter();
            worker.for_each(LineServer::shut_down_with_clients);
        }
    }
    while !clients.iter().all(TestClient::is_done) {
        assert!(
            sim.now() < TIME_LIMIT,
            "a client was neither answered nor closed"
        );
        run_for(&mut server, Duration::from_secs(5), &mut liveness);
    }
    if may_pause {
        clients.push(come_late(
            sim,
            &mut server,
            workers,
            &mut rng,
            &mut liveness,
        ));
    }
    shut_down(&mut server, workers);
    clients.iter().for_each(TestClient::check);
    let has_occurred = |fault| sim.fault_count(fault) > 0;
    let came = clients.len();
    let replaces: usize = clients.iter().map(TestClient::replaces).sum();
    Served {
        clients,
        replaces,
        reasons,
        circumstances: Circumstances {
            clock_jumps: has_occurred(Fault::ClockJump),
            may_refuse: own_listeners && (stops_worker || has_occurred(Fault::Kill)),
            may_evict: stops_worker || came + replaces > slots,
            stops_worker,
        },
    }
}

impl Served {
    /// Checks that every client was answered or is excused. Returns how many clients stayed, and
    /// how many of them were answered.
    fn check(&self) -> [usize; 2] {
        for client in &self.clients {
            assert!(
                client.is_answered() || client.is_excused(&self.reasons, self.circumstances),
                "a client is lost: {client:?}, ended by {:?}",
                client.reason(&self.reasons)
            );
        }
        let reasons = self.reasons.borrow();
        let replaced = reasons
            .values()
            .filter(|reason| **reason == Reason::Replaced);
        assert!(
            replaced.count() <= self.replaces,
            "a connection is replaced unasked"
        );
        let stayed = self.clients.iter().filter(|client| client.stays());
        let answered = stayed.clone().filter(|client| client.is_answered());
        [stayed.count(), answered.count()]
    }
}

fn run_for(server: &mut Workers<LineServer>, time: Duration, liveness: &mut LivenessChecker) {
    server.run_until(time, |server| {
        liveness.check(server);
        false
    });
}

/// Runs a client that comes after a time without clients, while all workers except one are paused.
/// The group may be at rest then, and the kernel may wake a paused worker. So the running worker
/// has to find the client by itself.
fn come_late(
    sim: &Sim,
    server: &mut Workers<LineServer>,
    workers: usize,
    rng: &mut Rng,
    liveness: &mut LivenessChecker,
) -> TestClient {
    let quiet = rng.duration(&QUIET);
    run_for(server, quiet, liveness);
    let running = rng.index(workers);
    for index in (0..workers).filter(|index| *index != running) {
        if let Some(worker) = server.app_mut(index) {
            worker.be_stopped();
            server.pause(index, STOP);
        }
    }
    let client = TestClient::start(sim, rng, Behaviour::Polite);
    let ends = server.run_until(TIME_LIMIT, |server| {
        liveness.check(server);
        client.is_done()
    });
    assert!(ends, "a late client was neither answered nor closed");
    client
}

/// Shuts all workers down, also the successors of those that are killed meanwhile.
fn shut_down(server: &mut Workers<LineServer>, workers: usize) {
    for _ in 0..100 {
        for index in 0..workers {
            let worker = server.app_mut(index).into_iter();
            worker.for_each(LineServer::shut_down);
        }
        if server.run_until(Duration::from_secs(10), Workers::all_done) {
            break;
        }
    }
    assert!(server.all_done(), "the shutdown does not end");
    server.apps().for_each(|(_, worker)| worker.check_end());
}

#[test]
fn all_invariants_hold_under_every_fault() {
    let (mut stayed, mut answered) = (0, 0);
    let mut counts = [0; Fault::ALL.len()];
    let name = "all_invariants_hold_under_every_fault";
    let seeds = check(name, 0..400, |sim| {
        let config = Config::faulty(&mut sim.rng());
        let served = run(sim, config, Behaviour::Any);
        let counts_of_seed = served.check();
        stayed += counts_of_seed[0];
        answered += counts_of_seed[1];
        for (count, fault) in counts.iter_mut().zip(Fault::ALL) {
            *count += sim.fault_count(fault);
        }
    });
    if seeds >= 100 {
        // If few clients are answered, the test shows nothing. The servers are small and full, so
        // not every client that stays is answered.
        assert!(
            answered * 5 > stayed * 3,
            "only {answered} of {stayed} that stayed were answered"
        );
        for (count, fault) in counts.iter().zip(Fault::ALL) {
            let occurs = !UNUSED_FAULTS.contains(&fault);
            assert_eq!(*count > 0, occurs, "{fault:?} occurred {count} times");
        }
    }
}

/// A worker that does not listen looks for clients only when another worker notifies it.
#[test]
fn every_notification_is_followed() {
    check("every_notification_is_followed", 0..100, |sim| {
        let config = Config::notifying(&mut sim.rng());
        run(sim, config, Behaviour::Any).check();
    });
}

/// When the last client comes, the group may be at rest, and all workers except one are paused.
#[test]
fn a_group_at_rest_meets_every_client() {
    check("a_group_at_rest_meets_every_client", 0..100, |sim| {
        check_all_answered(sim, Config::resting(&mut sim.rng()));
    });
}

#[test]
fn without_faults_every_client_is_answered() {
    let name = "without_faults_every_client_is_answered";
    check(name, 0..200, |sim| {
        check_all_answered(sim, Config::faultless(&mut sim.rng()));
    });
}

#[test]
fn under_lossless_faults_no_client_is_lost() {
    let name = "under_lossless_faults_no_client_is_lost";
    check(name, 0..200, |sim| {
        check_all_answered(sim, Config::lossless(&mut sim.rng()));
    });
}

#[test]
fn an_abandoned_turn_loses_nothing() {
    check("an_abandoned_turn_loses_nothing", 0..100, |sim| {
        check_all_answered(sim, Config::abandoning(&mut sim.rng()));
        assert!(sim.fault_count(Fault::AbandonedTurn) > 0);
    });
}

fn check_all_answered(sim: &Sim, config: Config) {
    for client in run(sim, config, Behaviour::Polite).clients {
        assert!(client.is_answered(), "{client:?}");
    }
}
