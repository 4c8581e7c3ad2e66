//! Runs steps, two at a time, until one fails, and prints a summary.
//!
//! Builds in the same directory would wait for each other, so their steps run in order. Steps with
//! different directories overlap: tests mostly wait, and a build ends with a single linker.
//!
//! Each step prints a line at its end: its tests and its seconds.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::Result;
use crate::step::{Outcome, Step};
use crate::workspace::Workspace;

/// The steps of a task in the order of their beginning.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// A line for each part that cannot run here, or that the task leaves out, with the reason.
    pub(crate) left_out: Vec<String>,
}

impl Plan {
    pub(crate) fn of(steps: impl IntoIterator<Item = Step>) -> Plan {
        Plan {
            steps: steps.into_iter().collect(),
            left_out: Vec::new(),
        }
    }

    pub(crate) fn left_out(reason: String) -> Plan {
        Plan {
            steps: Vec::new(),
            left_out: vec![reason],
        }
    }

    pub(crate) fn and(mut self, other: Plan) -> Plan {
        self.steps.extend(other.steps);
        self.left_out.extend(other.left_out);
        self
    }

    /// The kinds of steps: what precedes a colon in their names.
    pub(crate) fn kinds(&self) -> BTreeSet<&str> {
        let names = self.steps.iter().map(|step| step.name.as_str());
        names.map(|it| it.split(':').next().unwrap_or(it)).collect()
    }

    /// Runs the steps.
    ///
    /// # Errors
    ///
    /// The first step that fails, with the command that runs it alone.
    pub(crate) fn run(self, workspace: &Workspace) -> Result {
        run_all(workspace, &self.steps, self.left_out)
    }
}

fn run_all(workspace: &Workspace, steps: &[Step], left_out: Vec<String>) -> Result {
    let start = Instant::now();
    let schedule = Schedule {
        state: Mutex::new(State {
            waiting: steps.iter().collect(),
            not_run: left_out,
            ..State::default()
        }),
        changed: Condvar::new(),
    };
    let workers = thread::available_parallelism().map_or(1, |cpus| cpus.get().min(2));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| schedule.work(workspace));
        }
    });
    let state = schedule.state.into_inner();
    let mut state = state.unwrap_or_else(PoisonError::into_inner);
    if let Some(step) = state.failures.first() {
        let alone = step.alone();
        return Err(format!("`{}` failed; to run it alone: {alone}", step.name).into());
    }
    state.print_summary(start);
    Ok(())
}

struct Schedule<'a> {
    state: Mutex<State<'a>>,
    /// Notified when a step has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State<'a> {
    waiting: Vec<&'a Step>,
    busy_dirs: Vec<&'a str>,
    failures: Vec<&'a Step>,
    passed: usize,
    not_run: Vec<String>,
}

impl<'a> Schedule<'a> {
    fn work(&self, workspace: &Workspace) {
        while let Some(step) = self.next_step() {
            let start = Instant::now();
            // A panic must not leave the directory busy: the other steps would wait for ever.
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| step.run(workspace)));
            let outcome = outcome.unwrap_or_else(|_| Outcome::failed("it panicked".to_owned()));
            let seconds = start.elapsed().as_secs_f64();
            self.lock().end(step, outcome, seconds);
            self.changed.notify_all();
        }
    }

    /// The first step whose directory is free; `None` if all steps have begun, or one has failed.
    fn next_step(&self) -> Option<&'a Step> {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() || !state.failures.is_empty() {
                return None;
            }
            if let Some(step) = state.begin() {
                return Some(step);
            }
            let changed = self.changed.wait(state);
            state = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> State<'a> {
    fn begin(&mut self) -> Option<&'a Step> {
        let is_free = |step: &&Step| !self.busy_dirs.contains(&step.build_dir());
        let at = self.waiting.iter().position(is_free)?;
        let step = self.waiting.remove(at);
        self.busy_dirs.push(step.build_dir());
        Some(step)
    }

    fn end(&mut self, step: &'a Step, outcome: Outcome, seconds: f64) {
        self.busy_dirs.retain(|dir| *dir != step.build_dir());
        let tests = match outcome.tests.passed {
            0 => String::new(),
            1 => "1 test".to_owned(),
            passed => format!("{passed} tests"),
        };
        let failed = if outcome.failure.is_some() {
            "  FAILED"
        } else {
            ""
        };
        // Nobody may be left to read it.
        let mut out = io::stdout();
        let _ = writeln!(out, "{:<44}{tests:>12}{seconds:8.1} s{failed}", step.name);
        let _ = out.flush();
        self.passed += outcome.tests.passed;
        self.not_run.extend(outcome.tests.not_run);
        if let Some(output) = outcome.failure {
            // At once: the other step may take long, or hang.
            let _ = writeln!(io::stderr(), "{}", output.trim_end());
            self.failures.push(step);
        }
    }

    fn print_summary(&mut self, start: Instant) {
        println!("{:<56}{:8.1} s", "all", start.elapsed().as_secs_f64());
        // A test may be part of several steps.
        self.not_run.sort();
        self.not_run.dedup();
        self.not_run.iter().for_each(|it| println!("not run: {it}"));
        let skipped = self.not_run.len();
        if self.passed > 0 {
            // In cargo's form, for tools that read it.
            let passed = self.passed;
            println!("test result: ok. {passed} passed; 0 failed; {skipped} ignored");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandLine;
    use crate::diagnostic::Diagnostic;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn the_first_failure_is_the_last_step_and_names_its_command() {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let sound = |_: &Workspace| {
            RUNS.fetch_add(1, SeqCst);
            Ok(Vec::new())
        };
        let steps = [
            Step::check("tidy", "tidy", sound),
            Step::check("layers", "layers", |_| {
                Ok(vec![Diagnostic::of("file", "mend it")])
            }),
            Step::check("tidy", "tidy", sound),
        ];
        let error = run_all(&Workspace::fake(Vec::new()), &steps, Vec::new()).unwrap_err();
        assert_eq!(RUNS.load(SeqCst), 1);
        assert_eq!(
            error.to_string(),
            "`layers` failed; to run it alone: cargo xtask layers"
        );
    }

    #[test]
    fn a_step_waits_for_the_build_in_its_directory() {
        let in_dir = |name: &str, dir: &str| {
            let command = CommandLine::new("cargo test").env("CARGO_TARGET_DIR", dir);
            Step::command(name, command)
        };
        let steps = [in_dir("a", "x"), in_dir("b", "x"), in_dir("c", "y")];
        let mut state = State {
            waiting: steps.iter().collect(),
            ..State::default()
        };
        let mut begun = || state.begin().map(|step| step.name.clone());
        assert_eq!(
            [begun(), begun(), begun()].map(|it| it.unwrap_or_default()),
            ["a", "c", ""]
        );
        state.end(&steps[0], Outcome::default(), 0.0);
        assert_eq!(state.begin().map(|step| step.name.as_str()), Some("b"));
    }
}
