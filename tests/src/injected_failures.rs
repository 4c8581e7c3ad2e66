//! Injects failures into the system calls of a running process, by strace.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// A strace that is attached to a process. Dropping it detaches; the process continues.
#[derive(Debug)]
pub struct Strace(Child);

impl Strace {
    /// Attaches to a process and its threads, and returns when it has.
    ///
    /// # Panics
    ///
    /// If it cannot attach.
    #[must_use]
    pub fn attach(pid: u32, options: &[&str]) -> Self {
        let mut strace = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-p", &pid.to_string()])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace runs");
        let stderr = strace.stderr.take().expect("it is piped");
        let strace = Self(strace);
        let mut message = String::new();
        // Nothing else follows while the process runs.
        BufReader::new(stderr)
            .read_line(&mut message)
            .expect("its messages can be read");
        assert!(message.contains("attached"), "strace: {message}");
        strace
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // The kernel detaches a tracer's processes when it ends.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
