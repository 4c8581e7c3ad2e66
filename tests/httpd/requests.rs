//! Requests and their responses.

use std::process::Command;

use crate::permitted_pollers::permitted;
use evcore_tests::{Client, Response, Server, httpd};

const HELLO: &str = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

fn server(poller: &str) -> Server {
    Server::start(&["--workers", "1", "--poller", poller])
}

fn assert_hello(response: &Response) {
    assert_eq!(response.status, 200);
    assert_eq!(response.body, b"Hello, World!");
    assert_eq!(response.header("content-type"), Some("text/plain"));
    assert_eq!(response.header("server"), Some("evcore"));
    let date = response.header("date").expect("a date");
    assert!(httpdate::parse_http_date(date).is_ok(), "{date:?}");
}

#[test]
fn the_root_is_thirteen_bytes() {
    for poller in permitted(&[
        "auto",
        "epoll",
        "epoll-masked",
        "poll",
        "select",
        "io_uring",
    ]) {
        assert_hello(&server(poller).connect().get("/"));
    }
}

#[test]
fn a_connection_serves_many_requests() {
    for poller in permitted(&["epoll", "epoll-masked", "poll", "select", "io_uring"]) {
        let server = server(poller);
        let mut client = server.connect();
        for _ in 0..100 {
            assert_hello(&client.get("/?a=query"));
        }
        assert_eq!(
            server.status().accepts,
            2,
            "the client, and the one that asks"
        );
    }
}

#[test]
fn two_requests_in_one_segment_get_two_responses_in_order() {
    for poller in ["epoll", "poll", "select"] {
        let mut client = server(poller).connect_and_keep();
        client.1.send(format!(
            "GET /bytes/3 HTTP/1.1\r\nHost: test\r\n\r\n{HELLO}"
        ));
        assert_eq!(client.1.response().body, b"...");
        assert_hello(&client.1.response());
    }
}

#[test]
fn a_flood_of_pipelined_requests_gets_all_responses() {
    for poller in ["epoll", "poll", "select"] {
        let (_server, mut client) = server(poller).connect_and_keep();
        // The requests and their responses exceed the buffers in both directions.
        const REQUESTS: usize = 5_000;
        let request = "GET /bytes/20000 HTTP/1.1\r\nHost: test\r\n\r\n".to_owned() + HELLO;
        let mut sender = client.try_clone();
        let sending = std::thread::spawn(move || sender.send(request.repeat(REQUESTS)));
        for _ in 0..REQUESTS {
            assert_eq!(client.response().body.len(), 20_000);
            assert_hello(&client.response());
        }
        sending.join().expect("all is sent");
    }
}

/// Responses are made in a buffer that all connections of a worker share.
#[test]
fn responses_to_flooding_clients_do_not_mix() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        let bodies = |name: usize| {
            // The sizes are near the budget of one step, or small. So steps end at many points,
            // also between making a response and sending it.
            let large = (380_000..560_000).step_by(16_000);
            let lengths = large.chain(0..1_000).collect::<Vec<_>>();
            lengths
                .into_iter()
                .map(move |length| format!("{name} {}", "x".repeat(length)))
        };
        std::thread::scope(|scope| {
            for name in 0..8 {
                let mut client = server.connect();
                let mut sender = client.try_clone();
                scope.spawn(move || {
                    // The socket buffer fills up while the worker blocks.
                    sender.send("GET /block/100 HTTP/1.1\r\nHost: test\r\n\r\n");
                    for body in bodies(name) {
                        let length = body.len();
                        sender.send(format!(
                            "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}"
                        ));
                    }
                });
                scope.spawn(move || {
                    assert_eq!(client.response().text(), "blocked\n");
                    for body in bodies(name) {
                        assert!(client.response().text() == body, "client {name}");
                    }
                });
            }
        });
    }
}

#[test]
fn head_has_the_length_and_no_body() {
    let server = server("auto");
    let mut client = server.connect();
    client.send("HEAD /bytes/100000 HTTP/1.1\r\nHost: test\r\n\r\n");
    let (response, length) = client.head_response();
    assert_eq!((response.status, length), (200, Some(100_000)));
    assert_hello(&client.get("/"));
}

/// The pages about all workers take long to make, so none is made only for its length.
#[test]
fn head_of_a_page_about_the_workers_has_no_length() {
    let server = server("auto");
    let mut client = server.connect();
    for path in ["/status.json", "/history.json", "/metrics"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let (head, length) = client.head_response();
        let content_type = client.get(path).header("content-type").map(str::to_owned);
        assert_eq!((head.status, length), (200, None), "{path}");
        assert_eq!(head.header("content-type"), content_type.as_deref());
    }
}

#[test]
fn bytes_sends_as_many_bytes_as_the_path_names() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        let mut client = server.connect();
        for length in [0, 1, 16_384, 16_385, 65_536, 30_000_000] {
            let response = client.get(&format!("/bytes/{length}"));
            assert_eq!(response.body.len(), length);
            assert!(response.body.iter().all(|byte| *byte == b'.'));
        }
    }
}

#[test]
fn echo_sends_the_body_back() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        let mut client = server.connect();
        for length in [0, 1, 100_000, 1024 * 1024] {
            let body: Vec<u8> = (0..length).map(|n: usize| n.to_le_bytes()[0]).collect();
            client.send(format!(
                "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n"
            ));
            client.send(&body);
            assert_eq!(client.response().body, body);
        }
    }
}

#[test]
fn echo_accepts_chunked_bodies() {
    let server = server("auto");
    let mut client = server.connect();
    let head = "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!(
        "{head}5\r\nHello\r\n8;x=y\r\n, World!\r\n0\r\nTrailer: 1\r\n\r\n{HELLO}"
    ));
    assert_eq!(client.response().body, b"Hello, World!");
    assert_hello(&client.response());
}

#[test]
fn expect_continue_gets_100_continue() {
    let server = server("auto");
    let mut client = server.connect();
    for expectations in [
        "100-continue",
        "x, 100-Continue",
        "100-continue ,x",
        ",100-continue,",
    ] {
        client.send(format!(
            "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: {expectations}\r\nContent-Length: 2\r\n\r\n"
        ));
        assert_eq!(client.response().status, 100, "{expectations}");
        client.send("ok");
        assert_eq!(client.response().body, b"ok");
    }
}

#[test]
fn an_unexpected_body_is_not_taken_for_a_request() {
    let server = server("auto");
    let mut client = server.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n{HELLO}",
        HELLO.len()
    ));
    assert_hello(&client.response());
    assert_eq!(client.get("/worker").status, 200);
    assert_eq!(server.status().requests, 3);
}

#[test]
fn connection_close_is_obeyed() {
    let server = server("auto");
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\nConnection: foo, Close\r\n\r\n");
    let response = client.response();
    assert_hello(&response);
    assert!(response.closes());
    assert!(client.is_closed());
}

/// Closing a socket with unread bytes resets the connection, which may destroy the response.
#[test]
fn bytes_after_the_last_request_do_not_destroy_its_response() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        let mut client = server.connect();
        client.send("GET /sleep/300 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        server.wait_for_status("it sleeps", |status| status.writing == 2);
        client.send(HELLO.repeat(1_000));
        client.shutdown_write();
        assert_eq!(client.response().text(), "slept\n");
        assert!(client.is_closed());
    }
}

#[test]
fn http_1_0_closes_unless_the_client_asks_for_keep_alive() {
    let server = server("auto");
    let mut client = server.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.response().header("connection"), Some("keep-alive"));
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_hello(&client.response());
    assert!(client.is_closed());
}

#[test]
fn a_half_closed_client_gets_its_responses() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        let mut client = server.connect();
        client.send(HELLO.repeat(3) + "GET /sleep/50 HTTP/1.1\r\nHost: t\r\n\r\n");
        client.shutdown_write();
        for _ in 0..3 {
            assert_hello(&client.response());
        }
        assert_eq!(client.response().body, b"slept\n");
        assert!(client.is_closed());
    }
}

#[test]
fn a_delayed_response_does_not_delay_other_clients() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        let mut sleeper = server.connect();
        sleeper.send("GET /sleep/3600000 HTTP/1.1\r\nHost: test\r\n\r\n");
        server.wait_for_status("the delayed response is counted", |status| {
            status.writing == 2
        });
        assert_hello(&server.connect().get("/"));
    }
}

#[test]
fn requests_sent_during_a_sleep_are_served_after_it() {
    for poller in ["epoll", "poll", "select"] {
        let server = server(poller);
        let mut client = server.connect();
        client.send(format!(
            "GET /sleep/100 HTTP/1.1\r\nHost: test\r\n\r\n{HELLO}"
        ));
        assert_eq!(client.response().body, b"slept\n");
        assert_hello(&client.response());
    }
}

#[test]
fn worker_returns_index_and_pid_of_the_serving_worker() {
    let server = Server::start(&["--workers", "2"]);
    let answer = server.connect().get("/worker");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let pids = server.worker_pids();
    let expected = pids
        .iter()
        .enumerate()
        .any(|(index, pid)| answer.text() == format!("{{\"worker\":{index},\"pid\":{pid}}}\n"));
    assert!(expected, "{} of {pids:?}", answer.text());
}

#[test]
fn with_workers_0_the_process_itself_serves() {
    let server = Server::start(&["--workers", "0"]);
    let answer = server.connect().get("/worker");
    assert_eq!(
        answer.text(),
        format!("{{\"worker\":0,\"pid\":{}}}\n", server.pid())
    );
}

#[test]
fn every_listener_is_served_over_ipv4_and_ipv6() {
    let mut command = Command::new(httpd());
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "[::1]:0",
        "--listen",
        "127.0.0.1:0",
    ]);
    let server = Server::from_command(command, 3);
    for address in server.addresses() {
        assert_hello(&Client::connect(address.parse().expect("an address")).get("/"));
    }
}

/// Keeps the server alive as long as its client.
trait ConnectAndKeep {
    fn connect_and_keep(self) -> (Server, Client);
}

impl ConnectAndKeep for Server {
    fn connect_and_keep(self) -> (Server, Client) {
        let client = self.connect();
        (self, client)
    }
}
