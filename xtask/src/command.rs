//! A command, given as the line that a person would type: variables, a program, and its arguments.
//!
//! Spaces separate the words, so no word contains a space.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use crate::Result;

/// Time limit of a step, longer than any build or test, so that a test that hangs does not use up
/// the time of CI.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Marks a command and the processes that it starts, which inherit the variable.
const MARK: &str = "XTASK_LOG";

/// Kills the process `$1` and all processes with the mark `$0`. Repeats this, because a process may
/// start another one before it is killed. Without `/proc`, only `$1` is killed.
const KILL: &str = r#"
kill -KILL "$1"
for _ in $(seq 100); do
    pids=$(grep -lszxF "$0" /proc/[0-9]*/environ | cut -d/ -f3)
    [ -n "$pids" ] || exit 0
    kill -KILL $pids
    sleep 0.05
done
exit 1"#;

/// The path of this program. `main` looks it up first, because a build may replace the file later.
pub(crate) static THIS: LazyLock<PathBuf> =
    LazyLock::new(|| env::current_exe().expect("a program has one"));

/// A command without the variables that describe the package `xtask`, which `cargo run` sets.
///
/// ring's build script runs again whenever these variables change, and then ring and all its users
/// are built again.
fn command(line: &str) -> Command {
    // A task runs directly, because through cargo it would wait for the build of another step.
    let (program, words) = match line.strip_prefix("cargo xtask ") {
        Some(words) => (THIS.as_path(), words),
        None => (Path::new("env"), line),
    };
    let mut command = Command::new(program);
    command.args(words.split_whitespace());
    for (name, _) in env::vars_os().filter(|(name, _)| describes_package(name)) {
        command.env_remove(name);
    }
    command
}

fn describes_package(variable: &OsStr) -> bool {
    let variable = variable.to_string_lossy();
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs the line in `dir`, with no input and with all its output in `log`. Returns the output, and
/// whether the command succeeded within its [limit](limit_of).
///
/// The output is a file, because a process that the command leaves behind would keep a pipe open.
pub(crate) fn run_logged(dir: &Path, line: &str, log: &Path) -> Result<(String, bool)> {
    run_for(limit_of(line), dir, line, log)
}

/// The sum of [`LIMIT`] and the seconds for which the line runs a fuzz target.
fn limit_of(line: &str) -> Duration {
    let seconds = line.split("-max_total_time=").nth(1);
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(0);
    LIMIT + Duration::from_secs(seconds)
}

fn run_for(limit: Duration, dir: &Path, line: &str, log: &Path) -> Result<(String, bool)> {
    let mut out = File::create(log)?;
    let mark = format!("{}:{}", process::id(), log.display());
    let mut command = command(line);
    command
        .current_dir(dir)
        .env(MARK, &mark)
        .stdin(Stdio::null());
    command.stdout(out.try_clone()?).stderr(out.try_clone()?);
    let mut child = command.spawn()?;
    let id = child.id();
    let (ends, ended) = mpsc::channel();
    thread::spawn(move || ends.send(child.wait()));
    let succeeded = match ended.recv_timeout(limit) {
        Ok(status) => status?.success(),
        Err(_) => {
            kill(id, &mark)?;
            writeln!(out, "it was killed: it did not end within {limit:?}")?;
            false
        }
    };
    let output = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok((output, succeeded))
}

/// Kills a command that hangs, and all processes that it started, even if their parents have ended.
///
/// A process group would be simpler, but a command in a group of its own survives Ctrl-C.
fn kill(id: u32, mark: &str) -> Result {
    let mark = format!("{MARK}={mark}");
    let mut shell = Command::new("sh");
    shell.args(["-c", KILL, &mark, &id.to_string()]);
    match shell.stderr(Stdio::null()).status()?.success() {
        true => Ok(()),
        false => Err(format!("processes cannot be killed: {mark}").into()),
    }
}

/// Runs the line with the input and the output of this program.
///
/// # Errors
///
/// The command failed.
pub(crate) fn run_attended(line: &str) -> Result {
    match command(line).status()?.success() {
        true => Ok(()),
        false => Err(format!("`{line}` failed").into()),
    }
}

/// Runs the line in place of this program, so that a signal for this process reaches the command.
///
/// # Errors
///
/// The command cannot be started. Otherwise this does not return.
pub(crate) fn become_command(line: &str) -> Result {
    Err(command(line).exec().into())
}

/// Runs the line in `dir`. Returns its output, with the standard error at the end, and whether the
/// command succeeded.
pub(crate) fn run_in(dir: &Path, line: &str) -> Result<(String, bool)> {
    let output = command(line).current_dir(dir).output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((text, output.status.success()))
}

/// The output of the line. The standard error of the command goes where the standard error of this
/// program goes.
///
/// # Errors
///
/// The command failed.
pub(crate) fn output_of(line: &str) -> Result<String> {
    let output = command(line).stderr(Stdio::inherit()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("`{line}` failed").into()),
    }
}

/// The output of the line; `None` if the command fails or is not installed.
pub(crate) fn printed(line: &str) -> Option<String> {
    let output = command(line).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_log_has_the_output_and_the_result_is_the_exit_status() {
        let here = Path::new(".");
        let log = env::temp_dir().join(format!("xtask-command-{}.log", process::id()));
        let (output, succeeded) = run_logged(here, "A=1 sh -c env", &log).unwrap();
        assert!(succeeded && output.lines().any(|line| line == "A=1"));
        assert!(!run_logged(here, "cargo no-such-task", &log).unwrap().1);
        let (output, succeeded) = run_for(Duration::ZERO, here, "sleep 600", &log).unwrap();
        assert!(!succeeded && output.contains("did not end"));
        fs::remove_file(&log).unwrap();
        let limit = limit_of("cargo fuzz run a -- -max_total_time=1800");
        assert_eq!(limit, LIMIT + Duration::from_secs(1800));
    }

    #[test]
    fn a_command_has_no_variable_about_this_package() {
        // Cargo sets it for this test.
        assert!(env::var_os("CARGO_PKG_NAME").is_some());
        let variables = printed("sh -c env").unwrap();
        let mut names = variables.lines().map(OsStr::new);
        assert_eq!(names.find(|name| describes_package(name)), None);
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
        kill(shell.id(), &mark).unwrap();
        // The output ends when the last process that could write to it has ended.
        let output = io::read_to_string(shell.stdout.unwrap()).unwrap();
        assert_eq!(output, "begun\n");
    }
}
