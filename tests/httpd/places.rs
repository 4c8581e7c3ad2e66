//! When all places are taken: the oldest of the idle makes room, else the client waits.

use evcore_tests::{Client, Server, Status};

/// One worker with so many places.
fn servers(places: &str) -> Vec<Server> {
    let setups: [&[&str]; 3] = [
        &["--accept", "off"],
        &["--accept", "mutex"],
        &["--accept", "off", "--poller", "poll"],
    ];
    let start = |setup: &[&str]| {
        let one = ["--workers", "1", "--connections", places];
        Server::start(&[&one, setup].concat())
    };
    setups.into_iter().map(start).collect()
}

/// One that is kept alive after its first answer.
fn idle(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    client
}

/// One that has begun to ask.
fn busy(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHo");
    client
}

#[test]
fn a_new_client_is_served_in_the_place_of_the_one_that_was_idle_the_longest() {
    for server in servers("4") {
        let [mut first, mut second, mut third, mut fourth] = [(); 4].map(|()| idle(&server));
        for client in [&mut first, &mut fourth] {
            assert_eq!(client.get("/").status, 200, "there are four places");
        }
        // From the longest to the shortest: second, third, first, fourth.
        let mut fifth = idle(&server);
        assert!(second.is_ended());
        let mut sixth = idle(&server);
        assert!(third.is_ended());
        for client in [&mut first, &mut fourth, &mut fifth, &mut sixth] {
            assert_eq!(client.get("/").status, 200, "they stay");
        }
    }
}

#[test]
fn where_all_are_busy_a_new_client_waits_until_one_has_ended() {
    for server in servers("3") {
        let (mut first, mut second, mut third) = (busy(&server), busy(&server), idle(&server));
        evcore_tests::eventually("two have begun to ask", || {
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
            assert_eq!(client.response().status, 200, "nobody was sent away");
        }
    }
}

#[test]
fn where_all_are_busy_the_first_to_be_idle_makes_room_once_it_has_its_answer() {
    for server in servers("2") {
        let (mut first, mut second) = (busy(&server), idle(&server));
        evcore_tests::eventually("the first has begun to ask", || {
            Status::parse(second.get("/status").text()).reading == 1
        });
        second.send("GET / HTTP/1.1\r\nHo");
        let mut waiting = server.connect();
        waiting.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        first.send("st: test\r\n\r\n");
        assert_eq!(first.response().status, 200);
        assert!(first.is_ended());
        assert_eq!(waiting.response().status, 200);
        second.send("st: test\r\n\r\n");
        assert_eq!(second.response().status, 200);
    }
}

#[test]
fn clients_that_never_ask_keep_nobody_out() {
    for server in servers("4") {
        let mut silent: Vec<_> = (0..4).map(|_| server.connect()).collect();
        let mut client = idle(&server);
        assert!(silent[0].is_ended(), "the first of them had to go");
        assert_eq!(client.get("/").status, 200);
    }
}
