//! The server under test. It answers lines in every way that the loop offers, and checks each of
//! its steps.
//!
//! A request is a line such as `7 post 300`: its number, the method of the answer, and the length
//! of the answer. Answers come in the order of the requests.

use std::{cell::RefCell, collections::BTreeMap, io::ErrorKind, rc::Rc, time::Duration};

use evcore::{
    Accepted, Address, EventLoop, Handle, Interest, Mode, Ready, Step, Timer, Token, TokenMap,
    balancer::WorkerId,
};
use evcore_sim::{App, Process, SimGroup, SimListener, SimStream};

use crate::{config::Config, invariants::InvariantChecker};

pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time that a client may take to receive an answer.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(10);

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(60);

const ANSWER_DELAY: Duration = Duration::from_millis(1_500);

/// The reason why the server has ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// The client has ended its stream, and was answered.
    ClientEnded,
    Failed,
    /// The client requested the end.
    Requested,
    /// Another client requested the end.
    Replaced,
    Expired,
    Evicted,
    ShutDown,
}

/// The reasons why connections have ended at all workers, by the address of the client.
pub(crate) type Reasons = Rc<RefCell<BTreeMap<String, Reason>>>;

#[derive(Debug)]
pub(crate) struct LineServer {
    ev: EventLoop<SimListener>,
    handle: Handle,
    conns: TokenMap<Connection>,
    invariants: InvariantChecker,
    process: Process,
    id: WorkerId,
    group: SimGroup,
    reasons: Reasons,
    mode: Mode,
    /// Number of connections that were added, from which each gets its serial number.
    added: u64,
    /// The loop's count of posted steps before the present step.
    posted: u64,
    is_shutting_down: bool,
    /// True if the shutdown may time out before the clients have ended.
    may_time_out: bool,
    /// The time at which the shutdown began, by the loop's clock.
    shutdown_ns: u64,
}

#[derive(Debug)]
struct Connection {
    stream: SimStream,
    peer: Address,
    serial: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    request: Option<Request>,
    /// True if more bytes may be ready to read.
    readable: bool,
    is_at_eof: bool,
    /// The last registered interest, for `Mode::Level`.
    interest: Interest,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    length: usize,
    method: Method,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Now,
    /// The answer comes in a step that the server posts for this turn (iteration of the loop).
    Post,
    /// The answer follows a post for the next turn.
    PostNext,
    /// The answer follows a post by a handle, as from another thread.
    Handle,
    Timer,
    /// The answer comes at once, after another connection was replaced by a new one at the same
    /// index.
    Replace,
    /// No answer comes, and the connection is closed.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Open,
    Closed,
}

impl LineServer {
    pub(crate) fn new(
        process: &Process,
        index: usize,
        config: &Config,
        group: &SimGroup,
        reasons: &Reasons,
    ) -> Self {
        let id = WorkerId::from_slot(index);
        let ev = config.event_loop(process, id, group);
        Self {
            handle: ev.handle(),
            ev,
            conns: TokenMap::new(),
            invariants: InvariantChecker::new(config.budgets, config.precision()),
            process: process.clone(),
            id,
            group: group.clone(),
            reasons: Rc::clone(reasons),
            mode: config.mode,
            added: 0,
            posted: 0,
            is_shutting_down: false,
            may_time_out: false,
            shutdown_ns: 0,
        }
    }

    /// Starts a shutdown after the clients have ended. When it is over, no connection may be left.
    pub(crate) fn shut_down(&mut self) {
        if !self.is_shutting_down {
            self.shutdown_ns = self.ev.clock().monotonic_ns();
            self.invariants.shut_down();
        }
        self.ev.shutdown(SHUTDOWN_TIMEOUT);
        self.is_shutting_down = true;
    }

    /// Starts a shutdown while clients are connected. Their connections may outlast the shutdown.
    pub(crate) fn shut_down_with_clients(&mut self) {
        self.shut_down();
        self.may_time_out = true;
    }

    /// Handles a pause of the process, after which its wait may end late.
    pub(crate) fn be_stopped(&mut self) {
        self.invariants.be_stopped();
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.is_shutting_down
    }

    /// Returns whether the connection limit leaves room for a client.
    pub(crate) fn has_room(&self) -> bool {
        self.ev.stats().active < self.ev.stats().limit
    }

    pub(crate) fn check_end(&self) {
        assert!(self.conns.is_empty() && self.ev.stats().active == 0);
        self.invariants.check_empty();
    }

    fn accept(&mut self, stream: SimStream, peer: Address) {
        let interest = match self.mode {
            Mode::Edge => Interest::BOTH,
            _ => Interest::READ,
        };
        let added = self.ev.add(&stream, interest, self.mode);
        let token = added.expect("the loop enforces the limit, and the simulator refuses none");
        self.added += 1;
        let connection = Connection {
            stream,
            peer,
            serial: self.added,
            input: Vec::new(),
            output: Vec::new(),
            request: None,
            readable: false,
            is_at_eof: false,
            interest,
        };
        self.conns.insert(token, connection);
        self.invariants.added(token, self.added);
        self.arm(token, Timer::READ, IDLE_TIMEOUT);
    }

    fn ready(&mut self, token: Token, ready: Ready) {
        let conn = self.conns.get_mut(token).expect("its token was checked");
        if ready.is_error() {
            return self.end(token, Reason::Failed);
        }
        conn.readable |= ready.is_readable() || ready.is_read_closed();
        let is_posted = self.ev.stats().posted > self.posted;
        if is_posted && matches!(conn.request, Some(request) if request.method.is_posted()) {
            self.answer(token);
        }
        self.progress(token);
    }

    fn expired(&mut self, token: Token, timer: Timer) {
        let conn = self.conns.get(token).expect("its token was checked");
        match conn.request {
            Some(Request {
                method: Method::Timer,
                ..
            }) if timer == Timer::WRITE && conn.output.is_empty() => {
                self.answer(token);
                self.progress(token);
            }
            _ => self.end(token, Reason::Expired),
        }
    }

    fn progress(&mut self, token: Token) {
        while let Some(conn) = self.conns.get_mut(token) {
            if !conn.output.is_empty() {
                match conn.send() {
                    Ok(true) => self.on_sent(token),
                    Ok(false) => return self.on_blocked(token),
                    Err(_) => return self.end(token, Reason::Failed),
                }
            } else if conn.request.is_some() {
                return self.set_interest(token, Interest::NONE);
            } else if let Some(request) = conn.next_request() {
                self.start(token, request);
            } else if conn.is_at_eof {
                return self.end(token, Reason::ClientEnded);
            } else if conn.receive() == Progress::Closed {
                return self.end(token, Reason::Failed);
            } else if !conn.readable {
                self.ev.rearm(token, Interest::READ);
                self.ev.set_idle(token);
                self.invariants.set_idle(token);
                return self.set_interest(token, Interest::READ);
            }
        }
    }

    fn start(&mut self, token: Token, request: Request) {
        self.conns
            .get_mut(token)
            .expect("its token is live")
            .request = Some(request);
        self.ev.set_busy(token);
        self.invariants.set_busy(token);
        self.disarm(token, Timer::READ);
        match request.method {
            Method::Now => self.answer(token),
            Method::Post => {
                self.ev.post(token, Ready::NONE);
                self.invariants.posted(token);
            }
            Method::PostNext => {
                self.ev.post_next(token, Ready::NONE);
                self.invariants.posted_next(token);
            }
            Method::Handle => {
                assert!(self.handle.post(token, Ready::NONE), "the loop exists");
                self.invariants.posted_by_handle(token);
            }
            Method::Timer => self.arm(token, Timer::WRITE, ANSWER_DELAY),
            Method::Replace => {
                let other = self.tokens().find(|other| *other != token);
                other.into_iter().for_each(|other| self.replace(other));
                self.answer(token);
            }
            Method::Close => self.end(token, Reason::Requested),
        }
    }

    /// Replaces a connection by another one at the same index, while the batch may still hold
    /// events of the first. The other end of the new connection is closed at once.
    fn replace(&mut self, token: Token) {
        self.end(token, Reason::Replaced);
        let (near, _) = self.process.unix_pair();
        self.accept(near, Address::Unnamed);
    }

    fn answer(&mut self, token: Token) {
        let conn = self.conns.get_mut(token).expect("its token is live");
        let request = conn.request.take().expect("a request is pending");
        conn.output.extend(answer(request.number, request.length));
    }

    fn on_sent(&mut self, token: Token) {
        self.disarm(token, Timer::WRITE);
        self.arm(token, Timer::READ, IDLE_TIMEOUT);
    }

    /// Handles an answer that was sent in part.
    fn on_blocked(&mut self, token: Token) {
        self.ev.rearm(token, Interest::WRITE);
        self.disarm(token, Timer::READ);
        self.arm(token, Timer::WRITE, SEND_TIMEOUT);
        self.set_interest(token, Interest::WRITE);
    }

    /// Registers the interest of a level-triggered connection.
    fn set_interest(&mut self, token: Token, interest: Interest) {
        let conn = self.conns.get_mut(token).expect("its token is live");
        if self.mode != Mode::Edge && conn.interest != interest {
            conn.interest = interest;
            self.ev.modify(token, interest).expect("it is watched");
        }
    }

    fn end(&mut self, token: Token, reason: Reason) {
        self.invariants.closed(token);
        let conn = self.conns.get(token).expect("its token is live");
        let peer = conn.peer.to_string();
        self.reasons.borrow_mut().insert(peer, reason);
        assert!(self.conns.close(&mut self.ev, token));
    }

    fn tokens(&self) -> impl Iterator<Item = Token> {
        self.conns.iter().map(|(token, _)| token)
    }

    fn arm(&mut self, token: Token, timer: Timer, after: Duration) {
        let now_ns = self.ev.clock().monotonic_ns();
        self.invariants.armed(token, timer, now_ns, after);
        assert!(self.ev.arm(token, timer, after));
    }

    fn disarm(&mut self, token: Token, timer: Timer) {
        self.invariants.disarmed(token, timer);
        self.ev.disarm(token, timer);
    }

    fn check(&mut self, step: &Step<SimStream>) {
        let token = match step {
            Step::Ready(token, _) | Step::Expired(token, _) | Step::Evict(token) => *token,
            Step::Accepted(_) | Step::Woken | Step::ShuttingDown => return,
        };
        let serial = self.conns.get(token).map(|conn| conn.serial);
        self.invariants.check_token(token, serial);
        if self.ev.stats().posted > self.posted {
            self.invariants.delivered(token);
        }
        if let Step::Expired(_, timer) = *step {
            let now_ns = self.ev.clock().monotonic_ns();
            self.invariants.check_expired(token, timer, now_ns);
            assert_ne!(
                self.group.lock_owner(),
                Some(self.id),
                "a timer fired while the accept lock was held"
            );
        }
    }
}

impl App for LineServer {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn on_step(&mut self, step: Step<SimStream>) {
        self.check(&step);
        match step {
            Step::Accepted(Accepted { stream, peer, .. }) => self.accept(stream, peer),
            Step::Ready(token, ready) => self.ready(token, ready),
            Step::Expired(token, timer) => self.expired(token, timer),
            Step::Evict(token) => {
                self.invariants.check_evicted(token);
                self.end(token, Reason::Evicted);
            }
            Step::Woken => panic!("no handle wakes it without a post"),
            Step::ShuttingDown => assert!(self.ev.stats().shutting_down),
        }
        self.posted = self.ev.stats().posted;
    }

    fn on_turn_end(&mut self) {
        if self.may_time_out && self.ev.stats().shut_down {
            // The process exits, and the kernel closes the connections that are left.
            let took = Duration::from_nanos(self.ev.clock().monotonic_ns() - self.shutdown_ns);
            assert!(
                self.conns.is_empty() || took >= SHUTDOWN_TIMEOUT,
                "the shutdown timed out after {took:?}"
            );
            for token in self.tokens().collect::<Vec<_>>() {
                self.end(token, Reason::ShutDown);
            }
        }
        let now = self.process.sim().now();
        let now_ns = self.ev.clock().monotonic_ns();
        self.invariants.check_turn(now, now_ns, &self.ev.stats());
        assert_ne!(
            self.group.lock_owner(),
            Some(self.id),
            "the turn ended with the accept lock held"
        );
    }

    fn on_turn_abandoned(&mut self) {
        let now = self.process.sim().now();
        let now_ns = self.ev.clock().monotonic_ns();
        self.invariants
            .check_abandoned_turn(now, now_ns, &self.ev.stats());
    }

    fn is_done(&self) -> bool {
        self.ev.stats().shut_down
    }
}

impl Connection {
    fn send(&mut self) -> std::io::Result<bool> {
        loop {
            match self.stream.send(&self.output) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.output.is_empty() {
                return Ok(true);
            }
        }
    }

    fn receive(&mut self) -> Progress {
        if !self.readable {
            return Progress::Open;
        }
        let mut buffer = [0; 256];
        match self.stream.recv(&mut buffer) {
            Ok(0) => self.is_at_eof = true,
            Ok(received) => self.input.extend(&buffer[..received]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(_) => return Progress::Closed,
        }
        Progress::Open
    }

    fn next_request(&mut self) -> Option<Request> {
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let line = String::from_utf8(line).expect("clients send text");
        Some(Request::parse(line.trim_end()).expect("clients send valid requests"))
    }
}

impl Request {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (number, method, length) = (words.next()?, words.next()?, words.next()?);
        let method = match method {
            "now" => Method::Now,
            "post" => Method::Post,
            "post_next" => Method::PostNext,
            "handle" => Method::Handle,
            "timer" => Method::Timer,
            "replace" => Method::Replace,
            "close" => Method::Close,
            _ => return None,
        };
        Some(Self {
            number: number.parse().ok()?,
            length: length.parse().ok()?,
            method,
        })
    }
}

impl Method {
    fn is_posted(self) -> bool {
        matches!(self, Self::Post | Self::PostNext | Self::Handle)
    }
}

pub(crate) fn answer(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = format!("{number}:").into_bytes();
    bytes.resize(bytes.len() + length, b'.');
    bytes.push(b'\n');
    bytes
}
