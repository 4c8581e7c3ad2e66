//! The whole: `httpd` beside the least that a server can do, and beside the fastest ones.
//!
//! Each server has one worker on the first CPU. The client is this process, on the last CPU: the load
//! of the example `client`. Every
//! server sends the same body in a head of nearly the same length.

mod datagrams;
/// The example `client`.
#[path = "../../../evcore/examples/client/load.rs"]
mod load;
mod process;
mod proxies;
mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use self::load::Load;
use self::process::Cpu;
use self::servers::{HTTPD, NGINX, Server};
use crate::accept::launch::Launch;
use crate::report::Report;
use crate::run::{Run, each};

pub(crate) use self::datagrams::measure as measure_datagrams;
pub(crate) use self::proxies::measure as measure_proxies;

/// The numbers of connections.
const CONNECTIONS: [u32; 3] = [1, 64, 1024];

const CPU: &str = "cpu";
const USER: &str = "user";
const RATE: &str = "rate";
/// The tables of the latency, with their quantiles.
const LATENCIES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// How long each server is measured, with one number of connections.
#[derive(Clone, Copy, Debug)]
struct Times {
    warm_up: Duration,
    saturated: Duration,
    at_rate: Duration,
}

impl Times {
    fn of(run: &Run) -> Times {
        let ms = |ms| Duration::from_millis(if run.quick { ms / 5 } else { ms });
        Times {
            warm_up: ms(100),
            saturated: ms(400),
            at_rate: ms(600),
        }
    }
}

/// Measures all servers.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    declare(report);
    // First, because it builds the peers, and then this thread is on one CPU.
    let programs = servers::programs(run, report);
    let launch = Launch::beside_this_thread();
    run.rounds("whole", || {
        let mut servers = Vec::new();
        for program in &programs {
            match program.start(launch) {
                Ok(server) => servers.push(server),
                Err(error) => report.absent(program.name, &error.to_string()),
            }
        }
        for connections in CONNECTIONS {
            round(&servers, connections, Times::of(run), report);
        }
    });
}

/// One round: all servers are saturated in turn, then all get the same rate.
fn round(servers: &[Server], connections: u32, times: Times, report: &mut Report) {
    let column = connections.to_string();
    let mut rates = Vec::new();
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        saturate(&mut load, times.warm_up);
        let before = Cpu::of(server.pid());
        let (requests, took) = saturate(&mut load, times.saturated);
        let cpu = Cpu::of(server.pid()) - before;
        let mut add = |table, value| report.add(table, server.name, &column, value);
        add(CPU, each(cpu.all_ns, requests) / 1e3);
        add(USER, each(cpu.user_ns, requests) / 1e3);
        #[expect(clippy::cast_precision_loss, reason = "some 100,000")]
        let rate = requests as f64 / took.as_secs_f64();
        add(RATE, rate / 1e3);
        rates.push((server.name, rate));
    }
    let rate_of = |name| rates.iter().find(|(it, _)| *it == name).map(|(_, it)| *it);
    let Some(rate) = rate_of(NGINX).or(rate_of(HTTPD)) else {
        return;
    };
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        saturate(&mut load, times.warm_up);
        run_load(&mut load, rate / 2.0, times.at_rate);
        for (table, quantile) in LATENCIES {
            #[expect(clippy::cast_precision_loss, reason = "some seconds at most")]
            let us = load.latencies.value_at_quantile(quantile) as f64 / 1e3;
            report.add(table, server.name, &column, us);
        }
    }
}

/// Connections to a server, for requests of this path.
fn connect(server: SocketAddr, connections: u32, path: &str) -> Load {
    let load = Load::new(server.into(), path, connections);
    let mut load = load.expect("a descriptor is left");
    load.connect().expect("its loop can go on");
    assert!(load.errors.is_empty(), "{:?}", load.errors);
    load
}

/// Runs a load without an error, and returns how long that took.
fn run_load(load: &mut Load, rate: f64, time: Duration) -> Duration {
    let took = load.run(rate, time).expect("its loop can go on");
    assert!(load.errors.is_empty(), "{:?}", load.errors);
    took
}

/// Sends as fast as responses arrive. Returns their number, and how long they took.
fn saturate(load: &mut Load, time: Duration) -> (usize, Duration) {
    let took = run_load(load, f64::INFINITY, time);
    let requests = usize::try_from(load.latencies.len());
    (requests.expect("fewer than 2^64"), took)
}

fn declare(report: &mut Report) {
    let baseline = servers::BARE;
    let table = report.table(
        CPU,
        "CPU time of a request",
        "µs",
        "User and system time of the server's process, by the number of connections. Each \
         connection sends its next request when it has received a response.",
    );
    table.compared_with(baseline);
    let table = report.table(
        USER,
        "User time of a request",
        "µs",
        "The user's part of the same. The kernel samples it, so the rounds vary.",
    );
    table.compared_with(NGINX);
    let table = report.table(
        RATE,
        "Saturating rate",
        "thousand requests/s",
        "Requests a second in the same run.",
    );
    table.compared_with(baseline);
    for (name, _) in LATENCIES {
        let table = report.table(
            name,
            &format!("Latency, {name}"),
            "µs",
            "At half of the rate at which nginx is saturated, the same for all servers. The client \
             sends at fixed times, and the latency counts from these times, so a stall delays all \
             requests that are due in it.",
        );
        table.compared_with(NGINX);
    }
}
