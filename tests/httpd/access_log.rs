//! The access log: a line for each response, whole and in order; log rotation.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use evcore_tests::{Client, Scratch, Server, eventually, httpd, signal_to};
#[cfg(target_os = "linux")]
use evcore_tests::{Strace, not_run, strace_works};
use rustix::process::Signal;
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("a text")
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Removes the time from a line, and checks its layout.
fn timeless(line: &str) -> String {
    let (before, rest) = line.split_once('[').expect("a time");
    let (time, after) = rest.split_once(']').expect("the time's end");
    let layout: String = time
        .chars()
        .map(|c| match c {
            '0'..='9' => '0',
            'A'..='Z' | 'a'..='z' => 'a',
            '-' => '+',
            other => other,
        })
        .collect();
    assert_eq!(layout, "00/aaa/0000:00:00:00 +0000", "{line}");
    format!("{before}{after}")
}

fn logging(scratch: &Scratch, options: &[&str]) -> (Server, PathBuf) {
    let path = scratch.path().join("access.log");
    let log = ["--access-log", text(&path)];
    (Server::start(&[options, &log].concat()), path)
}

#[test]
fn each_response_is_logged() {
    for options in [["--workers", "0"], ["--workers", "1"], ["--threads", "1"]] {
        let scratch = Scratch::new(&format!("each{}{}", options[0], options[1]));
        let (mut server, path) = logging(&scratch, &options);
        let mut client = server.connect();
        client.get("/");
        client.send("HEAD /bytes/100 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        client.head_response();
        client.get("/bytes/100000?a=\"b\"");
        client.get("/nothing");
        client.send("DELETE / HTTP/1.1\r\nHost: t\r\n\r\n");
        client.response();
        client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\na");
        client.send("bc");
        client.response();
        client.get("/sleep/1");
        client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\nGET /sleep/0 HTTP/1.1\r\nHost: t\r\n\r\n");
        client.response();
        client.response();
        client.send("BAD\0LINE\r\n");
        client.response();
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let logged: Vec<_> = lines(&path).iter().map(|line| timeless(line)).collect();
        let expected = [
            r#""GET / HTTP/1.1" 200 13"#,
            r#""HEAD /bytes/100 HTTP/1.0" 200 0"#,
            r#""GET /bytes/100000?a=\x22b\x22 HTTP/1.1" 200 100000"#,
            r#""GET /nothing HTTP/1.1" 404 14"#,
            r#""DELETE / HTTP/1.1" 405 23"#,
            r#""POST /echo HTTP/1.1" 200 3"#,
            r#""GET /sleep/1 HTTP/1.1" 200 6"#,
            r#""GET / HTTP/1.1" 200 13"#,
            r#""GET /sleep/0 HTTP/1.1" 200 6"#,
            r#""BAD\x00LINE" 400 16"#,
        ];
        let expected = expected.map(|line| format!("127.0.0.1 - -  {line}"));
        assert_eq!(logged, expected, "{options:?}");
    }
}

#[test]
fn each_response_is_logged_in_json() {
    let scratch = Scratch::new("json");
    let options = ["--workers", "1", "--access-log-format", "json"];
    let (mut server, path) = logging(&scratch, &options);
    let mut client = server.connect();
    client.get("/bytes/100000?a=\"b\"\\");
    client.get("/nothing");
    client.send("BAD\0LINE\x1b\r\n");
    client.response();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let logged: Vec<Value> = lines(&path)
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let expected = [
        ("GET /bytes/100000?a=\"b\"\\ HTTP/1.1", 200, 100_000),
        ("GET /nothing HTTP/1.1", 404, 14),
        ("BAD\0LINE\x1b", 400, 16),
    ];
    assert_eq!(logged.len(), expected.len(), "{logged:?}");
    for (line, (request, status, bytes)) in logged.iter().zip(expected) {
        assert_eq!(line["request"], request);
        assert_eq!(line["status"], status);
        assert_eq!(line["body_bytes_sent"], bytes);
        assert_eq!(line["remote_addr"], "127.0.0.1");
        let time = line["time"].as_str().expect("a time");
        assert_eq!((time.len(), &time[10..11]), (25, "T"), "{time}");
    }
}

#[test]
fn a_request_timeout_is_logged_without_a_request_line() {
    let scratch = Scratch::new("slow");
    let (server, path) = logging(&scratch, &["--workers", "0", "--header-timeout", "20"]);
    let mut client = server.connect();
    client.send("GET / HT");
    assert_eq!(client.response().status, 408);
    eventually("its line", || !lines(&path).is_empty());
    assert_eq!(timeless(&lines(&path)[0]), "127.0.0.1 - -  \"-\" 408 20");
}

#[test]
fn a_request_timeout_is_logged_with_a_complete_request_line() {
    let scratch = Scratch::new("slow-head");
    let (server, path) = logging(&scratch, &["--workers", "0", "--header-timeout", "20"]);
    let mut client = server.connect();
    client.send("\r\nGET /a HTTP/1.1\r\nHost");
    assert_eq!(client.response().status, 408);
    eventually("its line", || !lines(&path).is_empty());
    let line = timeless(&lines(&path)[0]);
    assert_eq!(line, "127.0.0.1 - -  \"GET /a HTTP/1.1\" 408 20");
}

#[test]
fn a_buffered_line_is_flushed_by_a_timer() {
    let scratch = Scratch::new("alone");
    let (server, path) = logging(&scratch, &["--workers", "1"]);
    assert!(path.exists(), "it is opened at the start");
    let mut client = server.connect();
    for visits in 1..=2 {
        client.get("/");
        eventually("its line", || lines(&path).len() == visits);
    }
}

#[test]
fn a_graceful_shutdown_writes_the_buffered_lines() {
    let scratch = Scratch::new("finishes");
    let (mut server, path) = logging(&scratch, &["--workers", "1"]);
    server.connect().get("/");
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert_eq!(lines(&path).len(), 1);
}

#[test]
fn a_client_of_a_unix_socket_is_logged_without_an_address() {
    let scratch = Scratch::new("unix");
    let (socket, path) = (scratch.path().join("s"), scratch.path().join("log"));
    let mut command = Command::new(httpd());
    command.args(["--workers", "0", "--access-log", text(&path)]);
    command.args(["--listen", &format!("unix:{}", socket.display())]);
    let _server = Server::from_command(command, 1);
    let client = Client::try_connect_unix(&socket);
    client.expect("the server listens").get("/");
    eventually("its line", || !lines(&path).is_empty());
    assert_eq!(
        timeless(&lines(&path)[0]),
        "unix: - -  \"GET / HTTP/1.1\" 200 13"
    );
}

#[test]
fn lines_of_several_workers_do_not_mix() {
    const CLIENTS: usize = 8;
    const VISITS: usize = 3000;
    let scratch = Scratch::new("mix");
    let (mut server, path) = logging(&scratch, &["--workers", "4", "--accept", "off"]);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..VISITS {
                    assert_eq!(client.get("/").status, 200);
                }
            });
        }
    });
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let lines = lines(&path);
    assert_eq!(lines.len(), CLIENTS * VISITS);
    for line in lines {
        assert_eq!(timeless(&line), "127.0.0.1 - -  \"GET / HTTP/1.1\" 200 13");
    }
}

#[test]
fn usr1_starts_a_new_file_and_loses_no_line() {
    for options in [["--workers", "0"], ["--workers", "2"], ["--threads", "2"]] {
        let scratch = Scratch::new(&format!("usr1{}{}", options[0], options[1]));
        let (mut server, path) = logging(&scratch, &options);
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.get("/before");
        }
        let old = scratch.path().join("old.log");
        fs::rename(&path, &old).expect("it is there");
        server.signal(Signal::USR1);
        let mut after = 0;
        eventually("every worker writes to the new file", || {
            for client in &mut clients {
                client.get("/after");
                after += 1;
            }
            // Each worker flushes to the old file before it opens the new one.
            lines(&old).len() >= 8 && path.exists()
        });
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let (old, new) = (lines(&old), lines(&path));
        assert!(new.iter().all(|line| line.contains("/after")), "{new:?}");
        assert_eq!(old.len() + new.len(), 8 + after, "{options:?}");
    }
}

#[test]
fn the_old_file_is_kept_if_the_new_one_cannot_be_opened() {
    let scratch = Scratch::new("cannot");
    let (mut server, path) = logging(&scratch, &["--workers", "1"]);
    let mut client = server.connect();
    client.get("/");
    let old = scratch.path().join("old.log");
    fs::rename(&path, &old).expect("it is there");
    fs::create_dir(&path).expect("nothing is there");
    server.signal(Signal::USR1);
    eventually("it is logged", || server.log().contains(text(&path)));
    client.get("/");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert_eq!(lines(&old).len(), 2);
}

#[test]
fn a_vanished_log_directory_costs_no_line_of_the_old_file() {
    let scratch = Scratch::new("vanished");
    let (logs, away) = (scratch.file("logs"), scratch.file("away"));
    fs::create_dir(&logs).expect("a directory");
    let path = logs.join("access.log");
    let mut server = Server::start(&["--workers", "1", "--access-log", text(&path)]);
    let mut client = server.connect();
    client.get("/");
    fs::rename(&logs, &away).expect("it is there");
    server.signal(Signal::USR1);
    eventually("it is logged", || server.log().contains(text(&path)));
    client.get("/");
    // The next reopening finds the directory.
    fs::create_dir(&logs).expect("a directory");
    server.signal(Signal::USR1);
    eventually("the log is opened once more", || path.exists());
    client.get("/");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert_eq!(lines(&away.join("access.log")).len(), 2);
    assert_eq!(lines(&path).len(), 1);
    assert_eq!(server.log().matches("cannot open").count(), 1);
}

#[test]
fn a_dash_logs_to_standard_output() {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--access-log", "-"]).stdout(Stdio::piped());
    let mut server = Server::from_command(command, 1);
    server.connect().get("/");
    server.signal(Signal::TERM);
    let mut logged = String::new();
    let mut output = server.take_stdout().expect("it is piped");
    output.read_to_string(&mut logged).expect("a text");
    assert!(server.wait().success());
    assert_eq!(
        timeless(logged.trim_end()),
        "127.0.0.1 - -  \"GET / HTTP/1.1\" 200 13"
    );
}

/// strace delays a new worker between opening its log and its first check of signals.
#[cfg(target_os = "linux")]
#[test]
fn usr1_to_a_worker_that_is_opening_its_log_is_not_lost() {
    if !strace_works() {
        not_run("strace is not installed, or may not trace");
        return;
    }
    let scratch = Scratch::new("early-usr1");
    let (server, path) = logging(&scratch, &["--workers", "1"]);
    let old = server.connect().worker();
    // Some architectures have no `open`. The delay lasts an hour, or until strace ends.
    let hold = "inject=?open,openat:delay_exit=3600s";
    let options = ["-P", text(&path), "-e", "trace=?open,openat", "-e", hold];
    let strace = Strace::attach(server.pid(), &options);
    signal_to(old, Signal::KILL);
    let mut new = old;
    eventually("its replacement has opened the log", || {
        new = server.worker_pids().first().copied().unwrap_or(old);
        new != old && has_open(new, &path)
    });
    fs::rename(&path, path.with_extension("old")).expect("it is there");
    signal_to(new, Signal::USR1);
    drop(strace);
    eventually("the log is opened once more", || path.exists());
}

#[cfg(target_os = "linux")]
fn has_open(pid: u32, path: &Path) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    fds.flatten()
        .any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == path))
}

#[test]
fn a_replacement_that_cannot_open_its_log_is_retried() {
    for (setup, signal) in [
        (["--workers", "1"], Signal::KILL),
        (["--workers", "1"], Signal::HUP),
        (["--threads", "1"], Signal::HUP),
    ] {
        let scratch = Scratch::new(&format!("later{}{signal:?}", setup[0]));
        let (logs, away) = (scratch.path().join("logs"), scratch.path().join("away"));
        fs::create_dir(&logs).expect("a directory");
        let path = logs.join("access.log");
        let server = Server::start(&[&setup[..], &["--access-log", text(&path)]].concat());
        let worker = server.connect().worker();
        fs::rename(&logs, &away).expect("it is there");
        match signal {
            Signal::KILL => signal_to(worker, signal),
            _ => server.signal(signal),
        }
        eventually("it is logged", || {
            server.log().contains("worker cannot start")
        });
        fs::rename(&away, &logs).expect("it is there");
        assert_eq!(server.connect().get("/").status, 200, "{setup:?}");
        if signal == Signal::HUP {
            eventually("it reloads", || server.reloads() > 0);
        }
    }
}

#[test]
fn reaching_the_file_size_limit_is_logged_once() {
    let scratch = Scratch::new("limit");
    let path = scratch.path().join("access.log");
    let mut command = Command::new("sh");
    // The limit is at least twice the log's buffer. `trap` makes the server ignore SIGXFSZ in any
    // case.
    let script = "trap '' XFSZ; ulimit -f 256; exec \"$0\" \"$@\"";
    command.args(["-c", script]).arg(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--access-log", text(&path)]);
    let mut server = Server::from_command(command, 1);
    let mut client = server.connect();
    let worker = client.worker();
    eventually("it is logged", || {
        assert_eq!(client.get("/").status, 200);
        server.log().contains("are lost: ")
    });
    for _ in 0..2_000 {
        assert_eq!(client.get("/").status, 200);
    }
    let again = fs::File::options().write(true).truncate(true).open(&path);
    drop(again.expect("it is there"));
    assert_eq!(client.get("/").status, 200);
    eventually("there is room again", || {
        server.log().contains(" were lost")
    });
    assert_eq!(client.worker(), worker);
    let log = server.log();
    assert_eq!(log.matches("File too large").count(), 1, "{log}");
    server.signal(Signal::QUIT);
    drop(client);
    assert!(server.wait().success());
}
