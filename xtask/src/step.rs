//! A step of a task: a command, or a check that this program makes.
//!
//! The output of a command goes to a log, and is printed only if the step fails.

use std::fs;

use crate::Result;
use crate::command;
use crate::test_report::TestReport;
use crate::workspace::Workspace;

pub(crate) struct Step {
    pub(crate) name: String,
    /// The line that runs this step alone, in the root of the workspace.
    pub(crate) line: String,
    /// Runs instead of the line.
    pub(crate) check: Option<Box<Check>>,
}

/// Its error is what is wrong.
pub(crate) type Check = dyn Fn(&Workspace) -> Result + Send + Sync;

impl Step {
    /// What precedes a colon in the name, and what follows it.
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
            // Of a path, its last name: a check of a task goes with the commands of that task.
            Some(dir) => dir.rsplit('/').next().unwrap_or(dir),
            None if line.contains("release") => "release",
            None => "debug",
        }
    }

    /// Runs the step. Its error is what is wrong.
    pub(crate) fn run(&self, workspace: &Workspace) -> std::result::Result<TestReport, String> {
        let report = match &self.check {
            Some(check) => check(workspace).map(|()| TestReport::default()),
            None => self.run_line(workspace),
        };
        report.map_err(|error| error.to_string())
    }

    fn run_line(&self, workspace: &Workspace) -> Result<TestReport> {
        let dir = workspace.target_directory.join("xtask");
        fs::create_dir_all(&dir)?;
        let name = self.name.replace(": ", "-").replace(' ', "-");
        let log = dir.join(format!("{name}.log"));
        let root = workspace.workspace_root.as_std_path();
        match command::run_into(log.as_std_path(), &self.line, root)? {
            (output, true) => self.complete(TestReport::parse(&output)),
            (output, false) => Err(output.into()),
        }
    }

    /// Fails if tests are missing. Lists programs without a test that ran beside others.
    fn complete(&self, mut report: TestReport) -> Result<TestReport> {
        let is_test = self.line.contains("cargo test");
        if is_test && report.passed == 0 {
            return Err("no test ran".into());
        }
        let empty = report.empty.join(", ");
        if is_test && self.line.contains(" --test ") && !empty.is_empty() {
            return Err(format!("without a test: {empty}").into());
        }
        // `cargo xtask loom` compiles the models; all other builds leave them out.
        let empty = report.empty.iter().filter(|it| !it.contains("loom_"));
        let empty = empty.map(|it| format!("{it}: no test in it, in the step `{}`", self.name));
        report.not_run.extend(empty);
        Ok(report)
    }
}

/// An error with these lines, if there are any.
pub(crate) fn error_of(faults: &[String]) -> Result {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: &str) -> Step {
        let (name, line) = ("a step".to_owned(), line.to_owned());
        let check = None;
        Step { name, line, check }
    }

    #[test]
    fn a_step_without_a_test_fails() {
        let complete = |line: &str, passed: usize, empty: &[&str]| {
            let report = TestReport {
                passed,
                empty: empty.iter().map(ToString::to_string).collect(),
                ..TestReport::default()
            };
            step(line).complete(report).map(|report| report.not_run)
        };
        assert!(complete("cargo test", 0, &[]).is_err());
        assert!(complete("cargo build", 0, &[]).is_ok());
        assert!(complete("cargo test --test loom_a --test b", 1, &["b.rs"]).is_err());
        let listed = complete("cargo test", 1, &["tests/loom_a.rs", "tests/b.rs"]).unwrap();
        assert_eq!(listed, ["tests/b.rs: no test in it, in the step `a step`"]);
    }

    #[test]
    fn a_build_is_known_by_its_directory() {
        for (line, dir) in [
            ("cargo test", "debug"),
            ("cargo build --release", "release"),
            ("target/release/evcore-bench counts", "release"),
            ("CARGO_TARGET_DIR=target/packages cargo check", "packages"),
            ("cargo xtask packages", "packages"),
            ("cargo xtask mutants early_timers", "mutants"),
        ] {
            assert_eq!(step(line).build_dir(), dir, "{line}");
        }
    }
}
