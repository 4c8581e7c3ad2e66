//! A command line as data: run it, or print it so that it can be typed.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program, its arguments, and the environment that is its own.
///
/// `Display` gives what a shell would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    program: String,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    env_removed: Vec<&'static str>,
}

impl CommandLine {
    /// The directory of builds that name no other.
    pub(crate) const COMMON_BUILD_DIR: &'static str = "debug";

    /// A command whose words are separated by spaces: no word holds one.
    pub(crate) fn new(line: &str) -> CommandLine {
        let mut words = line.split_whitespace().map(str::to_owned);
        CommandLine {
            program: words.next().expect("a command names its program"),
            args: words.collect(),
            env: Vec::new(),
            env_removed: Vec::new(),
        }
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> CommandLine {
        self.env.push((name, value.into()));
        self
    }

    pub(crate) fn env_remove(mut self, name: &'static str) -> CommandLine {
        self.env_removed.push(name);
        self
    }

    /// Whether it runs tests, of which there must be one then.
    pub(crate) fn is_test(&self) -> bool {
        self.args.first().is_some_and(|word| word == "test")
    }

    /// The directory that cargo locks while it builds.
    pub(crate) fn build_dir(&self) -> &str {
        let own = self
            .env
            .iter()
            .find(|(name, _)| *name == "CARGO_TARGET_DIR");
        match own {
            Some((_, dir)) => dir,
            // Also of what such a build has left.
            None if self.to_string().contains("release") => "release",
            None => CommandLine::COMMON_BUILD_DIR,
        }
    }

    /// Runs the command in `dir`, with no input, all its output into `log`.
    ///
    /// Returns whether it succeeded.
    ///
    /// # Errors
    ///
    /// That it could not be started, or its log not be written.
    pub(crate) fn run(&self, dir: &Path, log: &Path) -> io::Result<bool> {
        let out = File::create(log)?;
        let mut command = Command::new(&self.program);
        for name in &self.env_removed {
            command.env_remove(name);
        }
        let status = command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .status()?;
        Ok(status.success())
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// `value`, in quotes if a shell would split it.
fn quoted(value: &str) -> String {
    if value.contains(' ') {
        format!("\"{value}\"")
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_prints_as_it_is_typed() {
        let command = CommandLine::new("cargo doc --no-deps")
            .env("RUSTDOCFLAGS", "-D warnings")
            .env("CARGO_TARGET_DIR", "target/loom");
        assert_eq!(
            command.to_string(),
            "RUSTDOCFLAGS=\"-D warnings\" CARGO_TARGET_DIR=target/loom cargo doc --no-deps"
        );
    }

    #[test]
    fn the_log_holds_the_output_and_the_result_is_the_exit_status() {
        let dir = std::env::temp_dir();
        let log = dir.join(format!("xtask-command-{}.log", std::process::id()));
        let succeeds = CommandLine::new("cargo --version").run(&dir, &log).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        let fails = CommandLine::new("cargo no-such-task")
            .run(&dir, &log)
            .unwrap();
        std::fs::remove_file(&log).unwrap();
        assert!(succeeds && text.starts_with("cargo "));
        assert!(!fails);
    }
}
