//! Parts of a task, run one after another until one fails.
//!
//! A part prints one line with its seconds. Its own output goes to a log and
//! is shown only if it fails, so that the first fault is also the last thing
//! on the screen.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use crate::Result;
use crate::command::CommandLine;
use crate::fault::Fault;
use crate::workspace::Workspace;

/// A named piece of a task, with the command that runs it alone.
pub(crate) struct Part {
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
    run: Box<FindFaults>,
}

/// What a check finds in the workspace.
type FindFaults = dyn Fn(&Workspace) -> Result<Vec<Fault>>;

impl Part {
    pub(crate) fn command(name: impl Into<String>, command: CommandLine) -> Part {
        Part {
            name: name.into(),
            work: Work::Command(command),
        }
    }

    /// A check of this program's own, which `cargo xtask` runs alone as `task`.
    pub(crate) fn check(
        name: &str,
        task: impl Into<String>,
        run: impl Fn(&Workspace) -> Result<Vec<Fault>> + 'static,
    ) -> Part {
        let (task, run) = (task.into(), Box::new(run));
        Part {
            name: name.to_owned(),
            work: Work::Check(Check { task, run }),
        }
    }

    /// What to type to run this part and no other.
    pub(crate) fn alone(&self) -> String {
        match &self.work {
            Work::Command(command) => command.to_string(),
            Work::Check(check) => format!("cargo xtask {}", check.task),
        }
    }

    /// Does the work. Returns what it has to say about its failure, if it failed.
    fn complaint(&self, workspace: &Workspace) -> Result<Option<String>> {
        match &self.work {
            Work::Command(command) => {
                let log = self.log(workspace)?;
                let succeeded = command.run(&workspace.root, &log)?;
                Ok((!succeeded).then(|| text_of(&log)))
            }
            Work::Check(check) => {
                let faults = (check.run)(workspace)?;
                Ok((!faults.is_empty()).then(|| lines(&faults)))
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

/// Runs the parts in order.
///
/// # Errors
///
/// The first part that fails, with the command that runs it alone.
pub(crate) fn run_all(workspace: &Workspace, parts: &[Part]) -> Result {
    parts.iter().try_for_each(|part| run(workspace, part))
}

fn run(workspace: &Workspace, part: &Part) -> Result {
    let start = Instant::now();
    // The name first: whoever waits can see for what.
    print!("{:<48}", part.name);
    std::io::stdout().flush()?;
    let complaint = part.complaint(workspace);
    let seconds = start.elapsed().as_secs_f64();
    match complaint {
        Ok(None) => {
            println!("{seconds:8.1} s");
            Ok(())
        }
        Ok(Some(complaint)) => {
            println!("{seconds:8.1} s  FAILED");
            eprintln!("{}", complaint.trim_end());
            Err(failed(part))
        }
        Err(error) => {
            println!("{seconds:8.1} s  FAILED");
            eprintln!("{error}");
            Err(failed(part))
        }
    }
}

fn failed(part: &Part) -> Box<dyn std::error::Error> {
    format!("`{}` failed; to run it alone: {}", part.name, part.alone()).into()
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("{fault}\n")).collect()
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

    fn sound(_: &Workspace) -> Result<Vec<Fault>> {
        RUNS.set(RUNS.get() + 1);
        Ok(Vec::new())
    }

    fn faulty(_: &Workspace) -> Result<Vec<Fault>> {
        Ok(vec![Fault::of("file", "mend it")])
    }

    #[test]
    fn the_first_failure_stops_the_rest_and_says_how_to_run_it_alone() {
        let parts = [
            Part::check("tidy", "tidy", sound),
            Part::check("layers", "layers", faulty),
            Part::check("tidy", "tidy", sound),
        ];
        let error = run_all(&Workspace::made_up(Vec::new()), &parts).unwrap_err();
        assert_eq!(RUNS.get(), 1);
        assert_eq!(
            error.to_string(),
            "`layers` failed; to run it alone: cargo xtask layers"
        );
    }

    #[test]
    fn a_check_that_cannot_be_made_is_a_failure() {
        let part = Part::check("tidy", "tidy", |_| Err("no such directory".into()));
        assert!(run(&Workspace::made_up(Vec::new()), &part).is_err());
    }
}
