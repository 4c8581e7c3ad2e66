//! Idle connections move from workers that have many to a new one, and their clients notice nothing.

use std::time::{Duration, Instant};

use evcore_tests::{Client, Server, assert_within, eventually, signal_to};
use rustix::process::Signal;
use serde_json::Value;

const CLIENTS: usize = 400;
const WORKERS: usize = 4;

fn connect(server: &Server) -> Vec<(Client, u32)> {
    let clients = (0..CLIENTS).map(|_| {
        let mut client = server.connect();
        let worker = client.worker();
        (client, worker)
    });
    clients.collect()
}

/// The number of open connections of each worker.
fn opens(page: &Value) -> Vec<f64> {
    let workers = page["workers"].as_array().expect("a list");
    let open = |worker: &Value| worker["active"].as_f64().expect("a number");
    workers.iter().map(open).collect()
}

/// The number of open connections of one worker.
fn open_at(page: &Value, pid: u32) -> u64 {
    let mut workers = page["workers"].as_array().expect("a list").iter();
    let worker = workers.find(|worker| worker["pid"] == pid);
    worker.expect("it lives")["active"]
        .as_u64()
        .expect("a number")
}

/// Jain's index.
fn jain(opens: &[f64]) -> f64 {
    let (sum, squares) = (
        opens.iter().sum::<f64>(),
        opens.iter().map(|x| x * x).sum::<f64>(),
    );
    sum * sum / (opens.len() as f64 * squares)
}

#[test]
fn a_worker_beside_three_full_ones_is_even_in_a_second() {
    for policy in ["least-loaded", "mutex", "exclusive"] {
        let server = Server::start(&["--workers", "4", "--accept", policy]);
        let mut clients = connect(&server);
        let killed = server.wait_for_workers(WORKERS, &[])[1];
        // Under `exclusive` some may have moved to it already.
        let mut open_there = 0;
        eventually("none is under way", || {
            let page = server.try_status_json().expect("a page");
            open_there = open_at(&page, killed);
            page["handed_over"] == page["arrived"]
        });
        // With its connections.
        signal_to(killed, Signal::KILL);
        let _ = server.wait_for_workers(WORKERS, &[killed]);
        let started = Instant::now();
        let mut seen = Vec::new();
        eventually("the connections are even", || {
            let page = server.try_status_json();
            seen = page.map(|page| opens(&page)).unwrap_or_default();
            seen.len() == WORKERS && jain(&seen) >= 0.99
        });
        assert_within(policy, Duration::from_secs(1), started);
        // The others still have their connections, which no worker has closed.
        let (mut moved, mut lost) = (0, 0);
        for (client, worker) in &mut clients {
            match client.try_worker() {
                Ok(now) => moved += u64::from(now != *worker),
                Err(_) => lost += 1,
            }
        }
        assert!(
            lost <= open_there,
            "{policy}: {lost} are lost of {open_there}"
        );
        assert!(moved > 40, "{policy}: {moved} moved, {seen:?}");
        eventually("each that has left has arrived", || {
            let page = server.try_status_json().expect("a page");
            let [left, arrived] = ["handed_over", "arrived"].map(|count| page[count].as_u64());
            assert_eq!(page["taken_back"], 0, "{policy}");
            left == arrived && arrived >= Some(moved)
        });
    }
}

#[test]
fn without_rebalancing_connections_stay_where_they_are() {
    let server = Server::start(&["--workers", "4", "--rebalance", "off"]);
    let clients = connect(&server);
    let killed = server.wait_for_workers(WORKERS, &[])[1];
    signal_to(killed, Signal::KILL);
    let _ = server.wait_for_workers(WORKERS, &[killed]);
    let mut others = clients.into_iter().filter(|(_, worker)| *worker != killed);
    assert!(others.all(|(mut client, worker)| client.worker() == worker));
    assert_eq!(server.try_status_json().expect("a page")["arrived"], 0);
}
