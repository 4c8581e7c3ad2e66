//! Logs to a pipe whose reader hangs: the server continues, and counts the lost lines.

#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, ErrorKind, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use evcore_tests::{Scratch, Server, eventually, httpd, signal_to};
use rustix::{
    io::ioctl_fionbio,
    process::{Signal, kill_process},
};

/// Number of requests whose lines do not fit into a pipe and a worker's buffer together.
const REQUESTS: usize = 4_000;

/// A named pipe, and a non-blocking file that reads from it.
fn named_pipe(scratch: &Scratch) -> (PathBuf, File) {
    let path = scratch.path().join("access.log");
    make_named_pipe(&path);
    // Opening a named pipe to read and write does not block.
    let reader = File::options().read(true).write(true).open(&path);
    let reader = reader.expect("it was just made");
    ioctl_fionbio(&reader, true).expect("it is a pipe");
    (path, reader)
}

fn make_named_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("it runs").success());
}

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

fn lost(log: &str) -> usize {
    let lines = log.lines().filter_map(|line| {
        let (before, _) = line.split_once(" lines of ")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    lines.sum()
}

#[test]
fn a_hanging_log_reader_blocks_no_worker_and_losses_are_counted() {
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
        eventually("the worker logs how many lines were lost", || {
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
fn a_hanging_reader_of_standard_output_blocks_no_worker() {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--access-log", "-"]).stdout(Stdio::piped());
    let mut server = Server::from_command(command, 1);
    let mut client = server.connect();
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/").status, 200);
    }
    drop(client);
    // The worker waits a moment for the reader before it exits.
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    let mut text = String::new();
    let mut output = server.take_stdout().expect("it is piped");
    output.read_to_string(&mut text).expect("a text");
    eventually("each line is written or counted as lost", || {
        text.lines().count() + lost(&server.log()) == REQUESTS
    });
}

/// Another user may have made the pipe, so that the server cannot open it again.
#[cfg(target_os = "linux")]
#[test]
fn a_hanging_reader_of_another_user_blocks_no_worker() {
    use std::os::unix::process::CommandExt;

    use evcore_tests::not_run;
    use rustix::{
        fs::{Mode, fchmod},
        pipe::PipeFlags,
    };

    let (_reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    fchmod(&writer, Mode::empty()).expect("it is ours");
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--access-log", "-"]).stdout(writer);
    if rustix::process::geteuid().is_root() {
        // Root may open any pipe again.
        const NOBODY: u32 = 65_534;
        if Command::new(httpd())
            .arg("--version")
            .uid(NOBODY)
            .output()
            .is_err()
        {
            return not_run("another user than root may not run the program");
        }
        command.uid(NOBODY);
    }
    let server = Server::from_command(command, 1);
    let mut client = server.connect();
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/").status, 200);
    }
}

#[test]
fn a_worker_whose_standard_output_has_no_reader_does_not_wait_for_one() {
    let scratch = Scratch::new("unread-output");
    let (path, reader) = named_pipe(&scratch);
    let writer = File::options().write(true).open(&path);
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    let output = writer.expect("it has a reader");
    command.args(["--access-log", "-"]).stdout(output);
    let server = Server::from_command(command, 1);
    let old = server.connect().worker();
    drop(reader);
    signal_to(old, Signal::KILL);
    let mut client = server.connect();
    assert_ne!(client.worker(), old);
    let _hangs = File::options().read(true).write(true).open(&path);
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/").status, 200);
    }
}

#[test]
fn reopening_a_pipe_without_a_reader_does_not_block() {
    let scratch = Scratch::new("unread");
    let path = scratch.path().join("access.log");
    let log = path.to_str().expect("a text");
    let server = Server::start(&["--workers", "1", "--access-log", log]);
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    fs::rename(&path, scratch.path().join("old.log")).expect("it is there");
    make_named_pipe(&path);
    server.signal(Signal::USR1);
    eventually("the worker logs that it cannot open the log", || {
        server.log().contains("cannot open the access log")
    });
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn a_worker_starts_although_the_log_pipe_has_no_reader() {
    for (setup, signal) in [("--workers", Signal::KILL), ("--threads", Signal::HUP)] {
        let scratch = Scratch::new(&format!("unread{setup}"));
        let (path, reader) = named_pipe(&scratch);
        let log = ["--access-log", path.to_str().expect("a text")];
        let server = Server::start(&[&[setup, "1"][..], &log].concat());
        let old = server.connect().worker();
        drop(reader);
        if signal == Signal::KILL {
            signal_to(old, signal);
        } else {
            server.signal(signal);
            eventually("the server reloads", || server.reloads() > 0);
        }
        assert_eq!(server.connect().get("/unread").status, 404);
        let reader = File::options().read(true).write(true).open(&path);
        let reader = reader.expect("it is there");
        ioctl_fionbio(&reader, true).expect("it is a pipe");
        let mut text = String::new();
        eventually("a later reader finds the line", || {
            read(&reader, &mut text);
            text.contains("GET /unread ")
        });
    }
}

#[test]
fn a_log_pipe_without_a_reader_costs_lines_only() {
    let scratch = Scratch::new("gone");
    let (path, reader) = named_pipe(&scratch);
    let log = ["--access-log", path.to_str().expect("a text")];
    let server = Server::start(&[&["--workers", "1"][..], &log].concat());
    let mut client = server.connect();
    let worker = client.worker();
    drop(reader);
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("the loss is logged", || server.log().contains("are lost: "));
    assert_eq!(client.worker(), worker);
    assert_eq!(server.log().matches("are lost: ").count(), 1);
}

#[test]
fn a_standard_output_without_a_reader_costs_lines_only() {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.args(["--access-log", "-"]).stdout(Stdio::piped());
    let mut server = Server::from_command(command, 1);
    drop(server.take_stdout());
    let mut client = server.connect();
    let worker = client.worker();
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("the loss is logged", || server.log().contains("are lost: "));
    assert_eq!(client.worker(), worker);
}

/// Without a reader nothing more is logged, and the server goes on.
#[test]
fn an_error_log_without_a_reader_ends_no_process() {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let server = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut server = KilledOnDrop(server);
    let mut log = BufReader::new(server.0.stderr.take().expect("it is piped"));
    let mut line = String::new();
    log.read_line(&mut line).expect("a text");
    let address = line.trim_end().strip_prefix("listening on ");
    let address = address.expect("it listens").parse().expect("an address");
    drop(log);
    let pid = rustix::process::Pid::from_child(&server.0);
    for _ in 0..3 {
        // The master logs the reload, and the end of the killed worker.
        let old = evcore_tests::Client::connect(address).worker();
        kill_process(pid, Signal::HUP).expect("it lives");
        eventually("the server reloads", || {
            evcore_tests::Client::connect(address).worker() != old
        });
        let worker = evcore_tests::Client::connect(address).worker();
        signal_to(worker, Signal::KILL);
        eventually("the worker is replaced", || {
            let answer = evcore_tests::Client::connect(address).try_worker();
            answer.is_ok_and(|pid| pid != worker)
        });
    }
    kill_process(pid, Signal::TERM).expect("it lives");
    assert!(server.0.wait().expect("a child").success());
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Only for Linux, because other systems cannot set the size of a pipe.
#[cfg(target_os = "linux")]
#[test]
fn a_hanging_reader_of_the_error_log_blocks_no_process() {
    let mut command = Command::new(httpd());
    command.args(["--listen", "127.0.0.1:0", "--workers", "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let server = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut server = KilledOnDrop(server);
    let stderr = server.0.stderr.take().expect("it is piped");
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
        eventually("the server reloads", || worker() != old);
    };
    // The pipe cannot hold the lines of all these reloads.
    for _ in 0..150 {
        reload();
    }
    let logs_the_losses = std::thread::spawn(move || {
        let mut lines = log.lines().map(|line| line.expect("a text"));
        lines.any(|line| line.contains(" lines of this log are lost"))
    });
    eventually("there is room for lines again", || {
        reload();
        logs_the_losses.is_finished()
    });
    assert!(logs_the_losses.join().expect("a text"));
    kill_process(pid, Signal::TERM).expect("it lives");
    assert!(server.0.wait().expect("a child").success());
}

#[test]
fn the_reader_that_the_server_has_waited_for_gets_the_lines() {
    let scratch = Scratch::new("log-reader");
    let path = scratch.file("access.log");
    make_named_pipe(&path);
    let mut reader = Command::new("cat");
    let reader = reader.arg(&path).stdout(Stdio::piped()).spawn();
    let mut reader = reader.expect("it runs");
    let log = path.to_str().expect("a text");
    let mut server = Server::start(&["--workers", "1", "--access-log", log]);
    assert_eq!(server.connect().get("/").status, 200);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    // The reader finds the end, because all writers have ended.
    let mut lines = String::new();
    let output = reader.stdout.as_mut().expect("it is piped");
    output.read_to_string(&mut lines).expect("a text");
    assert!(lines.contains("\"GET / HTTP/1.1\" 200"), "{lines}");
    assert!(reader.wait().expect("it ends").success());
}
