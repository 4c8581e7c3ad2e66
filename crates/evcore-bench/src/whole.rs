//! The whole: `httpd` beside the least that a server can do, and beside the fastest ones; files; and
//! proxies.
//!
//! Each server has one worker on the first CPU. The client is this process, on the last CPU: the load
//! of the example `client`. Every server sends the same body in a head of nearly the same length.

/// The example `client`.
#[path = "../../evcore/examples/client/load.rs"]
mod load;

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use evcore::poller::BackendKind;

use self::load::Load;
use crate::cpus::{become_client, cpus};
use crate::report::Report;
use crate::run::{self, Run, each};
use crate::server::{self, Program, Server};
use crate::{pace, process};

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

/// `HAProxy`, one thread, by mode. In TCP mode it forwards bytes, as the example does.
const HAPROXIES: [(&str, &str); 3] = [
    ("HAProxy, tcp", "mode tcp"),
    ("HAProxy, splice", "mode tcp\n option splice-response"),
    ("HAProxy, http", "mode http"),
];

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

const FILES: [LoadOf; 2] = [
    load("file", "4 KiB", "/files/small", 64, false),
    load("file", "1 MiB", "/files/large", 64, false),
];

const PROXIED: [LoadOf; 5] = [
    load("proxy", "kept alive, 1", "/", 1, false),
    load("proxy", "kept alive, 64", "/", 64, false),
    load("proxy", "closed, 1", "/", 1, true),
    load("proxy", "closed, 64", "/", 64, true),
    LoadOf {
        divisor: 1024.0,
        ..load("proxied body", "1 MiB, 8", "/bytes/1048576", 8, false)
    },
];

const fn load(
    table: &'static str,
    column: &'static str,
    path: &'static str,
    connections: u32,
    closes: bool,
) -> LoadOf {
    LoadOf {
        table,
        column,
        connections,
        closes,
        path,
        divisor: 1e3,
    }
}

/// Measures all servers.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    // First, because it builds the peers, and then this thread is on one CPU.
    let programs = programs(run, report);
    become_client();
    run.rounds("whole", || {
        let servers = programs.iter();
        let servers = servers.filter_map(|it| report.or_absent(it.name, it.start(0)));
        let servers: Vec<Server> = servers.collect();
        for connections in [1, 64, 1024] {
            round(&servers, connections, run, report);
        }
    });
    let root = server::folder(run).join("files");
    let written = fs::create_dir_all(&root).and_then(|()| {
        fs::write(root.join("small"), [b'.'; 4 << 10])?;
        fs::write(root.join("large"), vec![b'.'; 1 << 20])
    });
    let written = written.map_err(|error| error.to_string());
    if report.or_absent("files", written).is_some() {
        let http = "sendfile on; open_file_cache max=1000;";
        let nginx = ["", http, "", "root \"FOLDER\";"];
        let programs = [
            server::httpd(run, "httpd", "--root FOLDER/files"),
            server::nginx((run, report), "nginx, sendfile", nginx),
        ];
        saturate_all(run, "files", &programs, &FILES, report);
    }
}

/// Those that can be built.
fn programs(run: &Run, report: &mut Report) -> Vec<Program> {
    let hello = "default_type text/plain; return 200 \"Hello, World!\";";
    let mut programs = Vec::from_iter(report.or_absent(BARE, server::bare(run, BARE, "hello")));
    programs.push(server::httpd(run, "httpd", ""));
    programs.push(server::nginx(
        (run, report),
        NGINX,
        ["", "", "backlog=1024", hello],
    ));
    if BackendKind::usable().contains(&BackendKind::IoUring) {
        programs.push(server::httpd(run, "httpd, io_uring", "--poller io_uring"));
    }
    for (name, program) in PEERS {
        programs.extend(report.or_absent(name, server::peer(run, name, program)));
    }
    programs
}

/// One round: all servers are saturated in turn, then all get the same rate.
fn round(servers: &[Server], connections: u32, run: &Run, report: &mut Report) {
    let column = connections.to_string();
    let mut rates = HashMap::new();
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        let [user_ns, cpu_ns, rate] = saturate(server, &mut load, run);
        let mut add = |table, value| report.add(table, server.name, &column, value);
        add("cpu", cpu_ns / 1e3);
        add("user", user_ns / 1e3);
        add("rate", rate / 1e3);
        rates.insert(server.name, rate);
    }
    // Without nginx, that of `httpd`.
    let half = rates.get(NGINX).or_else(|| rates.get("httpd"));
    let half = half.map_or(f64::INFINITY, |rate| rate / 2.0);
    for server in servers {
        let mut load = connect(server.address, connections, "/");
        run_load(&mut load, f64::INFINITY, ms(run, 100));
        run_load(&mut load, half, ms(run, 600));
        for (table, quantile) in LATENCIES {
            let us = each(load.latencies.value_at_quantile(quantile), 1_000);
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

/// What a request takes if requests are sent as fast as responses arrive: nanoseconds of the user's
/// time and of all CPU time; and how many come in a second.
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
                let [_, cpu_ns, _] = saturate(&server, &mut load, run);
                report.add(of.table, program.name, of.column, cpu_ns / of.divisor);
            }
        }
    });
}

/// Measures all proxies: each forwards to `httpd`, which shares the last CPU with the client.
pub(crate) fn measure_proxies(run: &Run, report: &mut Report) {
    let upstream = server::httpd(run, "httpd", "").start_on(cpus()[1], 0);
    let Some(upstream) = report.or_absent("httpd", upstream) else {
        return;
    };
    let to = upstream.address;
    let words = format!("--listen ADDRESS --to {to}");
    let example = server::example(run, "evcore-prefork", "proxy", words);
    let mut programs = Vec::from_iter(report.or_absent("proxy", example));
    run::program_version(report, "HAProxy", "haproxy");
    programs.extend(HAPROXIES.map(|(name, mode)| {
        let config = format!(
            "global\n nbthread 1\n maxconn 4000\n\
             defaults\n {mode}\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
             listen proxy\n bind ADDRESS backlog 1024\n server upstream {to}\n"
        );
        Program::new(run, name, "haproxy", "-f CONFIG").with_config(config)
    }));
    let http = format!("upstream u {{ server {to}; keepalive 1024; }}");
    let location = "proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection \"\";";
    let nginx = ["", &http, "backlog=1024", location];
    programs.push(server::nginx((run, report), NGINX, nginx));
    become_client();
    saturate_all(run, "proxies", &programs, &PROXIED, report);
}

const UDP: &str = "udp";
const UNDER_WAY: u32 = 64;
/// The kernel drops datagrams that it has no room for.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// One question of DNS: for the address of `example.org`.
const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";

/// Measures how many questions the example `udp` answers.
pub(crate) fn measure_datagrams(run: &Run, report: &mut Report) {
    let program = server::example(run, "evcore", UDP, "ADDRESS 192.0.2.1");
    let Some(program) = report.or_absent(UDP, program) else {
        return;
    };
    become_client();
    let time = ms(run, 500);
    run.rounds("datagrams", || {
        let answers = answers(&program, time).map_err(|error| error.to_string());
        if let Some(answers) = report.or_absent(UDP, answers) {
            let a_second = f64::from(answers) / time.as_secs_f64();
            report.add("answers", UDP, "one core", a_second / 1e3);
        }
    });
}

/// How many answers come in this time, with 64 questions under way.
fn answers(program: &Program, time: Duration) -> io::Result<u32> {
    let server = program.launch(cpus()[0], 0)?;
    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.connect(server.address)?;
    client.set_read_timeout(Some(LOST_AFTER))?;
    let mut answer = [0; 512];
    let mut serves = || client.send(QUESTION).is_ok() && client.recv(&mut answer).is_ok();
    if !pace::until(&mut serves) {
        return Err(io::Error::other("it does not serve"));
    }
    let (mut answers, mut under_way) = (0, 0_u32);
    let began = Instant::now();
    while began.elapsed() < time {
        while under_way < UNDER_WAY {
            client.send(QUESTION)?;
            under_way += 1;
        }
        match client.recv(&mut answer) {
            Ok(_) => (answers, under_way) = (answers + 1, under_way.saturating_sub(1)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => under_way = 0,
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}
