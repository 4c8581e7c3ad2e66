//! The example of `evcore-serve`: an echo server of worker processes or threads.

use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    process::Command,
};

use evcore_tests::{Server, eventually, prefork_echo, signal_to};
use rustix::process::Signal;

use super::{LENGTH, bytes, connect, read_back, send_without_reading, sends_before_it_reads};

const WORKERS: usize = 4;

/// Starts the server, and waits until all workers serve, because the server then handles signals.
fn start() -> Server {
    start_with(&[])
}

fn start_with(options: &[&str]) -> Server {
    let mut command = Command::new(prefork_echo());
    command.arg("127.0.0.1:0").args(options);
    let server = Server::from_command(command, 1);
    eventually("all workers serve", || count(&server, " serves") == WORKERS);
    server
}

fn count(server: &Server, text: &str) -> usize {
    server.log().matches(text).count()
}

/// Connects a client, and waits until a worker has answered it.
fn served(server: &Server) -> TcpStream {
    let mut stream = connect(server.address());
    ping(&mut stream);
    stream
}

fn ping(stream: &mut TcpStream) {
    stream.write_all(b"ping").expect("it reads");
    let mut back = [0; 4];
    stream.read_exact(&mut back).expect("it answers");
    assert_eq!(&back, b"ping");
}

/// The number of sockets that each worker has open.
fn sockets(server: &Server) -> HashMap<u32, usize> {
    let sockets_of = |pid: u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
        let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let is_socket = |link: &std::path::PathBuf| link.to_string_lossy().starts_with("socket:");
        links.filter(is_socket).count()
    };
    let pids = server.worker_pids().into_iter();
    pids.map(|pid| (pid, sockets_of(pid))).collect()
}

#[test]
fn prefork_echo_sends_back_16_mb_to_a_client_that_reads_late() {
    let server = start();
    let stream = connect(server.address());
    sends_before_it_reads(&stream, &bytes(LENGTH)).expect("all of it");
}

#[test]
fn prefork_echo_gives_clients_to_all_workers() {
    let server = start();
    let before = sockets(&server);
    let mut clients = Vec::new();
    // A worker that is held up for a moment gets its clients later.
    eventually("each worker has a client", || {
        clients.push(served(&server));
        sockets(&server).iter().all(|(pid, n)| *n > before[pid])
    });
    let now: usize = sockets(&server).values().sum();
    assert_eq!(now - before.values().sum::<usize>(), clients.len());
}

#[test]
fn prefork_echo_gives_its_clients_to_the_new_workers() {
    let server = start();
    let (data, stream) = (bytes(LENGTH), connect(server.address()));
    let sent = send_without_reading(&stream, &data).expect("some of it");
    let old = server.worker_pids();
    server.signal(Signal::HUP);
    eventually("the new workers serve", || {
        count(&server, " serves") == 2 * WORKERS
    });
    // One of the old workers had a client that has not read yet.
    eventually("the old workers have ended", || {
        count(&server, " ended: exit status: 0") == WORKERS
    });
    let pids = server.worker_pids();
    assert!(!pids.iter().any(|pid| old.contains(pid)));
    let _new = served(&server);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = &stream;
            stream.write_all(&data[sent..]).expect("it reads");
            stream.shutdown(Shutdown::Write).expect("it is open");
        });
        read_back(&stream, &data).expect("all of it");
    });
}

#[test]
fn prefork_echo_replaces_a_killed_worker() {
    let server = start();
    let old = server.worker_pids();
    signal_to(old[0], Signal::KILL);
    eventually("another worker serves", || {
        count(&server, " serves") == WORKERS + 1
    });
    assert_eq!(count(&server, "ended unexpectedly: signal: 9 (SIGKILL)"), 1);
    // The dead worker may have held the accept lock, or may have been the worker that accepts.
    for _ in 0..10 {
        drop(served(&server));
    }
}

#[test]
fn prefork_echo_waits_for_its_clients_at_quit_and_not_at_term() {
    for signals in [&[Signal::QUIT][..], &[Signal::QUIT, Signal::TERM]] {
        let mut server = start();
        let mut stream = served(&server);
        server.signal(signals[0]);
        eventually("the other workers have ended", || {
            count(&server, " ended: exit status: 0") == WORKERS - 1
        });
        ping(&mut stream);
        match signals.get(1) {
            Some(signal) => server.signal(*signal),
            None => drop(stream),
        }
        assert!(server.wait().success());
    }
}

#[test]
fn threads_serve_reload_and_stop_as_processes_do() {
    let mut server = start_with(&["--threads"]);
    let mut stream = served(&server);
    server.signal(Signal::HUP);
    eventually("the new workers serve", || {
        count(&server, "reload: the new workers serve") == 1
    });
    ping(&mut stream);
    drop(served(&server));
    server.signal(Signal::QUIT);
    drop(stream);
    assert!(server.wait().success());
}

#[test]
fn a_new_binary_takes_over_the_listener_and_refuses_no_client() {
    let mut server = start();
    let new = server.start_binary();
    eventually("the workers of both serve", || {
        count(&server, " serves") == 2 * WORKERS
    });
    drop(served(&server));
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let stream = served(&server);
    signal_to(new, Signal::TERM);
    assert_eq!(read_to_end(stream), b"");
    eventually("the port is closed", || {
        TcpStream::connect(server.address()).is_err()
    });
}

fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream
        .read_to_end(&mut rest)
        .expect("it is closed in order");
    rest
}
