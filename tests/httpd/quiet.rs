//! The lines that are logged with `--quiet`.

use evcore_tests::{Server, eventually, signal_to};
use rustix::process::Signal;

#[test]
fn a_quiet_server_logs_addresses_and_errors() {
    for option in [["--workers", "1"], ["--threads", "1"]] {
        let mut server = Server::start(&[&option[..], &["--quiet"]].concat());
        let announced = format!("listening on {}\n", server.address());
        let old = server.wait_for_workers(1, &[]);
        server.signal(Signal::HUP);
        eventually("it is reloaded", || {
            let page = server.try_status_json();
            page.is_some_and(|page| page["reloads"] == 1)
        });
        assert_eq!(server.log(), announced);
        if option[0] == "--workers" {
            let worker = server.wait_for_workers(1, &old)[0];
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
