//! Tests of `--log-level`, for programs that are built with the feature `tracing`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use evcore_testing::Scratch;

/// Returns the lines that the server logs at this level while it answers one request and closes the
/// connection.
fn log_of_a_request(level: &str) -> String {
    log_with(&["--log-level", level])
}

fn log_with(options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_httpd"));
    command.args(["--listen", "127.0.0.1:0", "--workers", "0"]);
    command.args(options).stderr(Stdio::piped());
    let mut server = command.spawn().expect("it starts");
    let mut stderr = BufReader::new(server.stderr.take().expect("it is piped"));
    let mut log = String::new();
    let address = loop {
        let mut line = String::new();
        let n = stderr.read_line(&mut line).expect("a text");
        assert!(n > 0, "the server ended: {log}");
        log += &line;
        if let Some(address) = line.trim_end().strip_prefix("listening on ") {
            break address.to_owned();
        }
    };
    let mut client = TcpStream::connect(address).expect("it listens");
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut response = String::new();
    client.read_to_string(&mut response).expect("it answers");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    // The end of the connection was logged before the server closed it.
    server.kill().expect("it lives");
    server.wait().expect("it ends");
    stderr.read_to_string(&mut log).expect("a text");
    log
}

#[test]
fn debug_logs_connections_and_trace_also_turns() {
    let connections = [
        "evcore::accept: accepted listener=0",
        "evcore::connections: registered token=3v1 watched=true",
        "evcore::connections: closed token=3v1",
    ];
    let turns = [
        "evcore::turn: turn began turn=1 ",
        "evcore::turn: ready token=3v1 ready=Ready(READABLE",
        "evcore::timer: armed token=3v1 ",
    ];
    for (level, has_connections, has_turns) in [
        ("error", false, false),
        ("debug", true, false),
        ("trace", true, true),
    ] {
        let log = log_of_a_request(level);
        let has = |text: &&str| log.contains(*text);
        assert_eq!(connections.iter().all(has), has_connections, "{log}");
        assert_eq!(connections.iter().any(has), has_connections, "{log}");
        assert_eq!(turns.iter().all(has), has_turns, "{log}");
        assert_eq!(turns.iter().any(has), has_turns, "{log}");
    }
}

#[test]
fn a_line_has_the_time_the_level_and_the_process() {
    let log = log_of_a_request("debug");
    let line = log
        .lines()
        .find(|line| line.ends_with("accepted listener=0"));
    let line = line.expect("a client was accepted");
    let words: Vec<_> = line.split(' ').collect();
    let [date, time, level, pid, ..] = words[..] else {
        panic!("{line}");
    };
    assert_eq!(
        (date.len(), time.len(), level),
        (10, 8, "[debug]"),
        "{line}"
    );
    let pid = pid.strip_suffix(':').map(str::parse::<u32>);
    assert!(matches!(pid, Some(Ok(_))), "{line}");
}

#[test]
fn a_replay_logs_what_the_recorded_server_did_not() {
    let scratch = Scratch::new("log-level");
    let file = scratch.file("recording");
    let path = file.to_str().expect("a text");
    let log = log_with(&["--record", path]);
    assert!(!log.contains("evcore::turn"), "{log}");
    let mut replay = Command::new(env!("CARGO_BIN_EXE_evcore-replay"));
    let output = replay.args(["--log-level", "trace", path]).output();
    let output = output.expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    for line in [
        "evcore::accept: accepted listener=0",
        "evcore::timer: armed token=3v1 ",
    ] {
        assert!(log.contains(line), "{log}");
    }
}
