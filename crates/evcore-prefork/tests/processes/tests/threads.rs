//! Workers as threads: the same signals, told to all.

use rustix::process::Signal;

use super::{assert_last, count, tests};
use crate::server::Server;

tests! {
    signals_to_the_process_reach_all_threads
    a_thread_that_panics_is_told_of_and_replaced
    term_makes_a_graceful_stop_of_threads_fast
    a_deaf_thread_is_left_behind
    a_reload_is_refused_when_the_threads_of_three_others_do_not_stop
    an_end_that_nobody_asked_a_thread_for_is_told_apart
    threads_that_refuse_are_not_replaced
    hup_replaces_threads_and_the_old_finish
    each_thread_that_says_that_it_is_ready_is_reported_once
    winch_and_hup_send_threads_away_and_bring_them_back
    usr1_reaches_every_thread_and_usr2_does_nothing
}

fn serving() -> Server {
    let mut server = Server::play("threads");
    for _ in 0..3 {
        server.expect("ready");
    }
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
            assert_eq!(count(lines, &format!("told {index} Some({stop})")), 1);
            assert_eq!(count(lines, &format!("ended {index} returned 0")), 1);
        }
    }
}

fn a_thread_that_panics_is_told_of_and_replaced() {
    let mut server = Server::play("a thread that panics");
    let dead = server.expect("ended").join(" ");
    let index = dead.strip_suffix(" panicked: the first").unwrap();
    server.expect(&format!("started {index}"));
    server.expect(&format!("ready {index}"));
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "told"), 2);
    assert_last(lines, "outcome Stopped(Graceful)");
}

fn term_makes_a_graceful_stop_of_threads_fast() {
    let mut server = Server::play("threads that linger");
    server.expect("ready");
    server.signal_master(Signal::QUIT);
    server.expect("told 0 Some(Graceful)");
    server.signal_master(Signal::TERM);
    server.expect("told 0 Some(Fast)");
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn a_deaf_thread_is_left_behind() {
    let mut server = Server::play("a deaf thread");
    server.expect("ready");
    server.signal_master(Signal::QUIT);
    server.expect("told 0 Some(Fast)");
    server.expect("ended 0 did not stop, and is left behind");
    // The process ends all the same.
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn a_reload_is_refused_when_the_threads_of_three_others_do_not_stop() {
    let mut server = Server::play("threads that wait for a byte");
    server.expect("ready 0");
    for _ in 0..3 {
        server.signal_master(Signal::HUP);
        server.expect("ready 0");
        server.expect("reload Done");
    }
    server.signal_master(Signal::HUP);
    server.expect("reload Stuck");
    assert_eq!(count(server.seen(), "stuck 0"), 3);
    // One of them ends after all.
    server.give_byte();
    server.expect("ended 0 returned 0");
    server.signal_master(Signal::HUP);
    server.expect("ready 0");
    server.expect("reload Done");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "ended 0 did not stop"), 4);
    assert_last(lines, "outcome Stopped(Fast)");
}

fn an_end_that_nobody_asked_a_thread_for_is_told_apart() {
    let mut server = Server::play("who asked a thread");
    server.expect("ended None worker 0 (seat 0), unasked, returned 0");
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
    let mut server = Server::play("threads that refuse");
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 2);
    assert_last(lines, "outcome Refused");
}

fn hup_replaces_threads_and_the_old_finish() {
    let mut server = Server::play("an old thread that lingers");
    server.expect("ready 0");
    server.signal_master(Signal::HUP);
    server.expect("ready 0");
    server.expect("reload Done");
    server.expect("told 0 Some(Graceful)");
    server.give_byte();
    server.expect("finished");
    server.expect("ended 0 returned 0");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 2);
    assert_last(lines, "outcome Stopped(Graceful)");
}

fn each_thread_that_says_that_it_is_ready_is_reported_once() {
    let mut server = serving();
    server.expect_in_all("serves", 3);
    server.signal_master(Signal::TERM);
    let lines = server.expect_end();
    for index in 0..3 {
        assert_eq!(count(lines, &format!("serves {index}")), 1, "{lines:#?}");
    }
}

fn winch_and_hup_send_threads_away_and_bring_them_back() {
    let mut server = serving();
    server.signal_master(Signal::WINCH);
    for _ in 0..3 {
        server.expect("ended");
    }
    server.signal_master(Signal::HUP);
    for _ in 0..3 {
        server.expect("ready");
    }
    server.signal_master(Signal::TERM);
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn usr1_reaches_every_thread_and_usr2_does_nothing() {
    let mut server = serving();
    server.signal_master(Signal::USR2);
    server.signal_master(Signal::USR1);
    server.expect("reopened in the master");
    for _ in 0..3 {
        server.expect("reopened");
    }
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 3);
    assert_last(lines, "outcome Stopped(Graceful)");
}
