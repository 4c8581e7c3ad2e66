//! One run: a server, its clients, and one death.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use evcore_testing::SLICES_MAX;
use evcore_tests::{PATIENCE, assert_within, signal_to};
use rustix::process::Signal;

use crate::{
    config::{Config, DELAY, Phase},
    failpoint::Fatal,
    two_workers,
};

/// The longest time that a client waits for an answer.
const PATIENCE_OF_CLIENTS: Duration = DELAY.saturating_add(SLICES_MAX);

/// The most clients that connect until a worker has died or left.
const CLIENTS_MAX: usize = 1000;

/// Number of clients that connect after a worker has died or left, one after the other.
const CLIENTS_AFTER: usize = 4;

/// The parameters of a run. The first worker that hits the failpoint `fatal` in this phase dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    pub(crate) fatal: Fatal<'a>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(config: Config, phase: Phase, fatal: Fatal<'a>) -> Self {
        Self {
            config,
            phase,
            fatal,
        }
    }
}

/// Makes the run, and returns whether a worker died.
///
/// Panics if a client is not served in time, or if no worker dies or leaves.
pub(crate) fn run(run: Run<'_>) -> bool {
    let mut server = Server::start(run);
    let mut event = None;
    // A client stays until the next one is served, so at most two are connected.
    let mut last = None;
    let mut left = CLIENTS_MAX;
    while left > 0 {
        if event.is_none() {
            event = server.event();
            left = if event.is_some() { CLIENTS_AFTER } else { left };
        }
        last = Some(served_client(&mut server).unwrap_or_else(|why| {
            let event = event.take().or_else(|| server.event());
            panic!("{run:?}, then {event:?}: {why}");
        }));
        left -= 1;
    }
    drop(last);
    server.stop();
    let event = event.unwrap_or_else(|| panic!("{run:?}: no worker has hit the failpoint"));
    matches!(event, Event::Died(_))
}

#[derive(Debug)]
enum Event {
    Died(#[allow(dead_code, reason = "it is printed if a client is not served")] String),
    /// A worker has ended regularly, not at a failpoint.
    Left,
}

/// Connects until a worker serves the client. A client loses its connection if its worker dies. The
/// balancer guarantees that another worker accepts within the delay and one iteration of its event
/// loop.
fn served_client(server: &mut Server) -> Result<TcpStream, String> {
    let came = Instant::now();
    let deadline = came + PATIENCE_OF_CLIENTS;
    loop {
        match echo(server.address, deadline) {
            Ok(client) => {
                assert_within("not served within the delay", DELAY, came);
                return Ok(client);
            }
            Err(_) if server.has_ended() => return Err(server.last_lines()),
            Err(error) if Instant::now() > deadline => {
                return Err(format!(
                    "not served within {PATIENCE_OF_CLIENTS:?}: {error}"
                ));
            }
            Err(_) => {}
        }
    }
}

fn echo(address: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let mut client = TcpStream::connect(address)?;
    let left = deadline.saturating_duration_since(Instant::now());
    client.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    client.write_all(b"?")?;
    let mut byte = [0];
    client.read_exact(&mut byte)?;
    assert_eq!(byte, *b"?");
    Ok(client)
}

struct Server {
    child: Child,
    address: SocketAddr,
    lines: Receiver<String>,
}

impl Server {
    fn start(run: Run<'_>) -> Self {
        let this = env::current_exe().expect("this program has a path");
        let mut child = Command::new(this)
            .args([two_workers::FLAG, run.config.name(), run.phase.name()])
            .arg(run.fatal.name())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let lines = lines_of(child.stderr.take().expect("stderr is a pipe"));
        let first = lines.recv_timeout(PATIENCE).expect("it prints its address");
        let address = first.strip_prefix("listening on ").expect(&first);
        Self {
            child,
            address: address.parse().expect("an address"),
            lines,
        }
    }

    fn event(&mut self) -> Option<Event> {
        let line = match self.lines.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => panic!("the server has ended"),
        };
        if line == two_workers::LEFT {
            return Some(Event::Left);
        }
        let Some(failpoint) = line.strip_prefix("dies ") else {
            panic!("{line}\n{}", self.last_lines());
        };
        Some(Event::Died(failpoint.to_owned()))
    }

    fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().expect("the server is a child");
        status.is_some()
    }

    /// Ends the server, and returns the lines that are left.
    fn last_lines(&mut self) -> String {
        let _ = self.child.kill();
        let next = || self.lines.recv_timeout(PATIENCE).ok();
        let lines: Vec<_> = std::iter::from_fn(next).collect();
        lines.join("\n")
    }

    fn stop(&mut self) {
        signal_to(self.child.id(), Signal::TERM);
        let status = self.child.wait().expect("the server is a child");
        let last: Vec<_> = self.lines.iter().collect();
        assert!(status.success(), "{status}: {last:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The workers end when their parent has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}
