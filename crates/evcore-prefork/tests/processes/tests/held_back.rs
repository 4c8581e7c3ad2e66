//! Signals that were held back until there were handlers for them.

use rustix::process::Signal;

use super::{assert_last, count, tests};
use crate::server::Server;

tests! {
    a_hup_that_was_held_back_until_the_start_is_a_reload
    a_hup_that_was_held_back_from_a_solo_worker_stays_so
}

fn a_hup_that_was_held_back_until_the_start_is_a_reload() {
    for scene in ["hup before processes", "hup before threads"] {
        let mut server = Server::play(scene);
        server.expect("reload Done");
        server.expect("ended 0");
        server.signal_master(Signal::QUIT);
        let lines = server.expect_end();
        assert_eq!(count(lines, "started 0"), 2);
        assert_last(lines, "outcome Stopped(Graceful)");
    }
}

fn a_hup_that_was_held_back_from_a_solo_worker_stays_so() {
    let mut server = Server::play("hup before solo");
    server.expect("ready 0");
    server.signal_master(Signal::QUIT);
    assert_last(server.expect_end(), "told 0 Some(Graceful)");
}
