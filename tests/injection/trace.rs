//! strace, which records the server's calls and makes them fail.

use std::{
    collections::BTreeMap,
    fmt, fs, mem,
    path::{Path, PathBuf},
    process::Command,
};

use evcore_tests::{Server, Strace, httpd, signal_to};
use rustix::process::Signal;

use super::{
    table::{FileKind, Row},
    wait::wait_for,
};

/// The options that log the calls of the server to a file, with the paths of descriptors.
pub(super) fn record(to: &Path) -> Vec<String> {
    vec!["-y".to_owned(), "-o".to_owned(), path(to)]
}

fn path(of: &Path) -> String {
    of.to_str().expect("a scratch path is a text").to_owned()
}

/// The program under strace. The program stays the test's child, and strace is another process.
pub(super) fn httpd_under(options: &[String]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-D", "-f"]).args(options).arg(httpd());
    command
}

impl Tracer {
    pub(super) fn finish(self) {
        if let Self::Attached(strace) = self {
            strace.finish();
        }
    }
}

#[derive(Debug)]
pub(super) enum Tracer {
    /// strace was attached to the server.
    Attached(Strace),
    /// strace has started the server.
    FromStart,
}

impl Tracer {
    /// Attaches to the master and its workers. Their children are traced too.
    pub(super) fn attach(server: &Server, options: &[String]) -> Self {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut pids = server.worker_pids();
        pids.push(server.pid());
        Self::Attached(Strace::attach_all(&pids, &options))
    }

    /// Detaches, and returns when strace has detached.
    pub(super) fn detach(self, server: &Server) {
        match self {
            Self::Attached(strace) => strace.finish(),
            Self::FromStart => {
                let Some(tracer) = tracer_of(server.pid()) else {
                    return;
                };
                // A softer signal would be passed on to the server.
                signal_to(tracer, Signal::KILL);
                wait_for("strace is gone", || tracer_of(server.pid()).is_none());
            }
        }
    }
}

fn tracer_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("TracerPid:"))?;
    let tracer = line.split_whitespace().nth(1)?.parse().ok()?;
    (tracer != 0).then_some(tracer)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) name: String,
    /// The path of the descriptor that is the first argument.
    file: Option<String>,
    /// The arguments, as far as the line has them.
    arguments: String,
}

impl Call {
    /// Parses a line; `None` if no call begins in it.
    fn parse(line: &str) -> Option<(u32, Self)> {
        let (pid, rest) = line.split_once(' ')?;
        let (name, arguments) = rest.trim_start().split_once('(')?;
        let is_name = |name: &str| !name.is_empty() && name.chars().all(is_part_of_name);
        if !is_name(name) {
            return None;
        }
        let descriptor = arguments.trim_start_matches(|c: char| c.is_ascii_digit());
        let file = descriptor
            .strip_prefix('<')
            .filter(|_| descriptor != arguments);
        let file = file
            .and_then(|file| file.split_once('>'))
            .map(|(file, _)| file);
        let call = Self {
            name: name.to_owned(),
            file: file.map(str::to_owned),
            arguments: arguments.to_owned(),
        };
        Some((pid.parse().ok()?, call))
    }

    pub(super) fn is_of(&self, row: &Row, files: &Files) -> bool {
        let is_of_kind = |kind| match (&self.file, kind) {
            (Some(file), FileKind::Socket) => file.starts_with("socket:"),
            (file, kind) => *file == files.path(kind),
        };
        self.name == row.call && row.file.is_none_or(is_of_kind)
    }
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Prints the call with its arguments, for a person.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}", self.name, self.arguments)
    }
}

/// The paths of the files that rows distinguish, as the kernel names them.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The output of strace.
    pub(super) trace: PathBuf,
    pub(super) access_log: String,
    pub(super) pid_file: String,
    /// The standard error, which is unknown before the server has started.
    pub(super) stderr: Option<String>,
}

impl Files {
    pub(super) fn path(&self, kind: FileKind) -> Option<String> {
        match kind {
            FileKind::Eventfd => Some("anon_inode:[eventfd]".to_owned()),
            FileKind::AccessLog => Some(self.access_log.clone()),
            FileKind::PidFile => Some(self.pid_file.clone()),
            FileKind::Stderr => self.stderr.clone(),
            FileKind::Socket => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The process of the first call in the file.
    first: Option<u32>,
    calls: BTreeMap<u32, Vec<Call>>,
}

impl Trace {
    pub(super) fn read(path: &Path) -> Self {
        let text = fs::read(path).expect("strace has written it");
        let mut trace = Self::default();
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some((pid, call)) = Call::parse(line) {
                trace.first.get_or_insert(pid);
                trace.calls.entry(pid).or_default().push(call);
            }
        }
        assert!(trace.first.is_some(), "strace has seen no call");
        trace
    }

    /// Removes the calls of the loader and of Rust's runtime before `main`, and returns them.
    pub(super) fn split_off_start(&mut self) -> Vec<Call> {
        // This is the first call of the program.
        let is_first = |call: &Call| call.arguments.starts_with("SIGXFSZ");
        let master = self.first.and_then(|first| self.calls.get_mut(&first));
        let master = master.expect("the master makes calls");
        let at = master
            .iter()
            .position(is_first)
            .expect("httpd handles SIGXFSZ");
        let rest = master.split_off(at);
        mem::replace(master, rest)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Call> {
        self.calls.values().flatten()
    }

    /// The highest number of calls of a row that one process makes.
    pub(super) fn most(&self, row: &Row, files: &Files) -> usize {
        let counts = self.calls.values();
        let counts = counts.map(|calls| calls.iter().filter(|call| call.is_of(row, files)).count());
        counts.max().unwrap_or(0)
    }
}

pub(super) fn injected(log: &Path) -> usize {
    let text = fs::read(log).expect("strace has written it");
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .filter(|line| line.ends_with("(INJECTED)"))
        .count()
}

#[test]
fn a_call_is_read_from_the_line_in_which_it_begins() {
    let call = |line| Call::parse(line).map(|(pid, call)| (pid, call.name, call.file));
    let named =
        |name: &str, file: Option<&str>| Some((7, name.to_owned(), file.map(str::to_owned)));
    assert_eq!(call("7  getpid() = 7"), named("getpid", None));
    let write = "7 write(16<anon_inode:[eventfd]>, \"\\1\"..., 8) = 8";
    assert_eq!(call(write), named("write", Some("anon_inode:[eventfd]")));
    let begun = "7 accept4(3<socket:[9]>,  <unfinished ...>";
    assert_eq!(call(begun), named("accept4", Some("socket:[9]")));
    for other in [
        "7 <... accept4 resumed>0x7ffe4f6de560, [128], SOCK_CLOEXEC) = 5",
        "7 --- SIGCHLD {si_signo=SIGCHLD} ---",
        "7 +++ exited with 0 +++",
    ] {
        assert_eq!(call(other), None, "{other}");
    }
}
