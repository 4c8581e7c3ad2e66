//! The system calls of a keep-alive request: `httpd` under strace, with clients that send one
//! request each at the same time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::accept::{listening_address, pace, process};
use crate::report::Report;
use crate::run::Run;
use crate::tools::{Counts, Tool};

/// How many requests each client makes, in a short and a long run.
const REQUESTS: [u32; 2] = [20, 120];

/// The calls that a column adds up.
const KINDS: [(&str, &[&str]); 3] = [
    ("recv", &["recvfrom", "recvmsg", "read"]),
    ("send", &["sendto", "sendmsg", "write", "writev"]),
    ("wait", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
];

/// Counts with one client and with 64.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    report.table(
        "request",
        "System calls a keep-alive request",
        "calls",
        "`httpd` with one worker and no master under strace. 1 and 64: clients that send a request \
         each at the same time, and wait for all responses. `epoll_ctl` is of a whole connection.",
    );
    if !run.httpd.exists() {
        return report.absent("httpd", "its program does not exist");
    }
    for clients in [1, 64] {
        for (kind, calls) in each_request(&run.httpd, &run.folder, clients) {
            report.add("request", "httpd", &format!("{kind} {clients}"), calls);
        }
    }
    let calls = |clients| count(&run.httpd, &run.folder, clients, 1);
    let [few, many] = [64, 128].map(|clients| calls(clients).get("epoll_ctl").copied());
    let each = (many.unwrap_or(0.0) - few.unwrap_or(0.0)) / 64.0;
    report.add("request", "httpd", "epoll_ctl a connection", each);
}

/// The calls of each request, by kind.
pub(crate) fn each_request(
    httpd: &Path,
    folder: &Path,
    clients: u32,
) -> impl Iterator<Item = (&'static str, f64)> {
    eprintln!("turn: system calls of httpd, {clients} clients");
    let [few, many] = REQUESTS.map(|requests| count(httpd, folder, clients, requests));
    let requests = f64::from(clients * (REQUESTS[1] - REQUESTS[0]));
    let sum = |counts: &Counts, calls: &[&str]| -> f64 {
        calls.iter().filter_map(|call| counts.get(*call)).sum()
    };
    let each = move |(kind, calls): (_, &[&str])| {
        (kind, (sum(&many, calls) - sum(&few, calls)) / requests)
    };
    KINDS.into_iter().map(each)
}

fn count(httpd: &Path, folder: &Path, clients: u32, requests: u32) -> Counts {
    let out = folder.join("counted");
    let mut command: Command = Tool::Strace.command(&out);
    command
        .arg(httpd)
        .args(["--listen", "127.0.0.1:0", "--workers", "0"]);
    let mut tracer = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace is installed");
    let log = tracer.stderr.take().expect("it was just set");
    let address = listening_address(log).expect("httpd listens");
    let server = process::children(tracer.id())[0];
    serve(address, server, clients, requests);
    process::signal(server, Signal::TERM);
    tracer.wait().expect("it was started");
    Tool::Strace.parse(&std::fs::read_to_string(out).expect("strace writes its table"))
}

fn serve(address: SocketAddr, server: u32, clients: u32, requests: u32) {
    let connect = |_| {
        let client = TcpStream::connect(address).expect("it listens");
        // Or a first request may come together with its connection, which saves calls.
        assert!(pace::until(|| process::waits(server)), "httpd spins");
        client
    };
    let mut clients: Vec<TcpStream> = (0..clients).map(connect).collect();
    let mut response = [0; 4096];
    for _ in 0..requests {
        for client in &mut clients {
            let sent = client.write_all(b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n");
            sent.expect("there is room for a request");
        }
        for client in &mut clients {
            let length = client.read(&mut response).expect("a response");
            // A short response arrives in one piece.
            assert!(response[..length].starts_with(b"HTTP/1.1 200"));
        }
    }
}
