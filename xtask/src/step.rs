//! The steps of a task, each a command or a check.
//!
//! The output of a command goes to a log, which is printed only if the step fails.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::command::CommandLine;
use crate::diagnostic::Diagnostic;
use crate::test_report::TestReport;
use crate::workspace::Workspace;

/// A named step of a task, with the command that runs it alone.
pub(crate) struct Step {
    pub(crate) name: String,
    work: Work,
    /// Whether each test program must have a test, and not only one of them.
    all_have_tests: bool,
}

enum Work {
    Command(CommandLine),
    Check(Check),
}

/// A check made by this program.
struct Check {
    /// The directory in which it builds.
    dir: String,
    /// What follows `cargo xtask` to run it alone.
    task: String,
    run: Box<FindDiagnostics>,
}

/// Returns the diagnostics of the workspace.
type FindDiagnostics = dyn Fn(&Workspace) -> Result<Vec<Diagnostic>> + Send + Sync;

/// What a step has found.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) tests: TestReport,
    /// What is wrong; `None` if the step succeeded.
    pub(crate) failure: Option<String>,
}

impl Outcome {
    pub(crate) fn failed(what: String) -> Outcome {
        Outcome {
            failure: Some(what),
            ..Outcome::default()
        }
    }
}

impl Step {
    pub(crate) fn command(name: impl Into<String>, command: CommandLine) -> Step {
        Step {
            name: name.into(),
            work: Work::Command(command),
            all_have_tests: false,
        }
    }

    /// A cargo command in the common target directory.
    pub(crate) fn cargo(name: &str, args: &str) -> Step {
        Step::command(name, CommandLine::new(&format!("cargo {args}")))
    }

    /// A check made by this program, which `cargo xtask TASK` runs alone.
    pub(crate) fn check(
        name: &str,
        task: impl Into<String>,
        run: impl Fn(&Workspace) -> Result<Vec<Diagnostic>> + Send + Sync + 'static,
    ) -> Step {
        let (task, run) = (task.into(), Box::new(run));
        let dir = CommandLine::COMMON_BUILD_DIR.to_owned();
        Step {
            name: name.to_owned(),
            work: Work::Check(Check { dir, task, run }),
            all_have_tests: false,
        }
    }

    /// A check that works in a directory of its task's own.
    pub(crate) fn in_dir(mut self, dir: &str) -> Step {
        if let Work::Check(check) = &mut self.work {
            check.dir = dir.to_owned();
        }
        self
    }

    /// A test program without a test fails this step. Otherwise only a step without a test fails.
    pub(crate) fn all_have_tests(mut self) -> Step {
        self.all_have_tests = true;
        self
    }

    /// The command that runs this step alone.
    pub(crate) fn alone(&self) -> String {
        match &self.work {
            Work::Command(command) => command.to_string(),
            Work::Check(check) => format!("cargo xtask {}", check.task),
        }
    }

    /// The directory that a build of this step locks. Steps with the same directory run in order.
    pub(crate) fn build_dir(&self) -> &str {
        match &self.work {
            Work::Command(command) => command.build_dir(),
            Work::Check(check) => &check.dir,
        }
    }

    pub(crate) fn run(&self, workspace: &Workspace) -> Outcome {
        let outcome = match &self.work {
            Work::Command(command) => self.run_command(command, workspace),
            Work::Check(check) => (check.run)(workspace).map(|diagnostics| Outcome {
                failure: (!diagnostics.is_empty()).then(|| lines(&diagnostics)),
                ..Outcome::default()
            }),
        };
        outcome.unwrap_or_else(|error| Outcome::failed(error.to_string()))
    }

    fn run_command(&self, command: &CommandLine, workspace: &Workspace) -> Result<Outcome> {
        let log = self.log(workspace)?;
        let succeeded = command.run(&workspace.root, &log)?;
        let output = text_of(&log);
        let tests = TestReport::parse(&output);
        let failure = match succeeded {
            true if command.is_test() => self.missing_tests(&tests),
            true => None,
            false => Some(output),
        };
        Ok(Outcome { tests, failure })
    }

    /// A filter or a `cfg` that matches no test is a failure.
    fn missing_tests(&self, tests: &TestReport) -> Option<String> {
        if tests.passed == 0 {
            return Some("no test ran".to_owned());
        }
        let is_failure = self.all_have_tests && !tests.empty.is_empty();
        is_failure.then(|| format!("without a test: {}", tests.empty.join(", ")))
    }

    fn log(&self, workspace: &Workspace) -> Result<PathBuf> {
        let dir = workspace.target_dir.join("xtask");
        fs::create_dir_all(&dir)?;
        let name = self.name.replace(": ", "-").replace(' ', "-");
        Ok(dir.join(format!("{name}.log")))
    }
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    diagnostics
        .iter()
        .map(|diagnostic| format!("{diagnostic}\n"))
        .collect()
}

fn text_of(log: &Path) -> String {
    match fs::read(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("its log {} cannot be read: {error}", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_with_an_error_is_a_failure() {
        let step = Step::check("tidy", "tidy", |_| Err("no such directory".into()));
        let outcome = step.run(&Workspace::fake(Vec::new()));
        assert_eq!(outcome.failure.as_deref(), Some("no such directory"));
    }

    #[test]
    fn a_step_without_a_test_fails() {
        let step = Step::cargo("test", "test");
        let report = |passed: usize, empty: &[&str]| TestReport {
            passed,
            empty: empty.iter().copied().map(str::to_owned).collect(),
            ..TestReport::default()
        };
        assert!(step.missing_tests(&report(0, &[])).is_some());
        assert_eq!(step.missing_tests(&report(1, &["a"])), None);
        let step = step.all_have_tests();
        assert!(step.missing_tests(&report(1, &["a"])).is_some());
        assert_eq!(step.missing_tests(&report(1, &[])), None);
    }
}
