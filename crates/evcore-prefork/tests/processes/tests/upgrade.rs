//! USR2 starts a new binary while the old one runs.

use std::{
    env, fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{self, Command, Stdio},
};

use evcore_prefork::INHERITED;
use rustix::process::{Pid, Signal, kill_process};

#[cfg(target_os = "linux")]
use super::ROUNDS;
use super::{assert_last, count, tests};
use crate::server_process::{MAIN_FLAG, Server};

tests! {
    a_new_binary_inherits_the_listener_and_serves
    a_worker_that_stops_has_a_successor_if_another_serves
    a_command_before_the_new_binary_has_handlers_waits
    a_second_usr2_starts_no_second_binary
    a_new_binary_that_cannot_be_started_changes_nothing
    a_new_binary_that_fails_changes_nothing
    drained_workers_come_back_when_the_new_binary_ends
    a_bad_inheritance_is_refused_with_a_reason
    #[cfg(target_os = "linux")] mailboxes_without_the_documented_variable_are_not_for_this_process
    a_stop_before_the_fork_starts_no_new_binary
    usr2_during_a_graceful_stop_starts_no_new_binary
    #[cfg(target_os = "linux")] a_signal_between_fork_and_exec_ends_the_new_binary
}

fn address(server: &mut Server) -> SocketAddr {
    server.expect("listens")[0].parse().unwrap()
}

/// Starts the new binary, and waits until its worker serves. Returns its master's process id. The
/// lines of both masters come in any order.
fn upgrade(server: &mut Server) -> Pid {
    server.expect_in_all("ready 0", 1);
    let ready = count(server.seen(), "ready 0");
    server.signal_master(Signal::USR2);
    let started = "upgrade the new binary is process ";
    server.expect_in_all(started, 1);
    server.expect_in_all("inherits", 1);
    server.expect_in_all("ready 0", ready + 1);
    server.pid_in_all(started)
}

fn a_new_binary_inherits_the_listener_and_serves() {
    let mut server = Server::start("upgrade");
    let old = address(&mut server);
    let new_master = upgrade(&mut server);
    assert_eq!(count(server.seen(), &format!("listens {old}")), 2);
    server.signal_master(Signal::QUIT);
    server.expect("outcome Stopped(Graceful)");
    TcpStream::connect(old).unwrap();
    kill_process(new_master, Signal::HUP).unwrap();
    server.expect("reload Done");
    kill_process(new_master, Signal::QUIT).unwrap();
    assert_last(server.expect_end(), "outcome Stopped(Graceful)");
    assert!(TcpStream::connect(old).is_err());
}

fn a_worker_that_stops_has_a_successor_if_another_serves() {
    const OF_GENERATION: &str = "stops 0 Some(Graceful) for a newer generation";
    const OF_BINARY: &str = "stops 0 Some(Graceful) for another binary";
    const ANY: &str = "stops 0 Some(Graceful)";
    let mut server = Server::start("upgrade");
    server.expect("ready 0");
    server.signal_master(Signal::HUP);
    server.expect(OF_GENERATION);
    server.expect("ended 0");
    let new_master = upgrade(&mut server);
    server.signal_master(Signal::QUIT);
    server.expect(OF_BINARY);
    server.expect("outcome Stopped(Graceful)");
    server.wait_for_master();
    kill_process(new_master, Signal::QUIT).unwrap();
    let lines = server.expect_end();
    assert_eq!(
        [OF_GENERATION, OF_BINARY, ANY].map(|text| count(lines, text)),
        [1, 1, 3],
        "{lines:#?}"
    );

    // This upgrade is undone, because the new binary stops first.
    let mut server = Server::start("upgrade");
    let new_master = upgrade(&mut server);
    kill_process(new_master, Signal::QUIT).unwrap();
    server.expect(OF_BINARY);
    server.expect("upgrade the new binary has ended");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(
        [OF_GENERATION, OF_BINARY, ANY].map(|text| count(lines, text)),
        [0, 1, 2],
        "{lines:#?}"
    );
}

fn a_command_before_the_new_binary_has_handlers_waits() {
    let mut server = Server::start("upgrade with early commands");
    let new_master = upgrade(&mut server);
    server.expect("reload Done");
    server.signal_master(Signal::QUIT);
    server.wait_for_master();
    kill_process(new_master, Signal::QUIT).unwrap();
    assert_last(server.expect_end(), "outcome Stopped(Graceful)");
}

fn a_second_usr2_starts_no_second_binary() {
    let mut server = Server::start("upgrade");
    let new_master = upgrade(&mut server);
    server.signal_master(Signal::USR2);
    server.expect("upgrade no new binary: an upgrade is still under way");
    kill_process(new_master, Signal::QUIT).unwrap();
    server.expect("upgrade the new binary has ended: exit status: 0");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "inherits"), 1);
    assert_last(lines, "outcome Stopped(Graceful)");
}

fn a_new_binary_that_cannot_be_started_changes_nothing() {
    let copy = Copy::new("gone");
    let mut server = Server::start_from(&copy.path, "upgrade");
    let address = address(&mut server);
    let worker = server.expect_pid("ready 0 ");
    fs::remove_file(&copy.path).unwrap();
    server.signal_master(Signal::USR2);
    server.expect("upgrade the new binary is about to be started");
    server.expect("upgrade the new binary could not be started: ");
    assert_goes_on(&mut server, worker, address);
}

fn a_new_binary_that_fails_changes_nothing() {
    let copy = Copy::new("fails");
    let mut server = Server::start_from(&copy.path, "upgrade");
    let address = address(&mut server);
    let worker = server.expect_pid("ready 0 ");
    copy.become_one_that_fails();
    server.signal_master(Signal::USR2);
    server.expect("upgrade the new binary has ended: exit status: 7");
    assert_goes_on(&mut server, worker, address);
}

/// Asserts that the server listens, replaces its worker, and stops gracefully.
fn assert_goes_on(server: &mut Server, worker: Pid, address: SocketAddr) {
    TcpStream::connect(address).unwrap();
    kill_process(worker, Signal::KILL).unwrap();
    server.expect("ready 0");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_last(lines, "outcome Stopped(Graceful)");
    assert_eq!(count(lines, "started"), 2);
}

fn drained_workers_come_back_when_the_new_binary_ends() {
    let mut server = Server::start("upgrade");
    let new_master = upgrade(&mut server);
    server.signal_master(Signal::WINCH);
    server.expect("ended 0");
    kill_process(new_master, Signal::TERM).unwrap();
    server.expect("upgrade the new binary has ended: exit status: 0");
    server.expect("ready 0");
    server.ends_by(Signal::QUIT, "Graceful");
}

const STANDARD: &str = "descriptors 0, 1 and 2 are standard input, output and error; \
                        inherited ones have numbers from 3 up";

fn a_bad_inheritance_is_refused_with_a_reason() {
    for (text, why) in [
        ("5,x", "\"x\" is not the number of a descriptor"),
        ("5,5", "descriptor 5 is named twice"),
        ("999", "descriptor 999 is not open"),
        ("0,1,2", STANDARD),
        ("999,2", STANDARD),
    ] {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([MAIN_FLAG, "bad inheritance"]);
        let output = command
            .env(INHERITED, text)
            .stderr(Stdio::inherit())
            .output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(output, format!("error {INHERITED} is {text:?}: {why}\n"));
    }
}

/// A program removes only the documented variable when it starts another one.
#[cfg(target_os = "linux")] // where mailboxes exist
fn mailboxes_without_the_documented_variable_are_not_for_this_process() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([MAIN_FLAG, "descriptors of mailboxes"]);
    let output = command.env("EVCORE_MAILBOXES", "999").output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains("outcome AllRefused"), "{output}");
}

fn a_stop_before_the_fork_starts_no_new_binary() {
    let mut server = Server::start("stop before an upgrade");
    server.expect("ready 0");
    server.signal_master(Signal::USR2);
    let lines = server.expect_end();
    assert_eq!(
        count(lines, "upgrade the new binary is process"),
        0,
        "{lines:#?}"
    );
    assert_last(lines, "outcome Stopped(Fast)");
}

fn usr2_during_a_graceful_stop_starts_no_new_binary() {
    let mut server = Server::start("finish");
    server.expect("ready 0");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.signal_master(Signal::USR2);
    server.give_byte();
    let lines = server.expect_end();
    assert_eq!(count(lines, "upgrade"), 0, "{lines:#?}");
    assert_last(lines, "outcome Stopped(Graceful)");
}

/// A signal to the group reaches both the master and the child that is about to become the new
/// binary.
#[cfg(target_os = "linux")]
fn a_signal_between_fork_and_exec_ends_the_new_binary() {
    for signal in [Signal::INT, Signal::TERM, Signal::QUIT] {
        let was_in_time = (0..ROUNDS).any(|_| signal_between_fork_and_exec(signal));
        assert!(was_in_time, "no child was stopped between fork and exec");
    }
}

/// Pauses the child by SIGSTOP, sends the signal to the group, and waits until the whole group is
/// gone. Returns whether the child was paused before its `exec`.
#[cfg(target_os = "linux")]
fn signal_between_fork_and_exec(signal: Signal) -> bool {
    let mut server = Server::start("upgrade of many descriptors");
    let worker = server.expect_pid("ready 0 ");
    server.signal_master(Signal::USR2);
    let child = server.wait_for_child_beside(worker);
    kill_process(child, Signal::STOP).unwrap();
    let about = |file: &str| fs::read(format!("/proc/{}/{file}", child.as_raw_pid())).unwrap();
    // The process's state follows the name of its command, which is in parentheses.
    let is_stopped = || String::from_utf8_lossy(&about("stat")).contains(") T ");
    while !is_stopped() {
        std::thread::yield_now();
    }
    // exec sets the variable that a new binary finds.
    let environment = about("environ");
    let mut variables = environment.split(|byte| *byte == 0);
    let is_new = variables.any(|variable| variable.starts_with(INHERITED.as_bytes()));
    server.signal_group(signal);
    kill_process(child, Signal::CONT).unwrap();
    server.expect_end();
    !is_new
}

/// A copy of this program, in its own directory, which is removed on drop.
struct Copy {
    path: PathBuf,
}

impl Copy {
    fn new(name: &str) -> Self {
        let directory = env::temp_dir().join(format!("evcore-prefork-{}-{name}", process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("server");
        fs::copy(env::current_exe().unwrap(), &path).unwrap();
        Self { path }
    }

    fn become_one_that_fails(&self) {
        // A running file cannot be written to, so another file replaces it.
        let other = self.path.with_extension("new");
        fs::write(&other, "#!/bin/sh\nexit 7\n").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&other, &self.path).unwrap();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path.parent().unwrap());
    }
}
