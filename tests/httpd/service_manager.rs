//! The server's reports to a service manager (`sd_notify`). This test plays systemd.

use std::{
    collections::HashMap,
    os::unix::net::UnixDatagram,
    process::{self, Command},
};

use evcore_tests::{PATIENCE, Scratch, Server, eventually, httpd};
use rustix::process::Signal;

/// A socket as systemd opens it, in a directory of its own.
struct Manager {
    socket: UnixDatagram,
    directory: Scratch,
}

impl Manager {
    fn new(name: &str) -> Self {
        let directory = Scratch::new(name);
        let socket = UnixDatagram::bind(directory.path().join("notify")).expect("a new file");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        Self { socket, directory }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(httpd());
        command.env("NOTIFY_SOCKET", self.directory.path().join("notify"));
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        command
    }

    fn next(&self) -> HashMap<String, String> {
        let mut buffer = [0; 1024];
        let length = self.socket.recv(&mut buffer).expect("a report");
        let text = std::str::from_utf8(&buffer[..length]).expect("text");
        let fields = text.lines().filter_map(|line| line.split_once('='));
        fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Asserts that the next report has only this field.
    fn expect(&self, name: &str, value: &str) {
        let expected = HashMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(self.next(), expected);
    }
}

#[test]
fn a_start_a_reload_and_a_stop_are_reported() {
    let manager = Manager::new("service-manager");
    let mut server = Server::from_command(manager.command(&["--workers", "2"]), 1);
    manager.expect("READY", "1");
    for _ in 0..2 {
        server.signal(Signal::HUP);
        let reloading = manager.next();
        assert_eq!(reloading["RELOADING"], "1");
        let microseconds: u64 = reloading["MONOTONIC_USEC"].parse().expect("a number");
        assert!(microseconds > 0, "{reloading:?}");
        manager.expect("READY", "1");
    }
    server.signal(Signal::QUIT);
    manager.expect("STOPPING", "1");
    assert!(server.wait().success());
}

#[test]
fn a_server_without_a_master_reports_its_stop() {
    let manager = Manager::new("service-manager-alone");
    let scratch = Scratch::new("service-manager-recording");
    let file = scratch.file("recording");
    for recorded in [&[][..], &["--record", file.to_str().expect("a text")]] {
        let options = [&["--workers", "0"], recorded].concat();
        let mut server = Server::from_command(manager.command(&options), 1);
        manager.expect("READY", "1");
        server.signal(Signal::TERM);
        manager.expect("STOPPING", "1");
        assert!(server.wait().success());
    }
}

fn expect_reload(manager: &Manager) {
    assert_eq!(manager.next()["RELOADING"], "1");
    manager.expect("READY", "1");
}

#[test]
fn a_reload_that_is_drained_or_follows_a_drain_ends_in_the_reports() {
    let manager = Manager::new("service-manager-drain");
    let server = Server::from_command(manager.command(&["--workers", "1"]), 1);
    manager.expect("READY", "1");
    let drain = || {
        server.signal(Signal::WINCH);
        eventually("its workers stop", || server.worker_pids().is_empty());
    };
    drain();
    server.signal(Signal::HUP);
    expect_reload(&manager);

    server.signal(Signal::HUP);
    // The test waits for this report, because the process may handle the second of two pending
    // signals first.
    assert_eq!(manager.next()["RELOADING"], "1");
    drain();
    manager.expect("READY", "1");
}

#[test]
fn a_reload_that_is_stuck_is_reported_as_begun_and_ended() {
    let manager = Manager::new("service-manager-stuck");
    let options = ["--threads", "1", "--shutdown-timeout", "20"];
    let server = Server::from_command(manager.command(&options), 1);
    manager.expect("READY", "1");
    let is_refused = || server.log().contains("reload: no new workers:");
    let mut blocked = Vec::new();
    // A request that comes too late blocks no thread, so several reloads may be needed.
    for reloads in 1.. {
        let mut client = server.connect();
        assert_eq!(client.get("/").status, 200);
        client.send("GET /block/3600000 HTTP/1.1\r\nHost: test\r\n\r\n");
        blocked.push(client);
        server.signal(Signal::HUP);
        expect_reload(&manager);
        eventually("it is in the log", || {
            is_refused() || server.reloads() == reloads
        });
        if is_refused() {
            break;
        }
    }
}

#[test]
fn the_only_worker_reports_that_it_serves() {
    let manager = Manager::new("service-manager-solo");
    let server = Server::from_command(manager.command(&["--workers", "0"]), 1);
    manager.expect("READY", "1");
    drop(server);
}

#[test]
fn an_upgrade_that_ends_restores_the_main_pid() {
    let manager = Manager::new("service-manager-upgrade");
    let mut server = Server::from_command(manager.command(&["--workers", "1"]), 1);
    manager.expect("READY", "1");
    let old = server.pid().to_string();

    server.signal(Signal::USR2);
    let new = manager.next()["MAINPID"].clone();
    assert_ne!(new, old);
    manager.expect("READY", "1"); // by the new binary
    evcore_tests::signal_to(new.parse().expect("a process"), Signal::QUIT);
    manager.expect("MAINPID", &old); // without STOPPING before it

    server.signal(Signal::QUIT);
    manager.expect("STOPPING", "1");
    assert!(server.wait().success());
}

#[test]
fn a_watchdog_gets_signs_of_life_until_the_end() {
    let manager = Manager::new("service-manager-watchdog");
    let mut command = manager.command(&["--workers", "1"]);
    command.env("WATCHDOG_USEC", "20000");
    let mut server = Server::from_command(command, 1);
    let mut reports: Vec<_> = (0..5).map(|_| manager.next()).collect();
    reports.retain(|report| !report.contains_key("READY"));
    assert!(
        reports.iter().all(|report| report["WATCHDOG"] == "1"),
        "{reports:?}"
    );
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    while !manager.next().contains_key("STOPPING") {}
}

#[test]
fn a_watchdog_without_a_time_is_ignored() {
    let manager = Manager::new("service-manager-never");
    let mut command = manager.command(&["--workers", "1"]);
    command.env("WATCHDOG_USEC", "0");
    let mut server = Server::from_command(command, 1);
    manager.expect("READY", "1");
    server.signal(Signal::QUIT);
    manager.expect("STOPPING", "1");
    assert!(server.wait().success());
}

#[test]
fn a_watchdog_of_another_process_is_ignored() {
    let manager = Manager::new("service-manager-other");
    let mut command = manager.command(&["--workers", "1"]);
    command.env("WATCHDOG_USEC", "1000");
    command.env("WATCHDOG_PID", process::id().to_string());
    let mut server = Server::from_command(command, 1);
    manager.expect("READY", "1");
    server.signal(Signal::QUIT);
    manager.expect("STOPPING", "1");
    assert!(server.wait().success());
}

#[test]
fn a_report_that_fails_is_logged() {
    let manager = Manager::new("service-manager-gone");
    let command = manager.command(&["--workers", "1"]);
    drop(manager.socket);
    let server = Server::from_command(command, 1);
    let log = server.log();
    assert!(
        log.contains("the service manager gets no report: "),
        "{log}"
    );
}
