//! HUP and QUIT while clients still read a response that the server has completely written.

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{Client, Scratch, Server, httpd, in_time};
use rustix::process::Signal;

use crate::{
    reloads::all_new,
    stops::{LAST_REQUEST, last_answer},
};

/// Size of a response: more than a small receive buffer holds, and less than a server's send
/// buffer. So the server writes it at once.
const RESPONSE: usize = 150_000;

/// A receive buffer so small that most of the response stays with the server.
const RECEIVE_BUFFER: usize = 4096;

const CLIENTS: usize = 5;

/// Pairs of a signal that stops the workers, and the milliseconds for which connections are idle
/// before it.
const STOPS: [(Signal, u32); 4] = [
    (Signal::QUIT, 0),
    (Signal::QUIT, 1500),
    (Signal::HUP, 0),
    (Signal::HUP, 1500),
];

fn start(listen: &str, accept: &str) -> Server {
    let mut command = Command::new(httpd());
    command.args(["--listen", listen, "--workers", "1", "--accept", accept]);
    // With a handover, HUP would close no connection.
    command.args(["--handover", "off"]);
    Server::from_command(command, 1)
}

/// Connects a client with a small receive buffer. A Unix socket has none, so unread bytes stay with
/// the server.
fn connect(server: &Server) -> Client {
    match server.addresses()[0].strip_prefix("unix:") {
        Some(path) => Client::try_connect_unix(Path::new(path)).expect("it listens"),
        None => Client::connect_with_receive_buffer(server.address(), RECEIVE_BUFFER),
    }
}

/// A client that has received the head of its response, and then reads no further.
fn slow_reader(server: &Server) -> Client {
    let mut client = connect(server);
    client.send(format!(
        "GET /bytes/{RESPONSE} HTTP/1.1\r\nHost: test\r\n\r\n"
    ));
    let (response, _) = client.head_response();
    assert_eq!(response.status, 200);
    client
}

/// Reads the rest of the response, and sends another request. Returns the time that both took, and
/// whether the request was answered.
fn read_and_ask_again(mut client: Client) -> (Duration, Result<(), String>) {
    let begun = Instant::now();
    let body = client.body(RESPONSE).expect("the kernel has the rest");
    assert_eq!(body.len(), RESPONSE);
    let last = last_answer(&mut client);
    (begun.elapsed(), last)
}

/// Stops a server with slow readers, which read on when the other idle connections are closed.
/// Returns the longest time of a reader, and whether each next request was answered.
fn stop_and_read_on(server: &mut Server, stop: (Signal, u32)) -> (Duration, Result<(), String>) {
    let (signal, idle_ms) = stop;
    let slow: Vec<_> = (0..CLIENTS).map(|_| slow_reader(server)).collect();
    // This connection becomes idle later than those of the slow readers. A server that closes them
    // as idle would close them before this one.
    let mut witness = connect(server);
    assert_eq!(witness.get("/").status, 200);
    let mut sleeper = connect(server);
    assert_eq!(sleeper.get(&format!("/sleep/{idle_ms}")).status, 200);
    drop(sleeper);
    server.signal(signal);
    assert!(witness.is_closed());

    let ends: Vec<_> = slow.into_iter().map(read_and_ask_again).collect();
    if signal == Signal::QUIT {
        assert!(server.wait().success());
    }
    let slowest = ends.iter().map(|(took, _)| *took).max();
    let lost: Vec<_> = ends.into_iter().filter_map(|(_, end)| end.err()).collect();
    let result = match &lost[..] {
        [] => Ok(()),
        lost => Err(format!("{stop:?}: requests are lost: {lost:?}")),
    };
    (slowest.expect("there are clients"), result)
}

#[test]
fn a_client_that_reads_slowly_may_send_one_more_request() {
    thread::scope(|scope| {
        for stop in STOPS {
            for accept in ["least-loaded", "off"] {
                scope.spawn(move || {
                    in_time(LAST_REQUEST, || {
                        stop_and_read_on(&mut start("127.0.0.1:0", accept), stop)
                    });
                });
            }
        }
    });
}

#[test]
fn a_slow_reader_on_a_unix_socket_may_send_one_more_request() {
    thread::scope(|scope| {
        for stop in STOPS {
            scope.spawn(move || {
                let directory = Scratch::new("slow");
                let listen = format!("unix:{}", directory.path().join("socket").display());
                in_time(LAST_REQUEST, || {
                    stop_and_read_on(&mut start(&listen, "least-loaded"), stop)
                });
            });
        }
    });
}

#[test]
fn a_client_that_never_reads_is_closed_at_the_shutdowns_end() {
    let options = ["--workers", "1", "--shutdown-timeout", "1500"];
    let mut server = Server::start(&options);
    let mut slow = slow_reader(&server);
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    // The kernel still has the rest of the response.
    assert_eq!(slow.body(RESPONSE).expect("the rest").len(), RESPONSE);
    assert!(slow.is_closed());
}

#[test]
fn a_slow_reader_moves_with_what_it_has_not_read() {
    let server = Server::start(&["--workers", "1"]);
    let old = server.worker_pids();
    let slow: Vec<_> = (0..CLIENTS).map(|_| slow_reader(&server)).collect();
    server.signal(Signal::HUP);
    all_new(&server, &old, 1);
    for mut client in slow {
        let body = client.body(RESPONSE).expect("the kernel has the rest");
        assert_eq!(body.len(), RESPONSE);
        assert_eq!(client.get("/").status, 200);
    }
}
