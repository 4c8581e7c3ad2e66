//! TERM and INT stop at once. QUIT finishes the requests under way.

use std::time::{Duration, Instant};

use evcore_tests::{Client, Server, assert_within, eventually, in_time};
use rustix::process::Signal;

const SETUPS: [&[&str]; 3] = [
    &["--workers", "2"],
    &["--workers", "2", "--poller", "poll", "--accept", "off"],
    &["--workers", "0"],
];

fn idle(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    client
}

/// Waits until each worker and the master have handled QUIT.
fn stops_listening(server: &Server) {
    eventually("connecting is refused", || {
        Client::try_connect(server.address()).is_err()
    });
}

/// The time limit of an attempt to send a last request: less than the second that a stopping server
/// waits for it.
pub(crate) const LAST_REQUEST: Duration = Duration::from_millis(800);

/// Sends a last request, whose answer must announce the end of the connection.
pub(crate) fn last_answer(client: &mut Client) -> Result<(), String> {
    match client.try_get("/") {
        Ok(answer) if answer.status == 200 && answer.closes() => Ok(()),
        Ok(answer) => Err(format!("{answer:?}")),
        Err(error) => Err(format!("no answer: {error}")),
    }
}

fn sleeper(server: &Server, ms: u32) -> Client {
    let mut client = server.connect();
    client.send(format!("GET /sleep/{ms} HTTP/1.1\r\nHost: test\r\n\r\n"));
    server.wait_for_status("it sleeps", |status| status.writing == 2);
    client
}

#[test]
fn quit_finishes_requests_under_way() {
    for setup in SETUPS {
        let mut server = Server::start(setup);
        let mut sleeper = sleeper(&server, 1000);
        server.signal(Signal::QUIT);
        let response = sleeper.response();
        assert_eq!((response.status, response.text()), (200, "slept\n"));
        assert!(response.closes(), "the answer announces the end");
        assert!(sleeper.is_closed());
        assert!(server.wait().success());
    }
}

#[test]
fn quit_closes_at_once_clients_idle_for_over_a_second() {
    for setup in SETUPS {
        in_time(LAST_REQUEST, || {
            let mut server = Server::start(setup);
            let mut long_idle: Vec<_> = (0..50).map(|_| idle(&server)).collect();
            let mut silent: Vec<_> = (0..10).map(|_| server.connect()).collect();
            let mut recent = server.connect();
            assert_eq!(recent.get("/sleep/1500").status, 200);
            let answered = Instant::now();
            server.signal(Signal::QUIT);
            assert!(long_idle.iter_mut().all(Client::is_closed));
            assert!(silent.iter_mut().all(Client::is_closed));
            // If the server waited a second for last requests of the long idle connections, it
            // would also have closed `recent` by now, and the last request would fail.
            stops_listening(&server);
            let last = last_answer(&mut recent);
            let took = answered.elapsed();
            drop(recent);
            assert!(server.wait().success());
            (took, last)
        });
    }
}

#[test]
fn quit_gives_fresh_connections_time_for_a_last_request() {
    for setup in SETUPS {
        in_time(LAST_REQUEST, || {
            let mut server = Server::start(setup);
            let begun = Instant::now();
            let mut silent = server.connect();
            let (mut served, mut asks) = (idle(&server), server.connect());
            server.wait_for_status("the new ones are known", |status| status.active == 4);
            server.signal(Signal::QUIT);
            stops_listening(&server);
            let last = last_answer(&mut served).and_then(|()| last_answer(&mut asks));
            let took = begun.elapsed();
            assert!(silent.is_closed());
            drop((served, asks));
            assert!(server.wait().success());
            (took, last)
        });
    }
}

#[test]
fn quit_serves_a_request_that_has_begun() {
    let mut server = Server::start(&["--workers", "1"]);
    let (mut client, mut idle) = (server.connect(), idle(&server));
    client.send("GET / HTTP/1.1\r\nHo");
    server.wait_for_status("it has begun", |status| status.reading == 1);
    server.signal(Signal::QUIT);
    assert!(idle.is_closed(), "the worker has handled QUIT");
    client.send("st: test\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status, 200);
    assert!(response.closes());
    assert!(server.wait().success());
}

/// The head of the response was made before QUIT, so it does not announce the end.
#[test]
fn quit_serves_the_next_request_after_a_response_under_way() {
    for setup in SETUPS {
        in_time(LAST_REQUEST, || {
            let mut server = Server::start(setup);
            let mut client = server.connect();
            client.send("GET /bytes/20000000 HTTP/1.1\r\nHost: test\r\n\r\n");
            server.wait_for_status("it is being sent", |status| status.writing == 2);
            server.signal(Signal::QUIT);
            stops_listening(&server);
            // The wait for a last request begins when the worker has sent the end of the response,
            // while the client still reads. So the measured time begins before the reading.
            let answered = Instant::now();
            let response = client.response();
            assert!(!response.closes(), "it was begun before QUIT");
            // This gives a faulty worker time to close the connection too early.
            std::thread::yield_now();
            let last = last_answer(&mut client);
            let took = answered.elapsed();
            assert!(client.is_closed());
            drop(client);
            assert!(server.wait().success());
            (took, last)
        });
    }
}

#[test]
fn quit_gives_up_after_its_timeout() {
    for workers in ["0", "2"] {
        let options = ["--workers", workers, "--shutdown-timeout", "200"];
        let mut server = Server::start(&options);
        let mut sleeper = sleeper(&server, 3_600_000);
        let asked = Instant::now();
        server.signal(Signal::QUIT);
        assert!(server.wait().success());
        assert_within("it stops", Duration::from_millis(200), asked);
        assert!(sleeper.try_response().is_err());
    }
}

#[test]
fn quit_takes_no_new_clients() {
    for setup in SETUPS {
        let server = Server::start(setup);
        let _sleeper = sleeper(&server, 3_600_000);
        let mut idle = idle(&server);
        server.signal(Signal::QUIT);
        assert!(idle.is_closed());
        // Every worker closes its listener, and so does the master.
        evcore_tests::eventually("connecting is refused", || {
            Client::try_connect(server.address()).is_err()
        });
    }
}

#[test]
fn term_and_int_stop_at_once() {
    for setup in SETUPS {
        for signal in [Signal::TERM, Signal::INT] {
            let mut server = Server::start(setup);
            let mut sleeper = sleeper(&server, 3_600_000);
            let asked = Instant::now();
            server.signal(signal);
            assert!(server.wait().success());
            assert_within("it stops", Duration::ZERO, asked);
            assert!(sleeper.try_response().is_err());
        }
    }
}

#[test]
fn term_makes_a_graceful_stop_fast() {
    for setup in SETUPS {
        let mut server = Server::start(setup);
        let mut idle = idle(&server);
        let _sleeper = sleeper(&server, 3_600_000);
        server.signal(Signal::QUIT);
        assert!(idle.is_closed());
        let asked = Instant::now();
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        assert_within("it stops", Duration::ZERO, asked);
        let expected = [
            "httpd: the server stops after the requests under way",
            "httpd: the server stops now",
        ];
        eventually("both stops are logged", || {
            let log = server.log();
            let stops = log.lines().filter(|line| line.contains("the server stops"));
            stops.eq(expected)
        });
    }
}

#[test]
fn a_second_quit_changes_nothing() {
    for setup in SETUPS {
        let mut server = Server::start(setup);
        let (mut idle, mut sleeper) = (idle(&server), sleeper(&server, 1000));
        server.signal(Signal::QUIT);
        assert!(idle.is_closed());
        server.signal(Signal::QUIT);
        assert_eq!(sleeper.response().text(), "slept\n");
        assert!(server.wait().success());
    }
}
