//! Whole servers: `httpd` compared with a minimal server and with fast ones, servers of files,
//! proxies, hyper on three runtimes, and a server that records its input.
//!
//! Each server has one worker on the first CPU. The client is this process, on the last CPU, with
//! the load generator of the example `client`. Except for files and large bodies, every server
//! sends the same short body.

use std::net::SocketAddr;
use std::time::Duration;

use crate::cpus::become_client;
use crate::load::Load;
use crate::process;
use crate::proxied;
use crate::report::Report;
use crate::run::{Run, each};
use crate::server::{self, Program, Server};

/// The cell that a load fills (its table and column), and the load: the path, the number of
/// connections, and whether each connection is closed after one request.
type LoadOf = (&'static str, &'static str, &'static str, u32, bool);

const FILES: [LoadOf; 2] = [
    ("file", "4 KiB", "/files/small", 64, false),
    ("file", "1 MiB", "/files/large", 64, false),
];

const PROXIED: [LoadOf; 7] = [
    ("proxy", "kept alive, 1", "/", 1, false),
    ("proxy", "kept alive, 64", "/", 64, false),
    ("proxy", "kept alive, 1024", "/", 1024, false),
    ("proxy", "closed, 1", "/", 1, true),
    ("proxy", "closed, 64", "/", 64, true),
    ("proxy", "closed, 1024", "/", 1024, true),
    (BODIES, "1 MiB, 8", "/bytes/1048576", 8, false),
];

/// The table whose figures are per KiB of the body.
const BODIES: &str = "proxied body";

/// The proxy that is measured only with large bodies, because it splices from the first byte, which
/// is a bad setting for small responses.
const SPLICES: &str = "HAProxy, splice";

const CONNECTIONS: [u32; 3] = [1, 64, 1024];

/// The largest number of connections, and the servers that get it. Other servers would take too
/// long.
const CROWD: u32 = 8192;
const CROWDED: [&str; 3] = ["bare epoll", "httpd", "nginx"];

pub(crate) fn measure(run: &Run, report: &mut Report) {
    let programs = server::programs(run, report, "whole");
    rounds("whole", &programs, run, report, |servers, report| {
        for connections in CONNECTIONS {
            servers
                .iter()
                .for_each(|server| saturate_for(server, connections, run, report));
        }
        let crowded = servers.iter();
        let crowded = crowded.filter(|server| CROWDED.contains(&server.name.as_str()));
        crowded.for_each(|server| saturate_for(server, CROWD, run, report));
    });
    let programs = server::programs(run, report, "files");
    saturate_all("files", &programs, &FILES, run, report);
}

pub(crate) fn measure_hyper(run: &Run, report: &mut Report) {
    measure_part("hyper", run, report);
}

pub(crate) fn measure_recording(run: &Run, report: &mut Report) {
    measure_part("recording", run, report);
}

fn measure_part(part: &str, run: &Run, report: &mut Report) {
    let programs = server::programs(run, report, part);
    rounds(part, &programs, run, report, |servers, report| {
        for connections in CONNECTIONS {
            servers
                .iter()
                .for_each(|server| saturate_for(server, connections, run, report));
        }
    });
}

/// Measures all proxies. Each forwards to `httpd`, which shares the last CPU with the client.
pub(crate) fn measure_proxies(run: &Run, report: &mut Report) {
    let upstream = server::programs(run, report, "upstream")[0].start(0);
    let Some(upstream) = report.or_absent("httpd", upstream) else {
        return;
    };
    let mut programs = server::programs(run, report, "proxies");
    for program in &mut programs {
        program.set("UPSTREAM", upstream.address.to_string());
    }
    saturate_all("proxies", &programs, &PROXIED, run, report);
    proxied::count(run, &mut programs, report);
}

/// Starts all servers in each round, and calls `round` with those that serve.
pub(crate) fn rounds(
    what: &str,
    peers: &[Program],
    run: &Run,
    report: &mut Report,
    mut round: impl FnMut(&[Server], &mut Report),
) {
    // The thread moves to one CPU only now, after the servers were built on all CPUs.
    become_client();
    run.rounds(what, || {
        let servers = peers.iter();
        let servers = servers.filter_map(|server| report.or_absent(&server.name, server.start(0)));
        let servers: Vec<Server> = servers.collect();
        round(&servers, report);
    });
}

fn saturate_all(what: &str, peers: &[Program], loads: &[LoadOf], run: &Run, report: &mut Report) {
    rounds(what, peers, run, report, |servers, report| {
        for (table, column, path, connections, closes) in loads {
            let servers = servers.iter();
            for server in servers.filter(|server| server.name != SPLICES || *table == BODIES) {
                let mut load = connect(server.address, *connections, path);
                load.closes = *closes;
                let [_, cpu_ns, _] = saturate(server, &mut load, run);
                // The unit is µs per request, or ns per KiB of a body of 1 MiB.
                let divisor = if *table == BODIES { 1024.0 } else { 1e3 };
                report.add(table, &server.name, column, cpu_ns / divisor);
            }
        }
    });
}

fn saturate_for(server: &Server, connections: u32, run: &Run, report: &mut Report) {
    let mut load = connect(server.address, connections, "/");
    let [user_ns, cpu_ns, rate] = saturate(server, &mut load, run);
    let column = connections.to_string();
    for (table, value) in [
        ("cpu", cpu_ns / 1e3),
        ("user", user_ns / 1e3),
        ("rate", rate / 1e3),
    ] {
        report.add(table, &server.name, &column, value);
    }
}

/// A duration of this many milliseconds, or a fifth of it in a quick run.
pub(crate) fn ms(run: &Run, ms: u64) -> Duration {
    Duration::from_millis(if run.quick { ms / 5 } else { ms })
}

pub(crate) fn connect(server: SocketAddr, connections: u32, path: &str) -> Load {
    let load = Load::new(server.into(), path, connections);
    let mut load = load.expect("a descriptor is left");
    load.connect()
        .expect("the event loop of the load generator works");
    assert!(load.errors.is_empty(), "{:?}", load.errors);
    load
}

/// Runs a load, which must have no error, and returns how long that took.
pub(crate) fn run_load(load: &mut Load, rate: f64, time: Duration) -> Duration {
    let took = load
        .run(rate, time)
        .expect("the event loop of the load generator works");
    assert!(load.errors.is_empty(), "{:?}", load.errors);
    took
}

/// Saturates a server: each connection sends its next request when a response arrives. Returns
/// nanoseconds of user time and of all CPU time per request, and requests per second.
pub(crate) fn saturate(server: &Server, load: &mut Load, run: &Run) -> [f64; 3] {
    run_load(load, f64::INFINITY, ms(run, 100));
    let pid = server.pids()[0];
    let before = process::cpu_ns(pid);
    let took = run_load(load, f64::INFINITY, ms(run, 400));
    let after = process::cpu_ns(pid);
    let requests =
        usize::try_from(load.latencies.len()).expect("the number of requests fits a usize");
    let [user_ns, cpu_ns] = [0, 1].map(|at| each(after[at] - before[at], requests));
    let rate = 1.0 / (took.as_secs_f64() * each(1, requests));
    [user_ns, cpu_ns, rate]
}
