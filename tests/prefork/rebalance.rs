//! Idle connections move from workers that have many to a new one, and their clients notice
//! nothing.

use std::{
    collections::VecDeque,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use evcore_tests::{
    Client, Server, assert_within, clients_of, eventually, process_state, signal_to,
};
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

fn opens(page: &Value) -> Vec<f64> {
    let workers = page["workers"].as_array().expect("a list");
    let open = |worker: &Value| worker["active"].as_f64().expect("a number");
    workers.iter().map(open).collect()
}

fn jain(opens: &[f64]) -> f64 {
    let (sum, squares) = (
        opens.iter().sum::<f64>(),
        opens.iter().map(|x| x * x).sum::<f64>(),
    );
    sum * sum / (opens.len() as f64 * squares)
}

/// Returns whether each number is so near the mean that no connection moves.
fn is_balanced(opens: &[f64]) -> bool {
    let mean = opens.iter().sum::<f64>() / opens.len() as f64;
    opens
        .iter()
        .all(|open| (open - mean).abs() < 2.0 + mean / 32.0)
}

#[test]
fn connections_are_even_within_a_second_of_a_replacement() {
    for policy in ["least-loaded", "mutex", "exclusive"] {
        let server = Server::start(&["--workers", "4", "--accept", policy]);
        let mut clients = connect(&server);
        let killed = server.wait_for_workers(WORKERS, &[])[1];
        // Under `exclusive` and `mutex`, some connections move before all workers have about the
        // same number.
        eventually("the connections are even", || {
            let page = server.try_status_json().expect("a page");
            page["handed_over"] == page["arrived"] && is_balanced(&opens(&page))
        });
        // A worker that gives connections away may go on until it has as many as the mean. A
        // stopped worker takes no more connections.
        signal_to(killed, Signal::STOP);
        eventually("it is stopped", || process_state(killed) == Some('T'));
        let open_there = clients_of(killed, server.address().port());
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
        // The clients of the other workers are still connected.
        let mut moved = 0;
        for (client, worker) in &mut clients {
            match client.try_worker() {
                Ok(now) => moved += u64::from(now != *worker),
                Err(error) => assert!(
                    open_there.contains(&client.local_port()),
                    "{policy}: a client of another worker is lost: {error}"
                ),
            }
        }
        assert!(moved > 40, "{policy}: {moved} moved, {seen:?}");
        eventually("each that has left has arrived", || {
            let page = server.try_status_json().expect("a page");
            let [left, arrived] = ["handed_over", "arrived"].map(|count| page[count].as_u64());
            // The killed worker may have had no time to count the connections that it gave.
            left <= arrived && arrived >= Some(moved)
        });
    }
}

/// Waits until `count` connections are open, and the Jain index of the workers' numbers is at least
/// `index`. Returns `since` or, if that is `None`, the time at which all were open.
fn wait_until_even(server: &Server, count: f64, index: f64, since: Option<Instant>) -> Instant {
    let (mut since, mut seen) = (since, Vec::new());
    eventually("the connections are even", || {
        seen = server
            .try_status_json()
            .map_or(Vec::new(), |page| opens(&page));
        let is_open = seen.iter().sum::<f64>() >= count;
        if is_open && since.is_none() {
            since = Some(Instant::now());
        }
        is_open && jain(&seen) >= index
    });
    println!("even: {seen:?}, {:.4}", jain(&seen));
    since.expect("all were open")
}

/// Clients of two of the workers leave much sooner than others. At the end, all clients of these
/// two have left.
#[test]
fn uneven_lifetimes_leave_even_workers() {
    let server = Server::start(&["--workers", "4"]);
    let short: Vec<u32> = server.wait_for_workers(WORKERS, &[])[..2].to_vec();
    let mut open = VecDeque::new();
    // On a busy machine, the other two workers may accept few clients at first.
    let (mut now, mut long) = (0, 0);
    while now < 3 * CLIENTS || long <= CLIENTS / 2 {
        assert!(
            now < 30 * CLIENTS,
            "the other workers have accepted {long} clients"
        );
        let mut client = server.connect();
        let until = match short.contains(&client.worker()) {
            true => now + CLIENTS / 2,
            false => usize::MAX,
        };
        long += usize::from(until == usize::MAX);
        open.push_back((client, until));
        open.retain(|(_, until)| *until > now);
        now += 1;
    }
    open.retain(|(_, until)| *until == usize::MAX);
    let since = wait_until_even(&server, open.len() as f64, 0.995, Some(Instant::now()));
    assert_within(
        "the open connections are even",
        Duration::from_secs(1),
        since,
    );
    open.iter_mut().for_each(|(client, _)| _ = client.worker());
}

/// The clients come at once. They are the clients of wrk or, if it is not installed, of this test.
#[test]
fn the_first_400_clients_are_soon_spread_evenly() {
    let server = Server::start(&["--workers", "4"]);
    let _ = server.wait_for_workers(WORKERS, &[]);
    let mut wrk = Command::new("wrk");
    wrk.args([
        "-t1",
        "-c400",
        "-d3",
        &format!("http://{}/", server.address()),
    ]);
    let wrk = wrk.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let clients = wrk
        .is_err()
        .then(|| (0..CLIENTS).map(|_| server.connect()).collect::<Vec<_>>());
    let since = wait_until_even(&server, CLIENTS as f64, 0.99, None);
    assert_within(
        "the open connections are even",
        Duration::from_millis(100),
        since,
    );
    drop(clients);
    if let Ok(mut wrk) = wrk {
        assert!(wrk.wait().expect("it is ours").success());
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
