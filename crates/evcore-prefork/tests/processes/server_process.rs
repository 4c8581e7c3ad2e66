//! A server under test. The tests read its lines, and send it signals.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
#[cfg(not(target_os = "openbsd"))]
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// Marks the argument after it as the name of a child main.
pub(crate) const MAIN_FLAG: &str = "--child-main";

/// The limit on each wait, far longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The server, its workers and everything else that it has started: one process group, which is
/// killed on drop.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    /// The lines so far, in the order of their arrival.
    seen: Vec<String>,
}

impl Server {
    pub(crate) fn start(main: &str) -> Self {
        Self::start_from(&env::current_exe().unwrap(), main)
    }

    /// Starts a server from `program`, a copy of this program.
    pub(crate) fn start_from(program: &Path, main: &str) -> Self {
        Self::spawn(Command::new(program).process_group(0), main)
    }

    pub(crate) fn spawn(command: &mut Command, main: &str) -> Self {
        let mut child = command
            .args([MAIN_FLAG, main])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for the next line that begins with `start`, and returns the words after that.
    pub(crate) fn expect(&mut self, start: &str) -> Vec<String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line {start:?} after {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if let Some(rest) = line.strip_prefix(start) {
                return rest.split_whitespace().map(String::from).collect();
            }
        }
    }

    /// Waits until this many lines, old ones included, begin with `start`.
    pub(crate) fn expect_in_all(&mut self, start: &str, count: usize) {
        let seen = |server: &Self| {
            server
                .seen
                .iter()
                .filter(|line| line.starts_with(start))
                .count()
        };
        while seen(self) < count {
            self.expect(start);
        }
    }

    /// The process id in the first seen line that has the form `start PID`.
    pub(crate) fn pid_in_all(&self, start: &str) -> Pid {
        let line = self.seen.iter().find_map(|line| line.strip_prefix(start));
        Pid::from_raw(line.unwrap().parse().unwrap()).unwrap()
    }

    pub(crate) fn expect_pid(&mut self, start: &str) -> Pid {
        let words = self.expect(start);
        Pid::from_raw(words[0].parse().unwrap()).unwrap()
    }

    pub(crate) fn seen(&self) -> &[String] {
        &self.seen
    }

    /// Waits until every process that could write a line is gone, and returns all lines.
    pub(crate) fn expect_end(&mut self) -> &[String] {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return &self.seen,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("a process is left after {:#?}", self.seen)
                }
            }
        }
    }

    /// Waits for this many further lines that begin with `start`.
    pub(crate) fn expect_times(&mut self, start: &str, count: usize) {
        for _ in 0..count {
            self.expect(start);
        }
    }

    pub(crate) fn reload(&mut self) {
        self.signal_master(Signal::HUP);
        self.expect("ready 0");
        self.expect("reload Done");
    }

    /// Stops the server by a signal, and expects the outcome in the last line.
    pub(crate) fn ends_by(&mut self, signal: Signal, stop: &str) {
        self.signal_master(signal);
        let last = self.expect_end().last().expect("a line");
        assert_eq!(last, &format!("outcome Stopped({stop})"));
    }

    /// Writes a byte to standard input, which the server or one of its workers reads.
    pub(crate) fn give_byte(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    }

    /// Waits until the master has ended. A new binary that it has started may go on.
    #[cfg(target_os = "openbsd")]
    pub(crate) fn wait_for_master(&mut self) {
        self.child.wait().unwrap();
    }

    #[cfg(not(target_os = "openbsd"))]
    pub(crate) fn wait_for_master(&mut self) {
        // The process is not reaped, because `drop` still uses its number.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), ended).unwrap();
    }

    pub(crate) fn signal_master(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until the master has a child other than `known`, and returns the id of that child.
    #[cfg(target_os = "linux")]
    pub(crate) fn wait_for_child_beside(&self, known: Pid) -> Pid {
        let master = self.pid().as_raw_pid();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let path = format!("/proc/{master}/task/{master}/children");
            let children = std::fs::read_to_string(path).unwrap();
            let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
            if let Some(pid) = pids.filter_map(Pid::from_raw).find(|pid| *pid != known) {
                return pid;
            }
            assert!(
                Instant::now() < deadline,
                "the master has no other child: {:#?}",
                self.seen
            );
        }
    }

    /// Signals all processes, as the terminal does on Ctrl-C.
    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The group may have ended. Its number stays in use, because the child was not reaped.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}
