//! `--send-buffer` applies to each connection, also if another process has opened the listener.

#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixListener},
};

use evcore_tests::{Scratch, Server, not_run};
use rustix::{
    io::Errno,
    net::{getpeername, sockopt},
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};

use crate::{command_line::assert_refusal, socket_activation::passing};

const BYTES: usize = 50_000;

/// The size that Linux reports. It doubles the requested size, to have room for its own structures.
const IN_KERNEL: usize = 2 * BYTES;

/// Duplicates the socket by which a process is connected to this client.
fn connection_of(process: u32, client: SocketAddr) -> Result<OwnedFd, Errno> {
    let raw = i32::try_from(process).expect("a process id");
    let pid = Pid::from_raw(raw).expect("a process id");
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let open = fs::read_dir(format!("/proc/{raw}/fd")).expect("Linux has this directory");
    for entry in open {
        let name = entry.expect("a name").file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        let number = number.expect("a number");
        let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
        let is_client = |address| SocketAddr::try_from(address) == Ok(client);
        if getpeername(&socket).is_ok_and(|peer| peer.is_some_and(is_client)) {
            return Ok(socket);
        }
    }
    panic!("the process has no connection from {client}");
}

/// The send buffer of the server's side of a new connection; `None` if this process may not read
/// it.
fn buffer_of_connection(server: &Server, process: u32) -> Option<usize> {
    let mut client = TcpStream::connect(server.address()).expect("it listens");
    let request = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";
    client.write_all(request).expect("it is open");
    let read = client.read(&mut [0]).expect("it is open");
    assert_eq!(read, 1, "the server has accepted it");
    let address = client.local_addr().expect("a socket");
    match connection_of(process, address) {
        Ok(socket) => Some(sockopt::socket_send_buffer_size(socket).expect("a socket")),
        Err(Errno::PERM | Errno::NOSYS) => {
            not_run("this process may not look at the sockets of another");
            None
        }
        Err(errno) => panic!("{errno}"),
    }
}

#[test]
fn each_connection_has_the_send_buffer() {
    let bytes = BYTES.to_string();
    for workers in [
        &["--workers", "0"][..],
        &["--workers", "1"],
        &["--threads", "1"],
        &["--workers", "1", "--accept", "reuseport"],
    ] {
        let server = Server::start(&[workers, &["--send-buffer", &bytes]].concat());
        let process = *server.worker_pids().first().unwrap_or(&server.pid());
        let Some(buffer) = buffer_of_connection(&server, process) else {
            return;
        };
        assert_eq!(buffer, IN_KERNEL, "{workers:?}");
    }
}

#[test]
fn a_passed_listener_gets_the_send_buffer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let same = listener.try_clone().expect("a descriptor");
    let mut command = passing(listener, "");
    command.args(["--workers", "1", "--send-buffer", &BYTES.to_string()]);
    let server = Server::from_command(command, 1);
    assert_eq!(server.connect().get("/").status, 200);
    // Connections inherit the option.
    let buffer = sockopt::socket_send_buffer_size(same).expect("a socket");
    assert_eq!(buffer, IN_KERNEL);
}

#[test]
fn a_passed_unix_socket_is_refused_with_a_send_buffer() {
    let scratch = Scratch::new("passed-with-a-buffer");
    let path = scratch.file("s");
    let listener = UnixListener::bind(&path).expect("a free path");
    let mut command = passing(listener, "");
    command.args(["--workers", "1", "--send-buffer", &BYTES.to_string()]);
    let output = command.output().expect("it runs");
    let path = path.to_str().expect("a text");
    assert_refusal(&output, &[], 1, &["--send-buffer", path, "Unix socket"]);
}
