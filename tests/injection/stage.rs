//! A server with its files, and the checks of its end.

use std::{collections::HashSet, fs, path::PathBuf, process::Command};

use evcore_tests::{Scratch, Server, httpd};
use rustix::process::Signal;

use super::{
    idle::assert_idle,
    run::Cost,
    script::{FILE, Script, Upload, wait_for_workers},
    table::Phase,
    trace::{Call, Files, Trace, Tracer, httpd_under, record},
};

pub(super) const WORKERS: usize = 2;

#[derive(Debug)]
pub(super) struct Stage {
    scratch: Scratch,
}

impl Stage {
    pub(super) fn new() -> Self {
        let scratch = Scratch::new("injection");
        let root = scratch.file("root");
        fs::create_dir(&root).expect("a directory");
        fs::write(root.join(FILE.0), FILE.1).expect("a file");
        Self { scratch }
    }

    pub(super) fn trace(&self) -> PathBuf {
        self.scratch.file("trace")
    }

    fn access_log(&self) -> PathBuf {
        self.scratch.file("access.log")
    }

    /// The files that rows of `calls.md` distinguish.
    pub(super) fn files(&self, server: Option<&Server>) -> Files {
        let text = |path: PathBuf| path.to_str().expect("a text").to_owned();
        let stderr = |server: &Server| fs::read_link(format!("/proc/{}/fd/2", server.pid()));
        Files {
            trace: self.trace(),
            access_log: text(self.access_log()),
            // The file has this name until the server listens.
            pid_file: text(self.scratch.file("pid.new")),
            stderr: server.map(|server| text(stderr(server).expect("it is open"))),
        }
    }

    fn options(&self, command: &mut Command) {
        let workers = WORKERS.to_string();
        command.args(["--listen", "127.0.0.1:0", "--workers", &workers]);
        command.args(["--connections", "100"]);
        // Without these options, the connections that move at a reload would depend on the timing
        // of the run.
        command.args(["--rebalance", "off", "--handover", "off"]);
        // With this timeout, a worker that hangs, or a connection that is not closed, makes the
        // test hang.
        command.args(["--shutdown-timeout", "600000"]);
        command.arg("--root").arg(self.scratch.file("root"));
        command.arg("--access-log").arg(self.access_log());
        command.arg("--pid").arg(self.scratch.file("pid"));
    }

    pub(super) fn start(&self) -> Server {
        let mut command = Command::new(httpd());
        self.options(&mut command);
        let server = Server::from_command(command, 1);
        wait_for_workers(&server, &HashSet::new());
        server
    }

    /// Starts the server under strace. An error has the server's exit code and its log.
    pub(super) fn start_under(&self, options: &[String]) -> Result<Server, (Option<i32>, String)> {
        let mut command = httpd_under(options);
        self.options(&mut command);
        Server::try_from_command(command, 1).map_err(|(status, log)| (status.code(), log))
    }

    /// Plays the script, ends the failures, and checks that the server has recovered. Ends the
    /// server, and returns its log.
    pub(super) fn serve(&self, server: Server, tracer: Tracer, cost: &mut Cost) -> String {
        let mut script = Script::new(&server);
        match tracer {
            // The script replaces no worker here, so that a lost worker is noticed.
            Tracer::FromStart => script.play_start(),
            Tracer::Attached(_) => script.play(),
        }
        tracer.detach(&server);
        script.recover();
        assert_idle(&server);
        let killed = script.killed;
        cost.lost = script.lost;
        server.signal(Signal::QUIT);
        end(server, killed, cost)
    }

    /// Ends the server while a request is under way and calls fail, and returns its log.
    pub(super) fn quit(
        &self,
        options: impl FnOnce(&Server) -> Vec<String>,
        cost: &mut Cost,
    ) -> String {
        let server = self.start();
        Script::new(&server).serve();
        let mut client = server.connect();
        let mut upload = Upload::begin(&mut client).expect("nothing fails yet");
        let tracer = Tracer::attach(&server, &options(&server));
        server.signal(Signal::QUIT);
        let response = upload.finish(&mut client);
        cost.lost = usize::from(!response.is_ok_and(|response| response.status == 200));
        drop(client);
        let log = end(server, 0, cost);
        // The server and its workers have ended, so strace ends too.
        tracer.finish();
        log
    }

    /// Makes a run in which nothing fails.
    pub(super) fn record(&self, phase: Phase) -> Recorded {
        let options = record(&self.trace());
        let (mut cost, mut files) = (Cost::default(), None);
        match phase {
            Phase::Start => {
                let server = self.start_under(&options).expect("nothing fails");
                files = Some(self.files(Some(&server)));
                self.serve(server, Tracer::FromStart, &mut cost);
            }
            Phase::Serving => {
                let server = self.start();
                files = Some(self.files(Some(&server)));
                let tracer = Tracer::attach(&server, &options);
                self.serve(server, tracer, &mut cost);
            }
            Phase::Quit => {
                let options = |server: &Server| {
                    files = Some(self.files(Some(server)));
                    options
                };
                self.quit(options, &mut cost);
            }
        }
        assert_eq!((cost.ended, cost.lost), (0, 0), "a run without failures");
        let mut trace = Trace::read(&self.trace());
        let before = match phase {
            Phase::Start => trace.split_off_start(),
            _ => Vec::new(),
        };
        Recorded {
            trace,
            files: files.expect("each phase has a server"),
            before,
        }
    }
}

/// The calls of a phase in which nothing fails.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) trace: Trace,
    pub(super) files: Files,
    /// The calls of the loader and of Rust's runtime.
    pub(super) before: Vec<Call>,
}

/// Waits for the end of a server that has got QUIT. Returns its log.
fn end(mut server: Server, killed: usize, cost: &mut Cost) -> String {
    let status = server.wait();
    let log = server.log();
    assert!(status.success(), "{status}: {log}");
    assert_orderly(&log);
    let is_kill = |line: &&str| line.contains("SIGKILL") || line.contains("does not stop");
    let kills = log.lines().filter(is_kill).count();
    assert!(kills <= killed, "a worker hangs: {log}");
    cost.ended = log
        .matches("ended unexpectedly")
        .count()
        .saturating_sub(killed);
    log
}

fn assert_orderly(log: &str) {
    for word in [
        "panicked",
        "RUST_BACKTRACE",
        "fatal runtime error",
        "SIGABRT",
        "SIGSEGV",
    ] {
        assert!(!log.contains(word), "{log}");
    }
}
