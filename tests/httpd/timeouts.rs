//! Who takes too long is told, or left.

use std::time::{Duration, Instant, SystemTime};

use evcore_tests::{Server, eventually};

const POLLERS: [&str; 3] = ["epoll", "poll", "select"];

fn server(poller: &str, timeout: &str, ms: &str) -> Server {
    Server::start(&["--workers", "1", "--poller", poller, timeout, ms])
}

#[test]
fn a_head_that_is_never_whole_is_a_408() {
    for poller in POLLERS {
        let server = server(poller, "--header-timeout", "200");
        for start in ["", "G", "GET / HTTP/1.1\r\nHost: te"] {
            let mut client = server.connect();
            client.send(start);
            let response = client.response();
            assert_eq!(response.status, 408, "{start:?}");
            assert!(response.closes());
            assert!(client.is_ended());
        }
    }
}

/// A byte now and then does not buy time.
#[test]
fn a_head_that_trickles_in_is_a_408_too() {
    let server = server("auto", "--header-timeout", "300");
    let mut client = server.connect();
    let mut trickling = client.try_clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each byte as slow as a connection and an answer, until the server has had enough.
            while trickling.try_send(b"x") {
                let _ = server.status();
            }
        });
        assert_eq!(client.response().status, 408);
        assert!(client.is_ended());
        drop(client);
    });
}

#[test]
fn the_second_head_has_its_own_time() {
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
fn a_body_that_stops_coming_is_a_408() {
    for poller in POLLERS {
        let server = server(poller, "--header-timeout", "200");
        let mut client = server.connect();
        client.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nabc");
        assert_eq!(client.response().status, 408);
        assert!(client.is_ended());
    }
}

#[test]
fn every_timer_queue_keeps_the_times() {
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
        assert!(idle.is_ended());
    }
}

#[test]
fn a_timer_resolution_keeps_the_times_and_the_date() {
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
fn an_idle_connection_is_closed_without_a_word() {
    for poller in POLLERS {
        let server = server(poller, "--keepalive-timeout", "200");
        let mut client = server.connect();
        assert_eq!(client.get("/").status, 200);
        assert!(client.is_ended());
    }
}

#[test]
fn a_sleeper_is_not_idle() {
    let server = server("auto", "--keepalive-timeout", "100");
    assert_eq!(server.connect().get("/sleep/500").status, 200);
}

#[test]
fn a_client_that_takes_nothing_is_left() {
    for poller in POLLERS {
        let server = server(poller, "--send-timeout", "200");
        let mut client = server.connect();
        client.send("GET /bytes/1000000000 HTTP/1.1\r\nHost: test\r\n\r\n");
        // It came first, so whoever asks is accepted after it.
        server.wait_for_status("it is left", |status| status.active == 1);
        // What was in flight is cut short.
        assert!(client.read_to_end().is_ok_and(|n| n < 1_000_000_000));
    }
}
