//! The whole: `httpd` beside the least that a server can do, and beside the fastest ones.
//!
//! Each server has one worker on the first CPU. The client is this process, on the last CPU: the load
//! of the example `client`. Every
//! server sends the same body in a head of nearly the same length.

mod datagrams;
mod files;
/// The example `client`.
#[path = "../../../evcore/examples/client/load.rs"]
mod load;
mod proxies;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use evcore::poller::BackendKind;

use self::load::Load;
use crate::process;
use crate::report::Report;
use crate::run::{Run, each};
use crate::server::{Program, Server};
use crate::servers::{self, Nginx};

pub(crate) use self::datagrams::measure as measure_datagrams;
pub(crate) use self::proxies::measure as measure_proxies;

/// The numbers of connections.
const CONNECTIONS: [u32; 3] = [1, 64, 1024];

const BARE: &str = "bare epoll";
const NGINX: &str = "nginx";
/// The servers of the workspace `peers`, with their programs.
const PEERS: [(&str, &str); 3] = [
    ("hyper", "hyper-hello"),
    ("actix-web", "actix-hello"),
    ("may_minihttp", "may-hello"),
];

/// The tables of the latency, with their quantiles.
const LATENCIES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Measures all servers.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    // First, because it builds the peers, and then this thread is on one CPU.
    let programs = programs(run, report);
    crate::cpus::become_client();
    run.rounds("whole", || {
        let servers = programs
            .iter()
            .map(|program| (program.name, program.start(0)));
        let servers: Vec<Server> = servers
            .filter_map(|(name, it)| report.or_absent(name, it))
            .collect();
        for connections in CONNECTIONS {
            round(&servers, connections, run, report);
        }
    });
    files::measure(run, report);
}

/// Those that can be built.
fn programs(run: &Run, report: &mut Report) -> Vec<Program> {
    let nginx = Nginx {
        location: "default_type text/plain; return 200 \"Hello, World!\";".to_owned(),
        listen: "backlog=1024",
        ..Nginx::default()
    };
    let bare = report.or_absent(BARE, servers::bare(run, BARE, "hello"));
    let own = [
        servers::httpd(run, "httpd", &[]),
        nginx.program(run, NGINX, report),
    ];
    let peers =
        PEERS.map(|(name, program)| report.or_absent(name, servers::peer(run, name, program)));
    let has_ring = BackendKind::usable().contains(&BackendKind::IoUring);
    let on_a_ring =
        has_ring.then(|| servers::httpd(run, "httpd, io_uring", &["--poller", "io_uring"]));
    bare.into_iter()
        .chain(own)
        .chain(on_a_ring)
        .chain(peers.into_iter().flatten())
        .collect()
}

/// One round: all servers are saturated in turn, then all get the same rate.
fn round(servers: &[Server], connections: u32, run: &Run, report: &mut Report) {
    let column = connections.to_string();
    let mut rates = HashMap::new();
    for server in servers {
        let saturated =
            Saturated::measure(server, &mut connect(server.address, connections, "/"), run);
        let mut add = |table, value| report.add(table, server.name, &column, value);
        add("cpu", saturated.cpu_ns / 1e3);
        add("user", saturated.user_ns / 1e3);
        add("rate", saturated.rate / 1e3);
        rates.insert(server.name, saturated.rate);
    }
    // Without nginx, that of `httpd`.
    let half = rates
        .get(NGINX)
        .or_else(|| rates.get("httpd"))
        .map_or(f64::INFINITY, |rate| rate / 2.0);
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        run_load(&mut load, f64::INFINITY, ms(run, 100));
        run_load(&mut load, half, ms(run, 600));
        for (table, quantile) in LATENCIES {
            #[expect(clippy::cast_precision_loss, reason = "some seconds at most")]
            let us = load.latencies.value_at_quantile(quantile) as f64 / 1e3;
            report.add(table, server.name, &column, us);
        }
    }
}

fn ms(run: &Run, ms: u64) -> Duration {
    Duration::from_millis(if run.quick { ms / 5 } else { ms })
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

/// What a request takes if requests are sent as fast as responses arrive.
struct Saturated {
    user_ns: f64,
    /// User and system time.
    cpu_ns: f64,
    /// Requests a second.
    rate: f64,
}

impl Saturated {
    fn measure(server: &Server, load: &mut Load, run: &Run) -> Saturated {
        run_load(load, f64::INFINITY, ms(run, 100));
        let pid = server.pids()[0];
        let before = process::cpu_ns(pid);
        let took = run_load(load, f64::INFINITY, ms(run, 400));
        let after = process::cpu_ns(pid);
        let requests = usize::try_from(load.latencies.len()).expect("fewer than 2^64");
        let [user_ns, cpu_ns] = [0, 1].map(|at| each(after[at] - before[at], requests));
        let rate = 1.0 / (took.as_secs_f64() * each(1, requests));
        Saturated {
            user_ns,
            cpu_ns,
            rate,
        }
    }
}

/// A load with the cell that it fills: the CPU of a request, or of a KiB of large bodies.
struct LoadOf {
    table: &'static str,
    column: &'static str,
    connections: u32,
    /// Whether each connection has one request.
    closes: bool,
    path: &'static str,
    /// µs for a request, or ns for each of the KiB of its body.
    divisor: f64,
}

/// Saturates each server with each load.
fn saturate_all(
    run: &Run,
    what: &str,
    programs: &[Program],
    loads: &[LoadOf],
    report: &mut Report,
) {
    run.rounds(what, || {
        for program in programs {
            let Some(server) = report.or_absent(program.name, program.start(0)) else {
                continue;
            };
            for of in loads {
                let mut load = connect(server.address, of.connections, of.path);
                load.closes = of.closes;
                let saturated = Saturated::measure(&server, &mut load, run);
                report.add(
                    of.table,
                    program.name,
                    of.column,
                    saturated.cpu_ns / of.divisor,
                );
            }
        }
    });
}
