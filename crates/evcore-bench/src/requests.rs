//! The system calls of a keep-alive request: `httpd` under strace, with clients that send one
//! request each at the same time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use rustix::process::Signal;

use crate::report::Report;
use crate::run::Run;
use crate::tools::{Counts, Tool};
use crate::{pace, process, server};

/// How many requests each client makes, in a short and a long run.
const REQUESTS: [u32; 2] = [20, 120];

/// The calls that a column adds up.
const KINDS: [(&str, &[&str]); 3] = [
    ("recv", &["recvfrom", "recvmsg", "read"]),
    ("send", &["sendto", "sendmsg", "write", "writev"]),
    ("wait", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
];

const EPOLL_CTL: &str = "epoll_ctl a connection";

/// Counts with one client and with 64.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    if !run.httpd.exists() {
        return report.absent("httpd", "its program does not exist");
    }
    for clients in [1, 64] {
        let columns = KINDS.map(|(kind, _)| format!("{kind} {clients}"));
        if !columns
            .iter()
            .any(|it| report.wants("request", "httpd", it))
        {
            continue;
        }
        eprintln!("turn: system calls of httpd, {clients} clients");
        let [few, many] = REQUESTS.map(|requests| count(run, clients, requests));
        let requests = f64::from(clients * (REQUESTS[1] - REQUESTS[0]));
        for (column, (_, calls)) in columns.iter().zip(KINDS) {
            let each = (sum(&many, calls) - sum(&few, calls)) / requests;
            report.add("request", "httpd", column, each);
        }
    }
    if report.wants("request", "httpd", EPOLL_CTL) {
        let [few, many] = [64, 128].map(|clients| sum(&count(run, clients, 1), &["epoll_ctl"]));
        report.add("request", "httpd", EPOLL_CTL, (many - few) / 64.0);
    }
}

fn sum(counts: &Counts, calls: &[&str]) -> f64 {
    calls.iter().filter_map(|call| counts.get(*call)).sum()
}

fn count(run: &Run, clients: u32, requests: u32) -> Counts {
    let out = run.folder.join("counted");
    let address = server::free_address().expect("a port is left");
    let mut command = Tool::Strace.command(&out);
    command
        .arg(&run.httpd)
        .args(["--quiet", "--workers", "0", "--listen"]);
    command.arg(address.to_string()).stderr(Stdio::null());
    let mut tracer = command.spawn().expect("strace is installed");
    assert!(
        pace::until(|| TcpStream::connect(address).is_ok()),
        "httpd does not listen"
    );
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
        assert!(pace::until(|| process::is_asleep(server)), "httpd spins");
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
    // So that each run has the ends of all connections.
    drop(clients);
    assert!(pace::until(|| process::is_asleep(server)), "httpd spins");
}
