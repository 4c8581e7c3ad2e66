//! Out of descriptors: nobody spins, nobody crashes, and everybody is served or told in the end.

use std::{io, time::Instant};

use evcore_tests::{Client, Server, eventually};
use rustix::process::Signal;

const LIMIT: u32 = 64;
const CLIENTS: usize = 500;

/// The pause after which a worker turns away another client, in ms.
const PAUSE_MS: u128 = 500;

/// The most workers of a setup.
const WORKERS: u128 = 2;

/// More turns a second than pauses, delays and calls ever make; a spin makes thousands of times
/// more.
const TURNS_A_SECOND: f64 = 100.0;

const SETUPS: [&[&str]; 7] = [
    &["--workers", "1", "--poller", "epoll"],
    &["--workers", "1", "--poller", "poll"],
    &["--workers", "2", "--accept", "mutex"],
    &["--workers", "2", "--accept", "off"],
    &["--workers", "2", "--accept", "exclusive"],
    &["--workers", "2", "--accept", "reuseport"],
    &["--workers", "2", "--accept", "least-loaded"],
];

/// The policies under which whoever has a place can take in who waits.
const SHARING: [&str; 4] = ["off", "mutex", "exclusive", "least-loaded"];

#[test]
fn those_that_fit_are_served_and_the_others_when_a_place_is_free() {
    for setup in SETUPS {
        let server = Server::start_limited(LIMIT, setup);
        let begun = Instant::now();
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            // One that has been turned away may know it by now.
            client.send_lossy("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        }
        // All wait at once; whoever is answered makes room.
        let told = std::thread::scope(|scope| {
            let ends: Vec<_> = clients
                .into_iter()
                .map(|client| scope.spawn(move || is_told(client)))
                .collect();
            ends.into_iter()
                .filter_map(|end| end.join().expect("an answer or an end").then_some(()))
                .count()
        });
        let pauses = begun.elapsed().as_millis() / PAUSE_MS + 1;
        assert!(
            told as u128 <= WORKERS * pauses,
            "{setup:?}: {told} were turned away in {pauses} pauses"
        );
        eventually("a place is free", || {
            server
                .connect()
                .try_get("/")
                .is_ok_and(|it| it.status == 200)
        });
        eventually("it is said", || server.log().contains("out of descriptors"));
    }
}

/// Whether the server turns this client away; else it answers.
fn is_told(mut client: Client) -> bool {
    match client.try_response() {
        Ok(response) => {
            assert_eq!(response.status, 200);
            false
        }
        Err(error) => {
            let kind = error.kind();
            let is_closed =
                kind == io::ErrorKind::UnexpectedEof || kind == io::ErrorKind::ConnectionReset;
            assert!(is_closed, "{error}");
            true
        }
    }
}

#[test]
fn while_clients_wait_for_a_place_nobody_spins() {
    for setup in SETUPS {
        let server = Server::start_limited(LIMIT, setup);
        let mut first = server.connect();
        assert_eq!(first.get("/").status, 200);
        let _others: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        assert_eq!(
            first.get("/sleep/500").status,
            200,
            "it has met the shortage"
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

/// How many turns all workers have made by now.
fn turns(client: &mut Client) -> f64 {
    let response = client.get("/status.json");
    let of_each = response.text().split("\"turns\":").skip(1);
    let numbers = of_each.map(|rest| rest.split(',').next()?.parse::<f64>().ok());
    numbers.sum::<Option<f64>>().expect("numbers")
}

#[test]
fn a_full_worker_leaves_clients_in_the_backlog_until_one_goes() {
    for accept in SHARING {
        let options = ["--workers", "2", "--accept", accept, "--connections", "3"];
        let server = Server::start(&options);
        let begin = |_| {
            let mut client = server.connect();
            // Under way: who is idle would make room.
            client.send("GET / HTTP/1.1\r\n");
            client
        };
        let mut served: Vec<Client> = (0..6).map(begin).collect();
        let mut waiting = server.connect();
        waiting.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        // Those that are in go on, and then make room.
        served[0].send("Host: test\r\n\r\n");
        assert_eq!(served[0].response().status, 200);
        drop(served.remove(0));
        assert_eq!(waiting.response().status, 200);
    }
}

#[test]
fn a_full_worker_says_so_at_most_once_a_second() {
    for accept in SHARING {
        let options = ["--workers", "1", "--accept", accept, "--connections", "2"];
        let server = Server::start(&options);
        let begun = Instant::now();
        let logged = || server.log().matches("2 connections are not enough").count();
        let mut turns = 0;
        // Full again and again: two are under way at a time.
        eventually("it is said twice", || {
            let mut clients = [server.connect(), server.connect()];
            for client in &mut clients {
                client.send("GET / HTTP/1.1\r\n");
            }
            for client in &mut clients {
                client.send("Host: test\r\nConnection: close\r\n\r\n");
                assert_eq!(client.response().status, 200);
            }
            turns += 1;
            logged() >= 2
        });
        let seconds = begun.elapsed().as_secs() + 2;
        assert!(
            logged() as u64 <= seconds,
            "{accept}: {turns} times full in {seconds} s"
        );
    }
}

#[test]
fn one_place_and_one_accept_a_turn_are_enough_for_everybody_in_turn() {
    for accept in SHARING {
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
fn quit_ends_a_worker_that_is_out_of_descriptors() {
    for setup in SETUPS {
        let mut server = Server::start_limited(LIMIT, setup);
        let mut sleeper = server.connect();
        // It is accepted: what waits at a listener that is closed is reset, under `reuseport`.
        assert_eq!(sleeper.get("/").status, 200);
        sleeper.send("GET /sleep/1000 HTTP/1.1\r\nHost: test\r\n\r\n");
        let _others: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        eventually("it has met the shortage", || {
            server.log().contains("out of descriptors")
        });
        server.signal(Signal::QUIT);
        assert_eq!(sleeper.response().status, 200);
        assert!(server.wait().success());
    }
}
