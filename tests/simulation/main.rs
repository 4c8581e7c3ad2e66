//! Simulated servers under every fault, with invariants that must hold in a thousand seeds.
//!
//! `line_server` is a small server that uses every part of the loop, and `invariants` checks each of its
//! steps. `clients` are its clients and `config` is its shape; the seed chooses both. `liveness`
//! checks that some worker accepts while clients wait. `httpd` runs the reference server. The
//! mutants in `tests/mutants` show that these tests can fail.
//!
//! If a seed fails, the command that repeats it is printed.

mod clients;
mod config;
mod invariants;
mod line_server;
mod liveness;

use std::time::Duration;

use evcore_sim::{Fault, Sim, Workers, check};

use clients::{Behaviour, TestClient};
use config::Config;
use line_server::LineServer;
use liveness::LivenessChecker;

/// By then every client has ended, because of the server's own timeouts.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Runs a server with clients to its shutdown. Returns the clients.
fn run(sim: &Sim, config: Config, behaviour: Behaviour) -> Vec<TestClient> {
    sim.note(&format!("{config:?}"));
    config.prepare(sim);
    let mut rng = sim.rng();
    let (workers, group) = (config.workers, config.group(sim));
    let mut liveness = LivenessChecker::new(sim, config.guarantee());
    let mut server = Workers::new(sim, workers, move |process, index| {
        LineServer::new(process, index, &config, &group)
    });
    let mut clients = Vec::new();
    for _ in 0..10 + rng.below(30) {
        clients.push(TestClient::start(sim, &mut rng, behaviour));
        // Some start together, so that batches have several events and backlogs several clients.
        if rng.below(3) == 0 {
            let pause = rng.duration(&(Duration::ZERO..=Duration::from_secs(6)));
            run_for(&mut server, pause, &mut liveness);
        }
        if behaviour == Behaviour::Any && workers > 1 && rng.below(64) == 0 {
            // One worker shuts down while the others go on.
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
    shut_down(&mut server, workers);
    clients.iter().for_each(TestClient::check);
    clients
}

fn run_for(server: &mut Workers<LineServer>, time: Duration, liveness: &mut LivenessChecker) {
    server.run_until(time, |server| {
        liveness.check(server);
        false
    });
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
    let (mut answered, mut all) = (0, 0);
    let mut counts = [0; Fault::ALL.len()];
    let name = "all_invariants_hold_under_every_fault";
    let seeds = check(name, 0..1000, |sim| {
        let config = Config::faulty(&mut sim.rng());
        let clients = run(sim, config, Behaviour::Any);
        answered += clients.iter().filter(|it| it.is_answered()).count();
        all += clients.len();
        for (count, fault) in counts.iter_mut().zip(Fault::ALL) {
            *count += sim.fault_count(fault);
        }
    });
    if seeds >= 100 {
        // Otherwise the run shows nothing.
        assert!(answered * 4 > all, "only {answered} of {all} were answered");
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}

/// Workers that probe the listeners only when another worker notifies them.
#[test]
fn every_notification_is_followed() {
    check("every_notification_is_followed", 0..100, |sim| {
        let config = Config::notifying(&mut sim.rng());
        run(sim, config, Behaviour::Any);
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
    for client in run(sim, config, Behaviour::Polite) {
        assert!(client.is_answered(), "{client:?}");
    }
}
