//! The server under test: it answers lines, by every means that the loop has, and keeps an account
//! of it all.
//!
//! A request is a line, `7 later 300`: its number, how to answer, and how many bytes the answer is
//! to have. Answers come in the order of the requests.

use std::{io::ErrorKind, time::Duration};

use evcore::{
    Connections, EventLoop, Handle, Interest, Mode, Ready, Step, Timer, Token, balancer::WorkerId,
};
use evcore_sim::{App, Process, SimGroup, SimListener, SimStream};

use crate::{audit::Audit, setting::Setting};

/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(60);

/// How long a client may take to take an answer.
const SENDING: Duration = Duration::from_secs(10);

/// How long who has to leave may take for it.
const LEAVING: Duration = Duration::from_secs(60);

/// How long an answer takes that comes by a timer.
const SLEEP: Duration = Duration::from_millis(1_500);

/// A worker.
#[derive(Debug)]
pub(crate) struct Subject {
    ev: EventLoop<SimListener>,
    handle: Handle,
    conns: Connections<Connection>,
    audit: Audit,
    process: Process,
    id: WorkerId,
    group: SimGroup,
    mode: Mode,
    /// How many have come: their serial numbers.
    comers: u64,
    /// What the loop had delivered from its posted queue when it was last looked at.
    posted: u64,
    /// It was asked to come to an end.
    is_leaving: bool,
    /// It may come to that before its clients do, when its time is over.
    may_give_up: bool,
    /// When it was asked to, in nanoseconds of the loop's clock.
    asked_ns: u64,
}

#[derive(Debug)]
struct Connection {
    stream: SimStream,
    serial: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Being answered.
    request: Option<Request>,
    /// It may have sent more.
    readable: bool,
    /// It will send no more.
    ended: bool,
    /// What the loop was last asked for (`Level`).
    interest: Interest,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    length: usize,
    by: Means,
}

/// By what means a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Now,
    /// By a post, later in this turn.
    Later,
    /// By a post to the next turn.
    Next,
    /// By a post as from another thread, which comes with the next turn.
    Handed,
    /// By a timer.
    Timer,
    /// Now, and somebody else is thrown out for it, whose place is taken at once.
    Ousting,
    /// Not at all: the connection is closed.
    Leaving,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
}

impl Subject {
    pub(crate) fn new(
        process: &Process,
        index: usize,
        setting: &Setting,
        group: &SimGroup,
    ) -> Self {
        let id = WorkerId::from_slot(index);
        let ev = setting.event_loop(process, id, group);
        Self {
            handle: ev.handle(),
            ev,
            conns: Connections::new(),
            audit: Audit::new(setting.budgets, setting.punctuality()),
            process: process.clone(),
            id,
            group: group.clone(),
            mode: setting.mode,
            comers: 0,
            posted: 0,
            is_leaving: false,
            may_give_up: false,
            asked_ns: 0,
        }
    }

    /// Asks it to come to an end, now that its clients have: nobody is to be left.
    pub(crate) fn shut_down(&mut self) {
        if !self.is_leaving {
            self.asked_ns = self.ev.clock().monotonic_ns();
        }
        self.ev.shutdown(LEAVING);
        self.is_leaving = true;
    }

    /// Sends it away in the midst of its clients, who may outlast it.
    pub(crate) fn send_away(&mut self) {
        self.shut_down();
        self.may_give_up = true;
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Whether there is a place for a client.
    pub(crate) fn has_room(&self) -> bool {
        self.ev.status().active < self.ev.status().limit
    }

    /// It has come to its end in time: nobody is left.
    pub(crate) fn check_end(&self) {
        assert!(self.conns.is_empty() && self.ev.status().active == 0);
        self.audit.closes();
    }

    fn welcome(&mut self, stream: SimStream) {
        let interest = match self.mode {
            Mode::Edge => Interest::BOTH,
            _ => Interest::READ,
        };
        let added = self.ev.add(&stream, interest, self.mode);
        let token = added.expect("the loop counts places, and the simulator refuses none");
        self.comers += 1;
        let connection = Connection {
            stream,
            serial: self.comers,
            input: Vec::new(),
            output: Vec::new(),
            request: None,
            readable: false,
            ended: false,
            interest,
        };
        self.conns.insert(token, connection);
        self.audit.begins(token, self.comers);
        self.arm(token, Timer::READ, IDLE);
    }

    fn ready(&mut self, token: Token, ready: Ready) {
        let conn = self.conns.get_mut(token).expect("it was just looked at");
        if ready.is_error() {
            return self.end(token);
        }
        conn.readable |= ready.is_readable() || ready.is_read_closed();
        let is_posted = self.ev.stats().posted > self.posted;
        if is_posted && matches!(conn.request, Some(it) if it.by.is_posted()) {
            self.answer(token);
        }
        self.go_on(token);
    }

    fn expired(&mut self, token: Token, timer: Timer) {
        let conn = self.conns.get(token).expect("it was just looked at");
        match conn.request {
            Some(Request {
                by: Means::Timer, ..
            }) if timer == Timer::WRITE && conn.output.is_empty() => {
                self.answer(token);
                self.go_on(token);
            }
            _ => self.end(token),
        }
    }

    /// Does for a connection what there is to do.
    fn go_on(&mut self, token: Token) {
        while let Some(conn) = self.conns.get_mut(token) {
            if !conn.output.is_empty() {
                match conn.send() {
                    Ok(true) => self.sent(token),
                    Ok(false) => return self.blocked(token),
                    Err(_) => return self.end(token),
                }
            } else if conn.request.is_some() {
                return self.settle(token, Interest::NONE);
            } else if let Some(request) = conn.next_request() {
                self.begin(token, request);
            } else if conn.ended || conn.receive() == Fate::Ends {
                return self.end(token);
            } else if !conn.readable {
                self.ev.rearm(token, Interest::READ);
                self.ev.set_idle(token);
                self.audit.idles(token);
                return self.settle(token, Interest::READ);
            }
        }
    }

    fn begin(&mut self, token: Token, request: Request) {
        self.conns.get_mut(token).expect("it lives").request = Some(request);
        self.ev.set_busy(token);
        self.audit.works(token);
        self.disarm(token, Timer::READ);
        match request.by {
            Means::Now => self.answer(token),
            Means::Later => {
                self.ev.post(token, Ready::NONE);
                self.audit.posts(token);
            }
            Means::Next => {
                self.ev.post_next(token, Ready::NONE);
                self.audit.posts_next(token);
            }
            Means::Handed => {
                let posted = self.handle.post(token, Ready::NONE);
                posted.expect("the loop is there");
                self.audit.posts_from_outside(token);
            }
            Means::Timer => self.arm(token, Timer::WRITE, SLEEP),
            Means::Ousting => {
                let other = self.tokens().find(|other| *other != token);
                other.into_iter().for_each(|other| self.replace(other));
                self.answer(token);
            }
            Means::Leaving => self.end(token),
        }
    }

    /// Another connection at the same index, while the batch may still hold events of the one
    /// before: as a proxy has that connects to a server. Its other end is closed at once.
    fn replace(&mut self, token: Token) {
        self.end(token);
        let (near, _) = self.process.pair();
        self.welcome(near);
    }

    fn answer(&mut self, token: Token) {
        let conn = self.conns.get_mut(token).expect("it lives");
        let request = conn.request.take().expect("there is something to answer");
        conn.output.extend(answer(request.number, request.length));
    }

    /// An answer has been sent.
    fn sent(&mut self, token: Token) {
        self.disarm(token, Timer::WRITE);
        self.arm(token, Timer::READ, IDLE);
    }

    /// An answer has been sent in part.
    fn blocked(&mut self, token: Token) {
        self.ev.rearm(token, Interest::WRITE);
        self.disarm(token, Timer::READ);
        self.arm(token, Timer::WRITE, SENDING);
        self.settle(token, Interest::WRITE);
    }

    /// Asks the poller for what the connection waits for.
    fn settle(&mut self, token: Token, interest: Interest) {
        let conn = self.conns.get_mut(token).expect("it lives");
        if self.mode != Mode::Edge && conn.interest != interest {
            conn.interest = interest;
            self.ev.modify(token, interest).expect("it is watched");
        }
    }

    fn end(&mut self, token: Token) {
        self.audit.ends(token);
        assert!(self.conns.close(&mut self.ev, token));
    }

    fn tokens(&self) -> impl Iterator<Item = Token> {
        self.conns.iter().map(|(token, _)| token)
    }

    fn arm(&mut self, token: Token, timer: Timer, after: Duration) {
        let now_ns = self.ev.clock().monotonic_ns();
        self.audit.arms(token, timer, now_ns, after);
        assert!(self.ev.arm(token, timer, after));
    }

    fn disarm(&mut self, token: Token, timer: Timer) {
        self.audit.disarms(token, timer);
        self.ev.disarm(token, timer);
    }

    /// Holds a step against the account.
    fn check(&mut self, step: &Step<SimStream>) {
        let token = match step {
            Step::Ready(token, _) | Step::Expired(token, _) | Step::Evict(token) => *token,
            Step::Accepted(_) | Step::Woken => return,
        };
        let serial = self.conns.get(token).map(|conn| conn.serial);
        self.audit.named(token, serial);
        if self.ev.stats().posted > self.posted {
            self.audit.delivered(token);
        }
        if let Step::Expired(_, timer) = *step {
            let now_ns = self.ev.clock().monotonic_ns();
            self.audit.expires(token, timer, now_ns);
            assert_ne!(
                self.group.lock_owner(),
                Some(self.id),
                "a timer fired while the accept lock was held"
            );
        }
    }
}

impl App for Subject {
    fn event_loop(&mut self) -> &mut EventLoop<SimListener> {
        &mut self.ev
    }

    fn take(&mut self, step: Step<SimStream>) {
        self.check(&step);
        match step {
            Step::Accepted(new) => self.welcome(new.stream),
            Step::Ready(token, ready) => self.ready(token, ready),
            Step::Expired(token, timer) => self.expired(token, timer),
            Step::Evict(token) => {
                self.audit.closing(token);
                self.end(token);
            }
            Step::Woken => panic!("nobody wakes it"),
        }
        self.posted = self.ev.stats().posted;
    }

    fn turn_over(&mut self) {
        if self.may_give_up && self.ev.is_done() {
            // Whoever is left was given up: the process exits, and the kernel closes.
            let had = Duration::from_nanos(self.ev.clock().monotonic_ns() - self.asked_ns);
            let nobody_is_left = self.conns.is_empty();
            assert!(nobody_is_left || had >= LEAVING, "given up after {had:?}");
            for token in self.tokens().collect::<Vec<_>>() {
                self.end(token);
            }
        }
        let now = self.process.world().now();
        let now_ns = self.ev.clock().monotonic_ns();
        self.audit.turn_over(now, now_ns, self.ev.stats());
        assert_ne!(self.group.lock_owner(), Some(self.id), "a lock kept");
    }

    fn turn_left(&mut self) {
        let now = self.process.world().now();
        let now_ns = self.ev.clock().monotonic_ns();
        self.audit.turn_left(now, now_ns, self.ev.stats());
    }

    fn is_done(&self) -> bool {
        self.ev.is_done()
    }
}

impl Connection {
    /// Sends what it can of what there is, and says whether that was all.
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

    /// Reads once, if there may be something.
    fn receive(&mut self) -> Fate {
        if !self.readable {
            return Fate::Stays;
        }
        let mut buffer = [0; 256];
        match self.stream.recv(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(received) => self.input.extend(&buffer[..received]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(_) => return Fate::Ends,
        }
        Fate::Stays
    }

    fn next_request(&mut self) -> Option<Request> {
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.input.drain(..=end).collect();
        let line = String::from_utf8(line).expect("clients send text");
        Some(Request::parse(line.trim_end()).expect("clients know how to ask"))
    }
}

impl Request {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (number, by, length) = (words.next()?, words.next()?, words.next()?);
        let by = match by {
            "now" => Means::Now,
            "later" => Means::Later,
            "next" => Means::Next,
            "handed" => Means::Handed,
            "timer" => Means::Timer,
            "ousting" => Means::Ousting,
            "leaving" => Means::Leaving,
            _ => return None,
        };
        Some(Self {
            number: number.parse().ok()?,
            length: length.parse().ok()?,
            by,
        })
    }
}

impl Means {
    fn is_posted(self) -> bool {
        matches!(self, Self::Later | Self::Next | Self::Handed)
    }
}

/// What a client is to hear.
pub(crate) fn answer(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = format!("{number}:").into_bytes();
    bytes.resize(bytes.len() + length, b'.');
    bytes.push(b'\n');
    bytes
}
