//! Injects failures into the system calls of a running process, by strace.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use evcore_testing::SLICES_MAX;
use rustix::process::Signal;

use crate::signal_to;

/// A strace that is attached to some processes. Dropping it detaches strace, and the processes
/// continue.
#[derive(Debug)]
pub struct Strace {
    child: Child,
    /// The messages of strace, which writes one for each new thread, and ends if it cannot write.
    messages: BufReader<ChildStderr>,
}

impl Strace {
    /// Attaches to a process, its threads and its later children. Returns when strace is attached.
    ///
    /// # Panics
    ///
    /// If it cannot attach.
    #[must_use]
    pub fn attach(pid: u32, options: &[&str]) -> Self {
        Self::attach_all(&[pid], options)
    }

    /// Like [`attach`](Self::attach), to several processes.
    ///
    /// # Panics
    ///
    /// If it cannot attach to one of them.
    #[must_use]
    pub fn attach_all(pids: &[u32], options: &[&str]) -> Self {
        let mut command = Command::new("strace");
        command.args(["-f", "-o", "/dev/null"]).args(options);
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().expect("strace runs");
        let stderr = child.stderr.take().expect("it is piped");
        let mut strace = Self {
            child,
            messages: BufReader::new(stderr),
        };
        for _ in pids {
            let mut message = String::new();
            let read = strace.messages.read_line(&mut message);
            read.expect("its messages can be read");
            assert!(message.contains("attached"), "strace: {message}");
        }
        strace
    }
}

impl Strace {
    /// Detaches, and waits until strace has written what it has seen.
    ///
    /// strace hangs if a process with threads ends meanwhile: strace waits for the process, whose
    /// last thread waits for strace. So strace is killed after some time.
    ///
    /// # Panics
    ///
    /// If the process of strace has been waited for.
    pub fn finish(mut self) {
        signal_to(self.child.id(), Signal::TERM);
        let deadline = Instant::now() + SLICES_MAX;
        while self.child.try_wait().expect("it is our child").is_none() {
            if Instant::now() > deadline {
                return;
            }
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // The kernel detaches a tracer's processes when the tracer ends.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
