//! Runs the examples with clients of other projects (h2load, nghttp, curl), with slow clients, and
//! during reloads.

use std::{
    env,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
};

use evcore_tests::{Client, Server, allow_many_descriptors, eventually, not_run};
use rustix::process::Signal;

use crate::{GREETING, start, start_workers, wait_for_workers};

/// Runs a program and returns its standard output; `None` if it is not installed.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        not_run(&format!("{program} is not installed"));
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {text}");
    Some(text)
}

/// Sends 2,000 requests by h2load, over 10 connections with up to 10 streams each. All must
/// succeed.
fn h2load(server: &Server, options: &[&str]) {
    let url = format!("http://{}/", server.address());
    let arguments = [&["-n2000", "-c10", "-m10", &url][..], options].concat();
    if let Some(report) = output_of("h2load", &arguments) {
        let all = "2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored";
        assert!(report.contains(all), "{report}");
        assert!(report.contains("status codes: 2000 2xx"), "{report}");
    }
}

#[test]
fn h2load_gets_every_response_over_http2() {
    h2load(&start_workers(2, &["--h2"]), &[]);
}

#[test]
fn h2load_gets_every_response_over_http1() {
    h2load(&start_workers(2, &[]), &["--h1"]);
}

#[test]
fn nghttp_gets_the_responses_of_many_streams() {
    let server = start_workers(1, &["--h2"]);
    let url = format!("http://{}/", server.address());
    // 20 streams of one connection, with dependencies, trailers and padding, and a verbose log.
    let options = [
        "-v",
        "-m20",
        "--padding=10",
        "--trailer",
        "checksum: none",
        &url,
    ];
    if let Some(log) = output_of("nghttp", &options) {
        assert_eq!(log.matches(":status: 200").count(), 20, "{log}");
        assert_eq!(log.matches(GREETING).count(), 20, "{log}");
    }
}

#[test]
fn two_thousand_slow_clients_are_served() {
    const CLIENTS: usize = 2_000;
    if allow_many_descriptors() < CLIENTS as u64 + 100 {
        return not_run("the limit of descriptors is too low");
    }
    let server = start_workers(1, &[]); // it inherits the limit
    let mut slow: Vec<_> = (0..CLIENTS)
        .map(|_| Client::connect(server.address()))
        .collect();
    let request = "GET / HTTP/1.1\r\nHost: slow\r\n\r\n";
    let mut quick = Client::connect(server.address());
    for piece in request.as_bytes().chunks(10) {
        for client in &mut slow {
            client.send(piece);
        }
        assert_eq!(
            quick.get("/").text(),
            GREETING,
            "it does not wait for others"
        );
    }
    for client in &mut slow {
        assert_eq!(client.response().text(), GREETING);
    }
}

/// Sends requests until `is_over`, and returns the number of lost ones. A request is lost if it
/// gets no answer although the server has not announced the end of the connection.
fn send_requests(server: &Server, is_over: &AtomicBool, answered: &AtomicU64) -> u64 {
    let mut lost = 0;
    let mut client = Client::connect(server.address());
    while !is_over.load(Relaxed) {
        match client.try_get("/") {
            Ok(response) => {
                assert_eq!(response.text(), GREETING);
                answered.fetch_add(1, Relaxed);
                if response.closes() {
                    client = Client::connect(server.address());
                }
            }
            Err(error) => {
                eprintln!("a request was lost: {error}");
                lost += 1;
                client = Client::connect(server.address());
            }
        }
    }
    lost
}

/// Number of workers of each server that is reloaded.
const WORKERS: usize = 2;

/// Reloads a server several times, each time after its clients have got more than `answers` further
/// answers. The environment variable `SOAK_RELOADS` has the number of reloads, by default 5.
fn reload(server: &Server, answered: &AtomicU64, answers: u64) {
    let reloads = env::var("SOAK_RELOADS");
    let reloads = reloads.map_or(5, |text| text.parse().expect("a number"));
    for reload in 1..=reloads {
        let before = answered.load(Relaxed);
        eventually("clients are served", || {
            answered.load(Relaxed) > before + answers
        });
        server.signal(Signal::HUP);
        let serving = || server.log().matches(" serves").count();
        eventually("new workers serve", || serving() >= (1 + reload) * WORKERS);
    }
    println!("{reloads} reloads, {answered:?} requests");
}

fn reload_under_load(server: &Server) {
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let lost = thread::scope(|scope| {
        let clients = [0; 4].map(|_| scope.spawn(|| send_requests(server, &is_over, &answered)));
        reload(server, &answered, 100);
        is_over.store(true, Relaxed);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum::<u64>()
    });
    assert_eq!(lost, 0, "of {answered:?}");
}

#[test]
fn reloads_lose_no_request_of_busy_clients() {
    reload_under_load(&start_workers(WORKERS, &[]));
}

#[test]
fn reloads_lose_no_request_of_http2_clients() {
    let server = start_workers(WORKERS, &["--h2"]);
    let url = format!("http://{}/", server.address());
    // Each request has a connection of its own, because curl 7.88 fails at the second request of a
    // connection, with nginx too.
    let request = || {
        output_of(
            "curl",
            &["--http2-prior-knowledge", "--silent", "--fail", &url],
        )
    };
    if request().is_none() {
        return;
    }
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    assert_eq!(request().as_deref(), Some(GREETING));
                    answered.fetch_add(1, Relaxed);
                }
            });
        }
        reload(&server, &answered, 10);
        is_over.store(true, Relaxed);
    });
}

#[test]
fn reloads_of_an_axum_server_lose_no_request() {
    let server = wait_for_workers(start("axum_router", &["2"]), WORKERS);
    reload_under_load(&server);
}

#[test]
fn reloads_of_a_proxy_lose_no_request_and_its_workers_end() {
    let upstream = start_workers(1, &[]);
    let arguments = [&upstream.address().to_string(), "2"];
    let server = wait_for_workers(start("hyper_proxy", &arguments), WORKERS);
    reload_under_load(&server);
    // The old workers close their idle connections to the upstream.
    eventually("old workers end", || server.worker_pids().len() == WORKERS);
}
