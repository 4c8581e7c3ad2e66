//! Measures bursts: the first clients of an idle server connect all at once. The workers are on all
//! CPUs.
//!
//! In a burst, connections are spread least evenly, for two reasons. The workers still follow plans
//! (decisions whether to accept) from before the burst. And the first worker that runs finds all
//! clients before another one is awake.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use super::patterns::{self, jain};
use crate::report::Report;
use crate::run::{Run, each};
use crate::server::{self, Program, Server};

const WORKERS: [usize; 2] = [2, 4];
const CLIENTS: [usize; 2] = [40, 400];

/// The only server that `wrk` loads, because each run of `wrk` takes a second.
const UNDER_WRK: &str = "httpd least-loaded";

/// Measures all servers. In each round there is a burst for each column, and for one server also a
/// run of `wrk`.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    crate::cpus::most_descriptors();
    let mut peers = server::programs(run, report, "bursts");
    for peer in &mut peers {
        peer.use_all_cpus();
    }
    run.rounds("bursts", || {
        peers.retain(|peer| {
            let served = round(peer, report);
            report.or_absent(&peer.name, served).is_some()
        });
    });
}

fn round(peer: &Program, report: &mut Report) -> Result<(), String> {
    for workers in WORKERS {
        for clients in CLIENTS {
            let column = format!("{workers} workers, {clients}");
            let [even, wakes] = burst(&peer.start(workers)?, clients);
            report.add("jain burst", &peer.name, &column, even);
            report.add("wakes burst", &peer.name, &column, wakes);
            eprintln!(
                "bursts: {}, {column}: index {even:.3}, {wakes:.3} wakes a connection",
                peer.name
            );
            if peer.name == UNDER_WRK {
                let shares = wrk(&peer.start(workers)?, clients)?;
                let even = jain(&shares, workers);
                report.add("jain wrk", &peer.name, &column, even);
                eprintln!(
                    "bursts: {}, {column}: wrk {shares:?}, index {even:.3}",
                    peer.name
                );
            }
        }
    }
    Ok(())
}

/// Connects clients at once. Returns Jain's index, and the wakes of all workers per connection.
fn burst(server: &Server, clients: usize) -> [f64; 2] {
    let before = server.sleeps();
    let even = patterns::at_once(server, clients);
    server.wait_until_idle();
    [even, each(server.sleeps() - before, clients)]
}

/// Runs `wrk`. Returns the number of connections that each worker has accepted. In total, these are
/// two more than `clients`: `wrk` opens one of them, and the check that the server has started
/// opens the other.
fn wrk(server: &Server, clients: usize) -> Result<Vec<u64>, String> {
    let mut wrk = Command::new("wrk");
    wrk.args([format!("-c{clients}"), "-d1s".to_owned()]);
    let output = wrk.arg(format!("http://{}/", server.address)).output();
    output.map_err(|error| format!("wrk: {error}"))?;
    server.wait_until_idle();
    accepted(server).map_err(|error| format!("/status.json: {error}"))
}

fn accepted(server: &Server) -> Result<Vec<u64>, crate::Error> {
    Ok(workers(server)?
        .into_iter()
        .map(|(_, accepted)| accepted)
        .collect())
}

/// The process ids of the workers, and the number of connections that each has accepted, without
/// the connection of this function.
pub(super) fn workers(server: &Server) -> Result<Vec<(u64, u64)>, crate::Error> {
    let mut stream = TcpStream::connect(server.address)?;
    stream.write_all(b"GET /status.json HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let body = response.split("\r\n\r\n").nth(1).unwrap_or_default();
    let status: serde_json::Value = serde_json::from_str(body)?;
    let number = |worker: &serde_json::Value, name: &str| worker[name].as_u64().unwrap_or(0);
    // The worker that answers has also accepted this connection, which it counts as `writing`.
    let accepted = |worker| {
        (
            number(worker, "pid"),
            number(worker, "accepted") - number(worker, "writing"),
        )
    };
    let workers = status["workers"].as_array().ok_or("no workers")?;
    Ok(workers.iter().map(accepted).collect())
}
