//! A child process that runs this program in a role: sender or receiver.

use std::{
    env,
    io::{BufRead, BufReader},
    os::fd::BorrowedFd,
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// Marks the argument after it as the role of this process.
pub(crate) const ROLE_FLAG: &str = "--role";

/// A child process, and the lines that it has printed. It is killed on drop.
pub(crate) struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub(crate) seen: Vec<String>,
}

impl Process {
    pub(crate) fn start(role: &str, words: &[&str], mailbox: BorrowedFd<'_>) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([ROLE_FLAG, role])
            .args(words)
            .stdin(mailbox.try_clone_to_owned().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        // The last line of a process that was killed may be cut off.
        self.lines.read_line(&mut line).unwrap();
        let line = line.strip_suffix('\n')?.to_owned();
        self.seen.push(line.clone());
        Some(line)
    }

    pub(crate) fn expect(&mut self, word: &str) -> Vec<usize> {
        loop {
            let line = self.line();
            let line = line.unwrap_or_else(|| panic!("no line {word:?} after {:#?}", self.seen));
            if let Some(rest) = line.strip_prefix(word) {
                return numbers(rest);
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        self.end();
    }

    /// Reads the lines that are left, and waits until the process has ended.
    pub(crate) fn end(&mut self) {
        while self.line().is_some() {}
        self.child.wait().unwrap();
    }

    pub(crate) fn all(&self, word: &str) -> Vec<usize> {
        let rest = self.seen.iter().filter_map(|line| line.strip_prefix(word));
        rest.flat_map(numbers).collect()
    }
}

fn numbers(words: &str) -> Vec<usize> {
    let words = words.split_whitespace();
    words.map(|word| word.parse().unwrap()).collect()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
