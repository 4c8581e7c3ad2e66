//! The system calls of a keep-alive request to `httpd`, counted by strace. The clients repeat two
//! steps: all send a request, then all read their responses.

use std::fs;

use crate::client::Client;
use crate::report::Report;
use crate::run::Run;
use crate::server::{self, Program};
use crate::tools::{Counts, Tool, each};

/// Number of requests that each client makes in a short run.
const FEW: u32 = 20;

/// Additional requests of a long run, of all clients together.
const MORE: u32 = 6_400;

/// The columns, each with the system calls that it adds up.
const KINDS: [(&str, &[&str]); 3] = [
    ("recv", &["recvfrom", "recvmsg", "read"]),
    ("send", &["sendto", "sendmsg", "write", "writev"]),
    ("wait", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
];

const EPOLL_CTL: &str = "epoll_ctl a connection";

pub(crate) fn measure(run: &Run, report: &mut Report) {
    if !run.httpd.exists() {
        return report.absent("httpd", "its program does not exist");
    }
    let program = &server::programs(run, report, "requests")[0];
    for clients in [1, 64] {
        eprintln!("turn: system calls of httpd, {clients} clients");
        let requests = [FEW, FEW + MORE / clients];
        let counts = each(requests, |requests| count(run, program, clients, requests));
        for (kind, calls) in KINDS {
            let each = thousandths(sum(&counts, calls) / f64::from(clients));
            report.add("request", "httpd", &format!("{kind} {clients}"), each);
        }
    }
    if report.wants("request", "httpd", EPOLL_CTL) {
        let counts = each([64, 128], |clients| count(run, program, clients, 1));
        report.add("request", "httpd", EPOLL_CTL, sum(&counts, &["epoll_ctl"]));
    }
}

/// Rounds a count to thousandths, because timers may end one or two more waits in the longer of the
/// two runs.
fn thousandths(count: f64) -> f64 {
    (count * 1000.0).round() / 1000.0
}

fn sum(counts: &Counts, calls: &[&str]) -> f64 {
    calls.iter().filter_map(|call| counts.get(*call)).sum()
}

fn count(run: &Run, program: &Program, clients: u32, requests: u32) -> Counts {
    let server = program.start(0).expect("strace is installed");
    let connect = |_| {
        let client = Client::connect(server.address).expect("it listens");
        // Without the wait, a first request may come together with its connection, which saves
        // calls.
        server.wait_until_idle();
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
    // Each run includes the ends of its connections.
    drop(clients);
    server.wait_until_idle();
    // strace prints its summary when the server ends.
    drop(server);
    let log = server::folder(run).join(format!("{}.log", program.name));
    Tool::Strace.parse(&fs::read_to_string(log).expect("strace has written it"))
}
