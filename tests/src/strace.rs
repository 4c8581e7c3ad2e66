//! System calls of a running process that fail because strace makes them.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// One strace, attached to a process. It detaches when this is dropped; the process goes on.
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
        let stderr = strace.stderr.take().expect("it was asked for");
        let strace = Self(strace);
        let mut said = String::new();
        // Its last word for now; nothing else follows while the process lives.
        BufReader::new(stderr)
            .read_line(&mut said)
            .expect("its messages can be read");
        assert!(said.contains("attached"), "strace: {said}");
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
