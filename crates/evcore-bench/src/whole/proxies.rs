//! The example `proxy` beside `HAProxy` and nginx: each forwards to `httpd`, which shares the last CPU
//! with the client.

use std::fs;
use std::net::SocketAddr;

use super::{LoadOf, saturate_all};
use crate::cpus::{become_client, cpus};
use crate::report::Report;
use crate::run::{self, Run};
use crate::server::Program;
use crate::servers::{self, Nginx};

/// Those of `HAProxy`, with their configuration. In TCP mode it forwards bytes, as the example does.
const HAPROXIES: [(&str, &str); 3] = [
    ("HAProxy, tcp", "mode tcp"),
    ("HAProxy, splice", "mode tcp\n option splice-response"),
    ("HAProxy, http", "mode http"),
];

const REQUESTS: &str = "proxy";
const BODIES: &str = "proxied body";

const LOADS: [LoadOf; 5] = [
    requests("kept alive, 1", 1, false),
    requests("kept alive, 64", 64, false),
    requests("closed, 1", 1, true),
    requests("closed, 64", 64, true),
    LoadOf {
        table: BODIES,
        column: "1 MiB, 8",
        path: "/bytes/1048576",
        divisor: 1024.0,
        ..requests("", 8, false)
    },
];

const fn requests(column: &'static str, connections: u32, closes: bool) -> LoadOf {
    LoadOf {
        table: REQUESTS,
        column,
        connections,
        closes,
        path: "/",
        divisor: 1e3,
    }
}

/// Measures all proxies.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    let upstream = servers::httpd(run, "httpd", &[]).start_on(cpus()[1], 0);
    let Some(upstream) = report.or_absent("httpd", upstream) else {
        return;
    };
    let programs = programs(run, upstream.address, report);
    become_client();
    saturate_all(run, "proxies", &programs, &LOADS, report);
}

fn programs(run: &Run, upstream: SocketAddr, report: &mut Report) -> Vec<Program> {
    let folder = servers::folder(run);
    let words = move |address: SocketAddr| {
        let [address, upstream] = [address, upstream].map(|it| it.to_string());
        ["--listen", &address, "--to", &upstream]
            .map(str::to_owned)
            .into()
    };
    let example = servers::example(run, "evcore-prefork", "proxy", words);
    let mut programs = Vec::from_iter(report.or_absent("proxy", example));
    run::program_version(report, "HAProxy", "haproxy");
    for (name, mode) in HAPROXIES {
        let config = folder.join(format!("{name}.cfg"));
        programs.push(Program::new(name, "haproxy", &folder, move |address, _| {
            fs::write(&config, haproxy(mode, address, upstream))?;
            Ok(vec!["-f".to_owned(), config.display().to_string()])
        }));
    }
    let nginx = Nginx {
        http: format!("upstream u {{ server {upstream}; keepalive 1024; }}"),
        listen: "backlog=1024",
        location: "proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection \"\";"
            .to_owned(),
        ..Nginx::default()
    };
    programs.push(nginx.program(run, "nginx", report));
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
