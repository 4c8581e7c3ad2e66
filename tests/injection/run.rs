//! One run: a server in which one kind of call fails.

use std::fmt;

use evcore_tests::Server;

use super::{
    stage::{Stage, WORKERS},
    table::{Allowed, Phase, Row},
    trace::{Files, Tracer, injected, record},
};

/// The positions of the failing calls among the calls of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) first: usize,
    /// The distance between failing calls after the first; 0 if no other call fails.
    pub(super) step: usize,
}

/// The failing calls of different runs: the 1st, the 2nd, the 5th, and every 7th.
pub(super) const OCCURRENCES: [Occurrence; 4] = [
    Occurrence { first: 1, step: 0 },
    Occurrence { first: 2, step: 0 },
    Occurrence { first: 5, step: 0 },
    Occurrence { first: 7, step: 7 },
];

/// Prints `2` or `7+7`, in strace's form.
impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            0 => write!(f, "{}", self.first),
            step => write!(f, "{}+{step}", self.first),
        }
    }
}

/// A run: the call that fails, its error, the phase, and the occurrences that fail.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) row: &'static Row,
    pub(super) error: &'static str,
    pub(super) phase: Phase,
    pub(super) occurrence: Occurrence,
    /// Number of calls before the first one that may fail: calls of the loader and the runtime, and
    /// the first calls that the row leaves out.
    pub(super) before: usize,
}

/// Prints, for example, `accept4 EMFILE 7+7 while serving`.
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
    /// Makes the run, and returns its cost. Panics if the server loses more than the table allows,
    /// panics, hangs or spins.
    pub(super) fn make(&self) -> Cost {
        let stage = Stage::new();
        let options = |server: Option<&Server>| self.options(&stage.files(server));
        let mut cost = Cost::default();
        let log = match self.phase {
            Phase::Start => match stage.start_under(&options(None)) {
                Ok(server) => stage.serve(server, Tracer::FromStart, &mut cost),
                Err((code, log)) => {
                    cost.exited = true;
                    assert_eq!(code, Some(1), "{log}");
                    assert_names_reason(&log);
                    log
                }
            },
            Phase::Serving => {
                let server = stage.start();
                let tracer = Tracer::attach(&server, &options(Some(&server)));
                stage.serve(server, tracer, &mut cost)
            }
            Phase::Quit => stage.quit(|server| options(Some(server)), &mut cost),
        };
        cost.failures = injected(&stage.trace());
        let allowed = self.row.allowed(self.phase).expect("the phase has a cell");
        assert!(cost.is_within(allowed), "it costs {cost}: {log}");
        cost
    }

    /// Returns whether a run without a failing call is a fault of the test. A serving server makes
    /// the first call of each kind in every run, but the number of later calls varies.
    pub(super) fn must_fail(&self) -> bool {
        self.phase == Phase::Serving && self.occurrence.first == 1
    }

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
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) failures: usize,
    /// True if the server has ended before it listened.
    pub(super) exited: bool,
    /// Number of workers that have ended without being killed.
    pub(super) ended: usize,
    pub(super) lost: usize,
}

impl Cost {
    fn is_within(self, allowed: Allowed) -> bool {
        let most_ended = if allowed.restart { self.failures } else { 0 };
        (allowed.exit || !self.exited)
            && self.ended <= most_ended
            && self.lost <= allowed.requests * self.failures
    }
}

/// Prints, for example, `4 failures: 1 workers, 2 requests`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            failures,
            ended,
            lost,
            ..
        } = self;
        let exited = if self.exited { "the server, " } else { "" };
        write!(
            f,
            "{failures} failures: {exited}{ended} workers, {lost} requests"
        )
    }
}

/// Checks the log of a server that did not start. It has one line of the master, or for each worker
/// one line of its own and one about its end.
fn assert_names_reason(log: &str) {
    let is_count_right = (1..=2 * WORKERS).contains(&log.lines().count());
    let is_clear = log.lines().all(|line| line.starts_with("httpd: "));
    assert!(is_clear && is_count_right, "the log of the start: {log:?}");
}
