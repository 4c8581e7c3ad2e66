//! After a slow turn (iteration of the event loop) and after a panic, the server logs the last
//! records of the loop.

use evcore_tests::{Server, eventually};

#[test]
fn a_slow_turn_is_logged_with_the_records_that_led_to_it() {
    for workers in [["--workers", "1"], ["--threads", "1"], ["--workers", "0"]] {
        let [what, number] = workers;
        let options = [what, number, "--watchdog", "20", "--flight-recorder", "50"];
        let server = Server::start(&options);
        // The connection stays open, and has no further event.
        let mut client = server.connect();
        assert_eq!(client.get("/block/40").text(), "blocked\n");
        eventually("the report", || server.log().contains("Accepted(0)"));
        let log = server.log();
        let report = log.lines().find(|line| line.contains("[alert]"));
        let report = report.expect("it was logged");
        assert!(
            report.contains(" took ") && report.contains("the longest"),
            "{log}"
        );
        assert_is_in_order(
            &log,
            &["TurnEnded", "Ready(", "Armed", "Registered", "Accepted(0)"],
        );
    }
}

#[test]
fn a_slow_turn_is_logged_without_a_flight_recorder() {
    let server = Server::start(&["--workers", "1", "--watchdog", "20"]);
    server.connect().get("/block/40");
    eventually("the report", || server.log().contains("the longest"));
    assert!(!server.log().contains("record -"));
}

#[test]
fn without_a_watchdog_no_turn_is_logged() {
    let server = Server::start(&["--workers", "1", "--flight-recorder", "50"]);
    let mut client = server.connect();
    client.get("/block/40");
    client.get("/");
    assert!(!server.log().contains("[alert]"), "{}", server.log());
}

/// The standard library panics if the kernel refuses to sleep for any reason other than a signal.
#[cfg(target_os = "linux")]
#[test]
fn a_panic_of_a_worker_is_logged_with_the_last_records() {
    use std::process::Command;

    use evcore_tests::{httpd, without};

    for workers in [["--workers", "1"], ["--threads", "1"], ["--workers", "0"]] {
        let mut command = Command::new(httpd());
        command.args(["--listen", "127.0.0.1:0", "--flight-recorder", "50"]);
        command.args(workers);
        let start = || Server::from_command(command, 1);
        let server = without(libc::SYS_clock_nanosleep, libc::EPERM, start);
        assert!(server.connect().try_get("/block/1").is_err());
        eventually("the records", || server.log().contains("Accepted(0)"));
        let log = server.log();
        assert_is_in_order(
            &log,
            &[
                "panicked at",
                "the worker panics",
                "record -0: Ready(",
                "TurnBegan",
                "Accepted(0)",
            ],
        );
    }
}

fn assert_is_in_order(log: &str, texts: &[&str]) {
    let mut rest = log;
    for text in texts {
        let (_, after) = rest.split_once(text).unwrap_or_else(|| {
            panic!("{text:?} is not in its place: {log}");
        });
        rest = after;
    }
}
