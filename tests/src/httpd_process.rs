//! The program `httpd` as a process.

use std::{
    env,
    io::{BufRead, BufReader},
    iter,
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Instant,
};

use evcore_poller::BackendKind;
use rustix::{
    io,
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

use crate::{Client, PATIENCE, Status, eventually, httpd, is_permitted};

/// The environment variable with the poller of each `httpd` whose command does not choose one.
const POLLER: &str = "EVCORE_HTTPD_POLLER";

/// A running server. Dropping it kills the server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    addresses: Vec<String>,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts the server on a free port of the loopback interface, and waits until it listens.
    ///
    /// # Panics
    ///
    /// If it does not listen.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        let mut command = Command::new(httpd());
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        Self::from_command(command, 1)
    }

    /// Starts the server with a limit on the descriptors of each of its processes.
    ///
    /// # Panics
    ///
    /// If it does not listen.
    #[must_use]
    pub fn start_limited(descriptors: u32, options: &[&str]) -> Self {
        let mut command = httpd_limited(descriptors);
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        Self::from_command(command, 1)
    }

    /// Starts a command that becomes the server, and waits until it has logged this many addresses.
    ///
    /// # Panics
    ///
    /// If it does not log them.
    #[must_use]
    pub fn from_command(command: Command, listeners: usize) -> Self {
        Self::try_from_command(command, listeners)
            .unwrap_or_else(|(_, log)| panic!("the server ended: {log}"))
    }

    /// Like [`from_command`](Self::from_command), with an error instead of a panic if the server
    /// ends.
    ///
    /// # Errors
    ///
    /// The server's exit status and its log.
    ///
    /// # Panics
    ///
    /// If the command cannot be started, or neither logs the addresses nor ends within
    /// [`PATIENCE`].
    pub fn try_from_command(
        mut command: Command,
        listeners: usize,
    ) -> Result<Self, (ExitStatus, String)> {
        choose_poller(&mut command);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let stderr = child.stderr.take().expect("it is piped");
        let mut server = Self {
            child,
            addresses: Vec::new(),
            log: Arc::default(),
        };
        let lines = server.keep_log(stderr);
        let deadline = Instant::now() + PATIENCE;
        while server.addresses.len() < listeners {
            // The deadline is for all lines, because a server whose workers end keeps logging.
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let address = line.strip_prefix("listening on ");
                    server.addresses.extend(address.map(str::to_owned));
                }
                Err(RecvTimeoutError::Disconnected) => return Err((server.wait(), server.log())),
                Err(RecvTimeoutError::Timeout) => panic!("the server neither listens nor ends"),
            }
        }
        Ok(server)
    }

    /// Reads the log to its end, in a thread that also sends each line to the receiver.
    fn keep_log(&self, stderr: ChildStderr) -> Receiver<String> {
        let log = Arc::clone(&self.log);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = log.lock().expect("nobody panicked");
                log.push_str(&line);
                log.push('\n');
                drop(log);
                let _ = sender.send(line);
            }
        });
        receiver
    }

    /// The first address that the server listens on.
    ///
    /// # Panics
    ///
    /// If it is the path of a Unix socket.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.addresses[0].parse().expect("an address and port")
    }

    /// The addresses that the server listens on, as logged.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Connects a client.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Fetches `/status` over a new connection, which the page counts too.
    ///
    /// # Panics
    ///
    /// If the server does not respond.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::parse(self.connect().get("/status").text())
    }

    /// Waits until the status meets a condition.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::PATIENCE).
    pub fn wait_for_status(&self, what: &str, condition: impl Fn(&Status) -> bool) {
        let mut client = self.connect();
        eventually(what, || match client.try_get("/status") {
            Ok(response) => condition(&Status::parse(response.text())),
            // A worker that is shutting down closes idle connections; another worker responds.
            Err(_) => {
                client = self.connect();
                false
            }
        });
    }

    /// Fetches `/status.json` over a new connection. Returns `None` without a complete response,
    /// for example because the worker ends.
    ///
    /// # Panics
    ///
    /// If the connection is refused, or the page is not JSON.
    #[must_use]
    pub fn try_status_json(&self) -> Option<Value> {
        let answer = self.connect().try_get("/status.json").ok()?;
        Some(serde_json::from_slice(&answer.body).expect("JSON"))
    }

    /// Waits until `/status.json` lists this many worker processes, none of which is in `ended`.
    /// Returns their process ids.
    ///
    /// After a reload, the old workers belong in `ended`, because they accept connections for a
    /// moment after the reload is counted and logged.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::PATIENCE).
    #[must_use]
    pub fn wait_for_workers(&self, count: usize, ended: &[u32]) -> Vec<u32> {
        let mut pids = Vec::new();
        eventually("only workers that stay are listed", || {
            let Some(page) = self.try_status_json() else {
                return false;
            };
            pids = listed_pids(&page);
            pids.len() == count && !pids.iter().any(|pid| ended.contains(pid))
        });
        pids
    }

    /// Takes the standard output, if the command [has a pipe](Command::stdout) for it.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The server's log so far.
    ///
    /// # Panics
    ///
    /// If the thread that reads the log has panicked.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panicked").clone()
    }

    /// Number of reloads after which the new workers serve, from the log.
    ///
    /// # Panics
    ///
    /// The panics of [`log`](Self::log).
    #[must_use]
    pub fn reloads(&self) -> usize {
        self.log()
            .matches("httpd: reload: the new workers serve")
            .count()
    }

    /// The process id of the master, or of the server if it has no master.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the master.
    ///
    /// # Panics
    ///
    /// If there is no such process.
    pub fn signal(&self, signal: Signal) {
        signal_to(self.pid(), signal);
    }

    /// Waits until the master ends. Returns its status.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::PATIENCE).
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the server's end", || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        status.expect("just waited for")
    }

    /// The process ids of the master's children except for descriptor stores: the workers, and the
    /// master of a new binary.
    ///
    /// # Panics
    ///
    /// If the system has no `/proc`.
    #[must_use]
    pub fn worker_pids(&self) -> Vec<u32> {
        let children = children(self.pid()).into_iter();
        children.filter(|child| !is_store(*child)).collect()
    }

    /// Starts a new binary by USR2, and returns the process id of its master. The log has the
    /// process id too, but two programs write to one log, so their lines may be mixed.
    #[must_use]
    pub fn start_binary(&self) -> u32 {
        let before = self.worker_pids();
        self.signal(Signal::USR2);
        let mut new = None;
        eventually("the new binary starts", || {
            let mut children = self.worker_pids().into_iter();
            new = children.find(|child| !before.contains(child));
            new.is_some()
        });
        new.expect("just waited for")
    }

    /// The process ids of the workers' descriptor stores. A store that has ended stays in the list
    /// until its master has reaped it.
    ///
    /// # Panics
    ///
    /// If the system has no `/proc`.
    #[must_use]
    pub fn store_pids(&self) -> Vec<u32> {
        let children = children(self.pid()).into_iter();
        children.filter(|child| is_store(*child)).collect()
    }
}

fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).expect("the master lives");
    let pids = children.split_whitespace();
    pids.map(|pid| pid.parse().expect("a number")).collect()
}

/// Returns whether a process is a descriptor store, by the 15 bytes of its name that the kernel
/// keeps.
fn is_store(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name == "descriptor stor\n")
}

fn poller() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let name = env::var(POLLER).ok()?;
        let kind: BackendKind = name.parse().unwrap_or_else(|error| panic!("{error}"));
        is_permitted(kind).then_some(name)
    });
    name.as_deref()
}

/// Adds the poller of the environment to a command that does not choose one. The command becomes
/// `httpd`, or is a shell that passes its last arguments to `httpd`.
fn choose_poller(command: &mut Command) {
    let Some(poller) = poller() else {
        return;
    };
    let words = || iter::once(command.get_program()).chain(command.get_args());
    if words().any(|word| word == httpd()) && words().all(|word| word != "--poller") {
        command.arg("--poller").arg(poller);
    }
}

fn listed_pids(page: &Value) -> Vec<u32> {
    let workers = page["workers"].as_array().expect("a list");
    let pid = |worker: &Value| worker["pid"].as_u64()?.try_into().ok();
    let pids = workers
        .iter()
        .map(|worker| pid(worker).expect("a process id"));
    pids.collect()
}

/// The command of the server with a limit on its descriptors.
#[must_use]
pub fn httpd_limited(descriptors: u32) -> Command {
    limited(descriptors, httpd())
}

/// The command of a program with a limit on its descriptors.
///
/// The limit does not count descriptors that the program inherits from this process. A shell counts
/// them and raises the limit by their number. A count in this process could be wrong, because other
/// tests open and close descriptors.
#[must_use]
pub fn limited(descriptors: u32, program: &Path) -> Command {
    let limit = format!(
        r#"limit={descriptors} number=3
        while [ $number -lt $limit ]; do
            [ -e /proc/$$/fd/$number ] && limit=$((limit + 1))
            number=$((number + 1))
        done
        ulimit -n $limit
        exec "$0" "$@""#
    );
    let mut command = Command::new("sh");
    command.args(["-c", &limit]).arg(program);
    command
}

/// Sends a signal to a process.
///
/// # Panics
///
/// If there is no such process.
pub fn signal_to(pid: u32, signal: Signal) {
    try_signal_to(pid, signal).expect("it lives");
}

/// Like [`signal_to`], with an error instead of a panic if there is no such process.
///
/// # Errors
///
/// The error of the system call.
///
/// # Panics
///
/// If the number cannot be a process id.
pub fn try_signal_to(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, signal)
}

impl Drop for Server {
    fn drop(&mut self) {
        // Workers exit when their master has died.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}
