//! The example server, as a process.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Client, Status, eventually, httpd};

/// A running server. It ends with this value, whatever happens.
#[derive(Debug)]
pub struct Server {
    child: Child,
    addresses: Vec<String>,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts it on a free port of the loopback interface, and waits until it listens.
    ///
    /// # Panics
    ///
    /// Where it does not.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        let mut command = Command::new(httpd());
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        Self::from_command(command, 1)
    }

    /// Starts it with a limit on the number of descriptors of each of its processes.
    ///
    /// # Panics
    ///
    /// Where it does not listen.
    #[must_use]
    pub fn start_limited(descriptors: u32, options: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""),
        ]);
        command
            .arg(httpd())
            .args(["--listen", "127.0.0.1:0"])
            .args(options);
        Self::from_command(command, 1)
    }

    /// Starts a command that becomes the server, and waits for so many addresses.
    ///
    /// # Panics
    ///
    /// Where it ends instead.
    #[must_use]
    pub fn from_command(mut command: Command, listeners: usize) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("it was asked for"));
        let mut server = Self {
            child,
            addresses: Vec::new(),
            log: Arc::default(),
        };
        while server.addresses.len() < listeners {
            let mut line = String::new();
            let n = stderr.read_line(&mut line).expect("its log can be read");
            assert!(n > 0, "the server ended: {}", server.log());
            if let Some(address) = line.trim_end().strip_prefix("listening on ") {
                server.addresses.push(address.to_owned());
            }
            server.log.lock().expect("nobody panicked").push_str(&line);
        }
        server.keep_log(stderr);
        server
    }

    fn keep_log(&self, mut stderr: impl BufRead + Send + 'static) {
        let log = Arc::clone(&self.log);
        thread::spawn(move || {
            let mut line = String::new();
            while matches!(stderr.read_line(&mut line), Ok(n) if n > 0) {
                log.lock().expect("nobody panicked").push_str(&line);
                line.clear();
            }
        });
    }

    /// Where it listens, first of all.
    ///
    /// # Panics
    ///
    /// Where that is a path.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.addresses[0].parse().expect("an address and port")
    }

    /// Everywhere it listens, as it said.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// A new connection.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// What it says of itself, over a connection of its own (which it counts).
    ///
    /// # Panics
    ///
    /// Where it does not answer.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::parse(self.connect().get("/status").text())
    }

    /// Waits until its status is so.
    ///
    /// # Panics
    ///
    /// When patience ends.
    pub fn wait_for_status(&self, what: &str, condition: impl Fn(&Status) -> bool) {
        let mut client = self.connect();
        eventually(what, || match client.try_get("/status") {
            Ok(answer) => condition(&Status::parse(answer.text())),
            // A worker that is to finish closes whoever is idle: another answers.
            Err(_) => {
                client = self.connect();
                false
            }
        });
    }

    /// Its standard output, if the command [asked](Command::stdout) for a pipe; once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// What it has written to its log so far.
    ///
    /// # Panics
    ///
    /// Never, but where the thread that reads the log has.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panicked").clone()
    }

    /// The process id of the master (of the server, where there is none).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the master.
    ///
    /// # Panics
    ///
    /// Where it is gone.
    pub fn signal(&self, signal: Signal) {
        signal_to(self.pid(), signal);
    }

    /// Waits for the master's end.
    ///
    /// # Panics
    ///
    /// When patience ends.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the server's end", || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        status.expect("just waited for")
    }

    /// The worker processes that there are now, from `/proc`.
    ///
    /// # Panics
    ///
    /// Where there is no `/proc`.
    #[must_use]
    pub fn worker_pids(&self) -> Vec<u32> {
        let pid = self.pid();
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).expect("the master lives");
        children
            .split_whitespace()
            .map(|pid| pid.parse().expect("a number"))
            .collect()
    }
}

/// Sends a signal to a process.
///
/// # Panics
///
/// Where it is gone.
pub fn signal_to(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, signal).expect("it lives");
}

impl Drop for Server {
    fn drop(&mut self) {
        // Workers notice when their master is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}
