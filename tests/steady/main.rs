//! The steady state of keep-alive requests allocates nothing: counted in the example server itself,
//! compiled into this test and run on a thread whose allocations are counted.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the server's files, without its `main`"
)]

#[path = "../../crates/evcore/examples/httpd/body.rs"]
mod body;
#[path = "../../crates/evcore/examples/httpd/connection.rs"]
mod connection;
#[path = "../../crates/evcore/examples/httpd/counts.rs"]
mod counts;
#[path = "../../crates/evcore/examples/httpd/log.rs"]
mod log;
#[path = "../../crates/evcore/examples/httpd/options.rs"]
mod options;
#[path = "../../crates/evcore/examples/httpd/receiving.rs"]
mod receiving;
#[path = "../../crates/evcore/examples/httpd/request.rs"]
mod request;
#[path = "../../crates/evcore/examples/httpd/response.rs"]
mod response;
#[path = "../../crates/evcore/examples/httpd/route.rs"]
mod route;
#[path = "../../crates/evcore/examples/httpd/sending.rs"]
mod sending;
#[path = "../../crates/evcore/examples/httpd/server.rs"]
mod server;
#[path = "../../crates/evcore/examples/httpd/site.rs"]
mod site;
#[path = "../../crates/evcore/examples/httpd/worker.rs"]
mod worker;

mod counting;

use std::{net::SocketAddr, process::Command};

use evcore::{
    Listener,
    balancer::{AcceptMutex, Board, Peers},
};
use evcore_prefork::Worker;
use evcore_tests::{Client, signal_to};
use rustix::process::Signal;

use options::{Asked, Options};
use worker::Shared;

fn options(poller: &str) -> Options {
    let words = ["--workers", "0", "--poller", poller].map(Into::into);
    match options::parse(words.into_iter()) {
        Ok(Asked::Serve(options)) => *options,
        other => panic!("{other:?}"),
    }
}

fn shared(options: Options) -> Shared {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Shared {
        listeners: vec![vec![Listener::bind(any.into()).expect("a free port")]],
        board: Board::shared(1).expect("a page"),
        mutex: AcceptMutex::local(),
        peers: Peers::new(1).expect("a page"),
        options,
    }
}

/// Names the poller to the process that serves.
const POLLER: &str = "EVCORE_STEADY_POLLER";

/// Each poller in a process of its own: a stop signal is the whole process's, and final.
#[test]
fn keep_alive_requests_allocate_nothing() {
    for poller in ["epoll", "poll", "select"] {
        let this = std::env::current_exe().expect("this program has a path");
        let ended = Command::new(this)
            .args(["--exact", "serve_and_count", "--nocapture"])
            .env(POLLER, poller)
            .output()
            .expect("it runs once more");
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(
            ended.status.success(),
            "{poller}: {said}{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        assert!(
            said.contains("counted 10000 keep-alive visits"),
            "{poller}: {said}"
        );
    }
}

/// What the test above runs; alone, it has nothing to do.
#[test]
fn serve_and_count() {
    let Ok(poller) = std::env::var(POLLER) else {
        return;
    };
    let shared = shared(options(&poller));
    let address = shared.listeners[0][0].local_addr().tcp().unwrap();
    let serving = std::thread::spawn(move || {
        counting::count_this_thread();
        let worker = Worker::solo().expect("signals can be handled");
        let server = worker::server(&worker, shared).expect("it starts");
        worker::run(server, &worker).expect("it serves");
    });

    let mut clients: Vec<_> = (0..50).map(|_| Client::connect(address)).collect();
    allocations_of(&mut clients, 20);
    // Construction included: that may be over before the first client has come.
    assert!(counting::allocations() > 0, "what is counted is counted");
    // The `Date` changes meanwhile, or does not: either costs nothing.
    assert_eq!(
        allocations_of(&mut clients, 200),
        0,
        "allocations in the steady state"
    );
    println!("counted {} keep-alive visits", 50 * 200);

    signal_to(std::process::id(), Signal::TERM);
    serving.join().expect("it ends");
}

/// The server's allocations in so many rounds of requests, single ones and two in a segment.
fn allocations_of(clients: &mut [Client], rounds: usize) -> u64 {
    let before = counting::allocations();
    for _ in 0..rounds {
        for client in &mut *clients {
            assert_eq!(client.get("/").status, 200);
            client.send("GET /bytes/99 HTTP/1.1\r\nHost: t\r\n\r\n".repeat(2));
            assert_eq!(client.response().status, 200);
            assert_eq!(client.response().status, 200);
        }
    }
    counting::allocations() - before
}
