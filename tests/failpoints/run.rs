//! One run: a server, its clients, one death.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use evcore_tests::{PATIENCE, signal_to};
use rustix::process::Signal;

use crate::{points::Fatal, server, setting::Setting};

/// Who is not served for so long would never be: far beyond the delay, since the machine may be busy.
const DEAF: Duration = PATIENCE;

/// How many clients come in a run in which nobody comes to the point of that number.
const VISITS: usize = 12;

/// How many come at most until somebody has come to a point of a kind.
const VISITS_FOR_A_KIND: usize = 1000;

/// How many come, one after the other, once somebody is dead: more than one worker has room for.
const VISITS_AFTER: usize = 4;

/// A run in which the first worker to come to its point `fatal` dies there; whether one did.
///
/// Panics where a client is not served.
pub(crate) fn run(setting: Setting, fatal: Fatal<'_>) -> bool {
    let mut server = Server::start(setting, fatal);
    let mut place = None;
    // The one before stays while the next comes: so there are one or two at any time.
    let mut last = None;
    let mut left = match fatal {
        Fatal::Number(_) => VISITS,
        Fatal::Kind(_) => VISITS_FOR_A_KIND,
    };
    while left > 0 {
        if place.is_none() {
            place = server.death();
            left = if place.is_some() { VISITS_AFTER } else { left };
        }
        last = Some(visit(server.address).unwrap_or_else(|why| {
            panic!("{setting:?}, {fatal:?}, death {place:?}: {why}");
        }));
        left -= 1;
    }
    drop(last);
    server.stop();
    place.is_some()
}

/// A client that is served; it comes again if whoever took it in is gone.
fn visit(address: SocketAddr) -> Result<TcpStream, String> {
    let deadline = Instant::now() + DEAF;
    loop {
        match ask(address, deadline) {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > deadline => return Err(format!("deaf: {error}")),
            Err(_) => {}
        }
    }
}

fn ask(address: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let mut client = TcpStream::connect(address)?;
    let left = deadline.saturating_duration_since(Instant::now());
    client.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    client.write_all(b"?")?;
    let mut answer = [0];
    client.read_exact(&mut answer)?;
    assert_eq!(answer, *b"?");
    Ok(client)
}

/// The server's process. It ends with this value, whatever happens.
struct Server {
    child: Child,
    address: SocketAddr,
    /// What it says.
    lines: Receiver<String>,
}

impl Server {
    fn start(setting: Setting, fatal: Fatal<'_>) -> Self {
        let this = env::current_exe().expect("this program has a path");
        let mut child = Command::new(this)
            .args([server::FLAG, setting.name(), &fatal.name()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = lines_of(child.stderr.take().expect("it was asked for"));
        let first = lines.recv_timeout(PATIENCE).expect("it says where it is");
        let address = first.strip_prefix("listening on ").expect(&first);
        Self {
            child,
            address: address.parse().expect("an address"),
            lines,
        }
    }

    /// Where a worker died, if one did since this was asked last.
    fn death(&self) -> Option<String> {
        match self.lines.try_recv() {
            Ok(line) => Some(place_of(&line)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("the server has ended"),
        }
    }

    fn stop(&mut self) {
        signal_to(self.child.id(), Signal::TERM);
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Workers notice when their master is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn place_of(line: &str) -> String {
    let place = line.strip_prefix("dies ");
    place
        .unwrap_or_else(|| panic!("it says: {line}"))
        .to_owned()
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
