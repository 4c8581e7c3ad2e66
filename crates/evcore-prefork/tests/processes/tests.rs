//! The list of all tests, and the tests that do not belong to one of the modules below.

mod blocked_signals;
#[cfg(target_os = "linux")]
mod descriptor_store;
#[cfg(target_os = "linux")]
mod mailboxes;
mod reload;
// On NetBSD and OpenBSD, rustix does not return the name of a new terminal.
#[cfg(not(any(target_os = "netbsd", target_os = "openbsd")))]
mod terminal;
mod threads;
mod upgrade;

#[cfg(target_os = "linux")]
use evcore_prefork::Cpus;
use evcore_testing::NamedTest;
use rustix::process::{Signal, kill_process};

use crate::server_process::Server;

pub(crate) const ALL: &[&[NamedTest]] = &[
    TESTS,
    blocked_signals::TESTS,
    #[cfg(target_os = "linux")]
    descriptor_store::TESTS,
    #[cfg(target_os = "linux")]
    mailboxes::TESTS,
    reload::TESTS,
    upgrade::TESTS,
    threads::TESTS,
    #[cfg(not(any(target_os = "netbsd", target_os = "openbsd")))]
    terminal::TESTS,
];

macro_rules! tests {
    ($($(#[$cfg:meta])* $name:ident)*) => {
        pub(super) const TESTS: &[evcore_testing::NamedTest] =
            evcore_testing::named_tests!($($(#[$cfg])* $name)*);
    };
}
use tests;

tests! {
    workers_have_the_indices_from_zero_up
    a_killed_worker_is_replaced_after_the_exit_hook
    term_and_int_stop_all_workers
    ctrl_c_stops_all_and_replaces_no_worker
    quit_lets_a_worker_finish
    term_makes_a_graceful_stop_fast
    a_worker_that_ignores_both_stops_is_killed
    a_worker_that_hangs_is_killed_and_one_that_waits_is_not
    an_unexpected_exit_is_reported_without_a_stop
    an_exit_by_ctrl_c_is_reported_with_a_stop
    workers_that_crash_early_are_replaced_whatever_the_cause
    a_worker_that_exits_with_two_is_not_replaced
    a_worker_that_cannot_start_is_retried_if_another_serves
    when_no_worker_can_start_the_supervisor_returns
    when_all_workers_refuse_the_supervisor_returns
    a_signal_right_after_fork_is_not_lost
    a_stop_while_workers_are_forked_stops_all_of_them
    a_panicking_hook_leaves_no_worker_behind
    other_children_of_the_application_are_not_reaped
    a_second_supervisor_works_like_the_first
    mistakes_are_refused_with_a_reason
    a_worker_cannot_be_a_master
    a_solo_worker_gets_a_stop
    a_stop_is_kept_and_wakes_a_descriptor_set_later
    #[cfg(target_os = "linux")] workers_stop_when_their_master_is_killed
    #[cfg(target_os = "linux")] workers_of_another_user_stop_when_their_master_is_killed
    #[cfg(target_os = "linux")] each_worker_runs_on_its_cpu
    #[cfg(target_os = "linux")] a_worker_has_no_descriptor_but_its_liveness_pipe
    #[cfg(target_os = "linux")] a_failure_of_the_first_fork_is_an_error
    #[cfg(target_os = "linux")] a_later_fork_that_fails_is_retried
    #[cfg(target_os = "linux")] a_failed_socket_pair_is_named_in_the_start_error
    #[cfg(target_os = "linux")] a_master_that_cannot_wait_still_handles_signals
}

/// Number of runs of a race between fork and signal.
const ROUNDS: usize = 200;

fn serving() -> Server {
    let mut server = Server::start("serve");
    server.expect_times("ready", 3);
    server
}

fn count(lines: &[String], start: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(start)).count()
}

#[track_caller]
fn assert_last(lines: &[String], last: &str) {
    assert_eq!(lines.last().map(String::as_str), Some(last), "{lines:#?}");
}

fn workers_have_the_indices_from_zero_up() {
    let mut server = serving();
    server.signal_master(Signal::TERM);
    let lines = server.expect_end();
    for index in 0..3 {
        assert_eq!(count(lines, &format!("started {index} ")), 1);
        assert_eq!(count(lines, &format!("ready {index} ")), 1);
    }
}

fn a_killed_worker_is_replaced_after_the_exit_hook() {
    let mut server = Server::start("serve");
    let victim = server.expect_pid("started 1 ");
    kill_process(victim, Signal::KILL).unwrap();
    let line = server.expect("ended").join(" ");
    assert_eq!(
        line,
        format!("1 {} signal: 9 (SIGKILL)", victim.as_raw_pid())
    );
    let replacement = server.expect_pid("started 1 ");
    assert_ne!(replacement, victim);
    server.expect_in_all(&format!("ready 1 {}", replacement.as_raw_pid()), 1);
    server.ends_by(Signal::TERM, "Fast");
}

fn term_and_int_stop_all_workers() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = serving();
        server.signal_master(signal);
        let lines = server.expect_end();
        assert_last(lines, "outcome Stopped(Fast)");
        assert_eq!(count(lines, "stops"), 3);
        assert_eq!(count(lines, "ended"), 3);
    }
}

fn ctrl_c_stops_all_and_replaces_no_worker() {
    let mut server = serving();
    server.signal_group(Signal::INT);
    let lines = server.expect_end();
    assert_last(lines, "outcome Stopped(Fast)");
    assert_eq!(count(lines, "started"), 3);
}

fn quit_lets_a_worker_finish() {
    let mut server = Server::start("finish");
    server.expect("ready");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.give_byte();
    server.expect("finished");
    let lines = server.expect_end();
    assert_eq!(count(lines, "stops"), 1);
    assert_last(lines, "outcome Stopped(Graceful)");
}

fn term_makes_a_graceful_stop_fast() {
    let mut server = Server::start("linger");
    server.expect("ready");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.signal_master(Signal::TERM);
    server.expect("stops 0 Some(Fast)");
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn a_worker_that_ignores_both_stops_is_killed() {
    let mut server = Server::start("ignores stops");
    server.expect("ready");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.expect("stops 0 Some(Fast)");
    let line = server.expect("ended 0 ").join(" ");
    assert!(line.ends_with("signal: 9 (SIGKILL)"), "{line}");
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn a_worker_that_hangs_is_killed_and_one_that_waits_is_not() {
    let mut server = Server::start("hangs at first");
    let first = server.expect_pid("started 0 ");
    server.expect(&format!("hangs 0 {} true", first.as_raw_pid()));
    let line = server.expect("ended").join(" ");
    assert_eq!(
        line,
        format!("0 {} signal: 9 (SIGKILL)", first.as_raw_pid())
    );
    assert_ne!(server.expect_pid("started 0 "), first);
    server.expect("waited");
    server.ends_by(Signal::TERM, "Fast");
}

fn an_unexpected_exit_is_reported_without_a_stop() {
    let mut server = Server::start("requested stop");
    let victim = server.expect_pid("ready 0 ");
    kill_process(victim, Signal::QUIT).unwrap();
    let line = server.expect("ended None").join(" ");
    assert!(line.ends_with("exit status: 0"), "{line}");
    server.expect("ready 0");
    server.signal_master(Signal::HUP);
    server.expect("ended Some(Graceful)");
    server.expect("ended Some(Graceful)");
    server.signal_master(Signal::TERM);
    assert_eq!(count(server.expect_end(), "ended Some(Fast)"), 2);
}

fn an_exit_by_ctrl_c_is_reported_with_a_stop() {
    for _ in 0..ROUNDS {
        let mut server = Server::start("requested stop");
        server.expect("ready");
        server.expect("ready");
        server.signal_group(Signal::INT);
        assert_eq!(count(server.expect_end(), "ended Some(Fast)"), 2);
    }
}

fn workers_that_crash_early_are_replaced_whatever_the_cause() {
    let mut server = Server::start("fail at first");
    for status in ["exit status: 0", "exit status: 1", "exit status: 101"] {
        server.expect("started 0");
        let line = server.expect("ended 0").join(" ");
        assert!(line.ends_with(status), "{line}");
    }
    server.expect("ready 0");
    server.signal_master(Signal::TERM);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 4);
}

fn a_worker_that_exits_with_two_is_not_replaced() {
    let mut server = Server::start("first refuses");
    let neighbour = server.expect_pid("started 1 ");
    server.expect("ended 0");
    kill_process(neighbour, Signal::KILL).unwrap();
    server.expect("ended 1");
    server.expect("ready 1");
    server.signal_master(Signal::TERM);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started 0"), 1);
    assert_eq!(count(lines, "started 1"), 2);
}

fn a_worker_that_cannot_start_is_retried_if_another_serves() {
    let mut server = Server::start("first cannot start");
    let line = server.expect("ended 0").join(" ");
    assert!(line.ends_with("exit status: 3"), "{line}");
    server.expect("ready 0");
    server.signal_master(Signal::TERM);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started 0"), 2);
}

fn when_no_worker_can_start_the_supervisor_returns() {
    let mut server = Server::start("none can start");
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 2);
    assert_last(lines, "outcome AllRefused");
}

fn when_all_workers_refuse_the_supervisor_returns() {
    let mut server = Server::start("all refuse");
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 2);
    assert_last(lines, "outcome AllRefused");
}

fn a_signal_right_after_fork_is_not_lost() {
    let mut server = Server::start("signalled at birth");
    let lines = server.expect_end();
    assert_eq!(count(lines, "stops"), ROUNDS);
    assert_last(lines, "outcome AllRefused");
}

fn a_stop_while_workers_are_forked_stops_all_of_them() {
    for _ in 0..ROUNDS {
        let mut server = Server::start("serve");
        server.expect("started 0");
        server.signal_master(Signal::TERM);
        let lines = server.expect_end();
        assert_last(lines, "outcome Stopped(Fast)");
        assert_eq!(count(lines, "ended"), count(lines, "started"));
        assert_eq!(count(lines, "stops"), 3);
    }
}

fn a_panicking_hook_leaves_no_worker_behind() {
    let mut server = Server::start("panicking hook");
    server.expect("panicked true");
    server.expect("gone true");
    server.expect_end();
}

fn other_children_of_the_application_are_not_reaped() {
    let mut server = Server::start("bystander");
    server.expect("ready 0");
    server.signal_master(Signal::TERM);
    server.expect("outcome Stopped(Fast)");
    server.expect("bystander exit status: 7");
}

fn a_second_supervisor_works_like_the_first() {
    let mut server = Server::start("twice");
    for (signal, stop) in [(Signal::TERM, "Fast"), (Signal::QUIT, "Graceful")] {
        server.expect("ready 0");
        server.signal_master(signal);
        server.expect(&format!("outcome Stopped({stop})"));
    }
}

fn mistakes_are_refused_with_a_reason() {
    let mut server = Server::start("wrong");
    for _ in ["as processes", "as threads"] {
        server.expect("error cannot supervise 0 workers: from 1 to 1024");
        server.expect("error cannot supervise 10000 workers: from 1 to 1024");
    }
    server.expect("error only worker processes can pass descriptors on");
    if cfg!(target_os = "linux") {
        server.expect("error a descriptor store needs Linux and worker processes");
    }
    server.expect("error a supervisor or a worker handles the stop signals");
    let fd = server.expect("error descriptor");
    assert_eq!(fd[1..4], ["would", "block", "a"]);
    if cfg!(target_os = "linux") {
        server.expect("error cannot fork a process that has 2 threads");
    }
}

fn a_worker_cannot_be_a_master() {
    let mut server = Server::start("nested");
    server.expect("error a supervisor or a worker handles the stop signals");
    server.expect("outcome AllRefused");
}

fn a_solo_worker_gets_a_stop() {
    let mut server = Server::start("solo");
    server.expect("ready 0");
    server.signal_master(Signal::QUIT);
    assert_last(server.expect_end(), "stops 0 Some(Graceful)");
}

fn a_stop_is_kept_and_wakes_a_descriptor_set_later() {
    let mut server = Server::start("solo signalling itself");
    assert_last(server.expect_end(), "woken");
}

#[cfg(target_os = "linux")]
fn workers_stop_when_their_master_is_killed() {
    let mut server = serving();
    server.signal_master(Signal::KILL);
    let lines = server.expect_end();
    assert_eq!(count(lines, "stops"), 3);
}

#[cfg(target_os = "linux")]
fn workers_of_another_user_stop_when_their_master_is_killed() {
    let mut server = Server::start("another user");
    server.expect("ready");
    server.expect("ready");
    server.signal_master(Signal::KILL);
    let lines = server.expect_end();
    assert_eq!(count(lines, "stops"), 2);
}

#[cfg(target_os = "linux")]
fn each_worker_runs_on_its_cpu() {
    let mut server = Server::start("pinned");
    let lines = server.expect_end();
    let allowed: Vec<_> = Cpus::allowed().unwrap().iter().collect();
    for index in 0..3 {
        let cpu = allowed[index % allowed.len()];
        assert_eq!(count(lines, &format!("on {index} {cpu}")), 1, "{lines:#?}");
    }
}

/// In a worker, the self-pipe, the siblings' liveness pipes and the descriptors for a new binary
/// are closed.
#[cfg(target_os = "linux")]
fn a_worker_has_no_descriptor_but_its_liveness_pipe() {
    let mut server = Server::start("descriptors");
    server.expect_times("more in the worker: 1", 3);
    server.expect("more afterwards: 0");
}

#[cfg(target_os = "linux")]
fn a_failure_of_the_first_fork_is_an_error() {
    let mut server = Server::start("no first fork");
    let why = server.expect("error forking a worker failed: ").join(" ");
    assert!(why.contains("raise the limit on processes"), "{why}");
    assert_eq!(count(server.expect_end(), "not started"), 0);
}

#[cfg(target_os = "linux")]
fn a_later_fork_that_fails_is_retried() {
    let mut server = Server::start("no fork for a while");
    let victim = server.expect_pid("ready 0");
    kill_process(victim, Signal::KILL).unwrap();
    server.expect("not started 0");
    server.expect("ready 0");
    server.ends_by(Signal::TERM, "Fast");
}

#[cfg(target_os = "linux")]
fn a_failed_socket_pair_is_named_in_the_start_error() {
    let mut server = Server::start("no socket pair for a while");
    let victim = server.expect_pid("ready 0");
    kill_process(victim, Signal::KILL).unwrap();
    let why = server.expect("not started 0").join(" ");
    assert!(
        why.contains("(socketpair) failed: Too many open files"),
        "{why}"
    );
    assert!(why.contains("ulimit -n"), "{why}");
    server.expect("ready 0");
    server.ends_by(Signal::TERM, "Fast");
}

#[cfg(target_os = "linux")]
fn a_master_that_cannot_wait_still_handles_signals() {
    let mut server = Server::start("no wait");
    server.expect("ready 0");
    server.signal_master(Signal::USR1);
    server.expect("reopened in the master");
    server.expect("reopened 0");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.give_byte();
    let lines = server.expect_end();
    assert!(lines.iter().any(|line| line == "finished"), "{lines:#?}");
    assert_last(lines, "outcome Stopped(Graceful)");
}
