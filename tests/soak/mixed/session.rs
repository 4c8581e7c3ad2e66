//! The session of one client on one connection.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{
    exchange::{Exchange, HeadSeen, ServedFile},
    ledger::Ledger,
    random::Random,
    wire::Wire,
};

/// The server as its clients see it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) tcp: SocketAddr,
    /// `None` if the server has no Unix socket.
    pub(super) unix: Option<PathBuf>,
    pub(super) files: Vec<ServedFile>,
    pub(super) ledger: Ledger,
}

const PIPELINED_MAX: usize = 8 * 1024;

#[derive(Debug)]
enum End {
    Io(io::Error),
    /// A failure that is never allowed.
    Wrong(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A connection, and the data with which its client judges a failure.
struct Session<'a> {
    wire: Wire,
    target: &'a Target,
    random: &'a mut Random,
    /// The process id of the worker, if a response named it.
    worker: Option<u32>,
    responses: u64,
    /// Number of requests that were sent or begun, and have no response.
    open: u64,
    /// The moments of the ledger's kills and turnovers, read just before the client connected.
    kills: u64,
    turnovers: u64,
    /// The time of the last response, or of the connect.
    answered: Instant,
    /// The time from the last response to the next request.
    paused: Duration,
    begun: Instant,
    doing: &'static str,
}

/// Begins one session after the other, until the end or a failure.
pub(super) fn visit(target: &Target, mut random: Random) {
    let ledger = &target.ledger;
    while !ledger.is_over() && ledger.failure().is_ok() {
        let Ok(_open) = ledger.gate.read() else {
            return;
        };
        if let Err(what) = session(target, &mut random) {
            ledger.fail(what);
        }
        drop(_open);
        random.pause(1..150);
    }
}

fn session(target: &Target, random: &mut Random) -> Result<(), String> {
    let ledger = &target.ledger;
    let (kills, turnovers) = (ledger.kills.now(), ledger.turnovers.now());
    let unix = target.unix.as_ref().filter(|_| random.once_in(5));
    let connected = match unix {
        Some(path) => Wire::unix(path),
        None => Wire::tcp(target.tcp),
    };
    let wire = connected.map_err(|error| format!("a client cannot connect: {error}"))?;
    ledger.connections.add(1);
    let mut session = Session {
        wire,
        target,
        random,
        worker: None,
        responses: 0,
        open: 0,
        kills,
        turnovers,
        answered: Instant::now(),
        paused: Duration::ZERO,
        begun: Instant::now(),
        doing: "",
    };
    match session.run() {
        Ok(()) => Ok(()),
        Err(End::Io(error)) => session.lost(&error),
        Err(End::Wrong(what)) => Err(session.report(&what)),
    }
}

impl Session<'_> {
    fn run(&mut self) -> Result<(), End> {
        match self.random.within(0..16) {
            0..=4 => self.one_shot(),
            5..=9 => self.kept_alive(),
            10 => self.pipelined(),
            11 => self.slow_request(),
            12 => self.slow_reader(),
            13 => self.half_closed(),
            14 => self.reset_within_request(),
            _ => self.reset_within_response(),
        }
    }

    fn one_shot(&mut self) -> Result<(), End> {
        self.doing = "one request";
        let exchange = self.choose().last();
        self.exchange(&exchange)
    }

    fn kept_alive(&mut self) -> Result<(), End> {
        self.doing = "a kept-alive connection";
        self.exchange(&Exchange::worker())?;
        for _ in 0..self.random.within(1..12) {
            let pause = if self.random.once_in(10) {
                600..1400
            } else {
                0..40
            };
            self.random.pause(pause);
            let exchange = self.choose();
            self.exchange(&exchange)?;
        }
        Ok(())
    }

    fn pipelined(&mut self) -> Result<(), End> {
        self.doing = "pipelined requests";
        self.exchange(&Exchange::worker())?;
        // All requests are sent before the first response is read. They must fit into the socket's
        // buffers, because a server does not read while its responses wait.
        let exchanges: Vec<_> = (0..self.random.within(2..12))
            .map(|_| self.choose())
            .filter(|exchange| exchange.request.len() <= PIPELINED_MAX)
            .collect();
        let requests: Vec<_> = exchanges
            .iter()
            .map(|exchange| &exchange.request[..])
            .collect();
        self.begin_requests(exchanges.len() as u64);
        // If the worker was killed, the responses show it.
        let _ = self.wire.send(&requests.concat());
        exchanges
            .iter()
            .try_for_each(|exchange| self.response(exchange))
    }

    fn slow_request(&mut self) -> Result<(), End> {
        self.doing = "a slow request";
        let exchange = if self.random.once_in(2) {
            Exchange::echo(self.random)
        } else {
            self.choose()
        };
        self.begin_requests(1);
        let head_length = if self.random.once_in(2) {
            exchange.head_length
        } else {
            0
        };
        let (head, rest) = exchange.request.split_at(head_length);
        self.wire.send(head)?;
        self.wire.send_slowly(rest, self.random)?;
        self.response(&exchange)
    }

    fn slow_reader(&mut self) -> Result<(), End> {
        self.doing = "a slow reader";
        self.wire.shrink_receive_buffer()?;
        let exchange = Exchange::bytes(self.random.within(1..4_000_000));
        self.begin_requests(1);
        self.wire.send(&exchange.request)?;
        let seen = self.head(&exchange)?;
        let body = self.wire.body_slowly(seen.body_length, self.random)?;
        self.body(&exchange, &body, seen.closes)
    }

    fn half_closed(&mut self) -> Result<(), End> {
        self.doing = "a half-closed connection";
        let exchange = self.choose();
        self.begin_requests(1);
        self.wire.send(&exchange.request)?;
        self.wire.shutdown_write()?;
        self.response(&exchange)?;
        Ok(self.wire.end()?)
    }

    /// Resets before the request is complete, so the server does not count it.
    fn reset_within_request(&mut self) -> Result<(), End> {
        self.doing = "a reset within a request";
        self.exchange(&Exchange::worker())?;
        let exchange = Exchange::echo(self.random);
        let sent = self.random.within(1..exchange.head_length);
        self.wire.send(&exchange.request[..sent])?;
        self.random.pause(0..20);
        Ok(self.wire.reset_on_close()?)
    }

    /// Resets after the response has begun, so the server counts the request.
    fn reset_within_response(&mut self) -> Result<(), End> {
        self.doing = "a reset within a response";
        let exchange = Exchange::bytes(self.random.within(100_000..1_000_000));
        self.begin_requests(1);
        self.wire.send(&exchange.request)?;
        self.head(&exchange)?;
        Ok(self.wire.reset_on_close()?)
    }

    fn choose(&mut self) -> Exchange {
        Exchange::random(self.random, &self.target.files)
    }

    fn exchange(&mut self, exchange: &Exchange) -> Result<(), End> {
        self.begin_requests(1);
        self.wire.send(&exchange.request)?;
        self.response(exchange)
    }

    fn begin_requests(&mut self, count: u64) {
        self.open += count;
        self.paused = self.answered.elapsed();
        self.begun = Instant::now();
    }

    fn response(&mut self, exchange: &Exchange) -> Result<(), End> {
        let seen = self.head(exchange)?;
        let body = self.wire.body(seen.body_length)?;
        self.body(exchange, &body, seen.closes)
    }

    fn head(&mut self, exchange: &Exchange) -> Result<HeadSeen, End> {
        let head = self.wire.head()?;
        let wrong = |what| End::Wrong(format!("{}: {what}", exchange.name()));
        let seen = exchange.check_head(&head).map_err(wrong)?;
        self.target.ledger.requests.add(1);
        self.open -= 1;
        self.responses += 1;
        Ok(seen)
    }

    fn body(&mut self, exchange: &Exchange, body: &[u8], closes: bool) -> Result<(), End> {
        let wrong = |what| End::Wrong(format!("{}: {what}", exchange.name()));
        let worker = exchange.body.check(body).map_err(wrong)?;
        self.worker = worker.or(self.worker);
        self.answered = Instant::now();
        // Further pipelined requests were sent before, without a pause.
        self.paused = Duration::ZERO;
        if closes && exchange.asks_for_close() {
            return Ok(self.wire.end()?);
        }
        if closes {
            return Err(End::Wrong("the end was announced".to_owned()));
        }
        Ok(())
    }

    /// Judges a failed connection. The failure is allowed if the worker was killed. The connection
    /// may have moved since the last response, to a worker that no response has named.
    fn lost(&mut self, error: &io::Error) -> Result<(), String> {
        let ledger = &self.target.ledger;
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return Err(self.report("no response"));
        }
        let may_have_moved = ledger.turnovers.overlap_since(self.turnovers);
        let was_killed = may_have_moved || self.worker.is_none_or(|pid| ledger.was_killed(pid));
        if was_killed && ledger.kills.overlap_since(self.kills) {
            ledger.killed_sessions.add(1);
            ledger.uncounted_requests.add(self.open);
            ledger
                .uncounted_connections
                .add(u64::from(self.responses == 0));
            return Ok(());
        }
        Err(self.report(&error.to_string()))
    }

    fn report(&self, what: &str) -> String {
        let Self {
            doing,
            worker,
            responses,
            open,
            paused,
            ..
        } = self;
        let transport = match self.wire.local_port() {
            Some(port) => format!("port {port}"),
            None => "Unix socket".to_owned(),
        };
        format!(
            "{doing}: {what}; {transport}, worker {worker:?}, {responses} responses, {open} open \
             requests, begun {paused:?} after the last response and {:?} ago",
            self.begun.elapsed()
        )
    }
}
