//! One client, from its first byte to its last.
//!
//! Edge-triggered: the kernel says once that there is something, so the connection remembers
//! (`readable`) until it has met an empty socket. It reads only what it can serve: while an answer
//! waits to be sent, or for its time, what the client sends next stays in the kernel.

use std::{
    io::{self, ErrorKind, Read, Write},
    mem,
    time::Duration,
};

use evcore::{EventLoop, Interest, Ready, Side, Stream, Token};

use crate::{
    body::BodyReader,
    counts::Doing,
    request::{Ask, MOST_HEAD_BYTES, Parsed, Request, parse},
    response::{CONTINUE, Status},
    route::Route,
    site::{FILLING, Rest, Site},
};

/// Reads, and pieces of filling, that one visit may make before others have their turn.
const VISIT_BUDGET: u32 = 16;

/// Answers to pipelined requests are sent when they have come to this.
const MOST_OUTPUT_BYTES: usize = 64 * 1024;

/// How long, and how much, a connection that was refused is listened to: closing a socket that has
/// unread bytes would destroy the refusal on its way (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const MOST_LINGER_BYTES: usize = 4 * 1024 * 1024;

static FILLINGS: [u8; 64 * 1024] = [FILLING; 64 * 1024];

/// What a connection needs of its stream: so that it can be tested on any other.
pub trait Wire: Read + Write {
    /// Tells the peer that nothing more comes.
    fn shutdown_write(&self) -> io::Result<()>;
}

impl Wire for Stream {
    fn shutdown_write(&self) -> io::Result<()> {
        Stream::shutdown_write(self)
    }
}

/// A client.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    state: State,
    /// Received, and not yet served. Empty (and without memory) between requests.
    input: Vec<u8>,
    /// What is in `input` was looked at, and is the beginning of something.
    partial: bool,
    /// Not taken by the socket yet, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    /// Bytes of filling to send behind `output`.
    filling: u64,
    /// The socket may have more: it was not yet seen empty.
    readable: bool,
    /// The client has said that it sends no more: so a short read is not the last one.
    ending: bool,
    /// The answer that is being sent is the last one.
    last: bool,
    /// After the last answer, there are bytes that nobody will read.
    lingers: bool,
    /// The write timer watches over sending.
    send_timed: bool,
    read_timer: ReadTimer,
    /// A request was answered since the read timer was armed.
    fresh: bool,
    /// As `/status` counts it.
    doing: Doing,
}

/// Where it is with the request.
#[derive(Debug)]
enum State {
    /// Before or within a head.
    Head,
    Body(Box<(Request, BodyReader)>),
    /// The answer waits for the write timer; armed once what came before it is sent.
    Sleeping {
        request: Request,
        rest: Sleep,
    },
    /// Refused and shut down: what still comes is thrown away, up to a limit.
    Lingering {
        left: usize,
    },
}

#[derive(Clone, Copy, Debug)]
enum Sleep {
    NotBegun(Duration),
    Begun,
}

/// What the read timer is armed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadTimer {
    None,
    Header,
    KeepAlive,
    Body,
    Linger,
}

/// What a visit leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fate {
    Stays,
    /// Forget the token and close the stream.
    Ends,
}

/// One visit of the loop to a connection: what it may touch.
#[derive(Debug)]
pub struct Visit<'a> {
    pub ev: &'a mut EventLoop,
    pub site: &'a mut Site,
    pub token: Token,
}

impl<S: Wire> Connection<S> {
    /// A client that has just come; arms the timer of its first head.
    pub fn new(stream: S, visit: &mut Visit<'_>) -> Self {
        visit
            .ev
            .arm(visit.token, Side::Read, visit.site.limits.header);
        visit.site.counts.connection_begins();
        Self {
            stream,
            state: State::Head,
            input: Vec::new(),
            partial: false,
            output: Vec::new(),
            sent: 0,
            filling: 0,
            readable: false,
            ending: false,
            last: false,
            lingers: false,
            send_timed: false,
            read_timer: ReadTimer::Header,
            fresh: false,
            doing: Doing::Waiting,
        }
    }

    /// The kernel has reported something, or the connection has posted itself.
    pub fn ready(&mut self, ready: Ready, visit: &mut Visit<'_>) -> Fate {
        if ready.is_error() || ready.is_write_closed() {
            // Nothing that is sent would arrive.
            return Fate::Ends;
        }
        self.ending |= ready.is_read_closed();
        self.readable |= ready.is_readable() || self.ending;
        self.go_on(visit)
    }

    /// A timer has expired.
    pub fn expired(&mut self, side: Side, visit: &mut Visit<'_>) -> Fate {
        match (side, &self.state, self.read_timer) {
            (Side::Write, State::Sleeping { request, .. }, _) => {
                let request = *request;
                visit.site.answer_sleeper(&request, visit.ev.clock());
                self.answered(&request, visit);
            }
            (Side::Read, _, ReadTimer::Header | ReadTimer::Body) => {
                self.refuse(Status::RequestTimeout, visit);
            }
            // It does not take what it asked for, has nothing to ask, or lingers too long.
            _ => return Fate::Ends,
        }
        self.go_on(visit)
    }

    /// The worker is to stop: an idle connection ends, unless a request has just come.
    pub fn worker_stops(&mut self, visit: &mut Visit<'_>) -> Fate {
        self.readable = true;
        self.go_on(visit)
    }

    /// The end: its place in the counts is free.
    pub fn end(self, site: &mut Site) -> S {
        site.counts.connection_ends(self.doing);
        self.stream
    }

    /// Sends, serves and reads for as long as there is something to do, up to a budget.
    fn go_on(&mut self, visit: &mut Visit<'_>) -> Fate {
        for _ in 0..VISIT_BUDGET {
            match self.step(visit) {
                Ok(Progress::More) => {}
                Ok(Progress::Waits) if visit.site.stopping && self.is_idle() => return Fate::Ends,
                Ok(Progress::Waits) => {
                    self.settle(visit);
                    return Fate::Stays;
                }
                Ok(Progress::Over) | Err(_) => return Fate::Ends,
            }
        }
        // The rest when the others had their turn.
        visit.ev.post(visit.token, Ready::WRITABLE);
        self.settle(visit);
        Fate::Stays
    }

    fn step(&mut self, visit: &mut Visit<'_>) -> io::Result<Progress> {
        if visit.site.output.len() + self.output.len() > 0 || self.filling > 0 {
            return self.send(visit);
        }
        if self.last {
            return self.finish(visit);
        }
        match &mut self.state {
            State::Sleeping { rest, .. } => {
                if let Sleep::NotBegun(time) = mem::replace(rest, Sleep::Begun) {
                    visit.ev.arm(visit.token, Side::Write, time);
                }
                Ok(Progress::Waits)
            }
            State::Lingering { .. } => self.linger(visit),
            State::Head | State::Body(_) => {
                if self.serve_kept(visit) {
                    Ok(Progress::More)
                } else {
                    self.receive(visit)
                }
            }
        }
    }

    /// Puts everything in order for the time until the next visit: timers and counts.
    fn settle(&mut self, visit: &mut Visit<'_>) {
        let (doing, timer) = match &self.state {
            State::Lingering { .. } => (Doing::Writing, ReadTimer::Linger),
            State::Sleeping { .. } => (Doing::Writing, ReadTimer::None),
            _ if self.has_output() => (Doing::Writing, ReadTimer::None),
            State::Body(_) => (Doing::Reading, ReadTimer::Body),
            State::Head if !self.input.is_empty() => (Doing::Reading, ReadTimer::Header),
            // The first head's time begins when the connection does.
            State::Head if self.read_timer == ReadTimer::Header && !self.fresh => {
                (Doing::Waiting, ReadTimer::Header)
            }
            State::Head => (Doing::Waiting, ReadTimer::KeepAlive),
        };
        visit.site.counts.change(&mut self.doing, doing);
        if timer != self.read_timer || self.fresh || timer == ReadTimer::Body {
            self.read_timer = timer;
            self.arm_read_timer(visit);
        }
        self.fresh = false;
    }

    fn arm_read_timer(&self, visit: &mut Visit<'_>) {
        let limits = &visit.site.limits;
        let time = match self.read_timer {
            ReadTimer::None => {
                visit.ev.disarm(visit.token, Side::Read);
                return;
            }
            ReadTimer::Header | ReadTimer::Body => limits.header,
            ReadTimer::KeepAlive => limits.keep_alive,
            ReadTimer::Linger => LINGER,
        };
        visit.ev.arm(visit.token, Side::Read, time);
    }

    fn is_idle(&self) -> bool {
        matches!(self.state, State::Head) && self.input.is_empty() && !self.has_output()
    }

    fn has_output(&self) -> bool {
        self.filling > 0 || !self.output.is_empty()
    }
}

/// Receiving and serving.
impl<S: Wire> Connection<S> {
    /// Serves what was kept from earlier reads; whether that led anywhere.
    fn serve_kept(&mut self, visit: &mut Visit<'_>) -> bool {
        if self.input.is_empty() || self.partial {
            return false;
        }
        self.serve_input(0, visit);
        true
    }

    /// Reads once, and serves what came.
    fn receive(&mut self, visit: &mut Visit<'_>) -> io::Result<Progress> {
        if !self.readable {
            return Ok(Progress::Waits);
        }
        let mut buffer = mem::take(&mut visit.site.input);
        let received = self.read(&mut buffer, visit);
        if let Ok(Some(n)) = received {
            self.take_in(&buffer[..n], visit);
        }
        visit.site.input = buffer;
        Ok(match received? {
            None => Progress::Waits,
            Some(0) => Progress::Over,
            Some(_) => Progress::More,
        })
    }

    /// Reads once; `None` where the socket is empty.
    fn read(&mut self, buffer: &mut [u8], visit: &mut Visit<'_>) -> io::Result<Option<usize>> {
        match self.stream.read(buffer) {
            Ok(n) => {
                // A short read has emptied the socket, unless an end stands behind it.
                if n < buffer.len() && !self.ending {
                    self.drained(visit);
                }
                Ok(Some(n))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.drained(visit);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The socket is empty: tell whoever keeps edge triggering for a kernel that has none.
    fn drained(&mut self, visit: &mut Visit<'_>) {
        self.readable = false;
        visit.ev.rearm(visit.token, Interest::READ);
    }

    /// Serves new bytes, straight from the shared buffer where nothing was kept before.
    fn take_in(&mut self, bytes: &[u8], visit: &mut Visit<'_>) {
        if self.input.is_empty() {
            let used = self.serve(bytes, 0, visit);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            let known = self.input.len();
            self.input.extend_from_slice(bytes);
            self.serve_input(known, visit);
        }
    }

    /// Serves what is in `input`, of which `known` bytes were looked at before.
    fn serve_input(&mut self, known: usize, visit: &mut Visit<'_>) {
        let mut input = mem::take(&mut self.input);
        let used = self.serve(&input, known, visit);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Serves requests from `bytes` until they end in the middle of one, or until an answer has to
    /// be sent first; how many bytes that took.
    fn serve(&mut self, bytes: &[u8], known: usize, visit: &mut Visit<'_>) -> usize {
        let mut used = 0;
        self.partial = false;
        while used < bytes.len() && self.may_serve(visit) {
            let rest = &bytes[used..];
            let taken = match &self.state {
                State::Head => self.serve_head(rest, known.saturating_sub(used), visit),
                _ => self.serve_body(rest, visit),
            };
            self.partial = taken == 0;
            used += taken;
        }
        if self.last && used < bytes.len() {
            self.lingers = true;
            return bytes.len();
        }
        used
    }

    /// Whether what comes next can be looked at now.
    fn may_serve(&self, visit: &Visit<'_>) -> bool {
        let at_request = matches!(self.state, State::Head | State::Body(_));
        let room = self.filling == 0 && visit.site.output.len() < MOST_OUTPUT_BYTES;
        at_request && room && !self.last && !self.partial
    }

    /// Serves a head; its length, or 0 where it is not whole.
    fn serve_head(&mut self, bytes: &[u8], known: usize, visit: &mut Visit<'_>) -> usize {
        // A head ends with a line: until another has ended, parsing again would find nothing new.
        // So a client that sends a byte at a time does not make us parse at every byte.
        if !bytes[known..].contains(&b'\n') && bytes.len() < MOST_HEAD_BYTES {
            return 0;
        }
        match parse(bytes) {
            Parsed::Partial => 0,
            Parsed::Complete(request, length) => {
                self.begin(request, bytes.len() > length, visit);
                length
            }
            Parsed::Refused(status) => {
                self.refuse(status, visit);
                bytes.len()
            }
        }
    }

    fn begin(&mut self, request: Request, more_is_here: bool, visit: &mut Visit<'_>) {
        if request.framing.is_empty() {
            return self.answer(&request, &[], visit);
        }
        if request.expects_continue && !more_is_here {
            visit.site.output.extend_from_slice(CONTINUE);
        }
        // Only `/echo` wants its body; what others are sent has to be read all the same.
        let keeps = matches!(request.ask, Ask::Route(Route::Echo));
        let body = BodyReader::new(request.framing, keeps);
        self.state = State::Body(Box::new((request, body)));
    }

    /// Serves a piece of a body; how long it was.
    fn serve_body(&mut self, bytes: &[u8], visit: &mut Visit<'_>) -> usize {
        let State::Body(body) = &mut self.state else {
            return 0;
        };
        match body.1.feed(bytes) {
            Ok(used) if body.1.is_done() => {
                if let State::Body(done) = mem::replace(&mut self.state, State::Head) {
                    let (request, body) = *done;
                    self.answer(&request, &body.into_kept(), visit);
                }
                used
            }
            Ok(used) => used,
            Err(status) => {
                self.refuse(status, visit);
                bytes.len()
            }
        }
    }

    fn answer(&mut self, request: &Request, body: &[u8], visit: &mut Visit<'_>) {
        let clock = visit.ev.clock();
        match visit.site.answer(request, body, &mut self.doing, clock) {
            Rest::Sleep(time) => {
                self.state = State::Sleeping {
                    request: *request,
                    rest: Sleep::NotBegun(time),
                };
                return;
            }
            Rest::Filling(length) => self.filling = length,
            Rest::Nothing => {}
        }
        self.answered(request, visit);
    }

    fn answered(&mut self, request: &Request, visit: &mut Visit<'_>) {
        self.state = State::Head;
        self.last = !visit.site.keeps(request);
        self.fresh = true;
    }

    /// Says why, and ends the connection once that is said.
    fn refuse(&mut self, status: Status, visit: &mut Visit<'_>) {
        visit.site.refuse(status, visit.ev.clock());
        self.state = State::Head;
        self.input = Vec::new();
        self.last = true;
        self.lingers = true;
    }
}

/// Sending, and ending.
impl<S: Wire> Connection<S> {
    /// Sends once.
    fn send(&mut self, visit: &mut Visit<'_>) -> io::Result<Progress> {
        let sent = if !self.output.is_empty() {
            // In the order in which they were made.
            self.output.append(&mut visit.site.output);
            self.stream.write(&self.output[self.sent..])
        } else if !visit.site.output.is_empty() {
            self.stream.write(&visit.site.output)
        } else {
            let piece = usize::try_from(self.filling)
                .unwrap_or(usize::MAX)
                .min(FILLINGS.len());
            self.stream.write(&FILLINGS[..piece])
        };
        match sent {
            Ok(n) => {
                self.advance(n, visit);
                Ok(Progress::More)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.output.append(&mut visit.site.output);
                self.blocked(visit);
                Ok(Progress::Waits)
            }
            Err(error) => {
                // The buffer is everybody's: what is in it must not go to another client.
                visit.site.output.clear();
                Err(error)
            }
        }
    }

    /// So many bytes were taken by the socket.
    fn advance(&mut self, n: usize, visit: &mut Visit<'_>) {
        if !self.output.is_empty() {
            self.sent += n;
            if self.sent == self.output.len() {
                self.output = Vec::new();
                self.sent = 0;
            }
        } else if !visit.site.output.is_empty() {
            self.output.extend_from_slice(&visit.site.output[n..]);
            visit.site.output.clear();
        } else {
            self.filling -= n as u64;
        }
        if mem::take(&mut self.send_timed) {
            visit.ev.disarm(visit.token, Side::Write);
        }
    }

    /// The socket is full: the client has until the write timer expires to take something.
    fn blocked(&mut self, visit: &mut Visit<'_>) {
        visit.ev.rearm(visit.token, Interest::WRITE);
        if !self.send_timed {
            self.send_timed = true;
            visit
                .ev
                .arm(visit.token, Side::Write, visit.site.limits.send);
        }
    }

    /// The last answer is sent.
    fn finish(&mut self, visit: &mut Visit<'_>) -> io::Result<Progress> {
        if !self.lingers {
            return Ok(Progress::Over);
        }
        self.stream.shutdown_write()?;
        self.last = false;
        self.input = Vec::new();
        self.state = State::Lingering {
            left: MOST_LINGER_BYTES,
        };
        self.linger(visit)
    }

    /// Reads once, and throws it away.
    fn linger(&mut self, visit: &mut Visit<'_>) -> io::Result<Progress> {
        if !self.readable {
            return Ok(Progress::Waits);
        }
        let mut buffer = mem::take(&mut visit.site.input);
        let received = self.read(&mut buffer, visit);
        visit.site.input = buffer;
        let State::Lingering { left } = &mut self.state else {
            return Ok(Progress::Over);
        };
        match received? {
            None => Ok(Progress::Waits),
            Some(n) if n == 0 || n > *left => Ok(Progress::Over),
            Some(n) => {
                *left -= n;
                Ok(Progress::More)
            }
        }
    }
}

/// What a step came to.
#[derive(Debug)]
enum Progress {
    More,
    /// For the kernel or a timer.
    Waits,
    Over,
}
