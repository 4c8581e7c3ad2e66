//! A lack of descriptors or of connections: no worker spins, and every client is served.

use std::time::{Duration, Instant};

use evcore_tests::{Client, Server, assert_within, eventually};
use rustix::process::Signal;

const LIMIT: u32 = 64;
const CLIENTS: usize = 500;

/// Number of idle clients, for which two workers do not have enough descriptors.
const IDLE_CLIENTS: usize = 150;

/// The default of `--accept-delay`: a worker with room accepts within this time.
const DELAY: Duration = Duration::from_millis(500);

/// Pauses, delays and notifications cause fewer turns (iterations of the event loop) per second
/// than this, in all workers together. A loop that spins makes far more.
const TURNS_A_SECOND: f64 = 100.0;

const SETUPS: [&[&str]; 8] = [
    &["--workers", "1", "--poller", "epoll"],
    &["--workers", "1", "--poller", "poll"],
    &["--workers", "2", "--accept", "mutex"],
    &["--workers", "2", "--accept", "off"],
    &["--workers", "2", "--accept", "exclusive"],
    &["--workers", "2", "--accept", "reuseport"],
    &["--workers", "2", "--accept", "least-loaded"],
    &["--threads", "2"],
];

/// The policies under which any worker with room can accept any client.
const SHARED: [&str; 4] = ["off", "mutex", "exclusive", "least-loaded"];

#[test]
fn without_descriptors_clients_wait_until_others_leave() {
    for setup in SETUPS {
        let server = Server::start_limited(LIMIT, setup);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        }
        // All clients wait at the same time. A client that is answered leaves, and makes room.
        std::thread::scope(|scope| {
            for mut client in clients {
                scope.spawn(move || match client.try_response() {
                    Ok(response) => assert_eq!(response.status, 200),
                    Err(error) => panic!("{setup:?}: a client is lost: {error}"),
                });
            }
        });
        assert_logged(
            &server,
            &["out of descriptors", "new clients wait", "ulimit -n"],
        );
    }
}

#[test]
fn without_descriptors_idle_clients_make_room_for_new_ones() {
    std::thread::scope(|scope| {
        for setup in SETUPS {
            scope.spawn(move || idle_clients_make_room(setup));
        }
    });
}

fn idle_clients_make_room(setup: &[&str]) {
    let server = Server::start_limited(LIMIT, setup);
    let mut clients: Vec<Client> = Vec::new();
    // More clients come than have room. Each is served, and stays until it is evicted.
    for number in 0..IDLE_CLIENTS {
        let mut client = server.connect();
        match client.try_get("/") {
            Ok(response) => assert_eq!(response.status, 200),
            Err(error) => panic!("{setup:?}: client {number} is lost: {error}"),
        }
        clients.push(client);
    }
    let last = clients.last_mut().expect("there are some");
    assert_eq!(
        last.get("/").status,
        200,
        "{setup:?}: only the clients that were idle longest are closed"
    );
    let evicted = clients
        .iter_mut()
        .map(|client| client.try_get("/"))
        .filter(Result::is_err)
        .count();
    assert!(
        evicted > 0,
        "{setup:?}: more clients came than have room, and none was closed"
    );
    assert_logged(&server, &["out of descriptors", "idle", "ulimit -n"]);
}

fn assert_logged(server: &Server, words: &[&str]) {
    eventually("the log reports it", || {
        let log = server.log();
        log.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    });
}

#[test]
fn a_worker_without_descriptors_does_not_spin() {
    for setup in SETUPS {
        let server = Server::start_limited(LIMIT, setup);
        let mut first = server.connect();
        assert_eq!(first.get("/").status, 200);
        let _others: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        assert_eq!(
            first.get("/sleep/500").status,
            200,
            "the worker is out of descriptors"
        );
        let (before, begun) = (turns(&mut first), Instant::now());
        assert_eq!(first.get("/sleep/1000").status, 200);
        let made = turns(&mut first) - before;
        let seconds = begun.elapsed().as_secs_f64();
        assert!(
            made <= TURNS_A_SECOND * seconds,
            "{setup:?}: {made} turns in {seconds} idle seconds"
        );
    }
}

fn turns(client: &mut Client) -> f64 {
    let response = client.get("/status.json");
    let of_each = response.text().split("\"turns\":").skip(1);
    let numbers = of_each.map(|rest| rest.split(',').next()?.parse::<f64>().ok());
    numbers
        .sum::<Option<f64>>()
        .expect("each worker has a number of turns")
}

#[test]
fn a_full_worker_leaves_clients_in_the_backlog() {
    for accept in SHARED {
        let options = ["--workers", "2", "--accept", accept, "--connections", "3"];
        let server = Server::start(&options);
        let begin = |_| {
            let mut client = server.connect();
            // The request is incomplete, because an idle connection would be evicted.
            client.send("GET / HTTP/1.1\r\n");
            client
        };
        let mut served: Vec<Client> = (0..6).map(begin).collect();
        let mut waiting = server.connect();
        waiting.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        served[0].send("Host: test\r\n\r\n");
        assert_eq!(served[0].response().status, 200);
        let left = Instant::now();
        drop(served.remove(0));
        assert_eq!(waiting.response().status, 200);
        assert_within(accept, DELAY, left);
    }
}

#[test]
fn a_full_worker_logs_its_limit_at_most_once_a_second() {
    for accept in SHARED {
        let options = ["--workers", "1", "--accept", accept, "--connections", "2"];
        let server = Server::start(&options);
        let begun = Instant::now();
        let logged = || server.log().matches("2 connections are not enough").count();
        let mut rounds = 0;
        // The worker is full in each round, with two incomplete requests.
        eventually("the log reports it twice", || {
            let mut clients = [server.connect(), server.connect()];
            for client in &mut clients {
                client.send("GET / HTTP/1.1\r\n");
            }
            for client in &mut clients {
                client.send("Host: test\r\nConnection: close\r\n\r\n");
                assert_eq!(client.response().status, 200);
            }
            rounds += 1;
            logged() >= 2
        });
        let seconds = begun.elapsed().as_secs() + 2;
        assert!(
            logged() as u64 <= seconds,
            "{accept}: {rounds} times full in {seconds} s"
        );
    }
}

#[test]
fn with_one_connection_and_one_accept_a_turn_all_clients_are_served() {
    for accept in SHARED {
        let server = Server::start(&[
            "--workers",
            "2",
            "--accept",
            accept,
            "--accept-delay",
            "20",
            "--connections",
            "1",
            "--multi-accept",
            "1",
        ]);
        for _ in 0..50 {
            assert_eq!(server.connect().get("/").status, 200);
        }
    }
}

#[test]
fn quit_ends_a_worker_without_descriptors() {
    for setup in SETUPS {
        let mut server = Server::start_limited(LIMIT, setup);
        let mut sleeper = server.connect();
        // The client must be accepted, because under `reuseport` closing a listener resets its
        // backlog.
        assert_eq!(sleeper.get("/").status, 200);
        sleeper.send("GET /sleep/1000 HTTP/1.1\r\nHost: test\r\n\r\n");
        let _others: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        eventually("the worker is out of descriptors", || {
            server.log().contains("out of descriptors")
        });
        server.signal(Signal::QUIT);
        assert_eq!(sleeper.response().status, 200);
        assert!(server.wait().success());
    }
}
