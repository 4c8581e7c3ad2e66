//! TERM and INT stop at once; QUIT lets what is under way finish.

use evcore_tests::{Client, Server};
use rustix::process::Signal;

const SETUPS: [&[&str]; 3] = [
    &["--workers", "2"],
    &["--workers", "2", "--poller", "poll", "--accept", "off"],
    &["--workers", "0"],
];

/// A connection that has been served and waits for its next request.
fn idle(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    client
}

fn sleeper(server: &Server, ms: u32) -> Client {
    let mut client = server.connect();
    client.send(format!("GET /sleep/{ms} HTTP/1.1\r\nHost: test\r\n\r\n"));
    server.wait_for_status("it sleeps", |status| status.writing == 2);
    client
}

#[test]
fn quit_finishes_what_is_under_way() {
    for setup in SETUPS {
        let mut server = Server::start(setup);
        let mut sleeper = sleeper(&server, 1000);
        server.signal(Signal::QUIT);
        let response = sleeper.response();
        assert_eq!((response.status, response.text()), (200, "slept\n"));
        assert!(
            response.closes(),
            "the client is told that this was the last one"
        );
        assert!(sleeper.is_ended());
        assert!(server.wait().success());
    }
}

#[test]
fn quit_closes_idle_connections_at_once() {
    for setup in SETUPS {
        let server = Server::start(setup);
        let mut served = idle(&server);
        let _sleeper = sleeper(&server, 3_600_000);
        server.signal(Signal::QUIT);
        // The sleeper is not waited for: it will be under way for an hour.
        assert!(served.is_ended());
    }
}

#[test]
fn quit_leaves_those_who_have_not_asked_yet_a_moment_to_do_so() {
    for setup in SETUPS {
        let server = Server::start(setup);
        let (mut served, mut asks, mut silent) =
            (idle(&server), server.connect(), server.connect());
        server.wait_for_status("the new ones are known", |status| status.active == 4);
        server.signal(Signal::QUIT);
        assert!(served.is_ended(), "a worker has been told");
        let response = asks.get("/");
        assert_eq!(response.status, 200);
        // Of another worker, perhaps, that is told a moment later, and then finds it idle.
        assert!(response.closes() || asks.is_ended());
        assert!(silent.is_ended());
    }
}

#[test]
fn quit_serves_a_request_that_has_begun() {
    let mut server = Server::start(&["--workers", "1"]);
    let (mut client, mut idle) = (server.connect(), idle(&server));
    client.send("GET / HTTP/1.1\r\nHo");
    server.wait_for_status("it has begun", |status| status.reading == 1);
    server.signal(Signal::QUIT);
    assert!(idle.is_ended(), "the worker has been told");
    client.send("st: test\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status, 200);
    assert!(response.closes());
    assert!(server.wait().success());
}

#[test]
fn quit_gives_up_after_its_timeout() {
    for workers in ["0", "2"] {
        let options = ["--workers", workers, "--shutdown-timeout", "200"];
        let mut server = Server::start(&options);
        let mut sleeper = sleeper(&server, 3_600_000);
        server.signal(Signal::QUIT);
        assert!(server.wait().success());
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
        assert!(idle.is_ended());
        // Every worker has closed its listener, and so has the master.
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
            server.signal(signal);
            assert!(server.wait().success());
            assert!(sleeper.try_response().is_err());
        }
    }
}

#[test]
fn term_makes_an_orderly_stop_a_fast_one() {
    for setup in SETUPS {
        let mut server = Server::start(setup);
        let mut idle = idle(&server);
        let _sleeper = sleeper(&server, 3_600_000);
        server.signal(Signal::QUIT);
        assert!(idle.is_ended());
        server.signal(Signal::TERM);
        assert!(server.wait().success());
    }
}

#[test]
fn a_second_quit_changes_nothing() {
    for setup in SETUPS {
        let mut server = Server::start(setup);
        let (mut idle, mut sleeper) = (idle(&server), sleeper(&server, 1000));
        server.signal(Signal::QUIT);
        assert!(idle.is_ended());
        server.signal(Signal::QUIT);
        assert_eq!(sleeper.response().text(), "slept\n");
        assert!(server.wait().success());
    }
}
