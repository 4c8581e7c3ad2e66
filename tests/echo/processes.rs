//! The example `processes`, in which signals and the ends of child processes are steps of the event
//! loop. The tests kill real processes.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use evcore_tests::{PATIENCE, example, signal_to};
use rustix::process::Signal;

/// The options for the two ways in which a child's end becomes a step: by a pidfd if the system has
/// pidfds, or by SIGCHLD.
const WAYS: [&[&str]; 2] = [&[], &["--sigchld"]];

struct Runner {
    child: Child,
    lines: Receiver<String>,
}

impl Runner {
    fn start(way: &[&str], timeout: &str, commands: &[&str]) -> Self {
        let mut command = Command::new(example("evcore", "processes"));
        command.args(way).arg(timeout).args(commands);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines() {
                let _ = sender.send(line.expect("text"));
            }
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// Waits until all commands have started, and returns their process ids.
    fn started(&self, commands: usize) -> Vec<u32> {
        let lines = (0..commands).map(|_| self.line());
        lines.map(|line| pid_of(&line)).collect()
    }

    fn signal(&self, signal: Signal) {
        signal_to(self.child.id(), signal);
    }

    fn wait(mut self) -> ExitStatus {
        // The lines end when the example and its commands have ended.
        assert_eq!(self.lines.recv_timeout(PATIENCE).ok(), None);
        self.child.wait().expect("it is a child")
    }
}

/// The process id of a line that reports a command's start.
fn pid_of(line: &str) -> u32 {
    let (pid, _) = line.split_once(" runs: ").expect(line);
    pid.parse().expect("a number")
}

impl Drop for Runner {
    fn drop(&mut self) {
        // At TERM the example stops its commands.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[test]
fn a_killed_child_is_reported_while_the_others_run_on() {
    for way in WAYS {
        let sleep = "exec sleep 60";
        let runner = Runner::start(way, "60", &[sleep, sleep]);
        let pids = runner.started(2);
        signal_to(pids[0], Signal::KILL);
        let ended = format!("{} ended, signal: 9 (SIGKILL): {sleep}", pids[0]);
        assert_eq!(runner.line(), ended, "{way:?}");
        runner.signal(Signal::HUP);
        assert_eq!(runner.line(), "1 commands run");
        runner.signal(Signal::HUP);
        assert_eq!(runner.line(), "1 commands run");
        runner.signal(Signal::TERM);
        let ended = format!("{} ended, signal: 15 (SIGTERM): {sleep}", pids[1]);
        assert_eq!(runner.line(), ended, "{way:?}");
        assert!(runner.wait().success());
    }
}

#[test]
fn children_that_end_together_are_all_reported() {
    const CHILDREN: usize = 40;
    for way in WAYS {
        let runner = Runner::start(way, "60", &["exit 7"; CHILDREN]);
        let mut pids = runner.started(CHILDREN);
        let ended = |_| {
            let line = runner.line();
            let (pid, rest) = line.split_once(' ').expect(&line);
            assert_eq!(rest, "ended, exit status: 7: exit 7");
            pid.parse::<u32>().expect("a number")
        };
        let mut all: Vec<_> = (0..CHILDREN).map(ended).collect();
        all.sort_unstable();
        pids.sort_unstable();
        assert_eq!(all, pids, "{way:?}");
        assert!(runner.wait().success());
    }
}

#[test]
fn a_child_that_ignores_term_is_killed_after_the_timeout() {
    for way in WAYS {
        let command = "trap '' TERM; echo ready; exec sleep 60";
        let runner = Runner::start(way, "0.2", &[command]);
        let (line, other) = (runner.line(), runner.line());
        // Two processes print these lines, so they come in any order.
        let pid = pid_of(if line == "ready" { &other } else { &line });
        runner.signal(Signal::TERM);
        let ended = format!("{pid} ended, signal: 9 (SIGKILL): {command}");
        assert_eq!(runner.line(), ended, "{way:?}");
        assert!(runner.wait().success());
    }
}
