//! Tests that the workers of a group without clients sleep without a limit, in a model of the
//! kernel's order of wake-ups (`model/mod.rs`).

use evcore_balancer::Policy;

mod model;

use model::Server;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;

fn policies() -> [Policy; 2] {
    [Policy::least_loaded(), Policy::exclusive()]
}

fn resting(policy: Policy, workers: u32, seed: u64) -> Server {
    let mut server = Server::new(policy, workers, seed);
    server.pass(4 * SECOND);
    server
}

#[test]
fn a_group_without_clients_does_not_wake_up() {
    for policy in policies() {
        for workers in [1, 2, 4, 64] {
            let mut server = resting(policy, workers, 0);
            let before = server.timeouts + server.wakes;
            server.pass(1_000 * SECOND);
            assert_eq!(
                server.timeouts + server.wakes,
                before,
                "{workers} {policy:?}"
            );
        }
    }
}

#[test]
fn a_group_rests_again_after_its_clients_with_any_loads() {
    for policy in policies() {
        for seed in 0..20 {
            let mut server = resting(policy, 4, seed);
            for _ in 0..50 {
                server.connect(5);
            }
            server.close_connections_of(2);
            server.pass(4 * SECOND);
            assert!(server.workers.iter().all(|worker| worker.rests));
        }
    }
}

/// Number of wake-ups and timeouts per client, if a client connects every `every_ms` milliseconds.
fn wakes_for_a_client(policy: Policy, workers: u32, every_ms: u64, never_rests: bool) -> f64 {
    let mut server = Server::new(policy, workers, 7);
    server.never_rests = never_rests;
    server.pass(4 * SECOND);
    let before = server.timeouts + server.wakes;
    for _ in 0..400 {
        server.connect(1);
        server.pass(every_ms * MS);
    }
    f64::from(server.timeouts + server.wakes - before) / 400.0
}

/// With `--nocapture` this prints the table of decision 0021.
#[test]
fn rare_clients_cost_hardly_more_wakes_than_timeouts_would() {
    println!("| policy | workers | a client every | wake-ups for a client | without rest |");
    println!("|---|---|---|---|---|");
    for policy in policies() {
        for workers in [2, 4, 16] {
            for every_ms in [100, 400, 600, 2_001, 2_500, 10_000] {
                let [wakes, without] =
                    [false, true].map(|never| wakes_for_a_client(policy, workers, every_ms, never));
                println!("| {policy:?} | {workers} | {every_ms} ms | {wakes:.2} | {without:.2} |");
                assert!(
                    wakes <= 1.15 * without,
                    "{workers}, every {every_ms} ms: {wakes}"
                );
            }
        }
    }
}
