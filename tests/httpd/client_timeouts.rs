//! The timeouts of a client: header, keep-alive, send.

use std::time::{Duration, Instant, SystemTime};

use evcore_tests::{Server, eventually};

const POLLERS: [&str; 3] = ["epoll", "poll", "select"];

fn server(poller: &str, timeout: &str, ms: &str) -> Server {
    Server::start(&["--workers", "1", "--poller", poller, timeout, ms])
}

#[test]
fn an_incomplete_head_is_a_408() {
    for poller in POLLERS {
        let server = server(poller, "--header-timeout", "200");
        for start in ["", "G", "GET / HTTP/1.1\r\nHost: te"] {
            let mut client = server.connect();
            client.send(start);
            let response = client.response();
            assert_eq!(response.status, 408, "{start:?}");
            assert!(response.closes());
            assert!(client.is_closed());
        }
    }
}

/// Single bytes do not extend the timeout.
#[test]
fn a_head_that_arrives_slowly_is_a_408() {
    let server = server("auto", "--header-timeout", "300");
    let mut client = server.connect();
    let mut trickling = client.try_clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The requests to `/status` pace the bytes, until the server closes the connection.
            while trickling.try_send(b"x") {
                let _ = server.status();
            }
        });
        assert_eq!(client.response().status, 408);
        assert!(client.is_closed());
        drop(client);
    });
}

#[test]
fn the_second_head_has_its_own_timeout() {
    let server = Server::start(&[
        "--workers",
        "1",
        "--header-timeout",
        "200",
        "--keepalive-timeout",
        "60000",
    ]);
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    client.send("GET / HT");
    assert_eq!(client.response().status, 408);
}

#[test]
fn a_body_that_stops_arriving_is_a_408() {
    for poller in POLLERS {
        let server = server(poller, "--header-timeout", "200");
        let mut client = server.connect();
        client.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nabc");
        assert_eq!(client.response().status, 408);
        assert!(client.is_closed());
    }
}

#[test]
fn every_timer_queue_keeps_the_timeouts() {
    for timers in ["wheel", "tree", "heap"] {
        let server = Server::start(&[
            "--workers",
            "1",
            "--timers",
            timers,
            "--header-timeout",
            "200",
            "--keepalive-timeout",
            "300",
        ]);
        let (mut slow, mut idle) = (server.connect(), server.connect());
        slow.send("GET / HT");
        assert_eq!(idle.get("/sleep/400").status, 200);
        assert_eq!(slow.response().status, 408);
        assert!(idle.is_closed());
    }
}

#[test]
fn a_timer_resolution_keeps_the_timeouts_and_the_date() {
    for poller in POLLERS {
        let server = Server::start(&[
            "--workers",
            "1",
            "--poller",
            poller,
            "--timer-resolution",
            "100",
            "--header-timeout",
            "200",
        ]);
        let (mut slow, mut client) = (server.connect(), server.connect());
        slow.send("GET / HT");
        let asked = Instant::now();
        assert_eq!(client.get("/sleep/150").status, 200);
        assert!(asked.elapsed() >= Duration::from_millis(150), "{poller}");
        assert_eq!(slow.response().status, 408);

        let mut date = || {
            let response = client.get("/");
            let date = response.header("date").expect("a date");
            httpdate::parse_http_date(date).expect("of an HTTP header")
        };
        let first = date();
        assert!(first <= SystemTime::now(), "{poller}: from the future");
        eventually("the date moves on", || {
            let now = date();
            assert!(now <= SystemTime::now(), "{poller}: from the future");
            now > first
        });
    }
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    for poller in POLLERS {
        let server = server(poller, "--keepalive-timeout", "200");
        let mut client = server.connect();
        assert_eq!(client.get("/").status, 200);
        assert!(client.is_closed());
    }
}

#[test]
fn a_delayed_response_is_not_idle() {
    let server = server("auto", "--keepalive-timeout", "100");
    assert_eq!(server.connect().get("/sleep/500").status, 200);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    for poller in POLLERS {
        let server = server(poller, "--send-timeout", "200");
        let mut client = server.connect();
        client.send("GET /bytes/1000000000 HTTP/1.1\r\nHost: test\r\n\r\n");
        // The client that requests the status is accepted after this one.
        server.wait_for_status("the connection is closed", |status| status.active == 1);
        assert!(client.read_to_end().is_ok_and(|n| n < 1_000_000_000));
    }
}
