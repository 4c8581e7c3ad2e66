//! The system calls of a keep-alive request: `httpd` under strace, with clients that send one
//! request each at the same time.

use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::Signal;

use crate::client::Client;
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
        eprintln!("turn: system calls of httpd, {clients} clients");
        let [few, many] = REQUESTS.map(|requests| count(run, clients, requests));
        let requests = f64::from(clients * (REQUESTS[1] - REQUESTS[0]));
        for (kind, calls) in KINDS {
            let (each, column) = (
                sum(&many, calls) - sum(&few, calls),
                format!("{kind} {clients}"),
            );
            report.add("request", "httpd", &column, each / requests);
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
    let address = server::free_address().expect("a port is left");
    let mut command = Tool::Strace.command();
    command.arg(&run.httpd).args(["--quiet", "--workers", "0"]);
    command
        .args(["--listen", &address.to_string()])
        .stderr(Stdio::piped());
    let tracer = command.spawn().expect("strace is installed");
    let listens = pace::until(|| TcpStream::connect(address).is_ok());
    assert!(listens, "httpd does not listen");
    let server = process::children(tracer.id())[0];
    let wait = || assert!(pace::until(|| process::is_asleep(server)), "httpd spins");
    let connect = |_| {
        let client = Client::connect(address).expect("it listens");
        // Or a first request may come together with its connection, which saves calls.
        wait();
        client
    };
    let mut clients: Vec<Client> = (0..clients).map(connect).collect();
    for _ in 0..requests {
        for client in &mut clients {
            client.ask("/").expect("there is room for a request");
        }
        for client in &mut clients {
            client.answer().expect("a response");
        }
    }
    // So that each run has the ends of all connections.
    drop(clients);
    wait();
    process::signal(server, Signal::TERM);
    let output = tracer.wait_with_output().expect("it was started");
    Tool::Strace.parse(&String::from_utf8_lossy(&output.stderr))
}
