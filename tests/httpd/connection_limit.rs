//! The connection limit: a new client evicts the longest idle connection, or waits if none is idle.

use evcore_tests::{Client, Server, Status};

fn servers(connections: &str) -> Vec<Server> {
    let setups: [&[&str]; 3] = [
        &["--accept", "off"],
        &["--accept", "mutex"],
        &["--accept", "off", "--poller", "poll"],
    ];
    let start = |setup: &[&str]| {
        let one = ["--workers", "1", "--connections", connections];
        Server::start(&[&one, setup].concat())
    };
    setups.into_iter().map(start).collect()
}

fn idle(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    client
}

/// A connection that has sent a part of a request.
fn busy(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHo");
    client
}

#[test]
fn a_new_client_evicts_the_longest_idle_connection() {
    for server in servers("4") {
        let [mut first, mut second, mut third, mut fourth] = [(); 4].map(|()| idle(&server));
        for client in [&mut first, &mut fourth] {
            assert_eq!(client.get("/").status, 200, "the limit is four");
        }
        // The order from the longest idle client to the shortest is second, third, first, fourth.
        let mut fifth = idle(&server);
        assert!(second.is_closed());
        let mut sixth = idle(&server);
        assert!(third.is_closed());
        for client in [&mut first, &mut fourth, &mut fifth, &mut sixth] {
            assert_eq!(client.get("/").status, 200, "they stay open");
        }
    }
}

#[test]
fn with_all_connections_busy_a_new_client_waits() {
    for server in servers("3") {
        let (mut first, mut second, mut third) = (busy(&server), busy(&server), idle(&server));
        evcore_tests::eventually("two are being read", || {
            Status::parse(third.get("/status").text()).reading == 2
        });
        third.send("GET / HTTP/1.1\r\nHo");

        let mut waiting = server.connect();
        waiting.send("GET /status HTTP/1.1\r\nHost: test\r\n\r\n");
        first.send("st: test\r\nConnection: close\r\n\r\n");
        assert_eq!(first.response().status, 200);
        let status = Status::parse(waiting.response().text());
        assert_eq!((status.active, status.accepts), (3, 4), "never more than 3");
        for client in [&mut second, &mut third] {
            client.send("st: test\r\n\r\n");
            assert_eq!(client.response().status, 200, "no connection is evicted");
        }
    }
}

#[test]
fn a_busy_connection_is_evicted_after_its_response() {
    for server in servers("2") {
        let (mut first, mut second) = (busy(&server), idle(&server));
        evcore_tests::eventually("the first is being read", || {
            Status::parse(second.get("/status").text()).reading == 1
        });
        second.send("GET / HTTP/1.1\r\nHo");
        let mut waiting = server.connect();
        waiting.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        first.send("st: test\r\n\r\n");
        assert_eq!(first.response().status, 200);
        assert!(first.is_closed());
        assert_eq!(waiting.response().status, 200);
        second.send("st: test\r\n\r\n");
        assert_eq!(second.response().status, 200);
    }
}

#[test]
fn silent_clients_are_evicted_for_new_ones() {
    for server in servers("4") {
        let mut silent: Vec<_> = (0..4).map(|_| server.connect()).collect();
        let mut client = idle(&server);
        assert!(silent[0].is_closed(), "the first is evicted");
        assert_eq!(client.get("/").status, 200);
    }
}
