//! The steps of a task, run in order until one fails.
//!
//! A step prints one line with its seconds. Its output goes to a log, which is printed only if the
//! step fails, so that the first failure is the last thing on the screen.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use crate::Result;
use crate::command::CommandLine;
use crate::diagnostic::Diagnostic;
use crate::workspace::Workspace;

/// A named step of a task, with the command that runs it alone.
pub(crate) struct Step {
    pub(crate) name: String,
    work: Work,
}

enum Work {
    Command(CommandLine),
    Check(Check),
}

/// A check made by this program.
struct Check {
    /// What follows `cargo xtask` to run it alone.
    task: String,
    run: Box<FindDiagnostics>,
}

/// Returns the diagnostics of the workspace.
type FindDiagnostics = dyn Fn(&Workspace) -> Result<Vec<Diagnostic>>;

impl Step {
    pub(crate) fn command(name: impl Into<String>, command: CommandLine) -> Step {
        Step {
            name: name.into(),
            work: Work::Command(command),
        }
    }

    /// A check made by this program, which `cargo xtask TASK` runs alone.
    pub(crate) fn check(
        name: &str,
        task: impl Into<String>,
        run: impl Fn(&Workspace) -> Result<Vec<Diagnostic>> + 'static,
    ) -> Step {
        let (task, run) = (task.into(), Box::new(run));
        Step {
            name: name.to_owned(),
            work: Work::Check(Check { task, run }),
        }
    }

    /// The command that runs this step alone.
    pub(crate) fn alone(&self) -> String {
        match &self.work {
            Work::Command(command) => command.to_string(),
            Work::Check(check) => format!("cargo xtask {}", check.task),
        }
    }

    /// Runs the step. Returns its output if it failed.
    fn failure_output(&self, workspace: &Workspace) -> Result<Option<String>> {
        match &self.work {
            Work::Command(command) => {
                let log = self.log(workspace)?;
                let succeeded = command.run(&workspace.root, &log)?;
                Ok((!succeeded).then(|| text_of(&log)))
            }
            Work::Check(check) => {
                let diagnostics = (check.run)(workspace)?;
                Ok((!diagnostics.is_empty()).then(|| lines(&diagnostics)))
            }
        }
    }

    fn log(&self, workspace: &Workspace) -> Result<PathBuf> {
        let dir = workspace.target_dir.join("xtask");
        fs::create_dir_all(&dir)?;
        let name = self.name.replace(": ", "-").replace(' ', "-");
        Ok(dir.join(format!("{name}.log")))
    }
}

/// Runs the steps in order.
///
/// # Errors
///
/// The first step that fails, with the command that runs it alone.
pub(crate) fn run_all(workspace: &Workspace, steps: &[Step]) -> Result {
    steps.iter().try_for_each(|step| run(workspace, step))
}

fn run(workspace: &Workspace, step: &Step) -> Result {
    let start = Instant::now();
    // The name first, to show what is running.
    print!("{:<48}", step.name);
    std::io::stdout().flush()?;
    let failure_output = step.failure_output(workspace);
    let seconds = start.elapsed().as_secs_f64();
    match failure_output {
        Ok(None) => {
            println!("{seconds:8.1} s");
            Ok(())
        }
        Ok(Some(failure_output)) => {
            println!("{seconds:8.1} s  FAILED");
            eprintln!("{}", failure_output.trim_end());
            Err(failed(step))
        }
        Err(error) => {
            println!("{seconds:8.1} s  FAILED");
            eprintln!("{error}");
            Err(failed(step))
        }
    }
}

fn failed(step: &Step) -> Box<dyn std::error::Error> {
    format!("`{}` failed; to run it alone: {}", step.name, step.alone()).into()
}

fn lines(diagnostics: &[Diagnostic]) -> String {
    diagnostics
        .iter()
        .map(|diagnostic| format!("{diagnostic}\n"))
        .collect()
}

fn text_of(log: &std::path::Path) -> String {
    match fs::read(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("its log {} cannot be read: {error}", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! { static RUNS: Cell<u32> = const { Cell::new(0) }; }

    fn sound(_: &Workspace) -> Result<Vec<Diagnostic>> {
        RUNS.set(RUNS.get() + 1);
        Ok(Vec::new())
    }

    fn faulty(_: &Workspace) -> Result<Vec<Diagnostic>> {
        Ok(vec![Diagnostic::of("file", "mend it")])
    }

    #[test]
    fn the_first_failure_is_the_last_step_and_names_its_command() {
        let steps = [
            Step::check("tidy", "tidy", sound),
            Step::check("layers", "layers", faulty),
            Step::check("tidy", "tidy", sound),
        ];
        let error = run_all(&Workspace::fake(Vec::new()), &steps).unwrap_err();
        assert_eq!(RUNS.get(), 1);
        assert_eq!(
            error.to_string(),
            "`layers` failed; to run it alone: cargo xtask layers"
        );
    }

    #[test]
    fn a_check_with_an_error_is_a_failure() {
        let step = Step::check("tidy", "tidy", |_| Err("no such directory".into()));
        assert!(run(&Workspace::fake(Vec::new()), &step).is_err());
    }
}
