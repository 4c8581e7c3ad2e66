//! `--quiet`: what is logged with it.

use evcore_tests::{Server, eventually, signal_to};
use rustix::process::Signal;

#[test]
fn a_quiet_server_logs_addresses_and_errors() {
    for option in [["--workers", "1"], ["--threads", "1"]] {
        let mut server = Server::start(&[&option[..], &["--quiet"]].concat());
        let announced = format!("listening on {}\n", server.address());
        let reloads = |server: &Server| {
            let page = server.connect().get("/status.json");
            page.text().contains("\"reloads\":1,")
        };
        server.signal(Signal::HUP);
        eventually("it is reloaded", || reloads(&server));
        assert_eq!(server.log(), announced);
        if option[0] == "--workers" {
            let worker = server.connect().worker();
            signal_to(worker, Signal::KILL);
            eventually("the death is logged", || {
                let log = server.log();
                log.contains(&format!("process {worker}")) && log.contains("ended unexpectedly")
            });
        }
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let lines = if option[0] == "--workers" { 2 } else { 1 };
        assert_eq!(server.log().lines().count(), lines, "{}", server.log());
    }
}
