//! Clients of `httpd` when their worker dies. A descriptor store is a process that keeps the idle
//! connections of such a worker, so an idle client sees no close, and is answered on the same
//! connection.

#![cfg(target_os = "linux")]

mod kills;
mod limits;
mod soak;

use evcore_tests::{Client, Server, eventually, process_state, signal_to};
use rustix::process::Signal;

/// A server with stores. Idle connections stay where they are, unless their worker dies.
fn start(workers: usize, more: &[&str]) -> Server {
    evcore_tests::allow_many_descriptors();
    let number = workers.to_string();
    let mut options = vec!["--workers", &number, "--fd-store", "on"];
    options.extend(["--rebalance", "off"]);
    options.extend(more);
    let server = Server::start(&options);
    eventually("each worker has a store", || {
        server.store_pids().len() == workers
    });
    server
}

fn connect(server: &Server, count: usize) -> Vec<Client> {
    let connect = |_| {
        let mut client = server.connect();
        client.worker();
        client
    };
    (0..count).map(connect).collect()
}

/// Kills a worker that sleeps, and waits until it has died. A worker that runs may have sent the
/// last byte of an answer and not yet marked the connection as idle, or may read another request.
fn kill(worker: u32) {
    eventually("it sleeps", || process_state(worker) == Some('S'));
    signal_to(worker, Signal::KILL);
    eventually("it has died", || {
        matches!(process_state(worker), None | Some('Z'))
    });
}

fn kept_and_lost(server: &Server) -> Option<(u64, u64)> {
    let page = server.try_status_json()?;
    Some((page["kept"].as_u64()?, page["lost"].as_u64()?))
}
