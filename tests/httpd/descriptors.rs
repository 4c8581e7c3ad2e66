//! How many descriptors it takes to serve: said before anything is started.

use std::process::{Command, Output};

use evcore_tests::{Server, eventually, httpd, signal_to};
use rustix::process::Signal;

use crate::options::assert_refusal;

/// The ways in which workers are started, each of which takes descriptors of its own.
const SETUPS: [&[&str]; 8] = [
    &["--workers", "0"],
    &[
        "--workers",
        "0",
        "--access-log",
        "-",
        "--timer-resolution",
        "10",
    ],
    &["--workers", "1"],
    &["--workers", "2"],
    &["--workers", "10"],
    &["--workers", "3", "--accept", "reuseport"],
    &["--threads", "2", "--accept", "reuseport"],
    &["--threads", "3", "--listen", "127.0.0.1:0"],
];

#[test]
fn too_few_descriptors_are_said_in_one_line_before_anything_is_started() {
    for setup in SETUPS {
        let options = [&["--listen", "127.0.0.1:0"], setup].concat();
        let least = with_inherited(3 + takes(&options));
        // One fewer is not enough, and so many are.
        let output = limited(least - 1, &options);
        assert_refusal(&output, &options, 1, &["descriptors", "ulimit -n"]);
        let server = Server::start_limited(least, setup);
        assert_eq!(server.connect().get("/").status, 200, "{setup:?}");
    }
}

/// How many descriptors a server that may have but a few says that it takes.
fn takes(options: &[&str]) -> u32 {
    let output = limited(8, options);
    let named = [" descriptors are the least", "fewer workers"];
    let said = assert_refusal(&output, options, 1, &named);
    let before = said.split(named[0]).next().expect("it is named");
    let number = before.rsplit(' ').next().expect("some text");
    number.parse().expect("a number")
}

#[test]
fn a_server_that_has_enough_descriptors_to_start_has_enough_to_reload() {
    for setup in SETUPS.iter().filter(|setup| setup[1] != "0") {
        let options = [&["--listen", "127.0.0.1:0"], *setup].concat();
        let least = with_inherited(3 + takes(&options));
        let server = Server::start_limited(least, setup);
        server.signal(Signal::HUP);
        eventually(&format!("{setup:?} reloads"), || {
            server.log().contains("reload: Done")
        });
        assert_eq!(server.connect().get("/").status, 200, "{setup:?}");
    }
}

#[test]
fn a_worker_that_cannot_be_started_is_told_of_and_comes_when_there_is_room() {
    let setup = ["--workers", "1"];
    let options = [&["--listen", "127.0.0.1:0"], &setup[..]].concat();
    let server = Server::start_limited(with_inherited(3 + takes(&options)), &setup);
    let says = |what: &str, times: usize| {
        eventually(what, || server.log().matches(what).count() == times);
    };
    let mut kept_busy = Vec::new();
    for reloads in 1..=2 {
        let mut client = server.connect();
        let old = client.worker();
        client.send("GET /sleep/3600000 HTTP/1.1\r\nHost: test\r\n\r\n");
        server.signal(Signal::HUP);
        says("reload: Done", reloads);
        kept_busy.push((client, old));
    }
    // Two that finish and one that serves are as many as there is room for.
    server.signal(Signal::HUP);
    eventually("it says so", || {
        server.log().contains("cannot start worker 0")
    });
    assert_eq!(server.connect().get("/").status, 200);
    for (_, old) in kept_busy {
        signal_to(old, Signal::KILL);
    }
    says("reload: Done", 3);
}

/// The limit that leaves so many, beside what this test passes on of what it has inherited itself.
fn with_inherited(mut limit: u32) -> u32 {
    const CLOEXEC: u32 = 0o2_000_000;
    let flags = |number: u32| {
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(flags.trim(), 8).ok()
    };
    let mut number = 3;
    while number < limit {
        limit += u32::from(flags(number).is_some_and(|flags| flags & CLOEXEC == 0));
        number += 1;
    }
    limit
}

fn limited(descriptors: u32, options: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let limit = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
    command.args(["-c", &limit]).arg(httpd()).args(options);
    command.output().expect("it runs")
}
