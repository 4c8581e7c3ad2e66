//! HUP, USR1 and WINCH: a reload, reopening, and a stop of all workers.

use rustix::process::{Signal, kill_process};

use super::{ROUNDS, assert_last, count, serving, tests};
use crate::server_process::Server;

tests! {
    hup_replaces_all_workers
    old_workers_get_a_stop_only_when_all_new_ones_are_ready
    each_ready_worker_is_reported_once
    silent_new_workers_take_over_after_the_ready_timeout
    a_new_worker_that_dies_during_a_reload_is_replaced
    an_old_worker_that_dies_during_a_reload_is_replaced
    new_workers_that_refuse_leave_the_old_ones_in_place
    two_hups_leave_one_generation
    a_reload_does_not_wait_for_old_workers_that_finish
    a_hup_during_the_start_leaves_one_generation
    old_and_new_workers_have_different_slots
    a_stop_during_a_reload_stops_both_generations
    usr1_reaches_the_master_first_and_then_all_workers
    usr1_to_a_worker_reaches_only_that_worker
    winch_stops_all_workers_and_hup_starts_new_ones
    winch_during_a_reload_stops_both_generations
    a_stop_after_winch_ends_the_master
    hup_and_winch_to_a_worker_have_no_effect
}

fn stops_all(server: &mut Server) {
    server.ends_by(Signal::TERM, "Fast");
}

fn hup_replaces_all_workers() {
    let mut server = serving();
    server.signal_master(Signal::HUP);
    server.expect("reload Started");
    server.expect_times("ready", 3);
    server.expect("reload Done");
    for _ in 0..3 {
        let line = server.expect("ended").join(" ");
        assert!(line.ends_with("exit status: 0"), "{line}");
    }
    stops_all(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 6);
    assert_eq!(count(lines, "stops 0"), 2);
}

fn old_workers_get_a_stop_only_when_all_new_ones_are_ready() {
    let mut server = with_a_reload_under_way();
    server.give_byte();
    server.expect("ready");
    server.give_byte();
    server.expect("ready");
    server.expect("reload Done");
    server.expect("stops 0 Some(Graceful)");
    stops_all(&mut server);
}

/// A server with two old workers that serve, and two new ones that are not ready yet.
fn with_a_reload_under_way() -> Server {
    let mut server = Server::start("ready on a byte");
    server.expect("ready");
    server.expect("ready");
    server.signal_master(Signal::HUP);
    server.expect("waits");
    server.expect("waits");
    server
}

fn each_ready_worker_is_reported_once() {
    let mut server = with_a_reload_under_way();
    server.expect_in_all("serves", 2);
    server.give_byte();
    let first = server.expect("ready").join(" ");
    server.expect_in_all(&format!("serves {first}"), 1);
    assert_eq!(count(server.seen(), "serves"), 3, "the other still waits");
    server.give_byte();
    server.expect_in_all("serves", 4);
    stops_all(&mut server);
    assert_eq!(count(server.expect_end(), "serves"), 4);
}

fn silent_new_workers_take_over_after_the_ready_timeout() {
    let mut server = Server::start("silent");
    server.expect("ready 0");
    server.signal_master(Signal::HUP);
    server.expect("ready 0");
    server.expect("stops 0 Some(Graceful)");
    server.expect("ended 0");
    stops_all(&mut server);
    assert_eq!(count(server.expect_end(), "serves"), 0);
}

fn a_new_worker_that_dies_during_a_reload_is_replaced() {
    let mut server = Server::start("ready on a byte");
    server.expect("ready");
    server.expect("ready");
    server.signal_master(Signal::HUP);
    let victim = server.expect_pid("waits 0 ");
    kill_process(victim, Signal::KILL).unwrap();
    server.expect("waits 0 ");
    server.give_byte();
    server.give_byte();
    server.expect("reload Done");
    let lines = server.seen();
    assert_eq!(count(lines, "stops"), 0, "{lines:#?}");
    stops_all(&mut server);
}

fn an_old_worker_that_dies_during_a_reload_is_replaced() {
    let mut server = Server::start("ready on a byte");
    let victim = server.expect_pid("ready 0 ");
    server.signal_master(Signal::HUP);
    server.expect("waits");
    server.expect("waits");
    kill_process(victim, Signal::KILL).unwrap();
    server.expect("ended 0");
    // The replacement belongs to the old generation, but was forked after the reload began, so this
    // server makes it wait too.
    server.expect("waits 0");
    for _ in 0..3 {
        server.give_byte();
    }
    server.expect("reload Done");
    stops_all(&mut server);
}

fn new_workers_that_refuse_leave_the_old_ones_in_place() {
    let mut server = Server::start("new workers refuse");
    server.expect_in_all("ready", 2);
    let old = server.pid_in_all("ready 0 ");
    server.signal_master(Signal::HUP);
    server.expect("reload Refused");
    let lines = server.seen();
    assert_eq!(count(lines, "stops"), 0, "{lines:#?}");
    kill_process(old, Signal::KILL).unwrap();
    server.expect("ended 0");
    server.reload();
    stops_all(&mut server);
}

fn two_hups_leave_one_generation() {
    let mut server = with_a_reload_under_way();
    server.signal_master(Signal::HUP);
    server.expect("waits");
    server.expect("waits");
    for _ in 0..4 {
        server.give_byte();
    }
    server.expect("reload Done");
    server.expect_times("ended", 4);
    stops_all(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 6);
}

fn a_reload_does_not_wait_for_old_workers_that_finish() {
    let mut server = Server::start("old workers linger");
    server.expect("ready 0");
    for _ in 0..2 {
        server.reload();
    }
    server.give_byte();
    server.expect("finished");
    stops_all(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "ended"), 3);
}

fn a_hup_during_the_start_leaves_one_generation() {
    for _ in 0..ROUNDS / 4 {
        let mut server = Server::start("serve");
        server.expect("started 0");
        server.signal_master(Signal::HUP);
        server.expect("reload Done");
        server.expect_times("ended", 3);
        server.signal_master(Signal::QUIT);
        let lines = server.expect_end();
        assert_last(lines, "outcome Stopped(Graceful)");
        assert_eq!(count(lines, "started"), 6);
        assert_eq!(count(lines, "ended"), 6);
    }
}

fn old_and_new_workers_have_different_slots() {
    let mut server = Server::start("slots");
    let slots = |server: &mut Server| {
        let mut slots: Vec<_> = (0..2).map(|_| server.expect("slot").join(" ")).collect();
        slots.sort();
        slots
    };
    assert_eq!(slots(&mut server), ["0 of 0", "1 of 1"]);
    server.signal_master(Signal::HUP);
    assert_eq!(slots(&mut server), ["2 of 0", "3 of 1"]);
    server.expect("ended");
    server.expect("ended");
    server.signal_master(Signal::HUP);
    assert_eq!(slots(&mut server), ["0 of 0", "1 of 1"]);
    stops_all(&mut server);
}

fn a_stop_during_a_reload_stops_both_generations() {
    let mut server = with_a_reload_under_way();
    server.signal_master(Signal::TERM);
    // Workers that wait for a byte ignore the stop, and are killed.
    let lines = server.expect_end();
    assert_last(lines, "outcome Stopped(Fast)");
    assert_eq!(count(lines, "ended"), 4);
    assert_eq!(count(lines, "stops"), 2);
}

fn usr1_reaches_the_master_first_and_then_all_workers() {
    let mut server = serving();
    for _ in 0..2 {
        server.signal_master(Signal::USR1);
        server.expect("reopened in the master");
        for _ in 0..3 {
            let words = server.expect("reopened");
            assert_eq!(words.len(), 1, "the master reopens once: {words:?}");
        }
    }
    stops_all(&mut server);
}

fn usr1_to_a_worker_reaches_only_that_worker() {
    let mut server = Server::start("finish");
    let worker = server.expect_pid("ready 0 ");
    kill_process(worker, Signal::USR1).unwrap();
    server.expect("reopened 0");
    server.signal_master(Signal::TERM);
    server.give_byte();
    let lines = server.expect_end();
    assert_eq!(count(lines, "reopened in"), 0);
}

fn winch_stops_all_workers_and_hup_starts_new_ones() {
    let mut server = serving();
    for _ in 0..2 {
        server.signal_master(Signal::WINCH);
        server.expect_times("ended", 3);
        server.signal_master(Signal::HUP);
        server.expect_times("ready", 3);
    }
    stops_all(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 9);
}

fn winch_during_a_reload_stops_both_generations() {
    let mut server = with_a_reload_under_way();
    server.signal_master(Signal::WINCH);
    // The new workers do not handle the stop before they are ready.
    server.give_byte();
    server.give_byte();
    server.expect_in_all("ended", 4);
    stops_all(&mut server);
    assert_eq!(count(server.seen(), "stops"), 4);
}

fn a_stop_after_winch_ends_the_master() {
    for signal in [Signal::TERM, Signal::QUIT] {
        let mut server = serving();
        server.signal_master(Signal::WINCH);
        server.expect_times("ended", 3);
        server.signal_master(signal);
        let lines = server.expect_end();
        let last = lines.last().unwrap();
        assert!(last.starts_with("outcome Stopped"), "{lines:#?}");
    }
}

fn hup_and_winch_to_a_worker_have_no_effect() {
    let mut server = Server::start("finish");
    let worker = server.expect_pid("ready 0 ");
    for signal in [Signal::HUP, Signal::WINCH, Signal::USR2, Signal::USR1] {
        kill_process(worker, signal).unwrap();
    }
    server.expect("reopened 0");
    server.signal_master(Signal::QUIT);
    server.expect("stops 0 Some(Graceful)");
    server.give_byte();
    server.expect("ended 0");
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 1);
    assert_eq!(count(lines, "reload"), 0);
}
