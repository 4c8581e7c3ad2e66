//! The example `proxy` beside `HAProxy` and nginx: each forwards to `httpd`, which shares the last CPU
//! with the client.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::process::Cpu;
use super::servers::{self, Program};
use super::{connect, saturate};
use crate::accept::launch::Launch;
use crate::report::Report;
use crate::run::{Run, each};

const PROXY: &str = "proxy";
/// Those of `HAProxy`, with their configuration. In TCP mode it forwards bytes, as the example does.
const HAPROXY_TCP: &str = "HAProxy, tcp";
const HAPROXIES: [(&str, &str); 3] = [
    (HAPROXY_TCP, "mode tcp"),
    ("HAProxy, splice", "mode tcp\n option splice-response"),
    ("HAProxy, http", "mode http"),
];

const REQUESTS: &str = "proxy";
const BODIES: &str = "proxied body";

/// A column with the number of connections, whether each has one request, and the path.
const LOADS: [(&str, &str, u32, bool, &str); 5] = [
    (REQUESTS, "kept alive, 1", 1, false, "/"),
    (REQUESTS, "kept alive, 64", 64, false, "/"),
    (REQUESTS, "closed, 1", 1, true, "/"),
    (REQUESTS, "closed, 64", 64, true, "/"),
    (BODIES, "1 MiB, 8", 8, false, "/bytes/1048576"),
];

/// Measures all proxies.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    declare(report);
    let launch = Launch::beside_this_thread();
    let upstream = servers::httpd(run).start(Launch::beside_the_clients());
    let Ok(upstream) = upstream.inspect_err(|error| report.absent("httpd", &error.to_string()))
    else {
        return;
    };
    let proxies = programs(run, upstream.address, report);
    let ms = |ms| Duration::from_millis(if run.quick { ms / 5 } else { ms });
    run.rounds("proxies", || {
        for proxy in &proxies {
            let server = match proxy.start(launch) {
                Ok(server) => server,
                Err(error) => {
                    report.absent(proxy.name, &error.to_string());
                    continue;
                }
            };
            for (table, column, connections, closes, path) in LOADS {
                let mut load = connect(server.address, connections, path);
                load.closes = closes;
                saturate(&mut load, ms(100));
                let before = Cpu::of(server.pid());
                let (requests, _) = saturate(&mut load, ms(400));
                let cpu = Cpu::of(server.pid()) - before;
                let ns = each(cpu.all_ns, requests);
                let value = if table == BODIES {
                    ns / 1024.0
                } else {
                    ns / 1e3
                };
                report.add(table, proxy.name, column, value);
            }
        }
    });
}

fn declare(report: &mut Report) {
    let text = "User and system time of the proxy, by the number of connections. Kept alive: each \
        connection sends its next request when it has received a response. Closed: the client opens \
        a connection for each request. In HTTP mode the connections to the upstream are kept.";
    let table = report.table(REQUESTS, "CPU time of a proxied request", "µs", text);
    table.compared_with(HAPROXY_TCP);
    let text = "The same for a KiB of responses with 1 MiB, on 8 connections.";
    let table = report.table(BODIES, "CPU time of a proxied KiB", "ns", text);
    table.compared_with(HAPROXY_TCP);
}

/// Those that are installed or can be built.
fn programs(run: &Run, upstream: SocketAddr, report: &mut Report) -> Vec<Program> {
    let folder = servers::folder(run);
    let mut programs = Vec::new();
    match servers::example(run, "evcore-prefork", PROXY) {
        Ok(path) => {
            programs.push(Program::new(PROXY, path, move |address| {
                let words = [
                    "--listen",
                    &address.to_string(),
                    "--to",
                    &upstream.to_string(),
                ];
                Ok(words.map(str::to_owned).into())
            }));
        }
        Err(error) => report.absent(PROXY, &error.to_string()),
    }
    match Command::new("haproxy").arg("-v").output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let version = text.split(' ').nth(2).unwrap_or_default();
            report
                .versions
                .insert("HAProxy".to_owned(), version.to_owned());
            for (name, mode) in HAPROXIES {
                let config = folder.join(format!("{name}.cfg"));
                programs.push(Program::new(name, "haproxy".into(), move |address| {
                    fs::write(&config, haproxy(mode, address, upstream))?;
                    Ok(vec!["-f".to_owned(), config.display().to_string()])
                }));
            }
        }
        Err(_) => report.absent("HAProxy", "it is not installed"),
    }
    let http = format!("upstream u {{ server {upstream}; keepalive 1024; }}");
    let location = "location / { proxy_pass http://u; proxy_http_version 1.1; \
        proxy_set_header Connection \"\"; }";
    programs.extend(servers::nginx(&folder, http, location, report));
    programs
}

/// One thread.
fn haproxy(mode: &str, address: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "global\n nbthread 1\n maxconn 4000\n\
         defaults\n {mode}\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
         listen proxy\n bind {address} backlog 1024\n server upstream {upstream}\n"
    )
}
