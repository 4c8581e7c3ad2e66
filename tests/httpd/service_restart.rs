//! Restarts of the service. This test plays systemd with its store of descriptors: it keeps the
//! descriptors that the server sends, and passes them to the next start.

#![allow(
    unsafe_code,
    reason = "descriptors at fixed numbers, between fork and exec"
)]

use std::{
    fs::File,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    net::TcpListener,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::{fs::MetadataExt, net::UnixDatagram, process::CommandExt},
    },
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use evcore_tests::{Client, Scratch, Server, eventually, httpd, signal_to};
use rustix::{
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::Signal,
};

/// The name under which the server stores its listeners.
const LISTENER: &str = "evcore-listener";

/// A service manager with a store for `max` descriptors.
struct Manager {
    path: PathBuf,
    max: usize,
    /// The listeners of socket units, with their names.
    sockets: Vec<(String, OwnedFd)>,
    kept: Arc<Mutex<Kept>>,
    reader: Option<JoinHandle<()>>,
    _directory: Scratch,
}

#[derive(Default)]
struct Kept {
    descriptors: Vec<(String, OwnedFd)>,
    messages: Vec<String>,
}

impl Kept {
    /// Handles a message as systemd does: it ignores a file that it has already, and closes a
    /// descriptor for which it has no room.
    fn handle(&mut self, text: &str, descriptors: Vec<OwnedFd>, max: usize) {
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
        let name = name.unwrap_or("stored");
        if text.lines().any(|line| line == "FDSTOREREMOVE=1") {
            self.descriptors.retain(|(other, _)| other != name);
        }
        if text.lines().any(|line| line == "FDSTORE=1") {
            for descriptor in descriptors {
                let is_kept = |(_, other): &(_, OwnedFd)| inode(other) == inode(&descriptor);
                if self.descriptors.len() < max && !self.descriptors.iter().any(is_kept) {
                    self.descriptors.push((name.to_owned(), descriptor));
                }
            }
        }
        self.messages.push(text.to_owned());
    }
}

fn inode(descriptor: &OwnedFd) -> u64 {
    let file = File::from(descriptor.try_clone().expect("a descriptor"));
    file.metadata().expect("an open file").ino()
}

impl Manager {
    fn new(name: &str, max: usize) -> Self {
        let directory = Scratch::new(name);
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a new file");
        let kept = Arc::new(Mutex::new(Kept::default()));
        let for_reader = Arc::clone(&kept);
        let reader = thread::spawn(move || {
            loop {
                let (text, descriptors) = receive(&socket).expect("a message");
                if text == "END" {
                    break;
                }
                let mut kept = for_reader.lock().expect("nobody panicked");
                kept.handle(&text, descriptors, max);
            }
        });
        Self {
            path,
            max,
            sockets: Vec::new(),
            kept,
            reader: Some(reader),
            _directory: directory,
        }
    }

    fn start(&self, options: &[&str]) -> Server {
        Server::from_command(self.command(options), 1)
    }

    fn command(&self, options: &[&str]) -> Command {
        let copy = |(name, one): &(String, OwnedFd)| (name.clone(), one.try_clone().unwrap());
        let mut kept: Vec<_> = self.sockets.iter().map(copy).collect();
        {
            // systemd passes the newest descriptor first.
            let store = self.kept.lock().expect("nobody panicked");
            kept.extend(store.descriptors.iter().rev().map(copy));
        }
        let mut command = Command::new("sh");
        let become_server = "export LISTEN_PID=$$; exec \"$0\" \"$@\"";
        command.args(["-c", become_server]).arg(httpd());
        command.env("NOTIFY_SOCKET", &self.path);
        command.env("FDSTORE", self.max.to_string());
        if !kept.is_empty() {
            let names: Vec<_> = kept.iter().map(|(name, _)| name.as_str()).collect();
            command.env("LISTEN_FDS", kept.len().to_string());
            command.env("LISTEN_FDNAMES", names.join(":"));
            pass(&mut command, kept.into_iter().map(|(_, one)| one).collect());
        }
        command.args(options);
        if !options.contains(&"--listen") && self.sockets.is_empty() {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command
    }

    /// Number of descriptors in the store whose names begin with `name`.
    fn count(&self, name: &str) -> usize {
        let kept = self.kept.lock().expect("nobody panicked");
        let named = kept.descriptors.iter();
        named.filter(|(other, _)| other.starts_with(name)).count()
    }

    /// Waits until the store has `count` descriptors whose names begin with `name`. A server
    /// removes a name and stores it again by two messages, which this test may read late on a busy
    /// machine.
    fn wait_for(&self, name: &str, count: usize) {
        eventually("the store has its descriptors", || {
            self.count(name) == count
        });
    }

    fn has_got(&self, message: &str) -> bool {
        let kept = self.kept.lock().expect("nobody panicked");
        kept.messages.iter().any(|one| one == message)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let socket = UnixDatagram::unbound().expect("a socket");
        let sent = socket.send_to(b"END", &self.path);
        if let (Ok(_), Some(reader)) = (sent, self.reader.take()) {
            let _ = reader.join();
        }
    }
}

fn receive(socket: &UnixDatagram) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = [0; 1024];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let length = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    Ok((text, descriptors))
}

/// Passes descriptors to a command, with the numbers from 3 up.
fn pass(command: &mut Command, descriptors: Vec<OwnedFd>) {
    let prepare = move || {
        let duplicate = |from: RawFd, to: RawFd| {
            // SAFETY: `dup2` closes a descriptor only in this child, which does not need it.
            match unsafe { libc::dup2(from, to) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        // The descriptors get high numbers first, because their present numbers may be among the
        // new ones.
        let numbers = || (0..).zip(descriptors.iter().map(AsRawFd::as_raw_fd));
        numbers().try_for_each(|(at, number)| duplicate(number, 500 + at))?;
        numbers().try_for_each(|(at, _)| duplicate(500 + at, 3 + at))?;
        // SAFETY: the copies belong to this child.
        numbers().for_each(|(at, _)| _ = unsafe { libc::close(500 + at) });
        Ok(())
    };
    // SAFETY: the closure makes system calls that are allowed between fork and exec, and allocates
    // nothing.
    unsafe { command.pre_exec(prepare) };
}

fn stop(mut server: Server, signal: Signal) {
    server.signal(signal);
    assert!(server.wait().success(), "{}", server.log());
}

fn idle(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    client
}

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

#[test]
fn a_restart_keeps_idle_connections_and_the_backlog() {
    let manager = Manager::new("restart", 64);
    let mut server = manager.start(&["--workers", "2"]);
    let address = server.addresses().to_owned();
    let mut clients: Vec<_> = (0..100).map(|_| idle(&server)).collect();
    let ports: Vec<_> = clients.iter().map(Client::local_port).collect();
    for (workers, signal) in [
        ("2", Signal::QUIT),
        ("1", Signal::TERM),
        ("3", Signal::QUIT),
    ] {
        stop(server, signal);
        clients[7].send(REQUEST);
        let mut late = Client::connect(address[0].parse().expect("an address"));
        late.send(REQUEST);

        server = manager.start(&["--workers", workers]);
        assert_eq!(server.addresses(), address);
        assert_eq!(clients[7].response().status, 200, "sent while it was down");
        assert_eq!(late.response().status, 200, "it was in the backlog");
        for client in &mut clients {
            assert_eq!(client.get("/").status, 200);
        }
        manager.wait_for(LISTENER, 1);
        let log = server.log();
        assert!(!log.contains("do not move"), "{log}");
    }
    assert!(clients.iter().map(Client::local_port).eq(ports));
    assert!(manager.has_got(&format!("FDSTOREREMOVE=1\nFDNAME={LISTENER}\n")));
}

#[test]
fn a_restart_keeps_connections_of_each_policy() {
    for policy in ["reuseport", "exclusive", "mutex", "off"] {
        let manager = Manager::new("restart-policy", 64);
        let options = ["--workers", "2", "--accept", policy];
        let server = manager.start(&options);
        let mut clients: Vec<_> = (0..20).map(|_| idle(&server)).collect();
        stop(server, Signal::QUIT);
        let server = manager.start(&options);
        assert!(
            clients
                .iter_mut()
                .all(|client| client.get("/").status == 200)
        );
        let log = server.log();
        assert!(!log.contains("no longer listening"), "{log}");
    }
}

#[test]
fn a_restart_keeps_the_beginning_of_a_request() {
    let manager = Manager::new("restart-begun", 64);
    let server = manager.start(&["--workers", "1"]);
    let mut client = idle(&server);
    let (first, rest) = REQUEST.split_at(10);
    client.send(first);
    server.wait_for_status("the first bytes are read", |status| status.reading >= 1);
    stop(server, Signal::QUIT);
    let _server = manager.start(&["--workers", "1"]);
    client.send(rest);
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_client_that_is_busy_at_the_stop_is_answered_and_then_kept() {
    let manager = Manager::new("restart-busy", 64);
    let mut server = manager.start(&["--workers", "1"]);
    let (mut waits, mut client) = (idle(&server), idle(&server));
    client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n12345");
    server.wait_for_status("the body is awaited", |status| status.reading >= 1);
    server.signal(Signal::QUIT);
    eventually("it stops", || manager.has_got("STOPPING=1\n"));
    waits.send(REQUEST);
    client.send("67890");
    assert!(!client.response().closes());
    assert!(server.wait().success());
    let _server = manager.start(&["--workers", "1"]);
    assert_eq!(client.get("/").status, 200);
    assert_eq!(waits.response().status, 200);
}

#[test]
fn a_restart_of_threads_or_of_one_process_keeps_the_backlog() {
    for options in [["--threads", "2"], ["--workers", "0"]] {
        let manager = Manager::new("restart-threads", 64);
        let server = manager.start(&options);
        let address = server.address();
        let mut client = idle(&server);
        stop(server, Signal::QUIT);
        let mut late = Client::connect(address);
        late.send(REQUEST);
        assert!(client.is_closed());
        let _server = manager.start(&options);
        assert_eq!(late.response().status, 200);
        manager.wait_for("", 1);
    }
}

#[test]
fn the_file_of_a_unix_socket_is_bound_anew_and_its_connections_are_kept() {
    let manager = Manager::new("restart-unix", 64);
    let directory = Scratch::new("restart-unix-socket");
    let path = directory.file("s");
    let listen = format!("unix:{}", path.display());
    let options = ["--workers", "1", "--listen", &listen];
    let server = manager.start(&options);
    let mut clients: Vec<_> = (0..300)
        .map(|_| Client::try_connect_unix(&path).expect("it listens"))
        .collect();
    assert!(
        clients
            .iter_mut()
            .all(|client| client.get("/").status == 200)
    );
    stop(server, Signal::QUIT);
    assert_eq!((manager.count(LISTENER), path.exists()), (0, false));
    let _server = manager.start(&options);
    assert!(
        clients
            .iter_mut()
            .all(|client| client.get("/").status == 200)
    );
    let mut new = Client::try_connect_unix(&path).expect("it listens");
    assert_eq!(new.get("/").status, 200);
}

#[test]
fn the_listener_of_a_socket_unit_is_not_stored() {
    let mut manager = Manager::new("restart-socket", 64);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let name = "httpd.socket".to_owned();
    manager.sockets.push((name, listener.into()));
    let server = manager.start(&["--workers", "1"]);
    let mut client = idle(&server);
    stop(server, Signal::QUIT);
    client.send(REQUEST);
    let server = manager.start(&["--workers", "1"]);
    assert_eq!(client.response().status, 200);
    assert_eq!(server.connect().get("/").status, 200);
    manager.wait_for("", 2);
    assert_eq!(manager.count(LISTENER), 0);
    assert_eq!(server.log().matches("listening on").count(), 1);
}

#[test]
fn a_start_that_fails_loses_no_connection() {
    let manager = Manager::new("restart-fails", 64);
    let server = manager.start(&["--workers", "1"]);
    let mut client = idle(&server);
    stop(server, Signal::QUIT);
    let bad = manager.command(&["--workers", "1", "--root", "/dev/null/nowhere"]);
    let (status, log) = Server::try_from_command(bad, 1).expect_err("a bad root");
    assert_eq!(status.code(), Some(1), "{log}");
    client.send(REQUEST);
    let _server = manager.start(&["--workers", "1"]);
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_listener_that_is_no_longer_wanted_leaves_the_store() {
    let manager = Manager::new("restart-moved", 64);
    let server = manager.start(&["--workers", "1", "--listen", "127.0.0.1:0"]);
    let old = server.address();
    stop(server, Signal::QUIT);
    let server = manager.start(&["--workers", "1", "--listen", "127.0.0.2:0"]);
    assert_ne!(server.address(), old);
    manager.wait_for(LISTENER, 1);
    // The child of another test has a copy of each descriptor here until it has called `exec`.
    eventually("nobody listens there", || Client::try_connect(old).is_err());
    assert_eq!(server.connect().get("/").status, 200);
    let log = server.log();
    assert!(
        log.contains(&format!("no longer listening on {old}")),
        "{log}"
    );
}

#[test]
fn a_start_without_a_handover_closes_the_connections_that_wait() {
    for options in [
        ["--workers", "1", "--handover", "off"].as_slice(),
        &["--workers", "0"],
    ] {
        let manager = Manager::new("restart-off", 64);
        let server = manager.start(&["--workers", "1"]);
        let mut client = idle(&server);
        stop(server, Signal::QUIT);
        manager.wait_for("evcore-mailbox", 2);
        let server = manager.start(options);
        manager.wait_for("evcore-mailbox", 0);
        assert!(client.is_closed());
        assert_eq!(server.connect().get("/").status, 200);
    }
}

#[test]
fn a_store_without_room_for_mailboxes_closes_idle_connections() {
    // The listener takes the first place in the store. The only worker's mailbox (the channel by
    // which it gets connections) has two ends, each of which takes a place. So at most one end has
    // room.
    for max in [0, 1, 2] {
        let manager = Manager::new("restart-full", max);
        let server = manager.start(&["--workers", "1"]);
        let mut client = idle(&server);
        stop(server, Signal::QUIT);
        manager.wait_for("", max);
        let server = manager.start(&["--workers", "1"]);
        assert!(client.is_closed());
        assert_eq!(server.connect().get("/").status, 200);
    }
}

#[test]
fn a_drain_puts_nothing_into_the_store() {
    let manager = Manager::new("restart-drain", 64);
    let server = manager.start(&["--workers", "1"]);
    let mut client = idle(&server);
    server.signal(Signal::WINCH);
    assert!(client.is_closed());
    eventually("its workers stop", || server.worker_pids().is_empty());
    server.signal(Signal::HUP);
    assert_eq!(server.connect().get("/").status, 200);
}

#[test]
fn the_end_of_an_old_binary_puts_nothing_into_the_store() {
    let manager = Manager::new("restart-upgrade", 64);
    let pids = Scratch::new("restart-upgrade-pid");
    let pid_file = pids.file("pid");
    let path = pid_file.to_str().expect("a text");
    let options = ["--workers", "1", "--pid", path];
    let server = manager.start(&options);
    let mut client = idle(&server);
    let new = super::socket_activation::upgrade(&server, &pid_file);
    stop(server, Signal::QUIT);
    assert_eq!(client.get("/").status, 200, "by the new binary");
    signal_to(new, Signal::QUIT);
    eventually("the new binary has ended", || !pid_file.exists());
    client.send(REQUEST);
    let _server = manager.start(&options);
    assert_eq!(client.response().status, 200, "by the next start");
}
