//! The example `client`: it connects, waits for each answer, and gives up after its timeout.

use std::{
    fmt::Display,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::example;
use rustix::net::{self, AddressFamily, SocketType, sockopt};

use super::{connect, start};

const MESSAGE: &[u8] = b"ping\n";

pub(super) fn run(server: impl Display, messages: &str, timeout: &str) -> Output {
    let mut client = Command::new(example("evcore", "client"));
    client.args([&server.to_string(), messages, timeout]);
    client.output().expect("it starts")
}

/// How many answers the client has printed.
fn answers(output: &Output) -> usize {
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.matches("answered in").count()
}

pub(super) fn assert_fails_with(output: &Output, error: &str) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && printed.contains(error),
        "{printed}"
    );
}

/// Runs the client, and what the server does with its connection.
fn run_with(timeout: &str, serve: impl FnOnce(std::net::TcpStream) + Send) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::scope(|scope| {
        scope.spawn(move || serve(listener.accept().expect("the client connects").0));
        run(address, "2", timeout)
    })
}

#[test]
fn the_client_prints_a_time_for_each_answer() {
    let output = run(start("60").address(), "3", "60");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(answers(&output), 3);
}

#[test]
fn the_client_takes_an_answer_in_pieces_for_one_answer() {
    let output = run_with("60", |mut stream| {
        stream.set_nodelay(true).expect("a socket of TCP");
        for _ in 0..2 {
            let mut message = [0; MESSAGE.len()];
            stream.read_exact(&mut message).expect("it sends");
            assert_eq!(message, *MESSAGE);
            for byte in message {
                stream.write_all(&[byte]).expect("it reads");
            }
        }
    });
    assert!(output.status.success(), "{output:?}");
    assert_eq!(answers(&output), 2);
}

#[test]
fn the_client_fails_if_the_server_closes_early() {
    let output = run_with("60", |mut stream| {
        let mut message = [0; MESSAGE.len()];
        stream.read_exact(&mut message).expect("it sends");
    });
    assert_fails_with(&output, &format!("{:?}", ErrorKind::UnexpectedEof));
}

#[test]
fn the_client_fails_if_the_server_does_not_answer() {
    let output = run_with("0.3", |mut stream| {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("the end");
        assert_eq!(received, MESSAGE);
    });
    assert_fails_with(&output, &format!("{:?}", ErrorKind::TimedOut));
}

#[test]
fn the_client_fails_if_connecting_takes_too_long() {
    let listener = evcore::Listener::builder().backlog(0).bind("127.0.0.1:0");
    let listener = listener.expect("a free port");
    let address = listener.local_addr().tcp().expect("an address of TCP");
    let _fills_the_backlog = connect(address);
    let began = Instant::now();
    assert_fails_with(
        &run(address, "1", "0.3"),
        &format!("{:?}", ErrorKind::TimedOut),
    );
    assert!(began.elapsed() >= Duration::from_millis(300), "early");
}

#[test]
fn the_client_fails_if_the_server_refuses() {
    // A socket that is bound and does not listen keeps the port from other tests.
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = net::getsockname(&socket).expect("an address");
    let address = SocketAddr::try_from(address).expect("an address of TCP");
    assert_fails_with(&run(address, "1", "60"), "ConnectionRefused");
}

#[test]
fn the_client_fails_if_the_server_resets_the_connection() {
    let output = run_with("60", |mut stream| {
        let mut message = [0; MESSAGE.len()];
        stream.read_exact(&mut message).expect("it sends");
        stream.write_all(&message[..2]).expect("it reads");
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a time");
    });
    assert_fails_with(&output, &format!("{:?}", ErrorKind::ConnectionReset));
}

/// TCP has no route to a multicast address.
#[test]
fn the_client_fails_if_the_network_is_unreachable() {
    let output = run("224.0.0.1:80", "1", "60");
    assert_fails_with(&output, &format!("{:?}", ErrorKind::NetworkUnreachable));
}

#[test]
fn the_client_refuses_a_name() {
    assert_fails_with(&run("example.org:80", "1", "60"), "example.org:80");
}
