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

use crate::{
    points::Fatal,
    server,
    setting::{Setting, Stage},
};

/// Who is not served for so long would never be: far beyond the delay, since the machine may be
/// busy.
const DEAF: Duration = PATIENCE;

/// How many clients come at most until somebody has come to the fatal point, or has left.
const VISITS: usize = 1000;

/// How many come, one after the other, once somebody is gone: more than one worker has room for.
const VISITS_AFTER: usize = 4;

/// What a run is to show: the first worker to come to its point `fatal` of this stage dies there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) setting: Setting,
    pub(crate) stage: Stage,
    pub(crate) fatal: Fatal<'a>,
}

/// Whether somebody died.
///
/// Panics where a client is not served.
pub(crate) fn run(run: Run<'_>) -> bool {
    let mut server = Server::start(run);
    let mut news = None;
    // The one before stays while the next comes: so there are one or two at any time.
    let mut last = None;
    let mut left = VISITS;
    while left > 0 {
        if news.is_none() {
            news = server.news();
            left = if news.is_some() { VISITS_AFTER } else { left };
        }
        last = Some(visit(server.address, DEAF).unwrap_or_else(|why| {
            let news = news.take().or_else(|| server.news());
            panic!("{run:?}, then {news:?}: {why}");
        }));
        left -= 1;
    }
    drop(last);
    server.stop();
    let news = news.unwrap_or_else(|| panic!("{run:?}: nobody came there"));
    matches!(news, News::Death(_))
}

/// What the server says of its workers.
#[derive(Debug)]
enum News {
    /// One died, in this place.
    Death(#[allow(dead_code, reason = "told when a client is not served")] String),
    /// One has left, in order.
    Departure,
}

/// A client that is served; it comes again if whoever took it in is gone.
fn visit(address: SocketAddr, patience: Duration) -> Result<TcpStream, String> {
    let deadline = Instant::now() + patience;
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
    fn start(run: Run<'_>) -> Self {
        let this = env::current_exe().expect("this program has a path");
        let mut child = Command::new(this)
            .args([server::FLAG, run.setting.name(), run.stage.name()])
            .arg(run.fatal.name())
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

    /// What it has said since this was asked last.
    fn news(&self) -> Option<News> {
        match self.lines.try_recv() {
            Ok(line) => Some(News::of(&line)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("the server has ended"),
        }
    }

    fn stop(&mut self) {
        signal_to(self.child.id(), Signal::TERM);
        let status = self.child.wait().expect("it is our child");
        let last: Vec<_> = self.lines.iter().collect();
        assert!(status.success(), "{status}: {last:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Workers notice when their master is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(setting: Setting, stage: Stage, fatal: Fatal<'a>) -> Self {
        Self {
            setting,
            stage,
            fatal,
        }
    }
}

impl News {
    fn of(line: &str) -> Self {
        if line == server::LEAVES {
            return Self::Departure;
        }
        let place = line.strip_prefix("dies ");
        let place = place.unwrap_or_else(|| panic!("it says: {line}"));
        Self::Death(place.to_owned())
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
