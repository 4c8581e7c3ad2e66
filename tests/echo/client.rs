//! The example `client`: requests at fixed times, and a server that stalls, refuses or fails.

use std::{
    fmt::Display,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, Server, example, httpd};
use rustix::net::{self, AddressFamily, SocketType, sockopt};

use super::connect;

const REQUEST: &[u8] = b"GET /bytes/13 HTTP/1.1\r\nHost: localhost\r\n\r\n";
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: a: b\r\ncontent-length:  13\r\n\r\nHello, World!";

/// Ten requests, in a fifth of a second.
const TEN: [&str; 4] = ["--rate", "50", "--seconds", "0.2"];

/// The output of a client that has ended with success.
#[derive(Debug)]
struct Printed {
    results: String,
    errors: String,
}

impl Printed {
    fn of(output: &Output) -> Printed {
        assert!(output.status.success(), "{output:?}");
        Printed {
            results: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn number(&self, name: &str) -> f64 {
        let mut lines = self.results.lines().map(str::split_whitespace);
        let mut words = lines.find_map(|mut words| (words.next() == Some(name)).then_some(words));
        let number = words.as_mut().and_then(Iterator::next);
        number
            .and_then(|digits| digits.parse().ok())
            .expect("a number")
    }

    fn requests_and_errors(&self) -> (f64, f64) {
        (self.number("requests"), self.number("errors"))
    }
}

fn start(server: impl Display, options: &[&str]) -> Output {
    let mut client = Command::new(example("evcore", "client"));
    client.args(["--to", &server.to_string(), "--path", "/bytes/13"]);
    client.args(options);
    client.output().expect("it starts")
}

fn run(server: impl Display, options: &[&str]) -> Printed {
    let options = [&["--connections", "1"], options].concat();
    Printed::of(&start(server, &options))
}

/// Runs a client whose only request fails, and returns the error.
pub(super) fn run_to_an_error(server: impl Display, timeout: &str) -> String {
    let one = ["--rate", "1", "--seconds", "0.5", "--timeout", timeout];
    let printed = run(server, &one);
    assert_eq!(printed.requests_and_errors(), (0.0, 1.0), "{printed:?}");
    printed.errors
}

/// Runs a client with one connection at a time against a server that runs `serve`.
fn run_with(options: &[&str], serve: impl FnOnce(TcpListener) + Send) -> Printed {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::scope(|scope| {
        scope.spawn(move || serve(listener));
        run(address, options)
    })
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("the client connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.set_nodelay(true).expect("a socket of TCP");
    stream
}

fn receive_request(mut stream: &TcpStream) {
    let mut request = [0; REQUEST.len()];
    stream.read_exact(&mut request).expect("it sends");
    assert_eq!(request, REQUEST);
}

/// Responds to each request, until the end of the stream.
fn respond(mut stream: &TcpStream) {
    let mut request = [0; REQUEST.len()];
    while stream.read_exact(&mut request).is_ok() {
        stream.write_all(RESPONSE).expect("it reads");
    }
}

#[test]
fn a_client_at_a_rate_gets_a_response_to_each_request() {
    let mut server = Command::new(httpd());
    server.args(["--workers", "0", "--listen", "127.0.0.1:0"]);
    let server = Server::from_command(server, 1);
    for closes in [None, Some("--close")] {
        let options = ["--connections", "8", "--rate", "500", "--seconds", "0.5"];
        let options: Vec<_> = options.into_iter().chain(closes).collect();
        let printed = Printed::of(&start(server.address(), &options));
        assert_eq!(printed.requests_and_errors(), (250.0, 0.0), "{printed:?}");
        let [p50, p99, max] = ["p50", "p99", "max"].map(|name| printed.number(name));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{printed:?}");
        assert!(printed.number("rate") <= 500.0, "{printed:?}");
    }
}

#[test]
fn a_client_without_a_rate_sends_when_it_has_a_response() {
    let printed = run_with(&["--seconds", "0.1"], |listener| {
        respond(&accept(&listener));
    });
    let (requests, errors) = printed.requests_and_errors();
    assert!(requests > 0.0 && errors == 0.0, "{printed:?}");
}

#[test]
fn a_stall_of_the_server_delays_all_requests_that_are_due_in_it() {
    const STALL: Duration = Duration::from_millis(400);
    let options = ["--rate", "100", "--seconds", "0.5"];
    let printed = run_with(&options, |listener| {
        let mut stream = accept(&listener);
        receive_request(&stream);
        // The read lasts for the whole stall, because the client waits for the response.
        stream.set_read_timeout(Some(STALL)).expect("a time");
        let stalled = stream.read(&mut [0]).expect_err("no request");
        assert_eq!(stalled.kind(), ErrorKind::WouldBlock);
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.write_all(RESPONSE).expect("it reads");
        respond(&stream);
    });
    assert_eq!(printed.requests_and_errors(), (50.0, 0.0), "{printed:?}");
    // 40 of the requests are due in the stall, 10 ms apart.
    assert!(printed.number("p50") >= 100_000.0, "{printed:?}");
    assert!(printed.number("max") >= 400_000.0, "{printed:?}");
}

#[test]
fn a_response_in_pieces_is_one_response() {
    let printed = run_with(&TEN, |listener| {
        let mut stream = accept(&listener);
        for _ in 0..10 {
            receive_request(&stream);
            for byte in RESPONSE {
                stream.write_all(&[*byte]).expect("it reads");
            }
        }
        stream.read_to_end(&mut Vec::new()).expect("the end");
    });
    assert_eq!(printed.requests_and_errors(), (10.0, 0.0), "{printed:?}");
}

/// Runs a client whose first request fails. The other requests get responses on another connection.
fn run_with_one_failure(fail: impl FnOnce(TcpStream) + Send) -> String {
    let options = [&TEN[..], &["--timeout", "60"]].concat();
    let printed = run_with(&options, |listener| {
        let first = accept(&listener);
        receive_request(&first);
        fail(first);
        respond(&accept(&listener));
    });
    assert_eq!(printed.requests_and_errors(), (9.0, 1.0), "{printed:?}");
    printed.errors
}

#[test]
fn the_client_reconnects_if_the_server_closes_early() {
    let errors = run_with_one_failure(drop);
    assert!(errors.contains("unexpected end of file"), "{errors}");
}

#[test]
fn the_client_reconnects_if_the_server_resets_the_connection() {
    let errors = run_with_one_failure(|mut stream| {
        stream.write_all(&RESPONSE[..2]).expect("it reads");
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a time");
    });
    assert!(errors.contains("reset"), "{errors}");
}

#[test]
fn a_response_other_than_success_is_an_error() {
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable";
    let errors = run_with_one_failure(|mut stream| {
        let response = format!("{BUSY}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(response.as_bytes()).expect("it reads");
    });
    assert!(errors.contains(BUSY), "{errors}");
}

#[test]
fn the_client_reconnects_after_the_server_closes_an_idle_connection() {
    let options = ["--rate", "2", "--seconds", "0.6", "--timeout", "60"];
    let printed = run_with(&options, |listener| {
        let mut first = accept(&listener);
        receive_request(&first);
        first.write_all(RESPONSE).expect("it reads");
        drop(first);
        respond(&accept(&listener));
    });
    // The error is the end of the idle connection. On a slow machine, it may be the failure of the
    // second request instead, if the client has sent that request before it read the end.
    let (requests, errors) = printed.requests_and_errors();
    assert!(requests >= 1.0 && errors == 1.0, "{printed:?}");
}

#[test]
fn a_server_that_does_not_respond_is_a_timeout() {
    let options = [&TEN[..], &["--timeout", "0.3"]].concat();
    let began = Instant::now();
    let printed = run_with(&options, |listener| {
        let mut received = Vec::new();
        let mut stream = accept(&listener);
        stream.read_to_end(&mut received).expect("the end");
        assert_eq!(received, REQUEST);
        respond(&accept(&listener));
    });
    let (requests, errors) = printed.requests_and_errors();
    assert!(errors >= 1.0 && requests + errors == 10.0, "{printed:?}");
    assert!(printed.errors.contains("timed out"), "{printed:?}");
    assert!(began.elapsed() >= Duration::from_millis(300), "early");
}

#[test]
fn connecting_that_takes_too_long_is_a_timeout() {
    let listener = evcore::Listener::builder().backlog(0).bind("127.0.0.1:0");
    let listener = listener.expect("a free port");
    let address = listener.local_addr().tcp().expect("an address of TCP");
    let _fills_the_backlog = connect(address);
    let began = Instant::now();
    let error = run_to_an_error(address, "0.3");
    assert!(error.contains("timed out"), "{error}");
    assert!(began.elapsed() >= Duration::from_millis(300), "early");
}

#[test]
fn a_server_that_refuses_is_an_error_of_each_request() {
    // A socket that is bound and does not listen keeps the port from other tests.
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = net::getsockname(&socket).expect("an address");
    let address = SocketAddr::try_from(address).expect("an address of TCP");
    let printed = run(address, &TEN);
    assert_eq!(printed.requests_and_errors(), (0.0, 10.0), "{printed:?}");
    assert!(printed.errors.contains("Connection refused"), "{printed:?}");
}

/// TCP has no route to a multicast address.
#[test]
fn a_network_that_is_unreachable_is_an_error() {
    let error = run_to_an_error("224.0.0.1:80", "60");
    assert!(error.contains("unreachable"), "{error}");
}

#[test]
fn the_client_refuses_a_name() {
    let output = start("example.org:80", &["--connections", "1"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && printed.contains("example.org:80"),
        "{printed}"
    );
}
