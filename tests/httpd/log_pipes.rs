//! Whoever reads a log through a pipe may hang: the server serves on, and counts what is lost.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, ErrorKind, Read},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use evcore_tests::{Scratch, Server, eventually, httpd};
use rustix::{
    io::ioctl_fionbio,
    process::{Signal, kill_process},
};

/// More lines than a pipe and a worker's buffer hold together.
const REQUESTS: usize = 4_000;

/// A named pipe, and its reader, which reads when it is told to.
fn named_pipe(scratch: &Scratch) -> (PathBuf, File) {
    let path = scratch.path().join("access.log");
    make_named_pipe(&path);
    // One that may write as well does not wait for a writer.
    let reader = File::options().read(true).write(true).open(&path);
    let reader = reader.expect("it was just made");
    ioctl_fionbio(&reader, true).expect("it is a pipe");
    (path, reader)
}

fn make_named_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("it runs").success());
}

/// Reads what there is.
fn read(mut pipe: &File, text: &mut String) {
    let mut bytes = [0; 4096];
    loop {
        match pipe.read(&mut bytes) {
            Ok(0) => return,
            Ok(n) => *text += std::str::from_utf8(&bytes[..n]).expect("a text"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// How many lines the server says that it lost.
fn lost(log: &str) -> usize {
    let lines = log.lines().filter_map(|line| {
        let (before, _) = line.split_once(" lines of ")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    lines.sum()
}

#[test]
fn a_reader_that_hangs_holds_up_no_worker_and_costs_lines_that_are_counted() {
    for workers in [["--workers", "1"], ["--threads", "1"]] {
        let scratch = Scratch::new(&format!("hangs{}", workers[0]));
        let (path, reader) = named_pipe(&scratch);
        let log = ["--access-log", path.to_str().expect("a text")];
        let mut server = Server::start(&[&workers[..], &log].concat());
        let mut client = server.connect();
        for _ in 0..REQUESTS {
            assert_eq!(client.get("/").status, 200);
        }
        let mut text = String::new();
        eventually("it takes lines again, and says how many are lost", || {
            read(&reader, &mut text);
            lost(&server.log()) > 0
        });
        assert_eq!(client.get("/last").status, 404);
        drop(client);
        server.signal(Signal::QUIT);
        assert!(server.wait().success());
        read(&reader, &mut text);
        let whole = text
            .lines()
            .filter(|line| line.starts_with("127.0.0.1 - - ["));
        let written = whole.count();
        assert_eq!(written + lost(&server.log()), REQUESTS + 1, "{workers:?}");
        assert_eq!(written, text.lines().count());
        assert!(
            text.ends_with("\"GET /last HTTP/1.1\" 404 14\n"),
            "{workers:?}"
        );
        assert_eq!(server.log().matches("are lost").count(), 1);
    }
}

#[test]
fn a_reader_of_the_standard_output_that_hangs_holds_up_no_worker() {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--access-log", "-"]).stdout(Stdio::piped());
    let mut server = Server::from_command(command, 1);
    let mut client = server.connect();
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/").status, 200);
    }
    drop(client);
    // It waits a moment for its reader, and no longer.
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let mut text = String::new();
    let mut output = server.take_stdout().expect("it was asked for");
    output.read_to_string(&mut text).expect("a text");
    eventually("all is accounted for", || {
        text.lines().count() + lost(&server.log()) == REQUESTS
    });
}

#[test]
fn a_new_log_that_nobody_reads_does_not_hold_up_who_opens_it() {
    let scratch = Scratch::new("unread");
    let path = scratch.path().join("access.log");
    let log = path.to_str().expect("a text");
    let server = Server::start(&["--workers", "1", "--access-log", log]);
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    fs::rename(&path, scratch.path().join("old.log")).expect("it is there");
    make_named_pipe(&path);
    server.signal(Signal::USR1);
    eventually("it says that it cannot", || {
        server.log().contains("cannot open the access log")
    });
    assert_eq!(client.get("/").status, 200);
}

/// A server that would go on if the test failed.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Linux: where a pipe can be made small.
#[cfg(target_os = "linux")]
#[test]
fn a_reader_of_the_error_log_that_hangs_holds_up_nobody() {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let server = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut server = KilledOnDrop(server);
    let stderr = server.0.stderr.take().expect("it was asked for");
    rustix::pipe::fcntl_setpipe_size(stderr.as_fd(), 4096).expect("a page is enough");
    let mut log = BufReader::with_capacity(64, stderr);
    let mut line = String::new();
    log.read_line(&mut line).expect("a text");
    let address = line.trim_end().strip_prefix("listening on ");
    let address = address.expect("it listens").parse().expect("an address");
    let worker = || evcore_tests::Client::connect(address).worker();
    let pid = rustix::process::Pid::from_child(&server.0);
    let reload = || {
        let old = worker();
        kill_process(pid, Signal::HUP).expect("it lives");
        eventually("it reloads", || worker() != old);
    };
    // Two lines each: more than fit.
    for _ in 0..150 {
        reload();
    }
    let says_how_many = std::thread::spawn(move || {
        let mut lines = log.lines().map(|line| line.expect("a text"));
        lines.any(|line| line.contains(" lines of this log are lost"))
    });
    eventually("there is room for lines again", || {
        reload();
        says_how_many.is_finished()
    });
    assert!(says_how_many.join().expect("a text"));
    kill_process(pid, Signal::TERM).expect("it lives");
    assert!(server.0.wait().expect("a child").success());
}
