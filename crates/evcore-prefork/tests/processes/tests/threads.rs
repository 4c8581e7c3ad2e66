//! Tests of servers whose workers are threads.

use rustix::process::Signal;

use super::{assert_last, count, tests};
use crate::server_process::Server;

tests! {
    signals_to_the_process_reach_all_threads
    a_thread_that_panics_is_reported_and_replaced
    term_makes_a_graceful_stop_of_threads_fast
    a_thread_that_ignores_stops_is_abandoned
    a_reload_is_stuck_if_threads_of_three_reloads_do_not_stop
    an_unexpected_thread_exit_is_reported_without_a_stop
    threads_that_refuse_are_not_replaced
    hup_replaces_threads_and_the_old_ones_finish
    each_ready_thread_is_reported_once
    winch_stops_all_threads_and_hup_starts_new_ones
    usr1_reaches_each_thread_and_usr2_is_unsupported
}

fn serving() -> Server {
    let mut server = Server::start("threads");
    server.expect_times("ready", 3);
    server
}

fn signals_to_the_process_reach_all_threads() {
    for (signal, stop) in [
        (Signal::TERM, "Fast"),
        (Signal::INT, "Fast"),
        (Signal::QUIT, "Graceful"),
    ] {
        let mut server = serving();
        server.signal_master(signal);
        let lines = server.expect_end();
        assert_last(lines, &format!("outcome Stopped({stop})"));
        for index in 0..3 {
            assert_eq!(count(lines, &format!("stops {index} Some({stop})")), 1);
            assert_eq!(count(lines, &format!("ended {index} exit status: 0")), 1);
        }
    }
}

fn a_thread_that_panics_is_reported_and_replaced() {
    let mut server = Server::start("a thread that panics");
    let dead = server.expect("ended").join(" ");
    let index = dead.strip_suffix(" panicked: the first").unwrap();
    server.expect(&format!("started {index}"));
    server.expect(&format!("ready {index}"));
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "stops"), 2);
    assert_last(lines, "outcome Stopped(Graceful)");
}

fn term_makes_a_graceful_stop_of_threads_fast() {
    let mut server = Server::start("threads that linger");
    server.expect("ready");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.signal_master(Signal::TERM);
    server.expect("stops 0 Some(Fast)");
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn a_thread_that_ignores_stops_is_abandoned() {
    let mut server = Server::start("a thread that ignores stops");
    server.expect("ready");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Fast)");
    server.expect("ended 0 did not stop, and was abandoned");
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn a_reload_is_stuck_if_threads_of_three_reloads_do_not_stop() {
    let mut server = Server::start("threads that wait for a byte");
    server.expect("ready 0");
    for _ in 0..3 {
        server.reload();
    }
    server.signal_master(Signal::HUP);
    server.expect("reload Stuck");
    assert_eq!(count(server.seen(), "stuck 0"), 3);
    // One of the stuck threads ends.
    server.give_byte();
    server.expect("ended 0 exit status: 0");
    server.reload();
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "ended 0 did not stop"), 4);
    assert_last(lines, "outcome Stopped(Fast)");
}

fn an_unexpected_thread_exit_is_reported_without_a_stop() {
    let mut server = Server::start("threads with requested stops");
    server.expect("ended None worker 0 (slot 0) ended unexpectedly: exit status: 0");
    server.expect_in_all("ready 1", 1);
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(
        count(lines, "ended Some(Graceful) worker 1"),
        1,
        "{lines:#?}"
    );
}

fn threads_that_refuse_are_not_replaced() {
    let mut server = Server::start("threads that refuse");
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 2);
    assert_last(lines, "outcome AllRefused");
}

fn hup_replaces_threads_and_the_old_ones_finish() {
    let mut server = Server::start("an old thread that lingers");
    server.expect("ready 0");
    server.reload();
    server.expect("stops 0 Some(Graceful)");
    server.give_byte();
    server.expect("finished");
    server.expect("ended 0 exit status: 0");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 2);
    assert_last(lines, "outcome Stopped(Graceful)");
}

fn each_ready_thread_is_reported_once() {
    let mut server = serving();
    server.expect_in_all("serves", 3);
    server.signal_master(Signal::TERM);
    let lines = server.expect_end();
    for index in 0..3 {
        assert_eq!(count(lines, &format!("serves {index}")), 1, "{lines:#?}");
    }
}

fn winch_stops_all_threads_and_hup_starts_new_ones() {
    let mut server = serving();
    server.signal_master(Signal::WINCH);
    server.expect_times("ended", 3);
    server.signal_master(Signal::HUP);
    server.expect_times("ready", 3);
    server.ends_by(Signal::TERM, "Fast");
}

fn usr1_reaches_each_thread_and_usr2_is_unsupported() {
    let mut server = serving();
    server.signal_master(Signal::USR2);
    server.expect("upgrade no new binary: the workers are threads");
    server.signal_master(Signal::USR1);
    server.expect("reopened in the master");
    server.expect_times("reopened", 3);
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 3);
    assert_last(lines, "outcome Stopped(Graceful)");
}
