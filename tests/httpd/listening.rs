//! Listeners: addresses of each kind, several at once, inherited ones, and socket files.

use std::{
    fs,
    net::{Ipv6Addr, SocketAddr, TcpListener},
    os::{
        fd::OwnedFd,
        unix::{
            fs::FileTypeExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use evcore_tests::{Client, Scratch, Server, eventually, httpd};
use rustix::process::Signal;

use crate::command_line::assert_refusal;

fn socket(dir: &Scratch) -> PathBuf {
    dir.path().join("httpd.sock")
}

fn listening(addresses: &[String], workers: &str) -> Server {
    let mut command = Command::new(httpd());
    command.args(["--workers", workers]);
    for address in addresses {
        command.args(["--listen", address]);
    }
    Server::from_command(command, addresses.len())
}

fn unix(path: &Path) -> String {
    format!("unix:{}", path.display())
}

fn status_at(path: &Path) -> u16 {
    let client = Client::try_connect_unix(path);
    client.expect("the server listens").get("/").status
}

#[test]
fn each_address_is_logged_and_served() {
    for workers in ["0", "2"] {
        // Each server has its own path, because an io_uring holds the listener of a killed server
        // for a moment.
        let dir = Scratch::new("each");
        let path = socket(&dir);
        let mut listen = vec!["127.0.0.1:0".to_owned(), unix(&path)];
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            listen.push("[::1]:0".to_owned());
        }
        let server = listening(&listen, workers);
        assert_eq!(server.addresses()[1], listen[1]);
        assert_eq!(status_at(&path), 200);
        for message in [&server.addresses()[..1], &server.addresses()[2..]].concat() {
            let address: SocketAddr = message.parse().expect("an address and port");
            assert_ne!(address.port(), 0, "the actual port");
            assert_eq!(Client::connect(address).get("/").status, 200, "{address}");
        }
    }
}

#[test]
fn a_unix_socket_serves_pipelined_and_large_responses() {
    let dir = Scratch::new("large");
    let path = socket(&dir);
    let _server = listening(&[unix(&path)], "1");
    let mut client = Client::try_connect_unix(&path).expect("the server listens");
    client.send(
        "GET /bytes/3000000 HTTP/1.1\r\nHost: test\r\n\r\n\
         GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(client.response().body.len(), 3_000_000);
    let last = client.response();
    assert_eq!(last.text(), "Hello, World!");
    assert!(last.closes() && client.is_closed());
}

#[test]
fn a_stopped_server_removes_its_socket_file() {
    let dir = Scratch::new("goes");
    let path = socket(&dir);
    for (workers, signal) in [
        ("0", Signal::TERM),
        ("0", Signal::QUIT),
        ("2", Signal::TERM),
        ("2", Signal::QUIT),
    ] {
        let mut server = listening(&[unix(&path)], workers);
        assert_eq!(status_at(&path), 200);
        server.signal(signal);
        assert!(server.wait().success());
        assert!(!path.exists(), "{workers} workers, {signal:?}");
    }
}

#[test]
fn the_death_of_a_worker_does_not_remove_the_socket_file() {
    let dir = Scratch::new("worker");
    let path = socket(&dir);
    let server = listening(&[unix(&path)], "2");
    for pid in server.worker_pids() {
        evcore_tests::signal_to(pid, Signal::KILL);
    }
    assert_eq!(status_at(&path), 200);
}

#[test]
fn a_stale_socket_file_is_replaced() {
    let dir = Scratch::new("killed");
    let path = socket(&dir);
    let mut server = listening(&[unix(&path)], "0");
    server.signal(Signal::KILL);
    server.wait();
    assert!(path.exists(), "a killed server cannot remove it");
    let _next = listening(&[unix(&path)], "0");
    assert_eq!(status_at(&path), 200);
}

#[test]
fn a_path_that_cannot_be_bound_is_an_error_of_one_line() {
    let dir = Scratch::new("taken");
    let path = socket(&dir);
    let _there = UnixListener::bind(&path).expect("a socket");
    let missing = dir.path().join("no/such.sock");
    for (path, what) in [
        (path.as_path(), "in use"),
        (dir.path(), "a directory"),
        (missing.as_path(), "does not exist"),
    ] {
        let mut command = Command::new(httpd());
        let output = command.args(["--listen", &unix(path)]).output();
        let output = output.expect("it runs");
        let message = String::from_utf8(output.stderr).expect("a text");
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(
            message.contains(what) && message.contains(&unix(path)),
            "{message}"
        );
    }
    let found = fs::symlink_metadata(&path).expect("it is still there");
    assert!(found.file_type().is_socket());
}

#[test]
fn a_failed_start_leaves_no_socket_file() {
    let dir = Scratch::new("fails");
    let path = socket(&dir);
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = other.local_addr().expect("it has one").to_string();
    let missing = dir.path().join("no/such");
    let missing = missing.to_str().expect("a text");
    for (option, value) in [
        ("--listen", taken.as_str()),
        ("--access-log", missing),
        ("--pid", missing),
    ] {
        let mut command = Command::new(httpd());
        command.args(["--listen", &unix(&path), option, value]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{option}: {output:?}");
        assert!(!path.exists(), "{option}");
    }
}

/// A server that inherits this listener, as a new binary does, and has the option `--listen`.
fn inheriting(listener: TcpListener, listen: &str) -> Server {
    inheriting_from(Command::new("sh"), listener.into(), listen)
}

fn inheriting_from(mut command: Command, listener: OwnedFd, listen: &str) -> Server {
    // A shell gives the listener a known number, in the process that becomes the server.
    command.args(["-c", "exec \"$0\" \"$@\" 7>&1 >/dev/null"]);
    command.arg(httpd());
    command.args(["--workers", "1", "--listen", listen]);
    command
        .stdout(Stdio::from(listener))
        .env("EVCORE_INHERITED", "7");
    Server::from_command(command, 1)
}

#[test]
fn inherited_standard_streams_are_an_error_of_one_line() {
    let mut command = Command::new(httpd());
    command.env("EVCORE_INHERITED", "0,1,2");
    let output = command.args(["--listen", "127.0.0.1:0"]).output();
    let named = ["EVCORE_INHERITED is \"0,1,2\"", "standard input"];
    assert_refusal(&output.expect("it runs"), &[], 1, &named);
}

#[test]
fn an_inherited_listener_is_found_by_its_address() {
    let old = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = old.local_addr().expect("it has one").to_string();
    // A second bind would fail, because the test holds the listener as well.
    let other = old.try_clone().expect("a descriptor");
    let server = inheriting(old, &address);
    drop(other);
    assert_eq!(server.addresses(), [address]);
    assert_eq!(server.connect().get("/").status, 200);
}

#[test]
fn an_inherited_listener_of_another_address_is_closed() {
    // Only this test listens at this address, so that no other test gets the port.
    let old = TcpListener::bind("127.0.0.3:0").expect("a free port");
    let address = old.local_addr().expect("it has one");
    // Port 0 matches every port, but the address differs.
    let server = inheriting(old, "127.0.0.2:0");
    assert_eq!(server.connect().get("/").status, 200);
    assert!(server.addresses()[0].starts_with("127.0.0.2:"));
    // Other tests fork, and their children hold the listener until they exec.
    eventually("connecting is refused", || {
        Client::try_connect(address).is_err()
    });
    let message = format!("no longer listening on {address}");
    assert!(server.log().contains(&message), "{}", server.log());
}

#[test]
fn the_file_of_an_unused_inherited_socket_is_removed() {
    let dir = Scratch::new("unlisten");
    let path = socket(&dir);
    let old = UnixListener::bind(&path).expect("a free path");
    let mut server = inheriting_from(Command::new("sh"), old.into(), "127.0.0.1:0");
    let message = format!("no longer listening on {}", unix(&path));
    assert!(server.log().contains(&message), "{}", server.log());
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert!(!path.exists(), "no other process would remove it");
}

#[test]
fn the_socket_file_of_a_running_old_binary_is_kept() {
    let dir = Scratch::new("unlisten-lives");
    let path = socket(&dir);
    let old = UnixListener::bind(&path).expect("a free path");
    let mut command = Command::new("sh");
    // The test plays the old binary.
    command.env("EVCORE_PARENT_BINARY", std::process::id().to_string());
    let passed_on = old.try_clone().expect("a descriptor").into();
    let mut server = inheriting_from(command, passed_on, "127.0.0.1:0");
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    UnixStream::connect(&path).expect("the old binary listens here");
}
