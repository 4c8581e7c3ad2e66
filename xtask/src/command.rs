//! A command as the line that is typed: variables, a program, and its arguments.
//!
//! Spaces separate the words, so no word holds one. `env` sets the variables, and finds the program.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{io, process};

use crate::Result;

/// No build or test takes so long. A test that hangs fails its step, and does not use up the time
/// of CI.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How often to look whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often to look for processes of a command that was killed.
const LOOKS: u32 = 100;

/// Marks a command and all that it starts, since a process inherits its environment.
const MARK: &str = "XTASK_LOG";

fn command(line: &str) -> Command {
    let mut command = Command::new("env");
    command.args(line.split_whitespace());
    command
}

/// Runs the line in `dir`, with no input and with all its output in `log`. Returns the output, and
/// whether the command succeeded within its [limit](limit_of).
pub(crate) fn run_into(log: &Path, line: &str, dir: &Path) -> Result<(String, bool)> {
    run_for(limit_of(line), log, line, dir)
}

/// [`LIMIT`], and the seconds for which the line runs a fuzz target.
fn limit_of(line: &str) -> Duration {
    let seconds = line.split("-max_total_time=").nth(1);
    let seconds = seconds.and_then(|it| it.parse().ok()).unwrap_or(0);
    LIMIT + Duration::from_secs(seconds)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the standard library has no wait with a limit"
)]
fn run_for(limit: Duration, log: &Path, line: &str, dir: &Path) -> Result<(String, bool)> {
    let mut out = File::create(log)?;
    let mark = format!("{}:{}", process::id(), log.display());
    let mut command = command(line);
    command.current_dir(dir).stdin(Stdio::null());
    command.env(MARK, &mark);
    command.stdout(out.try_clone()?).stderr(out.try_clone()?);
    let (mut child, begun) = (command.spawn()?, Instant::now());
    let succeeded = loop {
        if let Some(status) = child.try_wait()? {
            break status.success();
        }
        if begun.elapsed() > limit {
            child.kill()?;
            kill_marked(&mark)?;
            child.wait()?;
            writeln!(out, "it was killed: it did not end within {limit:?}")?;
            break false;
        }
        thread::sleep(LOOK_EVERY);
    };
    let output = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok((output, succeeded))
}

/// Kills all processes with this mark: a test that hangs, and its servers. Each of them may have left
/// the process that started it.
///
/// Not by a process group: a command in a group of its own would survive Ctrl-C. Where there is no
/// `/proc`, these processes live on.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing reports the end of a process that is no child"
)]
fn kill_marked(mark: &str) -> Result {
    // One of them may start another before it is killed.
    for _ in 0..LOOKS {
        let pids = marked(mark)?;
        if pids.is_empty() {
            return Ok(());
        }
        // A shell has `kill`, also where there is no program of this name.
        let kill = format!("kill -KILL {}", pids.join(" "));
        let mut shell = Command::new("sh");
        // It fails if one of them has ended meanwhile.
        shell.args(["-c", &kill]).stderr(Stdio::null()).status()?;
        thread::sleep(LOOK_EVERY);
    }
    Err(format!("processes cannot be killed: {MARK}={mark}").into())
}

/// The ids of the processes with this mark. Those of other users cannot be read, and zombies have no
/// environment.
fn marked(mark: &str) -> io::Result<Vec<String>> {
    let variable = format!("{MARK}={mark}").into_bytes();
    let is_marked = |process: &fs::DirEntry| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|it| it == variable)
    };
    let processes = match fs::read_dir("/proc") {
        Ok(entries) => entries.flatten().filter(is_marked).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let names = processes.iter().map(|it| it.file_name());
    Ok(names.map(|it| it.to_string_lossy().into_owned()).collect())
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
        let limit = limit_of("cargo fuzz run a -- -max_total_time=1800");
        assert_eq!(limit, LIMIT + Duration::from_secs(1800));
        assert!(printed("cargo --version").unwrap().starts_with("cargo "));
        assert!(printed("no-such-program --version").is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn orphans_are_killed_with_the_command_that_started_them() {
        let mark = format!("{}:orphans", process::id());
        let mut shell = Command::new("sh");
        shell.args(["-c", "(sleep 60 && echo survived) & echo begun"]);
        shell.env(MARK, &mark).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        assert!(shell.wait().unwrap().success());
        kill_marked(&mark).unwrap();
        assert_eq!(marked(&mark).unwrap(), [""; 0]);
        // It ends when the last process that could write has ended.
        let output = io::read_to_string(shell.stdout.unwrap()).unwrap();
        assert_eq!(output, "begun\n");
    }
}
