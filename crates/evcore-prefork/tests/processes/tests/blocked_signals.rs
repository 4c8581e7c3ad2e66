//! HUP that is blocked and pending when a server starts.

use rustix::process::Signal;

use super::{assert_last, count, tests};
use crate::server_process::Server;

tests! {
    a_hup_that_is_pending_at_the_start_is_a_reload
    a_hup_that_a_solo_worker_has_blocked_does_not_end_it
}

fn a_hup_that_is_pending_at_the_start_is_a_reload() {
    for main in ["hup before processes", "hup before threads"] {
        let mut server = Server::start(main);
        server.expect("reload Done");
        server.expect("ended 0");
        server.signal_master(Signal::QUIT);
        let lines = server.expect_end();
        assert_eq!(count(lines, "started 0"), 2);
        assert_last(lines, "outcome Stopped(Graceful)");
    }
}

fn a_hup_that_a_solo_worker_has_blocked_does_not_end_it() {
    let mut server = Server::start("hup before solo");
    server.expect("ready 0");
    server.signal_master(Signal::QUIT);
    assert_last(server.expect_end(), "stops 0 Some(Graceful)");
}
