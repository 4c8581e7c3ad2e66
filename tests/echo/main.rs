//! Tests of examples, which run as processes. This file tests `echo`, the README's program.

mod client;
#[cfg(target_os = "linux")]
mod network;
mod offload;
mod prefork;
mod processes;
mod proxy;
mod proxy_protocol;
#[cfg(target_os = "linux")]
mod rooms;
mod timeouts;
mod tls;
mod udp;
mod udp_bursts;
#[cfg(target_os = "linux")]
mod watch_files;

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, Server, echo};
use rustix::net::sockopt;

/// More bytes than the kernel takes from a client while the server does not read.
const LENGTH: usize = 16 << 20;

/// Time after which a server that takes no more bytes is assumed to wait until its client reads.
const STALLED: Duration = Duration::from_millis(200);

fn start(idle_seconds: &str) -> Server {
    let mut command = Command::new(echo());
    command.args(["127.0.0.1:0", idle_seconds]);
    Server::from_command(command, 1)
}

/// Bytes without a newline, whose pattern shows a wrong order or a repeated piece.
fn bytes(count: usize) -> Vec<u8> {
    (0..=u8::MAX)
        .filter(|byte| *byte != b'\n')
        .cycle()
        .take(count)
        .collect()
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time");
    stream
}

/// Sends without reading, until everything is sent or the server takes no more. Returns the number
/// of sent bytes.
fn send_without_reading(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    stream.set_write_timeout(Some(STALLED))?;
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(sent)
}

/// Reads these bytes, and then the end.
fn read_back(mut stream: &TcpStream, mut expected: &[u8]) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 if expected.is_empty() => return Ok(()),
            0 => {
                return Err(io::Error::other(format!(
                    "{} bytes are missing",
                    expected.len()
                )));
            }
            n => {
                let (now, later) = expected
                    .split_at_checked(n)
                    .expect("not more than was sent");
                assert!(buffer[..n] == *now, "other bytes than were sent");
                expected = later;
            }
        }
    }
}

/// Runs a client that sends without reading until the server takes no more, and then sends the rest
/// while it reads.
fn sends_before_it_reads(stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let sent = send_without_reading(stream, bytes)?;
    thread::scope(|scope| {
        let rest = scope.spawn(move || {
            let mut stream = stream;
            stream.write_all(&bytes[sent..])?;
            stream.shutdown(Shutdown::Write)
        });
        read_back(stream, bytes)?;
        rest.join().expect("no panic")
    })
}

#[test]
fn a_client_that_reads_late_gets_all_16_mb_back() {
    let server = start("60");
    let stream = connect(server.address());
    sends_before_it_reads(&stream, &bytes(LENGTH)).expect("all of it");
}

#[test]
fn a_hundred_clients_that_read_late_get_all_bytes_back() {
    let (server, bytes) = (start("60"), bytes(LENGTH));
    thread::scope(|scope| {
        for _ in 0..100 {
            let stream = connect(server.address());
            // With small buffers, the bytes in flight take little of the kernel's memory.
            sockopt::set_socket_recv_buffer_size(&stream, 64 * 1024).expect("a size");
            sockopt::set_socket_send_buffer_size(&stream, 64 * 1024).expect("a size");
            let bytes = &bytes;
            scope.spawn(move || sends_before_it_reads(&stream, bytes).expect("all of it"));
        }
    });
}

#[test]
fn a_reset_client_ends_no_other() {
    let server = start("60");
    let mut other = connect(server.address());
    for _ in 0..20 {
        let stream = connect(server.address());
        send_without_reading(&stream, &bytes(100_000)).expect("some of it");
        // The stream has unread bytes, so the kernel sends a reset.
        drop(stream);
    }
    for _ in 0..20 {
        other.write_all(b"ping").expect("it reads");
        let mut back = [0; 4];
        other.read_exact(&mut back).expect("it answers");
        assert_eq!(&back, b"ping");
    }
}

#[test]
fn an_idle_client_is_closed_not_before_the_timeout() {
    const IDLE: Duration = Duration::from_millis(500);
    let server = start("0.5");
    let began = Instant::now();
    let (idle, mut busy) = (connect(server.address()), connect(server.address()));
    let (mut last, mut pings) = (began, 0);
    // The idle client is closed. The busy client is not, unless this thread was held up.
    thread::scope(|scope| {
        let closed = scope.spawn(move || (read_back(&idle, &[]), Instant::now()));
        while !closed.is_finished() {
            let asked = Instant::now();
            let mut back = [0; 4];
            let answered = busy
                .write_all(b"ping")
                .and_then(|()| busy.read_exact(&mut back));
            assert!(answered.is_ok() || last.elapsed() >= IDLE, "{answered:?}");
            (last, pings) = (asked, pings + 1);
        }
        let (end, at) = closed.join().expect("no panic");
        end.expect("an end without a byte");
        assert!(at - began >= IDLE, "early");
    });
    assert!(pings > 1);
}
