//! Runs a plan: its steps, two at a time, until one fails; then prints a summary.
//!
//! Builds in the same directory would wait for each other, so their steps run in order. Steps with
//! different directories overlap: tests mostly wait, and a build ends with a single linker.
//!
//! Each step prints a line at its end: its tests and its seconds.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::Result;
use crate::step::{Check, Step};
use crate::test_report::TestReport;
use crate::workspace::Workspace;

/// The steps of a task in the order of their beginning.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// A line for each part that cannot run here, or that the task leaves out, with the reason.
    pub(crate) left_out: Vec<String>,
}

impl Plan {
    /// Adds a command.
    pub(crate) fn command(mut self, name: impl Into<String>, line: impl Into<String>) -> Plan {
        let (name, line) = (name.into(), line.into());
        let check = None;
        self.steps.push(Step { name, line, check });
        self
    }

    /// Adds a check that `cargo xtask TASK` runs alone.
    pub(crate) fn check(
        mut self,
        name: impl Into<String>,
        task: &str,
        check: impl Fn(&Workspace) -> Result + Send + Sync + 'static,
    ) -> Plan {
        let (name, line) = (name.into(), format!("cargo xtask {task}"));
        let check: Option<Box<Check>> = Some(Box::new(check));
        self.steps.push(Step { name, line, check });
        self
    }

    /// Adds a line about a part that does not run.
    pub(crate) fn left_out(mut self, reason: impl Into<String>) -> Plan {
        self.left_out.push(reason.into());
        self
    }

    pub(crate) fn and(mut self, other: Plan) -> Plan {
        self.steps.extend(other.steps);
        self.left_out.extend(other.left_out);
        self
    }

    /// Adds a line for each kind of steps of `all` that this plan leaves out, with their names.
    pub(crate) fn without(mut self, all: &Plan, reason: &str) -> Plan {
        let mut lines = BTreeMap::<&str, String>::new();
        for step in &all.steps {
            let (kind, part) = step.kind_and_part();
            let is_it = |own: &Step| own.name == step.name || own.kind_and_part().0 == step.name;
            if !self.steps.iter().any(is_it) {
                let line = lines.entry(kind).or_insert_with(|| kind.to_owned());
                let separator = if line == kind { ": " } else { ", " };
                line.extend(part.map(|part| format!("{separator}{part}")));
            }
        }
        let lines = lines.values().map(|line| format!("{line}: {reason}"));
        self.left_out.extend(lines);
        self
    }

    /// Runs the steps.
    ///
    /// # Errors
    ///
    /// The first step that fails, with the line that runs it alone.
    pub(crate) fn run(self, workspace: &Workspace) -> Result {
        let start = Instant::now();
        let (mut waiting, mut running) = (self.steps.iter().collect(), Vec::new());
        let (mut tests, mut failed) = (TestReport::default(), None);
        let (ends, ended) = mpsc::channel();
        thread::scope(|scope| {
            loop {
                while let Some(step) = next(&mut waiting, &running) {
                    running.push(step);
                    let ends = ends.clone();
                    scope.spawn(move || ends.send((step, run_step(step, workspace))));
                }
                if running.is_empty() {
                    break;
                }
                let (step, (outcome, seconds)) = ended.recv().expect("a step is running");
                running.retain(|it| it.name != step.name);
                print_end(step, &outcome, seconds);
                match outcome {
                    Ok(report) => tests.add(report),
                    Err(_) => {
                        waiting.clear();
                        failed = failed.or(Some(step));
                    }
                }
            }
        });
        if let Some(Step { name, line, .. }) = failed {
            return Err(format!("`{name}` failed; to run it alone: {line}").into());
        }
        print_summary(&tests, self.left_out, start);
        Ok(())
    }
}

type Outcome = std::result::Result<TestReport, String>;

/// Takes the first step whose directory is free, if another step may run.
fn next<'a>(waiting: &mut Vec<&'a Step>, running: &[&Step]) -> Option<&'a Step> {
    let at_once = thread::available_parallelism().map_or(1, |cpus| cpus.get().min(2));
    let is_free = |step: &&Step| running.iter().all(|it| it.build_dir() != step.build_dir());
    let at = waiting.iter().position(is_free)?;
    (running.len() < at_once).then(|| waiting.remove(at))
}

/// Runs a step. Returns its outcome and its seconds.
fn run_step(step: &Step, workspace: &Workspace) -> (Outcome, f64) {
    let start = Instant::now();
    // A panic must not keep the plan waiting for this step.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| step.run(workspace)));
    let outcome = outcome.unwrap_or_else(|_| Err("it panicked".to_owned()));
    (outcome, start.elapsed().as_secs_f64())
}

/// Prints the line of a step, and its output if it failed: the other step may take long, or hang.
fn print_end(step: &Step, outcome: &Outcome, seconds: f64) {
    let tests = match outcome {
        Ok(TestReport { passed: 0, .. }) | Err(_) => String::new(),
        Ok(TestReport { passed: 1, .. }) => "1 test".to_owned(),
        Ok(TestReport { passed, .. }) => format!("{passed} tests"),
    };
    let failed = if outcome.is_err() { "  FAILED" } else { "" };
    // Nobody may be left to read it.
    let mut out = io::stdout();
    let _ = writeln!(out, "{:<44}{tests:>12}{seconds:8.1} s{failed}", step.name);
    let _ = out.flush();
    if let Err(output) = outcome {
        let _ = writeln!(io::stderr(), "{}", output.trim_end());
    }
}

fn print_summary(tests: &TestReport, left_out: Vec<String>, start: Instant) {
    println!("{:<56}{:8.1} s", "all", start.elapsed().as_secs_f64());
    let mut not_run = [left_out, tests.not_run.clone()].concat();
    // A test may be part of several steps.
    not_run.sort();
    not_run.dedup();
    not_run.iter().for_each(|it| println!("not run: {it}"));
    let (passed, skipped) = (tests.passed, not_run.len());
    if passed > 0 {
        // In cargo's form, for tools that read it.
        println!("test result: ok. {passed} passed; 0 failed; {skipped} ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn a_failure_ends_the_plan_and_names_its_line() {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let sound = |_: &Workspace| {
            RUNS.fetch_add(1, SeqCst);
            Ok(())
        };
        // In one directory, so one after the other.
        let plan = |second: fn(&Workspace) -> Result| {
            let plan = Plan::default().check("first", "tidy", sound);
            let plan = plan.check("second", "tidy", second);
            let plan = plan.check("third", "tidy", sound);
            plan.run(&crate::workspace::load().unwrap())
        };
        let expected = "`second` failed; to run it alone: cargo xtask tidy";
        let failed = plan(|_| Err("mend it".into())).unwrap_err().to_string();
        assert_eq!((failed.as_str(), RUNS.load(SeqCst)), (expected, 1));
        let panicked = plan(|_| panic!("on purpose")).unwrap_err().to_string();
        assert_eq!((panicked.as_str(), RUNS.load(SeqCst)), (expected, 2));
        assert!(plan(|_| Ok(())).is_ok());
        assert_eq!(RUNS.load(SeqCst), 4);
    }

    #[test]
    fn a_step_waits_for_the_build_in_its_directory() {
        let plan = Plan::default()
            .command("a", "CARGO_TARGET_DIR=x cargo test")
            .command("b", "CARGO_TARGET_DIR=x cargo test")
            .command("c", "CARGO_TARGET_DIR=y cargo test");
        let mut waiting: Vec<&Step> = plan.steps.iter().collect();
        let [a, b, c] = [0, 1, 2].map(|at| &plan.steps[at].name);
        let first = next(&mut waiting, &[]).unwrap();
        assert_eq!(&first.name, a);
        if let Some(second) = next(&mut waiting, &[first]) {
            assert_eq!(&second.name, c);
            assert!(next(&mut waiting, &[first]).is_none());
        }
        assert_eq!(&next(&mut waiting, &[]).unwrap().name, b);
    }

    #[test]
    fn what_is_left_out_is_listed_by_name() {
        let all = Plan::default().command("fmt", "").command("docs", "");
        let all = all.command("mutant: a", "").command("mutant: b", "");
        let some = Plan::default().command("fmt", "");
        let lines = some.without(&all, "later").left_out;
        assert_eq!(lines, ["docs: later", "mutant: a, b: later"]);
    }
}
