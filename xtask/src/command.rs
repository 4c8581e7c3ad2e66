//! A command as the line that is typed: variables, a program, and its arguments.
//!
//! Spaces separate the words, so no word holds one. `env` sets the variables, and finds the program.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// No step takes so long. A test that hangs fails its step, and does not use up the time of CI.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How often to look whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn command(line: &str) -> Command {
    let mut command = Command::new("env");
    command.args(line.split_whitespace());
    command
}

/// Runs the line in `dir`, with no input and with all its output in `log`. Returns the output, and
/// whether the command succeeded within [`LIMIT`].
pub(crate) fn run_into(log: &Path, line: &str, dir: &Path) -> Result<(String, bool)> {
    run_for(LIMIT, log, line, dir)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the standard library has no wait with a limit"
)]
fn run_for(limit: Duration, log: &Path, line: &str, dir: &Path) -> Result<(String, bool)> {
    let mut out = File::create(log)?;
    let mut command = command(line);
    command.current_dir(dir).stdin(Stdio::null());
    command.stdout(out.try_clone()?).stderr(out.try_clone()?);
    let (mut child, begun) = (command.spawn()?, Instant::now());
    let succeeded = loop {
        if let Some(status) = child.try_wait()? {
            break status.success();
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            writeln!(out, "it was killed: it did not end within {limit:?}")?;
            break false;
        }
        thread::sleep(LOOK_EVERY);
    };
    let output = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok((output, succeeded))
}

/// Runs the line in `dir`, with the input and the output of this program.
///
/// # Errors
///
/// The command failed.
pub(crate) fn run_attended(line: &str, dir: &Path) -> Result {
    match command(line).current_dir(dir).status()?.success() {
        true => Ok(()),
        false => Err(format!("`{line}` failed").into()),
    }
}

/// What the line prints; `None` if the command fails or is not installed.
pub(crate) fn printed(line: &str) -> Option<String> {
    let output = command(line).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_the_output_and_the_result_is_the_exit_status() {
        let dir = std::env::temp_dir();
        let log = dir.join(format!("xtask-command-{}.log", std::process::id()));
        let (output, succeeded) = run_into(&log, "A=1 sh -c env", &dir).unwrap();
        assert!(succeeded && output.lines().any(|line| line == "A=1"));
        assert!(!run_into(&log, "cargo no-such-task", &dir).unwrap().1);
        let (output, succeeded) = run_for(Duration::ZERO, &log, "sleep 600", &dir).unwrap();
        assert!(!succeeded && output.contains("did not end"));
        fs::remove_file(&log).unwrap();
        assert!(printed("cargo --version").unwrap().starts_with("cargo "));
        assert!(printed("no-such-program --version").is_none());
    }
}
