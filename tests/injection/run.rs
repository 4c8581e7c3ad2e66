//! One run: a server, one of whose calls fails.

use std::{fmt, fs, path::PathBuf, process::Command};

use evcore_tests::{Scratch, Server, httpd};
use rustix::process::Signal;

use super::{
    idle::assert_idle,
    script::{FILE, Script, Upload},
    table::{Allowed, Phase, Row},
    trace::{Call, Files, Trace, Tracer, httpd_under, injected, record},
};

/// The workers of each server.
pub(super) const WORKERS: usize = 2;

/// Which calls of a process fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) first: usize,
    /// Every how many-th call after the first fails; 0: none.
    pub(super) step: usize,
}

/// The 1st, 2nd and 5th, and every 7th.
pub(super) const OCCURRENCES: [Occurrence; 4] = [
    Occurrence { first: 1, step: 0 },
    Occurrence { first: 2, step: 0 },
    Occurrence { first: 5, step: 0 },
    Occurrence { first: 7, step: 7 },
];

/// `2`, or `7+7`: as strace takes it.
impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            0 => write!(f, "{}", self.first),
            step => write!(f, "{}+{step}", self.first),
        }
    }
}

/// A call that fails, and when.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) row: &'static Row,
    pub(super) error: &'static str,
    pub(super) phase: Phase,
    pub(super) occurrence: Occurrence,
    /// How many calls come before: of the loader and the runtime, and what the row leaves out.
    pub(super) before: usize,
}

/// `accept4 EMFILE 7+7 while serving`.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            row,
            error,
            phase,
            occurrence,
            ..
        } = self;
        write!(f, "{row} {error} {occurrence} {phase}")
    }
}

impl Run {
    /// Makes the run. Returns how many calls have failed.
    ///
    /// # Panics
    ///
    /// If the server loses more than the table allows.
    pub(super) fn make(&self) -> usize {
        let stage = Stage::new();
        let allowed = self.row.allowed(self.phase).expect("the phase has a loss");
        let trial = match self.phase {
            Phase::Start => match stage.start_under(&self.options(&stage.files(None))) {
                Ok(server) => stage.serve(server, Tracer::FromStart),
                Err((code, log)) => return self.assert_refusal(&stage, allowed, code, &log),
            },
            Phase::Serving => {
                let server = stage.start();
                let tracer = Tracer::attach(&server, &self.options(&stage.files(Some(&server))));
                stage.serve(server, tracer)
            }
            Phase::Quit => stage.quit(|server| self.options(&stage.files(Some(server)))),
        };
        let hits = injected(&stage.trace());
        trial.assert_within(allowed, hits);
        hits
    }

    /// The options of strace.
    fn options(&self, files: &Files) -> Vec<String> {
        let Self { row, error, .. } = self;
        let call = &row.call;
        let when = Occurrence {
            first: self.before + self.occurrence.first,
            ..self.occurrence
        };
        let mut options = record(&files.trace);
        options.extend(["-e".to_owned(), format!("trace={call}"), "-e".to_owned()]);
        options.push(format!("inject={call}:error={error}:when={when}"));
        if let Some(kind) = row.file {
            let path = files.path(kind).expect("the table leaves the phase out");
            options.extend(["-P".to_owned(), path]);
        }
        options
    }

    /// The server has ended before it listened. Returns how many calls have failed.
    fn assert_refusal(
        &self,
        stage: &Stage,
        allowed: Allowed,
        code: Option<i32>,
        log: &str,
    ) -> usize {
        assert!(allowed.exit, "the server may not end: {log}");
        assert_eq!(code, Some(1), "{log}");
        assert_orderly(log);
        assert!(!log.contains("listening on"), "{log}");
        // One line of the master; or one of each worker, and one about its end.
        let lines = log.lines().count();
        let is_clear = log.lines().all(|line| line.starts_with("httpd: "));
        assert!(is_clear && (lines == 1 || lines <= 2 * WORKERS), "{log}");
        injected(&stage.trace())
    }
}

/// No line of the log is one of a bug.
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

/// What a run has lost.
#[derive(Debug)]
struct Trial {
    lost: usize,
    log: String,
    /// Workers that were killed on purpose.
    killed: usize,
}

impl Trial {
    fn assert_within(&self, allowed: Allowed, hits: usize) {
        assert_orderly(&self.log);
        let Self { lost, log, killed } = self;
        let most = allowed.requests * hits;
        assert!(
            *lost <= most,
            "{lost} requests are lost by {hits} failures: {log}"
        );
        let ends = log
            .matches("ended unexpectedly")
            .count()
            .saturating_sub(*killed);
        let most = if allowed.restart { hits } else { 0 };
        assert!(
            ends <= most,
            "{ends} workers have ended by {hits} failures: {log}"
        );
    }
}

/// The files of a server.
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

    /// The files that rows distinguish.
    pub(super) fn files(&self, server: Option<&Server>) -> Files {
        let text = |path: PathBuf| path.to_str().expect("a text").to_owned();
        let stderr = |server: &Server| fs::read_link(format!("/proc/{}/fd/2", server.pid()));
        Files {
            trace: self.trace(),
            access_log: text(self.access_log()),
            // Its name until the server listens.
            pid_file: text(self.scratch.file("pid.new")),
            stderr: server.map(|server| text(stderr(server).expect("it is open"))),
        }
    }

    fn options(&self, command: &mut Command) {
        let workers = WORKERS.to_string();
        command.args(["--listen", "127.0.0.1:0", "--workers", &workers]);
        command.args(["--connections", "100"]);
        // So a worker that hangs, or a connection that is not closed, is a hang of the test.
        command.args(["--shutdown-timeout", "600000"]);
        command.arg("--root").arg(self.scratch.file("root"));
        command.arg("--access-log").arg(self.access_log());
        command.arg("--pid").arg(self.scratch.file("pid"));
    }

    fn start(&self) -> Server {
        let mut command = Command::new(httpd());
        self.options(&mut command);
        Server::from_command(command, 1)
    }

    /// Starts the server under strace. An error is its exit code and its log.
    fn start_under(&self, options: &[String]) -> Result<Server, (Option<i32>, String)> {
        let mut command = httpd_under(options);
        self.options(&mut command);
        Server::try_from_command(command, 1).map_err(|(status, log)| (status.code(), log))
    }

    /// Plays the script; then nothing fails any more, and all is as before. Ends the server.
    fn serve(&self, server: Server, tracer: Tracer) -> Trial {
        let mut script = Script::new(&server);
        match tracer {
            // No worker is replaced, so that one which is lost shows.
            Tracer::FromStart => script.play_start(),
            Tracer::Attached(_) => script.play(),
        }
        tracer.detach(&server);
        script.recover();
        assert_idle(&server);
        let (lost, killed) = (script.lost, script.killed);
        server.signal(Signal::QUIT);
        end(server, lost, killed)
    }

    /// Ends the server while a request is under way, and calls fail.
    fn quit(&self, options: impl FnOnce(&Server) -> Vec<String>) -> Trial {
        let server = self.start();
        Script::new(&server).serve();
        let mut client = server.connect();
        let mut upload = Upload::begin(&mut client).expect("nothing fails yet");
        let tracer = Tracer::attach(&server, &options(&server));
        server.signal(Signal::QUIT);
        let response = upload.finish(&mut client);
        let lost = usize::from(!response.is_ok_and(|response| response.status == 200));
        drop(client);
        let trial = end(server, lost, 0);
        // Both have ended: what was traced ends strace.
        tracer.finish();
        trial
    }

    /// Makes a run in which nothing fails.
    pub(super) fn record(&self, phase: Phase) -> Recorded {
        let options = record(&self.trace());
        let (trial, files) = match phase {
            Phase::Start => {
                let server = self.start_under(&options).expect("nothing fails");
                let files = self.files(Some(&server));
                (self.serve(server, Tracer::FromStart), files)
            }
            Phase::Serving => {
                let server = self.start();
                let files = self.files(Some(&server));
                let tracer = Tracer::attach(&server, &options);
                (self.serve(server, tracer), files)
            }
            Phase::Quit => {
                let mut files = None;
                let trial = self.quit(|server| {
                    files = Some(self.files(Some(server)));
                    options.clone()
                });
                (trial, files.expect("it was attached"))
            }
        };
        trial.assert_within(Allowed::default(), 0);
        let mut trace = Trace::read(&self.trace());
        let before = match phase {
            Phase::Start => trace.split_off_start(),
            _ => Vec::new(),
        };
        Recorded {
            trace,
            files,
            before,
        }
    }
}

/// The calls of a phase in which nothing fails.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) trace: Trace,
    pub(super) files: Files,
    /// What the loader and Rust's runtime call.
    pub(super) before: Vec<Call>,
}

/// Waits for the end of a server that has got QUIT.
fn end(mut server: Server, lost: usize, killed: usize) -> Trial {
    let status = server.wait();
    let log = server.log();
    assert!(status.success(), "{status}: {log}");
    // One worker is killed on purpose.
    let is_kill = |line: &&str| line.contains("SIGKILL") || line.contains("does not stop");
    let kills = log.lines().filter(is_kill).count();
    assert!(kills <= killed, "a worker hangs: {log}");
    Trial { lost, log, killed }
}
