//! One client connection, from accept to close.
//!
//! The registration is edge-triggered: the kernel reports readiness once, so the connection keeps a
//! flag (`readable`) until a read finds the socket empty. It reads only what it can serve: while a
//! response is being sent or delayed, further requests stay in the socket's receive buffer.

use std::{io, mem, net::IpAddr, sync::Arc, time::Duration};

use evcore::{Acceptor, EventLoop, Listener, Ready, Timer, Token, Transport};

use crate::{
    body::BodyReader,
    counts::Phase,
    files::{DiskRead, OpenFile},
    request::Request,
    response::{CONTINUE, Status},
    shared::Shared,
    timers::{RECEIVE, SLEEP},
};

/// The most reads and writes of one step, so that one connection does not delay the others.
const IO_BUDGET: u32 = 16;

/// How long to read and discard after the last response. Closing a socket that has unread bytes
/// resets the connection, and the client may lose the response (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// How long a stopping worker waits for the next request after a response that did not announce the
/// end: as long as the loop does for connections that were answered just before the stop.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// A client connection.
///
/// A request touches most of it. It is two cache lines, because thousands of connections do not fit
/// into the caches near the processor.
#[derive(Debug)]
#[repr(align(64))]
pub struct Connection<S> {
    pub(crate) stream: S,
    /// `None` if there is no access log.
    pub(crate) logged: Option<Box<Logged>>,
    pub(crate) state: State,
    /// Received and not yet served. Empty, and not allocated, between requests.
    pub(crate) input: Vec<u8>,
    /// `input` was parsed and holds an incomplete request.
    pub(crate) partial: bool,
    /// Response bytes; those from `sent` on are not written yet.
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    /// Payload bytes of `/bytes` or of `file` to send after `output`.
    pub(crate) payload_left: u64,
    /// The payload is that of this file up to `file_end`. `None` once it is sent.
    pub(crate) file: Option<Arc<OpenFile>>,
    pub(crate) file_end: u64,
    pub(crate) disk_read: DiskRead,
    /// The socket may have data: no read has found it empty since the last event.
    pub(crate) readable: bool,
    /// The client has shut down its write side, so a short read does not mean an empty socket.
    pub(crate) read_closed: bool,
    /// Body memory held by the responses in `output`, in bytes.
    pub(crate) room: usize,
    /// The connection ends after the response that is being sent.
    pub(crate) is_last_response: bool,
    /// After the last response, unread bytes may arrive: read and discard them.
    pub(crate) lingers: bool,
    /// The write timer is armed for the send timeout.
    pub(crate) send_timer_armed: bool,
    pub(crate) read_timer: ReadTimer,
    /// A response was made since the read timer was armed.
    pub(crate) responded_since_armed: bool,
    /// The phase that `/status` counts it under.
    pub(crate) phase: Phase,
}

const _: () = assert!(size_of::<Option<Connection<evcore::Stream>>>() == 128);

/// What the access log records of a connection.
#[derive(Debug)]
pub struct Logged {
    /// The client's address; `None` for a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// The request line of the current request.
    pub(crate) request_line: Vec<u8>,
}

/// The state of the current request.
#[derive(Debug)]
pub enum State {
    /// Before or within a request head.
    Head,
    /// The body of this request waits for body memory.
    Queued(Box<Request>),
    Body(Box<(Request, BodyReader)>),
    /// `/sleep`: the response is made when the write timer expires.
    Sleeping(Box<(Request, Sleep)>),
    /// The write side is shut down. What still arrives is discarded, up to a limit.
    Lingering {
        left: usize,
    },
}

/// The timer of a delayed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Earlier responses are still being sent.
    Pending(Duration),
    Armed,
}

/// What the read timer is armed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadTimer {
    None,
    Header,
    KeepAlive,
    Body,
    /// The body waits for body memory.
    Room,
    /// The worker stops, and the client does not have its last response yet.
    Delivery,
    Linger,
}

/// What to do with a connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    Keep,
    /// End the token and close the stream.
    Close,
}

/// What a connection has access to during a step.
#[derive(Debug)]
pub struct Cx<'a, L: Acceptor = Listener> {
    pub ev: &'a mut EventLoop<L>,
    pub shared: &'a mut Shared,
    pub token: Token,
}

impl<S: Transport> Connection<S> {
    /// Creates the connection and arms the header timeout. Until the first byte arrives the
    /// connection is idle, like one that is kept alive.
    pub fn new(stream: S, peer: Option<IpAddr>, cx: &mut Cx<'_, impl Acceptor>) -> Self {
        cx.ev.set_idle(cx.token);
        cx.ev.arm(cx.token, RECEIVE, cx.shared.limits.header);
        cx.shared.counts.connection_opened();
        let logged = cx.shared.log.is_some().then(|| {
            Box::new(Logged {
                peer,
                request_line: Vec::new(),
            })
        });
        Self {
            stream,
            logged,
            state: State::Head,
            input: Vec::new(),
            partial: false,
            output: Vec::new(),
            sent: 0,
            payload_left: 0,
            file: None,
            file_end: 0,
            disk_read: DiskRead::None,
            room: 0,
            readable: false,
            read_closed: false,
            is_last_response: false,
            lingers: false,
            send_timer_armed: false,
            read_timer: ReadTimer::Header,
            responded_since_armed: false,
            phase: Phase::Waiting,
        }
    }

    /// Handles readiness: from the kernel, or posted by the connection itself.
    pub fn on_ready(&mut self, ready: Ready, cx: &mut Cx<'_, impl Acceptor>) -> Disposition {
        if ready.is_error() || ready.is_write_closed() {
            // No response could reach the client.
            return Disposition::Close;
        }
        self.read_closed |= ready.is_read_closed();
        self.readable |= ready.is_readable() || self.read_closed;
        self.proceed(cx)
    }

    /// Handles an expired timer.
    pub fn on_timer(&mut self, timer: Timer, cx: &mut Cx<'_, impl Acceptor>) -> Disposition {
        match (timer, &self.state, self.read_timer) {
            // Only if it is armed: before that, the same timer is the send timeout.
            (SLEEP, State::Sleeping(sleep), _) if sleep.1 == Sleep::Armed => {
                let request = sleep.0;
                cx.shared.respond_after_sleep(&request, cx.ev.clock());
                self.on_response(&request, cx);
            }
            (RECEIVE, _, ReadTimer::Header) => self.refuse_partial_head(cx),
            (RECEIVE, state, ReadTimer::Body) => {
                let head_only = matches!(state, State::Body(body) if body.0.head_only);
                self.refuse(Status::RequestTimeout, head_only, cx);
            }
            (RECEIVE, _, ReadTimer::Room) => {
                self.refuse(Status::ServiceUnavailable, false, cx);
            }
            (RECEIVE, _, ReadTimer::KeepAlive | ReadTimer::Delivery) if cx.shared.stopping => {
                // As the loop does before it evicts.
                cx.ev.set_busy(cx.token);
                return self.on_evict(cx);
            }
            // Send timeout, keep-alive timeout, or the end of lingering.
            _ => return Disposition::Close,
        }
        self.proceed(cx)
    }

    /// Handles eviction of an idle connection: its slot is needed, or the worker is shutting down.
    ///
    /// The connection is closed unless a request has just arrived. A stopping worker also waits until
    /// the client has its last response, and then for one more request.
    pub fn on_evict(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> Disposition {
        if let Some(disposition) = self.read_once_more(cx) {
            return disposition;
        }
        self.read_timer = match self.read_timer {
            _ if cx.shared.stopping && !self.is_delivered() => ReadTimer::Delivery,
            ReadTimer::Delivery => ReadTimer::KeepAlive,
            _ => return Disposition::Close,
        };
        self.arm_read_timer(cx);
        Disposition::Keep
    }

    /// Whether the client has all that was sent. If that cannot be known there is nothing to wait for.
    fn is_delivered(&self) -> bool {
        self.stream.is_delivered().unwrap_or(true)
    }

    /// Serves what has arrived since the loop's last wait; `None` if nothing has.
    fn read_once_more(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> Option<Disposition> {
        self.readable = true;
        let disposition = self.proceed(cx);
        // If the loop counts it as idle again, a response was sent.
        let was_served = !self.is_idle() || cx.ev.is_idle(cx.token);
        (disposition == Disposition::Close || was_served).then_some(disposition)
    }

    /// Body memory was reserved for the body that waited. The caller posts the connection.
    pub fn on_body_admitted(&mut self) {
        if let State::Queued(request) = &self.state {
            let request = **request;
            if request.expects_continue && self.input.is_empty() {
                self.output.extend_from_slice(CONTINUE);
            }
            self.state = State::body(request, BodyReader::keeping(request.framing));
        }
    }

    /// Ends the current body, or its wait for memory. The memory that it holds is the response's now.
    pub fn leave_body(&mut self, token: Token, shared: &mut Shared) -> State {
        let left = mem::replace(&mut self.state, State::Head);
        match &left {
            State::Queued(_) => shared.bodies.cancel_wait(token),
            State::Body(body) => self.room += body.1.room(),
            _ => {}
        }
        left
    }

    /// Gives back what the connection holds in the counters, of the body memory and of the disk reads.
    pub fn release(&mut self, token: Token, shared: &mut Shared) {
        self.leave_body(token, shared);
        if self.disk_read != DiskRead::None {
            shared.cancel_disk_read(token);
        }
        shared.bodies.release(self.room);
        shared.counts.connection_closed(self.phase);
    }

    /// Sends, serves and reads until that would block, then updates timers and counters.
    fn proceed(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> Disposition {
        let disposition = self.run_steps(cx);
        // The buffer is shared: its contents must never reach another connection.
        if disposition == Disposition::Close || self.keep_output(0, cx.shared).is_err() {
            cx.shared.output.clear();
            return Disposition::Close;
        }
        self.settle(cx);
        Disposition::Keep
    }

    fn run_steps(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> Disposition {
        for _ in 0..IO_BUDGET {
            match self.step(cx) {
                Ok(Progress::More) => {}
                Ok(Progress::Blocked) => return Disposition::Keep,
                Ok(Progress::Done) | Err(_) => return Disposition::Close,
            }
        }
        // Continue after the other connections.
        cx.ev.post(cx.token, Ready::WRITABLE);
        Disposition::Keep
    }

    fn step(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> io::Result<Progress> {
        if cx.shared.output.len() + self.output.len() > 0 || self.payload_left > 0 {
            return self.send(cx);
        }
        if self.is_last_response {
            return self.finish(cx);
        }
        match &mut self.state {
            State::Sleeping(sleep) => {
                if let Sleep::Pending(time) = mem::replace(&mut sleep.1, Sleep::Armed) {
                    cx.ev.arm(cx.token, SLEEP, time);
                }
                Ok(Progress::Blocked)
            }
            State::Lingering { .. } => self.linger(cx),
            State::Queued(_) => Ok(Progress::Blocked),
            State::Head | State::Body(_) => {
                if self.serve_buffered(cx) {
                    Ok(Progress::More)
                } else {
                    self.receive(cx)
                }
            }
        }
    }

    /// Updates the counters, the read timer and whether the loop may evict the connection.
    fn settle(&mut self, cx: &mut Cx<'_, impl Acceptor>) {
        let (phase, timer) = match &self.state {
            State::Lingering { .. } => (Phase::Writing, ReadTimer::Linger),
            State::Sleeping(_) => (Phase::Writing, ReadTimer::None),
            _ if self.has_output() => (Phase::Writing, ReadTimer::None),
            State::Body(_) => (Phase::Reading, ReadTimer::Body),
            State::Queued(_) => (Phase::Reading, ReadTimer::Room),
            State::Head if !self.input.is_empty() => (Phase::Reading, ReadTimer::Header),
            // The timeout of the first head starts with the connection, and delivery is looked at in
            // intervals.
            State::Head if self.keeps_read_timer() => (Phase::Waiting, self.read_timer),
            State::Head => (Phase::Waiting, ReadTimer::KeepAlive),
        };
        self.update_idle(phase, cx);
        cx.shared.counts.change(&mut self.phase, phase);
        if timer != self.read_timer || self.responded_since_armed || timer == ReadTimer::Body {
            self.read_timer = timer;
            self.arm_read_timer(cx);
        }
        self.responded_since_armed = false;
    }

    /// Marking a connection idle moves it to the end of the eviction order, so it is marked only after
    /// it was in use.
    ///
    /// A stopping worker waits for one more request if the client does not know: the response was begun
    /// before the stop, and so did not announce the end. The loop would evict an idle connection at once.
    fn update_idle(&self, phase: Phase, cx: &mut Cx<'_, impl Acceptor>) {
        if phase != Phase::Waiting {
            cx.ev.set_busy(cx.token);
        } else if self.phase != Phase::Waiting || self.responded_since_armed {
            if cx.shared.stopping {
                cx.ev.set_busy(cx.token);
            } else {
                cx.ev.set_idle(cx.token);
            }
        }
    }

    fn arm_read_timer(&self, cx: &mut Cx<'_, impl Acceptor>) {
        let limits = &cx.shared.limits;
        let time = match self.read_timer {
            ReadTimer::None => {
                cx.ev.disarm(cx.token, RECEIVE);
                return;
            }
            ReadTimer::Header | ReadTimer::Body | ReadTimer::Room => limits.header,
            ReadTimer::KeepAlive if cx.shared.stopping => limits.keep_alive.min(LAST_CHANCE),
            ReadTimer::Delivery => LAST_CHANCE,
            ReadTimer::KeepAlive => limits.keep_alive,
            ReadTimer::Linger => LINGER,
        };
        cx.ev.arm(cx.token, RECEIVE, time);
    }

    /// Whether the read timer, which does not start anew, is still that of a connection without a
    /// response since.
    fn keeps_read_timer(&self) -> bool {
        let lasts = matches!(self.read_timer, ReadTimer::Header | ReadTimer::Delivery);
        lasts && !self.responded_since_armed
    }

    fn is_idle(&self) -> bool {
        matches!(self.state, State::Head) && self.input.is_empty() && !self.has_output()
    }

    fn has_output(&self) -> bool {
        self.payload_left > 0 || !self.output.is_empty()
    }
}

impl State {
    pub fn body(request: Request, body: BodyReader) -> Self {
        Self::Body(Box::new((request, body)))
    }
}

/// The result of one read or write.
#[derive(Debug)]
pub enum Progress {
    More,
    /// The connection waits for the kernel or for a timer.
    Blocked,
    /// The connection is finished.
    Done,
}
