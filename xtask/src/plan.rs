//! A plan is a list of steps, each a command line, which run at most two at a time until one fails.
//!
//! Builds in the same directory would wait for each other, so their steps run in order. Steps with
//! different directories overlap, because tests mostly wait, and a build ends with one linker.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::Result;
use crate::command::{printed, run_logged};
use crate::test_report::{self, TestReport};
use crate::workspace::{Workspace, target_dir};

#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// A line for each part that cannot run here, or that the task leaves out, with the reason.
    pub(crate) left_out: Vec<String>,
}

/// A command. Its output goes to a log, and is printed only if the step fails.
pub(crate) struct Step {
    pub(crate) name: String,
    /// The line that runs this step alone, in the root of the workspace.
    pub(crate) line: String,
}

type Outcome = std::result::Result<TestReport, String>;

impl Plan {
    pub(crate) fn command(mut self, name: impl Into<String>, line: impl Into<String>) -> Plan {
        let (name, line) = (name.into(), line.into());
        self.steps.push(Step { name, line });
        self
    }

    pub(crate) fn and(mut self, other: Plan) -> Plan {
        self.steps.extend(other.steps);
        self.left_out.extend(other.left_out);
        self
    }

    /// Leaves out all steps if the command `line` fails. The command looks for a program that the
    /// steps need.
    pub(crate) fn needs(self, line: &str, reason: &str) -> Plan {
        if printed(line).is_some() {
            return self;
        }
        let (steps, left_out) = (Vec::new(), self.left_out.clone());
        Plan { steps, left_out }.without(&self, reason)
    }

    /// Adds a line for each kind of step that `all` has and this plan leaves out, with the steps'
    /// names.
    pub(crate) fn without(mut self, all: &Plan, reason: &str) -> Plan {
        let mut kinds = BTreeMap::<&str, Vec<&str>>::new();
        for step in &all.steps {
            let (kind, part) = step.kind_and_part();
            let is_here = |own: &Step| own.name == step.name || own.kind_and_part().0 == step.name;
            if !self.steps.iter().any(is_here) {
                kinds.entry(kind).or_default().extend(part);
            }
        }
        for (kind, parts) in kinds {
            let parts = parts.join(", ");
            let separator = if parts.is_empty() { "" } else { ": " };
            self.left_out
                .push(format!("{kind}{separator}{parts}: {reason}"));
        }
        self
    }

    /// Runs the steps. Returns a line for each part that did not run.
    ///
    /// # Errors
    ///
    /// The first step that fails, with the line that runs it alone.
    pub(crate) fn run(self, workspace: &Workspace) -> Result<Vec<String>> {
        let start = Instant::now();
        let (mut waiting, mut running) = (self.steps.iter().collect(), Vec::new());
        let (mut passed, mut not_run, mut failed) = (0, self.left_out, None);
        let (ends, ended) = mpsc::channel();
        thread::scope(|scope| {
            loop {
                while let Some(step) = next(&mut waiting, &running) {
                    running.push(step);
                    let ends = ends.clone();
                    scope.spawn(move || {
                        // A panic must not keep the plan waiting for this step.
                        let run = AssertUnwindSafe(|| step.run(workspace));
                        let outcome = panic::catch_unwind(run);
                        let outcome = outcome.unwrap_or_else(|_| Err("it panicked".to_owned()));
                        ends.send((step, outcome))
                    });
                }
                if running.is_empty() {
                    break;
                }
                let (step, outcome) = ended.recv().expect("a step is running");
                running.retain(|other| other.name != step.name);
                match outcome {
                    Ok(report) => {
                        passed += report.passed;
                        not_run.extend(report.not_run);
                    }
                    Err(_) => {
                        waiting.clear();
                        failed = failed.or(Some(step));
                    }
                }
            }
        });
        if let Some(Step { name, line }) = failed {
            return Err(format!("`{name}` failed; to run it alone: {line}").into());
        }
        // A test may be part of several steps.
        not_run.sort();
        not_run.dedup();
        print_summary(passed, &not_run, start);
        Ok(not_run)
    }
}

fn next<'a>(waiting: &mut Vec<&'a Step>, running: &[&Step]) -> Option<&'a Step> {
    let at_once = thread::available_parallelism().map_or(1, |cpus| cpus.get().min(2));
    let is_free = |step: &&Step| {
        running
            .iter()
            .all(|other| other.build_dir() != step.build_dir())
    };
    let at = waiting.iter().position(is_free)?;
    (running.len() < at_once).then(|| waiting.remove(at))
}

impl Step {
    pub(crate) fn kind_and_part(&self) -> (&str, Option<&str>) {
        let split = self.name.split_once(": ");
        split.map_or((&self.name, None), |(kind, part)| (kind, Some(part)))
    }

    /// The directory in which this step builds. Steps with the same directory run in order.
    pub(crate) fn build_dir(&self) -> &str {
        let line = self.line.as_str();
        let own = line.strip_prefix("CARGO_TARGET_DIR=");
        let own = own.or(line.strip_prefix("cargo xtask "));
        match own.and_then(|rest| rest.split_whitespace().next()) {
            Some("tests") => "debug",
            // The last name of a path, so that `target/mutants` and `cargo xtask mutants` count as
            // one directory.
            Some(dir) => dir.rsplit('/').next().unwrap_or(dir),
            None if line.contains("release") => "release",
            None => "debug",
        }
    }

    /// The error is the output of the step, or the reason why it did not run.
    fn run(&self, workspace: &Workspace) -> Outcome {
        let start = Instant::now();
        let outcome = self.try_run(workspace).map_err(|error| error.to_string());
        print_end(&self.name, &outcome, start);
        outcome
    }

    fn try_run(&self, workspace: &Workspace) -> Result<TestReport> {
        let dir = target_dir(workspace, "xtask");
        fs::create_dir_all(&dir)?;
        let name = self.name.replace(": ", "-").replace(' ', "-");
        match run_logged(
            ".".as_ref(),
            &self.line,
            format!("{dir}/{name}.log").as_ref(),
        )? {
            (output, true) => TestReport::of_step(&self.name, &self.line, &output),
            (output, false) => Err(output.into()),
        }
    }
}

fn print_end(name: &str, outcome: &Outcome, start: Instant) {
    let tests = match outcome {
        Ok(TestReport { passed: 0, .. }) | Err(_) => String::new(),
        Ok(TestReport { passed: 1, .. }) => "1 test".to_owned(),
        Ok(TestReport { passed, .. }) => format!("{passed} tests"),
    };
    let failed = if outcome.is_err() { "  FAILED" } else { "" };
    let seconds = start.elapsed().as_secs_f64();
    // The reader of the output may have ended.
    let _ = writeln!(io::stdout(), "{name:<44}{tests:>12}{seconds:8.1} s{failed}");
    if let Err(output) = outcome {
        let failures = test_report::failures(output);
        let output = failures.as_deref().unwrap_or(output);
        let _ = writeln!(io::stderr(), "{}", output.trim_end());
    }
}

fn print_summary(passed: usize, not_run: &[String], start: Instant) {
    println!("{:<56}{:8.1} s", "all", start.elapsed().as_secs_f64());
    not_run.iter().for_each(|name| println!("not run: {name}"));
    if passed > 0 {
        // In cargo's form, for tools that read it.
        let skipped = not_run.len();
        println!("test result: ok. {passed} passed; 0 failed; {skipped} ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_the_plan_and_names_its_line() {
        let workspace = &crate::workspace::load().unwrap();
        let file = format!("{}/third", target_dir(workspace, "xtask"));
        // All three build in one directory, so they run in order.
        let plan = Plan::default()
            .command("first", "true")
            .command("second", "false")
            .command("third", format!("touch {file}"));
        let failed = plan.run(workspace).unwrap_err().to_string();
        assert_eq!(failed, "`second` failed; to run it alone: false");
        assert!(!fs::exists(file).unwrap());
    }

    #[test]
    fn a_step_waits_for_the_build_in_its_directory() {
        let plan = Plan::default()
            .command("a", "CARGO_TARGET_DIR=target/mutants cargo test")
            .command("b", "cargo xtask mutants early_timers")
            .command("c", "cargo test");
        let mut waiting: Vec<&Step> = plan.steps.iter().collect();
        let first = next(&mut waiting, &[]).unwrap();
        if let Some(second) = next(&mut waiting, &[first]) {
            assert_eq!(second.name, "c");
            assert!(next(&mut waiting, &[first]).is_none());
        }
        let last = next(&mut waiting, &[]).unwrap();
        assert_eq!([&first.name, &last.name], ["a", "b"]);
    }

    #[test]
    fn a_step_that_is_left_out_is_listed_by_name() {
        let all = Plan::default().command("fmt", "").command("docs", "");
        let all = all.command("mutant: a", "").command("mutant: b", "");
        let some = Plan::default().command("fmt", "");
        let lines = some.without(&all, "later").left_out;
        assert_eq!(lines, ["docs: later", "mutant: a, b: later"]);
        let missing = all.needs("no-such-program", "missing");
        let lines = missing.needs("no-such-program", "missing").left_out;
        assert_eq!(lines[2], "mutant: a, b: missing");
    }
}
