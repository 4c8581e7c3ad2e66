//! One client, from its first byte to its last.
//!
//! Edge-triggered: the kernel says once that there is something, so the connection remembers
//! (`readable`) until it has met an empty socket. It reads only what it can serve: while an answer
//! waits to be sent, or for its time, what the client sends next stays in the kernel.

use std::{io, mem, net::IpAddr, time::Duration};

use evcore::{Acceptor, EventLoop, Listener, Ready, Timer, Token, Transport};

use crate::{
    body::BodyReader,
    counts::Doing,
    request::Request,
    response::{CONTINUE, Status},
    site::Site,
};

/// Reads, and pieces of filling, that one visit may make before others have their turn.
const VISIT_BUDGET: u32 = 16;

/// How long a connection that was refused is listened to: closing a socket that has unread bytes
/// would destroy the refusal on its way (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// When the worker stops: how long ago a client may have connected or been answered to be expected
/// to send another request, which may be on its way; and how long it then has to do so.
const LAST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// A client.
#[derive(Debug)]
pub struct Connection<S> {
    pub(crate) stream: S,
    /// `None`: of a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// The line of the request that is being answered, for the access log. Without one, empty (and
    /// without memory).
    pub(crate) asked: Vec<u8>,
    pub(crate) state: State,
    /// Received, and not yet served. Empty (and without memory) between requests.
    pub(crate) input: Vec<u8>,
    /// What is in `input` was looked at, and is the beginning of something.
    pub(crate) partial: bool,
    /// Not taken by the socket yet, from `sent` on.
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    /// Bytes of filling to send behind `output`.
    pub(crate) filling: u64,
    /// The socket may have more: it was not yet seen empty.
    pub(crate) readable: bool,
    /// The client has said that it sends no more: so a short read is not the last one.
    pub(crate) ending: bool,
    /// The room of the bodies that are being sent as answers.
    pub(crate) room: usize,
    /// The answer that is being sent is the last one.
    pub(crate) last: bool,
    /// After the last answer, there are bytes that nobody will read.
    pub(crate) lingers: bool,
    /// The write timer watches over sending.
    pub(crate) send_timed: bool,
    pub(crate) read_timer: ReadTimer,
    /// Since when it waits for a request, in milliseconds of the loop's clock: of meaning only
    /// while it is idle.
    idle_since_ms: u64,
    /// A request was answered since the read timer was armed.
    pub(crate) fresh: bool,
    /// As `/status` counts it.
    pub(crate) doing: Doing,
}

/// Where it is with the request.
#[derive(Debug)]
pub enum State {
    /// Before or within a head.
    Head,
    /// The body of this request waits for room.
    Queued(Request),
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
pub enum Sleep {
    NotBegun(Duration),
    Begun,
}

/// What the read timer is armed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadTimer {
    None,
    Header,
    KeepAlive,
    Body,
    /// The body waits for room.
    Room,
    Linger,
    /// The worker stops, and the client may send one more request.
    LastRequest,
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
pub struct Visit<'a, L: Acceptor = Listener> {
    pub ev: &'a mut EventLoop<L>,
    pub site: &'a mut Site,
    pub token: Token,
}

impl<S: Transport> Connection<S> {
    /// A client that has just come; arms the timer of its first head. Until that comes it is as
    /// idle as one that is kept alive.
    pub fn new(stream: S, peer: Option<IpAddr>, visit: &mut Visit<'_, impl Acceptor>) -> Self {
        visit.ev.set_idle(visit.token);
        visit
            .ev
            .arm(visit.token, Timer::READ, visit.site.limits.header);
        visit.site.counts.connection_begins();
        Self {
            stream,
            peer,
            asked: Vec::new(),
            state: State::Head,
            input: Vec::new(),
            partial: false,
            output: Vec::new(),
            sent: 0,
            filling: 0,
            room: 0,
            readable: false,
            ending: false,
            last: false,
            lingers: false,
            send_timed: false,
            read_timer: ReadTimer::Header,
            idle_since_ms: visit.ev.clock().monotonic_ms(),
            fresh: false,
            doing: Doing::Waiting,
        }
    }

    /// The kernel has reported something, or the connection has posted itself.
    pub fn ready(&mut self, ready: Ready, visit: &mut Visit<'_, impl Acceptor>) -> Fate {
        if ready.is_error() || ready.is_write_closed() {
            // Nothing that is sent would arrive.
            return Fate::Ends;
        }
        self.ending |= ready.is_read_closed();
        self.readable |= ready.is_readable() || self.ending;
        self.go_on(visit)
    }

    /// A timer has expired.
    pub fn expired(&mut self, timer: Timer, visit: &mut Visit<'_, impl Acceptor>) -> Fate {
        match (timer, &self.state, self.read_timer) {
            // Only one that has begun: before, the same timer watches over what is sent first.
            (
                Timer::WRITE,
                State::Sleeping {
                    request,
                    rest: Sleep::Begun,
                },
                _,
            ) => {
                let request = *request;
                visit.site.answer_sleeper(&request, visit.ev.clock());
                self.answered(&request, visit);
            }
            (Timer::READ, _, ReadTimer::Header | ReadTimer::Body) => {
                self.refuse(Status::RequestTimeout, visit);
            }
            (Timer::READ, _, ReadTimer::Room) => self.refuse(Status::ServiceUnavailable, visit),
            (Timer::READ, _, ReadTimer::LastRequest) => {
                return self.look_once_more(visit).unwrap_or(Fate::Ends);
            }
            // It does not take what it asked for, has nothing to ask, or lingers too long.
            _ => return Fate::Ends,
        }
        self.go_on(visit)
    }

    /// It is idle, and its place is wanted, or the worker stops: it ends, unless a request has just
    /// come. When the worker stops, a client that has connected or been answered a moment ago may
    /// send one more request: it could not know better, and would lose that request.
    pub fn closing(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> Fate {
        if let Some(fate) = self.look_once_more(visit) {
            return fate;
        }
        if !visit.site.stopping || !self.was_idle_for_a_moment_only(visit) {
            return Fate::Ends;
        }
        self.read_timer = ReadTimer::LastRequest;
        self.arm_read_timer(visit);
        Fate::Stays
    }

    /// Serves what has come since the loop looked; `None`: nothing has.
    fn look_once_more(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> Option<Fate> {
        self.readable = true;
        let fate = self.go_on(visit);
        // One that the loop counts as idle again has answered something.
        let has_come = !self.is_idle() || visit.ev.is_idle(visit.token);
        (fate == Fate::Ends || has_come).then_some(fate)
    }

    fn was_idle_for_a_moment_only(&self, visit: &Visit<'_, impl Acceptor>) -> bool {
        let idle_ms = visit.ev.clock().monotonic_ms() - self.idle_since_ms;
        u128::from(idle_ms) <= LAST_REQUEST_GRACE.as_millis()
    }

    /// There is room for its body, which waited for that; it is to be visited.
    pub fn admitted(&mut self) {
        if let State::Queued(request) = self.state {
            if request.expects_continue && self.input.is_empty() {
                self.output.extend_from_slice(CONTINUE);
            }
            self.state = State::body(request, BodyReader::keeping(request.framing));
        }
    }

    /// Leaves the body that it is in, or waits for: what room that has is the answer's.
    pub fn leave_body(&mut self, token: Token, site: &mut Site) -> State {
        let left = mem::replace(&mut self.state, State::Head);
        match &left {
            State::Queued(_) => site.bodies.leave(token),
            State::Body(body) => self.room += body.1.room(),
            _ => {}
        }
        left
    }

    /// The end: its place in the counts is free, and so is the room of its bodies.
    pub fn end(&mut self, token: Token, site: &mut Site) {
        self.leave_body(token, site);
        site.bodies.give_back(self.room);
        site.counts.connection_ends(self.doing);
    }

    /// Sends, serves and reads for as long as there is something to do, and leaves all in order.
    fn go_on(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> Fate {
        let fate = self.work(visit);
        // The buffer is everybody's: what is in it must never reach the next connection.
        if fate == Fate::Ends || self.keep_output(0, visit.site).is_err() {
            visit.site.output.clear();
            return Fate::Ends;
        }
        self.settle(visit);
        Fate::Stays
    }

    fn work(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> Fate {
        for _ in 0..VISIT_BUDGET {
            match self.step(visit) {
                Ok(Progress::More) => {}
                Ok(Progress::Waits) => return Fate::Stays,
                Ok(Progress::Over) | Err(_) => return Fate::Ends,
            }
        }
        // The rest when the others had their turn.
        visit.ev.post(visit.token, Ready::WRITABLE);
        Fate::Stays
    }

    fn step(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> io::Result<Progress> {
        if visit.site.output.len() + self.output.len() > 0 || self.filling > 0 {
            return self.send(visit);
        }
        if self.last {
            return self.finish(visit);
        }
        match &mut self.state {
            State::Sleeping { rest, .. } => {
                if let Sleep::NotBegun(time) = mem::replace(rest, Sleep::Begun) {
                    visit.ev.arm(visit.token, Timer::WRITE, time);
                }
                Ok(Progress::Waits)
            }
            State::Lingering { .. } => self.linger(visit),
            State::Queued(_) => Ok(Progress::Waits),
            State::Head | State::Body(_) => {
                if self.serve_kept(visit) {
                    Ok(Progress::More)
                } else {
                    self.receive(visit)
                }
            }
        }
    }

    /// Puts everything in order for the time until the next visit: timers and counts, and whether
    /// the loop may want its place.
    fn settle(&mut self, visit: &mut Visit<'_, impl Acceptor>) {
        let (doing, timer) = match &self.state {
            State::Lingering { .. } => (Doing::Writing, ReadTimer::Linger),
            State::Sleeping { .. } => (Doing::Writing, ReadTimer::None),
            _ if self.has_output() => (Doing::Writing, ReadTimer::None),
            State::Body(_) => (Doing::Reading, ReadTimer::Body),
            State::Queued(_) => (Doing::Reading, ReadTimer::Room),
            State::Head if !self.input.is_empty() => (Doing::Reading, ReadTimer::Header),
            // The first head's time begins when the connection does.
            State::Head if self.read_timer == ReadTimer::Header && !self.fresh => {
                (Doing::Waiting, ReadTimer::Header)
            }
            State::Head if self.read_timer == ReadTimer::LastRequest && !self.fresh => {
                (Doing::Waiting, ReadTimer::LastRequest)
            }
            State::Head => (Doing::Waiting, ReadTimer::KeepAlive),
        };
        self.tell_whether_idle(doing, visit);
        visit.site.counts.change(&mut self.doing, doing);
        if timer != self.read_timer || self.fresh || timer == ReadTimer::Body {
            self.read_timer = timer;
            self.arm_read_timer(visit);
            self.idle_since_ms = visit.ev.clock().monotonic_ms();
        }
        self.fresh = false;
    }

    /// To be called idle again makes it the last whose place is wanted: so only if it was of use.
    fn tell_whether_idle(&self, doing: Doing, visit: &mut Visit<'_, impl Acceptor>) {
        if doing != Doing::Waiting {
            visit.ev.set_busy(visit.token);
        } else if self.doing != Doing::Waiting || self.fresh {
            visit.ev.set_idle(visit.token);
        }
    }

    fn arm_read_timer(&self, visit: &mut Visit<'_, impl Acceptor>) {
        let limits = &visit.site.limits;
        let time = match self.read_timer {
            ReadTimer::None => {
                visit.ev.disarm(visit.token, Timer::READ);
                return;
            }
            ReadTimer::Header | ReadTimer::Body | ReadTimer::Room => limits.header,
            ReadTimer::KeepAlive => limits.keep_alive,
            ReadTimer::Linger => LINGER,
            ReadTimer::LastRequest => LAST_REQUEST_GRACE,
        };
        visit.ev.arm(visit.token, Timer::READ, time);
    }

    fn is_idle(&self) -> bool {
        matches!(self.state, State::Head) && self.input.is_empty() && !self.has_output()
    }

    fn has_output(&self) -> bool {
        self.filling > 0 || !self.output.is_empty()
    }
}

impl State {
    pub fn body(request: Request, body: BodyReader) -> Self {
        Self::Body(Box::new((request, body)))
    }
}

/// What a step came to.
#[derive(Debug)]
pub enum Progress {
    More,
    /// For the kernel or a timer.
    Waits,
    Over,
}
