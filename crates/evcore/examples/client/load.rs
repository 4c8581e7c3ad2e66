//! A load of HTTP requests at fixed times, on a number of connections. The benchmarks include this
//! file, too.
//!
//! A request that is due waits for an idle connection. Its latency counts from the time at which it
//! was due, so a stall of the server shows in every request that is due during the stall.
mod connection;
use connection::Connection;
use evcore::{Address, Connections, EventLoop, Ready, Step, Stream, Timer, Token};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, collections::VecDeque, error::Error, io, io::ErrorKind};

const TIMEOUT: Timer = Timer::new(0);
/// The time for which the loop stays awake before a request is due, because a sleep may end late.
const AWAKE: Duration = Duration::from_millis(1);

pub(crate) struct Load {
    pub(crate) timeout: Duration, // for connecting, and for each response
    pub(crate) closes: bool,      // true if each connection is closed after its response
    pub(crate) latencies: Histogram<u64>, // in nanoseconds
    pub(crate) errors: BTreeMap<String, usize>,
    to: Address,
    request: Vec<u8>,
    buffer: Vec<u8>,
    ev: EventLoop,
    connections: Connections<Connection>,
    /// Connections without a request. `None` or a stale token is a closed connection.
    idle: VecDeque<Option<Token>>,
}

impl Load {
    pub(crate) fn new(to: Address, path: &str, connections: u32) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            timeout: Duration::from_secs(5),
            closes: false,
            latencies: Histogram::new(3)?,
            errors: BTreeMap::new(),
            to,
            request: format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into(),
            buffer: vec![0; 64 * 1024],
            ev: EventLoop::builder().connections(connections).build()?,
            connections: Connections::new(),
            idle: vec![None; connections as usize].into(),
        })
    }

    /// Opens all connections, and waits until each is connected or has failed.
    pub(crate) fn connect(&mut self) -> evcore::Result<()> {
        let all = self.idle.len();
        for _ in 0..all {
            self.use_idle(None);
        }
        while self.idle.len() < all {
            match self.ev.next_step() {
                Some(step) => self.handle(step),
                None => _ = self.ev.wait()?, // fails only if the loop cannot go on
            }
        }
        Ok(())
    }

    /// Sends requests for this time, and waits for their responses. Returns how long all of this
    /// took. If the rate is infinite, a connection sends its next request when it has a response.
    pub(crate) fn run(&mut self, rate: f64, time: Duration) -> evcore::Result<Duration> {
        let (began, all, is_paced) = (Instant::now(), self.idle.len(), rate.is_finite());
        // True if a connection could not be opened. The next attempt follows the next wait.
        let mut failed = false;
        let due = |n| Duration::try_from_secs_f64(f64::from(n) / rate).ok();
        let due = |n| due(n).filter(|due| *due < time);
        let mut due = (0_u32..).map_while(due).peekable();
        let until = if is_paced { time + self.timeout } else { time };
        self.latencies.reset();
        self.errors.clear();
        loop {
            let now = began.elapsed();
            let next = due.peek().filter(|_| now < until);
            let rest = next.map(|next| next.saturating_sub(now));
            if rest == Some(Duration::ZERO) && !self.idle.is_empty() && !failed {
                let next = due.next().expect("it was just seen");
                failed = !self.use_idle(Some(began + if is_paced { next } else { now }));
            } else if let Some(step) = self.ev.next_step() {
                self.handle(step);
            } else if rest.is_some() || self.idle.len() < all {
                let rest = rest.filter(|_| !self.idle.is_empty());
                let rest = rest.map(|rest| rest.saturating_sub(AWAKE));
                self.ev.wait_at_most(rest)?;
                failed = false;
            } else {
                if is_paced && due.peek().is_some() {
                    self.errors.insert("not sent".to_owned(), due.count());
                }
                return Ok(now.max(time));
            }
        }
    }

    /// Gives a request, if any, to the longest idle connection, which is opened if it is closed.
    /// Returns whether that succeeded.
    fn use_idle(&mut self, due: Option<Instant>) -> bool {
        let idle = self.idle.pop_front().flatten();
        let idle = idle.filter(|token| self.connections.get(*token).is_some());
        let token = match idle.map_or_else(|| self.open(), Ok) {
            Ok(token) => token,
            Err(error) => {
                self.fail(None, &error);
                return false;
            }
        };
        let (_, connection) = self.connections.get_mut(token).expect("it is open");
        connection.due = due;
        self.ev.arm(token, TIMEOUT, self.timeout);
        if idle.is_some() {
            self.serve(token, Ready::NONE);
        }
        true
    }

    fn open(&mut self) -> io::Result<Token> {
        let stream = Stream::connect(&self.to)?;
        let connection = Connection::default();
        Ok(self.connections.add(&mut self.ev, stream, connection)?)
    }

    fn handle(&mut self, step: Step) {
        match step {
            Step::Ready(token, ready) => self.serve(token, ready),
            Step::Expired(token, _) => self.fail(Some(token), &ErrorKind::TimedOut.into()),
            _ => {} // no other step can come: nothing listens, wakes or is idle
        }
    }

    fn serve(&mut self, token: Token, ready: Ready) {
        let open = self.connections.ready(token, ready);
        let (stream, connection) = open.expect("it is open");
        match connection.talk(stream, &self.request, &mut self.buffer, &mut self.ev) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.fail(Some(token), &error),
            Ok(due) => {
                // If the stream ended together with the response, the loop does not report the end
                // again.
                let is_readable = stream.is_readable();
                self.ev.disarm(token, TIMEOUT);
                self.idle.push_back(Some(token));
                let Some(due) = due else { return };
                let ns = due.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
                self.latencies.record(ns).expect("it grows");
                if self.closes {
                    self.connections.close(&mut self.ev, token);
                } else if is_readable {
                    self.serve(token, Ready::NONE);
                }
            }
        }
    }

    /// Counts an error. An open connection is closed, and a later request opens another.
    fn fail(&mut self, token: Option<Token>, error: &io::Error) {
        *self.errors.entry(error.to_string()).or_default() += 1;
        let failed = token.and_then(|token| self.connections.remove(&mut self.ev, token));
        if !failed.is_some_and(|(_, connection)| connection.is_idle()) {
            self.idle.push_back(None);
        }
    }
}
