//! HUP, USR1 and WINCH: new workers for old, with somebody there at every moment.

use rustix::process::{Signal, kill_process};

use super::{ROUNDS, assert_last, count, serving, tests};
use crate::server::Server;

tests! {
    hup_replaces_all_workers
    the_old_are_told_only_when_all_the_new_serve
    each_worker_that_says_that_it_is_ready_is_reported_once
    new_workers_that_say_nothing_relieve_the_old_after_a_while
    a_new_worker_that_dies_during_a_reload_is_replaced_and_the_old_stay
    an_old_worker_that_dies_during_a_reload_is_replaced
    new_workers_that_refuse_leave_the_old_in_place
    hup_twice_leaves_one_set
    hup_while_the_old_finish_does_not_wait_for_them
    hup_during_the_start_leaves_one_set
    old_and_new_workers_have_seats_of_their_own
    a_stop_during_a_reload_stops_both_sets
    usr1_tells_the_master_first_and_then_all_workers
    usr1_to_a_worker_is_for_it_alone
    winch_sends_all_away_and_hup_brings_them_back
    winch_while_a_reload_is_under_way_sends_both_sets_away
    a_stop_after_winch_ends_the_master
    hup_and_winch_to_a_worker_do_nothing
}

fn ends_in_order(server: &mut Server) {
    server.signal_master(Signal::TERM);
    assert_last(server.expect_end(), "outcome Stopped(Fast)");
}

fn hup_replaces_all_workers() {
    let mut server = serving();
    server.signal_master(Signal::HUP);
    server.expect("reload Begins");
    for _ in 0..3 {
        server.expect("ready");
    }
    server.expect("reload Done");
    for _ in 0..3 {
        let told = server.expect("ended").join(" ");
        assert!(told.ends_with("exit status: 0"), "{told}");
    }
    ends_in_order(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 6);
    assert_eq!(count(lines, "told 0"), 2);
}

fn the_old_are_told_only_when_all_the_new_serve() {
    let mut server = waiting_for_the_new();
    server.give_byte();
    server.expect("ready");
    server.give_byte();
    server.expect("ready");
    server.expect("reload Done");
    server.expect("told 0 Some(Graceful)");
    ends_in_order(&mut server);
}

/// Two old workers serve, two new ones do not yet.
fn waiting_for_the_new() -> Server {
    let mut server = Server::play("ready on a byte");
    server.expect("ready");
    server.expect("ready");
    server.signal_master(Signal::HUP);
    server.expect("waits");
    server.expect("waits");
    server
}

fn each_worker_that_says_that_it_is_ready_is_reported_once() {
    let mut server = waiting_for_the_new();
    server.expect_in_all("serves", 2);
    server.give_byte();
    let first = server.expect("ready").join(" ");
    server.expect_in_all(&format!("serves {first}"), 1);
    assert_eq!(count(server.seen(), "serves"), 3, "the other still waits");
    server.give_byte();
    server.expect_in_all("serves", 4);
    ends_in_order(&mut server);
    assert_eq!(count(server.expect_end(), "serves"), 4);
}

fn new_workers_that_say_nothing_relieve_the_old_after_a_while() {
    let mut server = Server::play("silent");
    server.expect("ready 0");
    server.signal_master(Signal::HUP);
    server.expect("ready 0");
    server.expect("told 0 Some(Graceful)");
    server.expect("ended 0");
    ends_in_order(&mut server);
    assert_eq!(count(server.expect_end(), "serves"), 0);
}

fn a_new_worker_that_dies_during_a_reload_is_replaced_and_the_old_stay() {
    let mut server = Server::play("ready on a byte");
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
    assert_eq!(count(lines, "told"), 0, "{lines:#?}");
    ends_in_order(&mut server);
}

fn an_old_worker_that_dies_during_a_reload_is_replaced() {
    let mut server = Server::play("ready on a byte");
    let victim = server.expect_pid("ready 0 ");
    server.signal_master(Signal::HUP);
    server.expect("waits");
    server.expect("waits");
    kill_process(victim, Signal::KILL).unwrap();
    server.expect("ended 0");
    // It is of the old set, but forked after the reload began: so it waits as well.
    server.expect("waits 0");
    for _ in 0..3 {
        server.give_byte();
    }
    server.expect("reload Done");
    ends_in_order(&mut server);
}

fn new_workers_that_refuse_leave_the_old_in_place() {
    let mut server = Server::play("the new refuse");
    server.expect_in_all("ready", 2);
    let old = server.pid_in_all("ready 0 ");
    server.signal_master(Signal::HUP);
    server.expect("reload Refused");
    let lines = server.seen();
    assert_eq!(count(lines, "told"), 0, "{lines:#?}");
    // They are still watched, and a further reload may do better.
    kill_process(old, Signal::KILL).unwrap();
    server.expect("ended 0");
    server.signal_master(Signal::HUP);
    server.expect("ready 0");
    server.expect("reload Done");
    ends_in_order(&mut server);
}

fn hup_twice_leaves_one_set() {
    let mut server = waiting_for_the_new();
    server.signal_master(Signal::HUP);
    // Reloads that are not done do not hold up one that is asked for later.
    server.expect("waits");
    server.expect("waits");
    for _ in 0..4 {
        server.give_byte();
    }
    server.expect("reload Done");
    for _ in 0..4 {
        server.expect("ended");
    }
    ends_in_order(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 6);
}

fn hup_while_the_old_finish_does_not_wait_for_them() {
    let mut server = Server::play("the old linger");
    server.expect("ready 0");
    for _ in 0..2 {
        server.signal_master(Signal::HUP);
        server.expect("ready 0");
        server.expect("reload Done");
    }
    server.give_byte();
    server.expect("finished");
    ends_in_order(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "ended"), 3);
}

fn hup_during_the_start_leaves_one_set() {
    for _ in 0..ROUNDS / 4 {
        let mut server = Server::play("serve");
        server.expect("started 0");
        server.signal_master(Signal::HUP);
        server.expect("reload Done");
        for _ in 0..3 {
            server.expect("ended");
        }
        server.signal_master(Signal::QUIT);
        let lines = server.expect_end();
        assert_last(lines, "outcome Stopped(Graceful)");
        assert_eq!(count(lines, "started"), 6);
        assert_eq!(count(lines, "ended"), 6);
    }
}

fn old_and_new_workers_have_seats_of_their_own() {
    let mut server = Server::play("seats");
    let seats = |server: &mut Server| {
        let mut seats: Vec<_> = (0..2).map(|_| server.expect("seat").join(" ")).collect();
        seats.sort();
        seats
    };
    assert_eq!(seats(&mut server), ["0 of 0", "1 of 1"]);
    server.signal_master(Signal::HUP);
    assert_eq!(seats(&mut server), ["2 of 0", "3 of 1"]);
    server.expect("ended");
    server.expect("ended");
    // The first are free again.
    server.signal_master(Signal::HUP);
    assert_eq!(seats(&mut server), ["0 of 0", "1 of 1"]);
    ends_in_order(&mut server);
}

fn a_stop_during_a_reload_stops_both_sets() {
    let mut server = waiting_for_the_new();
    server.signal_master(Signal::TERM);
    // Those who wait for a byte do not listen: they are killed.
    let lines = server.expect_end();
    assert_last(lines, "outcome Stopped(Fast)");
    assert_eq!(count(lines, "ended"), 4);
    assert_eq!(count(lines, "told"), 2);
}

fn usr1_tells_the_master_first_and_then_all_workers() {
    let mut server = serving();
    for _ in 0..2 {
        server.signal_master(Signal::USR1);
        server.expect("reopened in the master");
        for _ in 0..3 {
            let who = server.expect("reopened");
            assert_eq!(who.len(), 1, "the master hears of it once: {who:?}");
        }
    }
    ends_in_order(&mut server);
}

fn usr1_to_a_worker_is_for_it_alone() {
    let mut server = Server::play("finish");
    let worker = server.expect_pid("ready 0 ");
    kill_process(worker, Signal::USR1).unwrap();
    server.expect("reopened 0");
    server.signal_master(Signal::TERM);
    server.give_byte();
    let lines = server.expect_end();
    assert_eq!(count(lines, "reopened in"), 0);
}

fn winch_sends_all_away_and_hup_brings_them_back() {
    let mut server = serving();
    for _ in 0..2 {
        server.signal_master(Signal::WINCH);
        for _ in 0..3 {
            server.expect("ended");
        }
        server.signal_master(Signal::HUP);
        for _ in 0..3 {
            server.expect("ready");
        }
    }
    ends_in_order(&mut server);
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 9);
}

fn winch_while_a_reload_is_under_way_sends_both_sets_away() {
    let mut server = waiting_for_the_new();
    server.signal_master(Signal::WINCH);
    // Those who do not serve yet hear of it when they do.
    server.give_byte();
    server.give_byte();
    server.expect_in_all("ended", 4);
    ends_in_order(&mut server);
    assert_eq!(count(server.seen(), "told"), 4);
}

fn a_stop_after_winch_ends_the_master() {
    for signal in [Signal::TERM, Signal::QUIT] {
        let mut server = serving();
        server.signal_master(Signal::WINCH);
        for _ in 0..3 {
            server.expect("ended");
        }
        server.signal_master(signal);
        let lines = server.expect_end();
        let last = lines.last().unwrap();
        assert!(last.starts_with("outcome Stopped"), "{lines:#?}");
    }
}

fn hup_and_winch_to_a_worker_do_nothing() {
    let mut server = Server::play("finish");
    let worker = server.expect_pid("ready 0 ");
    for signal in [Signal::HUP, Signal::WINCH, Signal::USR2, Signal::USR1] {
        kill_process(worker, signal).unwrap();
    }
    server.expect("reopened 0");
    server.signal_master(Signal::QUIT);
    server.expect("told 0 Some(Graceful)");
    server.give_byte();
    server.expect("ended 0");
    let lines = server.expect_end();
    assert_eq!(count(lines, "started"), 1);
    assert_eq!(count(lines, "reload"), 0);
}
