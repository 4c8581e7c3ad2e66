//! The number of descriptors that the server needs is checked before it starts workers.

use std::process::Output;

use evcore_tests::{Client, Server, eventually, httpd_limited, signal_to};
use rustix::process::Signal;

use crate::command_line::assert_refusal;

const SETUPS: [&[&str]; 10] = [
    &["--workers", "0"],
    &[
        "--workers",
        "0",
        "--access-log",
        "-",
        "--timer-resolution",
        "10",
    ],
    &["--workers", "1"],
    &["--workers", "2"],
    &["--workers", "2", "--handover", "off"],
    &["--workers", "2", "--root", "."],
    &["--workers", "10"],
    &["--workers", "3", "--accept", "reuseport"],
    &["--threads", "2", "--accept", "reuseport"],
    &["--threads", "3", "--listen", "127.0.0.1:0"],
];

#[test]
fn too_few_descriptors_are_an_error_before_workers_start() {
    for setup in SETUPS {
        let options = [&["--listen", "127.0.0.1:0"], setup].concat();
        let least = 3 + minimum(&options);
        let output = limited(least - 1, &options);
        assert_refusal(&output, &options, 1, &["descriptors", "ulimit -n"]);
        let server = Server::start_limited(least, setup);
        assert_eq!(server.connect().get("/").status, 200, "{setup:?}");
    }
}

fn minimum(options: &[&str]) -> u32 {
    let output = limited(8, options);
    let named = ["the server needs at least ", "fewer workers"];
    let message = assert_refusal(&output, options, 1, &named);
    let after = message.split(named[0]).nth(1).expect("it is named");
    let number = after.split(' ').next().expect("some text");
    number.parse().expect("a number")
}

#[test]
fn another_error_of_the_start_is_still_one_line() {
    let server = Server::start(&["--workers", "0"]);
    let address = server.address().to_string();
    // The limit is enough to start.
    let options = ["--workers", "2", "--listen", &address];
    let output = limited(100, &options);
    assert_refusal(&output, &options, 1, &[&address, "in use"]);
}

#[test]
fn enough_descriptors_to_start_are_enough_to_reload() {
    for setup in SETUPS.iter().filter(|setup| setup[1] != "0") {
        let options = [&["--listen", "127.0.0.1:0"], *setup].concat();
        let least = 3 + minimum(&options);
        let server = Server::start_limited(least, setup);
        server.signal(Signal::HUP);
        eventually(&format!("{setup:?} reloads"), || server.reloads() > 0);
        assert_eq!(server.connect().get("/").status, 200, "{setup:?}");
    }
}

#[test]
fn a_worker_that_cannot_be_started_is_logged_and_retried() {
    // With a handover, the workers need more descriptors than the master.
    let setup = ["--workers", "1", "--handover", "off"];
    let options = [&["--listen", "127.0.0.1:0"], &setup[..]].concat();
    let server = Server::start_limited(3 + minimum(&options), &setup);
    let wait_for_reloads = |times| eventually("it reloads", || server.reloads() == times);
    let mut kept_busy = Vec::new();
    for reloads in 1..=2 {
        let (mut client, old) = connect_to_new_worker(&server, &kept_busy);
        client.send("GET /sleep/3600000 HTTP/1.1\r\nHost: test\r\n\r\n");
        // A worker that stops closes idle connections, so the request must have begun before.
        server.wait_for_status("the request has begun", |status| {
            status.writing == reloads as u64 + 1
        });
        server.signal(Signal::HUP);
        wait_for_reloads(reloads);
        kept_busy.push((client, old));
    }
    let (mut client, _) = connect_to_new_worker(&server, &kept_busy);
    // There are descriptors for two workers that finish and one that serves.
    server.signal(Signal::HUP);
    eventually("it is logged", || {
        server.log().contains("cannot start worker 0")
    });
    assert_eq!(client.get("/").status, 200);
    for (_, old) in kept_busy {
        signal_to(old, Signal::KILL);
    }
    wait_for_reloads(3);
}

/// Connects to a worker other than these, and returns its process id. (The last worker that was
/// replaced may accept a few connections more after the reload is logged.)
fn connect_to_new_worker(server: &Server, replaced: &[(Client, u32)]) -> (Client, u32) {
    let mut connected = None;
    eventually("a new worker accepts", || {
        let mut client = server.connect();
        let Ok(pid) = client.try_worker() else {
            return false;
        };
        let is_new = replaced.iter().all(|(_, old)| *old != pid);
        connected = is_new.then_some((client, pid));
        is_new
    });
    connected.expect("just waited for")
}

fn limited(descriptors: u32, options: &[&str]) -> Output {
    let mut command = httpd_limited(descriptors);
    command.args(options).output().expect("it runs")
}

#[test]
fn the_least_number_of_descriptors_lets_a_client_move() {
    for workers in ["1", "4"] {
        let setup = ["--workers", workers];
        let options = [&["--listen", "127.0.0.1:0"], &setup[..]].concat();
        let server = Server::start_limited(3 + minimum(&options), &setup);
        let mut client = server.connect();
        let old = client.get("/worker").text().to_owned();
        for reloads in 1..=3 {
            server.signal(Signal::HUP);
            eventually("the client has moved", || {
                server.reloads() == reloads && client.get("/worker").text() != old
            });
        }
    }
}
