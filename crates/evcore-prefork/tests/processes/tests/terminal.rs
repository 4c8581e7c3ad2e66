//! WINCH at a terminal: the size of the window in front, and an order in the background.

use rustix::process::Signal;

use super::tests;
use crate::server::Server;

tests! {
    a_window_that_changes_its_size_sends_no_worker_in_front_away
    winch_in_the_background_sends_the_workers_away
}

fn a_window_that_changes_its_size_sends_no_worker_in_front_away() {
    let mut server = Server::play_at_a_terminal("finish");
    server.expect("ready 0");
    for columns in [100, 120] {
        // The terminal's own signal, and one that somebody sends.
        server.resize_window(columns);
        server.signal_master(Signal::WINCH);
        // Whoever heeds the second signal has seen the first: so the order would be carried out.
        for _ in 0..2 {
            let reopened = super::count(server.seen(), "reopened");
            server.signal_master(Signal::USR1);
            server.expect_in_all("reopened", reopened + 2);
        }
    }
    assert!(!server.seen().iter().any(|line| line.starts_with("told")));
    server.signal_master(Signal::QUIT);
    server.expect("told 0 Some(Graceful)");
    server.give_byte();
    let lines = server.expect_end();
    assert_eq!(super::count(lines, "started"), 1);
}

fn winch_in_the_background_sends_the_workers_away() {
    let mut server = Server::play_at_a_terminal("in the background");
    server.expect("ready 0");
    server.signal_master(Signal::WINCH);
    server.expect("told 0 Some(Graceful)");
    server.give_byte();
    server.expect("ended 0");
    server.signal_master(Signal::QUIT);
    let lines = server.expect_end();
    assert_eq!(super::count(lines, "started"), 1);
}
