//! The whole: `httpd` compared with the least that a server can do, and with the fastest ones;
//! files; and proxies.
//!
//! Each server has one worker on the first CPU. The client is this process, on the last CPU: the load
//! of the example `client`. Every server sends the same body in a head of nearly the same length.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::cpus::become_client;
use crate::load::Load;
use crate::report::Report;
use crate::run::{Run, each};
use crate::server::{self, Program, Server};
use crate::{pace, process};

/// The tables of the latency, with their quantiles.
const LATENCIES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// A load with the cell that it fills: a table, a column, the path, the number of connections, and
/// whether each has one request.
type LoadOf = (&'static str, &'static str, &'static str, u32, bool);

const FILES: [LoadOf; 2] = [
    ("file", "4 KiB", "/files/small", 64, false),
    ("file", "1 MiB", "/files/large", 64, false),
];

const PROXIED: [LoadOf; 5] = [
    ("proxy", "kept alive, 1", "/", 1, false),
    ("proxy", "kept alive, 64", "/", 64, false),
    ("proxy", "closed, 1", "/", 1, true),
    ("proxy", "closed, 64", "/", 64, true),
    (BODIES, "1 MiB, 8", "/bytes/1048576", 8, false),
];

/// The table whose figures are per KiB of the body.
const BODIES: &str = "proxied body";

/// Measures all servers.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    let programs = server::programs(run, report, "whole");
    rounds("whole", &programs, run, report, |servers, report| {
        for connections in [1, 64, 1024] {
            round(servers, connections, run, report);
        }
    });
    let programs = server::programs(run, report, "files");
    saturate_all("files", &programs, &FILES, run, report);
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
}

/// Starts all servers in each round, and calls `round` with those that serve.
fn rounds(
    what: &str,
    peers: &[Program],
    run: &Run,
    report: &mut Report,
    mut round: impl FnMut(&[Server], &mut Report),
) {
    // This comes only now, because the peers are built on all CPUs.
    become_client();
    run.rounds(what, || {
        let servers = peers.iter();
        let servers = servers.filter_map(|server| report.or_absent(&server.name, server.start(0)));
        let servers: Vec<Server> = servers.collect();
        round(&servers, report);
    });
}

/// Saturates each server with each load.
fn saturate_all(what: &str, peers: &[Program], loads: &[LoadOf], run: &Run, report: &mut Report) {
    rounds(what, peers, run, report, |servers, report| {
        for (table, column, path, connections, closes) in loads {
            for server in servers {
                let mut load = connect(server.address, *connections, path);
                load.closes = *closes;
                let [_, cpu_ns, _] = saturate(server, &mut load, run);
                // The unit is µs per request, or ns per KiB of its body.
                let divisor = if *table == BODIES { 1024.0 } else { 1e3 };
                report.add(table, &server.name, column, cpu_ns / divisor);
            }
        }
    });
}

/// One round: all servers are saturated in turn, then all get the same rate.
fn round(servers: &[Server], connections: u32, run: &Run, report: &mut Report) {
    let column = connections.to_string();
    let mut rates = HashMap::new();
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        let [user_ns, cpu_ns, rate] = saturate(server, &mut load, run);
        let mut add = |table, value| report.add(table, &server.name, &column, value);
        add("cpu", cpu_ns / 1e3);
        add("user", user_ns / 1e3);
        add("rate", rate / 1e3);
        rates.insert(server.name.as_str(), rate);
    }
    // Without nginx, the rate is half of the one of `httpd`.
    let half = rates.get("nginx").or_else(|| rates.get("httpd"));
    let half = half.map_or(f64::INFINITY, |rate| rate / 2.0);
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        run_load(&mut load, f64::INFINITY, ms(run, 100));
        run_load(&mut load, half, ms(run, 600));
        for (table, quantile) in LATENCIES {
            let us = each(load.latencies.value_at_quantile(quantile), 1_000);
            report.add(table, &server.name, &column, us);
        }
    }
}

fn ms(run: &Run, ms: u64) -> Duration {
    Duration::from_millis(if run.quick { ms / 5 } else { ms })
}

/// Opens connections to a server, for requests of this path.
fn connect(server: SocketAddr, connections: u32, path: &str) -> Load {
    let load = Load::new(server.into(), path, connections);
    let mut load = load.expect("a descriptor is left");
    load.connect().expect("its loop can go on");
    assert!(load.errors.is_empty(), "{:?}", load.errors);
    load
}

/// Runs a load, which must have no error, and returns how long that took.
pub(crate) fn run_load(load: &mut Load, rate: f64, time: Duration) -> Duration {
    let took = load.run(rate, time).expect("its loop can go on");
    assert!(load.errors.is_empty(), "{:?}", load.errors);
    took
}

/// Saturates a server: each connection sends its next request when a response arrives. Returns
/// nanoseconds of user time and of all CPU time per request, and requests per second.
fn saturate(server: &Server, load: &mut Load, run: &Run) -> [f64; 3] {
    run_load(load, f64::INFINITY, ms(run, 100));
    let pid = server.pids()[0];
    let before = process::cpu_ns(pid);
    let took = run_load(load, f64::INFINITY, ms(run, 400));
    let after = process::cpu_ns(pid);
    let requests = usize::try_from(load.latencies.len()).expect("fewer than 2^64");
    let [user_ns, cpu_ns] = [0, 1].map(|at| each(after[at] - before[at], requests));
    let rate = 1.0 / (took.as_secs_f64() * each(1, requests));
    [user_ns, cpu_ns, rate]
}

const UNDER_WAY: u32 = 64;
/// Time after which a question counts as lost, because the kernel drops datagrams that it has no
/// room for.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// A DNS question for the address of `example.org`.
const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";

/// Measures how many questions the example `udp` answers.
pub(crate) fn measure_datagrams(run: &Run, report: &mut Report) {
    let programs = server::programs(run, report, "udp");
    become_client();
    run.rounds("datagrams", || {
        for program in &programs {
            let answers = answers_a_second(program, ms(run, 500));
            if let Some(answers) = report.or_absent(&program.name, answers) {
                report.add("answers", &program.name, "one core", answers / 1e3);
            }
        }
    });
}

/// Number of answers per second, with 64 questions under way.
fn answers_a_second(program: &Program, time: Duration) -> io::Result<f64> {
    let server = program.launch(0)?;
    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.connect(server.address)?;
    client.set_read_timeout(Some(LOST_AFTER))?;
    let mut answer = [0; 512];
    let serves = || client.send(QUESTION).is_ok() && client.recv(&mut answer).is_ok();
    if !pace::until(serves) {
        return Err(io::Error::other("it does not serve"));
    }
    let (mut answers, mut due) = (0_u32, UNDER_WAY);
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..due {
            client.send(QUESTION)?;
        }
        due = match client.recv(&mut answer) {
            Ok(_) => {
                answers += 1;
                1
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => UNDER_WAY,
            Err(error) => return Err(error),
        };
    }
    Ok(f64::from(answers) / time.as_secs_f64())
}
