//! One client connection, from accept to close. It does no I/O, because its caller has the stream.

mod client;
mod input;
mod moving;
mod output;
mod payload;
mod task;
#[cfg(test)]
mod tests;

use std::{net::IpAddr, time::Duration};

use evcore::{Timer, Token, clock::Clock};

use crate::{
    body::BodyReader,
    files::DiskRead,
    phases::Phase,
    request::{Action, Parsed, Request, parse},
    response::{CONTINUE, Status},
    route::Route,
    shared::{MAX_OUTPUT_BYTES, Rest, Shared},
    timers::{Change, RECEIVE, Timeout, Timers},
};

use client::Client;
use input::Input;
use output::Output;
use payload::{Payload, Piece};

pub use moving::{IDLE_STATE, STATE_VERSION};
pub use task::{Abort, Changes, Expiry, Task};

/// The most bytes to discard after the last response. After more bytes, the connection is closed.
const MAX_LINGER_BYTES: usize = 4 * 1024 * 1024;

/// A client connection: bytes in, bytes out.
///
/// A connection does no I/O. Its caller has the stream, waits, and arms the timers. The connection
/// makes responses from the state that all connections of a worker [share](Shared).
///
/// The caller calls these methods in this order, once for each step (event) of the loop:
///
/// 1. `handle_*` takes an event: [`handle_accepted`](Self::handle_accepted),
///    [`handle_timer`](Self::handle_timer), [`handle_body_room`](Self::handle_body_room),
///    [`handle_disk_read`](Self::handle_disk_read). Only the caller handles readiness of the
///    stream.
/// 2. [`poll_task`](Self::poll_task) returns the next task for the stream. The result goes to
///    [`handle_input`](Self::handle_input), [`handle_sent`](Self::handle_sent),
///    [`handle_blocked`](Self::handle_blocked) or [`handle_shut_down`](Self::handle_shut_down). The
///    calls alternate until the task is `Task::Wait`, or the stream would block.
/// 3. [`poll_changes`](Self::poll_changes) returns the changes of the timers, and whether the
///    connection became idle or busy. Before that call, a response may be in the buffer that all
///    connections share.
/// 4. [`release`](Self::release), at the end, gives back what the connection holds.
///
/// Call [`handle_eviction`](Self::handle_eviction) only after `poll_changes`, so that a request
/// that has just arrived is served first. After an [`Abort`], only `release` follows.
///
/// A connection reads only requests that it can serve. While a response is being sent or delayed,
/// it does not receive, and further requests stay in the socket's receive buffer.
///
/// With its stream, a connection takes only two cache lines, so that many connections fit into the
/// processor's caches.
#[derive(Debug)]
pub struct Connection {
    input: Input,
    output: Output,
    payload: Payload,
    /// The progress of the current request. `None` before a head, and while a head is incomplete.
    state: Option<Box<State>>,
    /// `None` if neither the access log nor `/worker` shows the client.
    client: Option<Box<Client>>,
    timers: Timers,
    /// The phase under which `/status` counts the connection.
    phase: Phase,
    /// True if the stream took less than it was given, or if the disk has not read the next piece.
    is_blocked: bool,
    /// True if the connection ends after the response that is being sent.
    is_last_response: bool,
    /// True if unread bytes may arrive after the last response. They are received and discarded.
    lingers: bool,
}

const _: () = assert!(size_of::<(evcore::EdgeStream, Connection)>() == 128);

#[derive(Debug)]
enum State {
    /// The body waits for body memory.
    Queued(Request),
    Body(Request, BodyReader),
    /// `/sleep`: the response is made after this time, which begins when earlier responses are
    /// sent.
    Sleeping(Request, Duration),
    /// The write side is shut down. Further bytes are discarded, up to a limit.
    Lingering {
        left: usize,
    },
}

/// The context of a call that makes responses.
#[derive(Debug)]
pub struct Cx<'a> {
    pub shared: &'a mut Shared,
    pub clock: &'a Clock,
    /// The name of the connection in the queues of `shared`.
    pub token: Token,
}

impl Connection {
    /// Creates the connection of a client at this address, which is `None` for a Unix socket.
    pub fn new(peer: Option<IpAddr>, shared: &Shared) -> Self {
        Self {
            input: Input::default(),
            output: Output::default(),
            payload: Payload::default(),
            state: None,
            client: Client::new(peer, shared),
            timers: Timers::default(),
            phase: Phase::Waiting,
            is_blocked: false,
            is_last_response: false,
            lingers: false,
        }
    }

    /// Begins the connection, whose stream the loop watches now. Until the first byte arrives, the
    /// connection is idle, like one that is kept alive.
    pub fn handle_accepted(&mut self, shared: &mut Shared) -> Changes {
        shared.counts.connection_opened();
        self.timers.receive = Some(Timeout::Head);
        Changes {
            receive: Change::Arm(shared.limits.header),
            is_idle: Some(true),
            ..Changes::default()
        }
    }

    pub fn handle_timer(&mut self, timer: Timer, cx: &mut Cx<'_>) -> Expiry {
        let timeout = match timer {
            RECEIVE => self.timers.receive,
            _ => self.timers.send.take(),
        };
        match timeout {
            Some(Timeout::Sleep) => {
                if let Some(State::Sleeping(request, _)) = self.state.as_deref() {
                    let request = *request;
                    cx.shared.respond_after_sleep(&request, cx.clock);
                    self.on_response(&request, cx);
                }
            }
            Some(Timeout::Head) => self.refuse_partial_head(cx),
            Some(Timeout::Body) => {
                let state = self.state.as_deref();
                let head_only = matches!(state, Some(State::Body(request, _)) if request.head_only);
                self.refuse(Status::RequestTimeout, head_only, cx);
            }
            Some(Timeout::Room) => self.refuse(Status::ServiceUnavailable, false, cx),
            Some(Timeout::KeepAlive | Timeout::Delivery) if cx.shared.stopping => {
                return Expiry::Evict;
            }
            _ => return Expiry::Close,
        }
        Expiry::Respond
    }

    /// Handles an eviction by the loop, because a new client needs the connection's place in the
    /// loop, or because the worker is shutting down. Call this only if no bytes have just arrived.
    /// `is_delivered` is true if the client has all bytes that were sent. After `None`, the caller
    /// closes the connection.
    ///
    /// A stopping worker waits until the client has its last response, and then for one more
    /// request.
    pub fn handle_eviction(&mut self, is_delivered: bool, shared: &Shared) -> Option<Changes> {
        let timeout = match self.timers.receive {
            _ if shared.stopping && !is_delivered => Timeout::Delivery,
            Some(Timeout::Delivery) => Timeout::KeepAlive,
            _ => return None,
        };
        self.timers.receive = Some(timeout);
        Some(Changes {
            receive: Change::Arm(timeout.time(&shared.limits, shared.stopping)),
            ..Changes::default()
        })
    }

    /// Continues with a body that waited, for which body memory is reserved now.
    pub fn handle_body_room(&mut self) {
        if let Some(State::Queued(request)) = self.state.as_deref() {
            let request = *request;
            if request.expects_continue && self.input.is_empty() {
                self.output.push(CONTINUE);
            }
            self.set_body(request, BodyReader::keeping(request.framing));
        }
    }

    pub fn handle_disk_read(&mut self, read: DiskRead) {
        self.payload.disk_read = read;
    }

    /// Handles received bytes: at least one, and no more than the server's buffer has room for.
    #[inline]
    pub fn handle_input(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> Result<(), Abort> {
        if let Some(State::Lingering { left }) = self.state.as_deref_mut() {
            *left = left.checked_sub(bytes.len()).ok_or(Abort)?;
            return Ok(());
        }
        let known = self.input.len();
        let used = match known {
            0 => self.serve(bytes, 0, cx),
            _ => 0,
        };
        if used == bytes.len() {
            return Ok(());
        }
        self.input.keep(&bytes[used..], cx.shared)?;
        if known > 0 {
            self.serve_input(known, cx);
        }
        Ok(())
    }

    #[inline]
    pub fn handle_sent(&mut self, n: usize, shared: &mut Shared) -> Result<(), Abort> {
        self.is_blocked = false;
        self.timers.has_sent = true;
        if self.output.is_pending(shared) {
            self.output.advance(n, shared)
        } else {
            self.payload.advance(n as u64);
            Ok(())
        }
    }

    pub fn handle_blocked(&mut self) {
        self.is_blocked = true;
    }

    pub fn handle_shut_down(&mut self) {
        self.is_last_response = false;
        self.input = Input::default();
        let left = MAX_LINGER_BYTES;
        self.state = Some(Box::new(State::Lingering { left }));
    }

    /// Returns the next task for the stream. Serves the requests of earlier input that are not
    /// served yet.
    #[inline]
    pub fn poll_task<'a>(
        &'a mut self,
        shared: &'a mut Shared,
        clock: &Clock,
        token: Token,
    ) -> Result<Task<'a>, Abort> {
        loop {
            if self.output.is_pending(shared) {
                // Responses go out in the order in which they were made.
                let is_joined = self.payload.is_short_file();
                let bytes = self.output.bytes(shared)?;
                return Ok(match is_joined {
                    true => Task::SendMore(bytes),
                    false => Task::Send(bytes),
                });
            }
            if self.payload.is_pending() {
                return Ok(self.poll_payload());
            }
            if self.is_last_response {
                let lingers = self.lingers;
                return Ok(Task::Finish { lingers });
            }
            match self.state.as_deref() {
                Some(State::Queued(_) | State::Sleeping(..)) => return Ok(Task::Wait),
                Some(State::Lingering { .. }) => return Ok(Task::Receive),
                None | Some(State::Body(..)) if self.input.is_servable() => {
                    let shared = &mut *shared;
                    self.serve_input(
                        0,
                        &mut Cx {
                            shared,
                            clock,
                            token,
                        },
                    );
                }
                None | Some(State::Body(..)) => return Ok(Task::Receive),
            }
        }
    }

    fn poll_payload(&mut self) -> Task<'_> {
        if self.payload.waits_for_disk() {
            self.is_blocked = true;
            return Task::Wait;
        }
        match self.payload.piece() {
            Piece::Bytes(bytes) => Task::Send(bytes),
            Piece::File {
                file,
                offset,
                count,
                was_read,
            } => Task::SendFile {
                file,
                offset,
                count,
                was_read,
            },
        }
    }

    /// Returns the changes for the loop. Keeps the bytes that are not sent, and updates the
    /// counters.
    #[inline]
    pub fn poll_changes(&mut self, shared: &mut Shared) -> Result<Changes, Abort> {
        self.output.keep(0, shared)?;
        let (phase, timeout) = match self.state.as_deref() {
            Some(State::Lingering { .. }) => (Phase::Writing, Some(Timeout::Linger)),
            Some(State::Sleeping(..)) => (Phase::Writing, None),
            _ if self.has_output() => (Phase::Writing, None),
            Some(State::Body(..)) => (Phase::Reading, Some(Timeout::Body)),
            Some(State::Queued(_)) => (Phase::Reading, Some(Timeout::Room)),
            None if !self.input.is_empty() => (Phase::Reading, Some(Timeout::Head)),
            // Before the first head, and while delivery is checked, a timeout runs already.
            None if self.timers.receive_timer_goes_on() => (Phase::Waiting, self.timers.receive),
            None => (Phase::Waiting, Some(Timeout::KeepAlive)),
        };
        let send = match self.state.as_deref() {
            _ if self.is_blocked => Some((Timeout::Send, shared.limits.send)),
            Some(State::Sleeping(_, time)) => Some((Timeout::Sleep, *time)),
            _ => None,
        };
        let (limits, is_stopping) = (&shared.limits, shared.stopping);
        let changes = Changes {
            is_idle: self.poll_idle(phase, shared),
            receive: self.timers.poll_receive(timeout, limits, is_stopping),
            send: self.timers.poll_send(send),
        };
        shared.counts.change(&mut self.phase, phase);
        Ok(changes)
    }

    /// Returns the change of the idle mark. Marking a connection idle moves it to the end of the
    /// eviction order, so the connection is marked only after it was in use.
    ///
    /// A stopping worker marks no connection, because the loop would evict it before the client
    /// could send one more request.
    fn poll_idle(&self, phase: Phase, shared: &Shared) -> Option<bool> {
        if phase != Phase::Waiting {
            Some(false)
        } else if self.phase != Phase::Waiting || self.timers.has_responded {
            Some(!shared.stopping)
        } else {
            None
        }
    }

    /// Gives back what the connection holds: responses in the shared buffer, body memory, a disk
    /// read, and its part of the counters.
    pub fn release(&mut self, token: Token, shared: &mut Shared) {
        self.free(token, shared);
        shared.counts.connection_closed(self.phase);
    }

    fn free(&mut self, token: Token, shared: &mut Shared) {
        // The contents of the shared buffer must never reach another connection.
        shared.output.clear();
        self.leave_body(token, shared);
        if self.payload.disk_read != DiskRead::None {
            shared.cancel_disk_read(token);
        }
        self.output.release(shared);
    }

    /// Returns whether the connection is between two requests.
    pub fn is_idle(&self) -> bool {
        self.state.is_none() && self.input.is_empty() && !self.has_output()
    }

    fn has_output(&self) -> bool {
        self.payload.is_pending() || self.output.is_kept()
    }

    fn serve_input(&mut self, known: usize, cx: &mut Cx<'_>) {
        let input = self.input.take();
        let used = self.serve(&input, known, cx);
        self.input.put_back(input, used);
    }

    /// Serves requests from `bytes` until one is incomplete or a response has to be sent first.
    /// Returns the number of bytes consumed.
    fn serve(&mut self, bytes: &[u8], known: usize, cx: &mut Cx<'_>) -> usize {
        let mut used = 0;
        self.input.is_partial = false;
        while used < bytes.len() && self.may_serve(cx) {
            let rest = &bytes[used..];
            let taken = match &self.state {
                None => input::empty_line(rest)
                    .unwrap_or_else(|| self.serve_head(rest, known.saturating_sub(used), cx)),
                Some(_) => self.serve_body(rest, cx),
            };
            self.input.is_partial = taken == 0;
            used += taken;
        }
        if self.is_last_response && used < bytes.len() {
            self.lingers = true;
            return bytes.len();
        }
        used
    }

    fn may_serve(&self, cx: &Cx<'_>) -> bool {
        let at_request = matches!(self.state.as_deref(), None | Some(State::Body(..)));
        let has_room = !self.payload.is_pending() && cx.shared.output.len() < MAX_OUTPUT_BYTES;
        at_request && has_room && !self.is_last_response && !self.input.is_partial
    }

    /// Serves a head. Returns its length, or 0 if it is incomplete.
    #[inline(always)]
    fn serve_head(&mut self, bytes: &[u8], known: usize, cx: &mut Cx<'_>) -> usize {
        if input::is_surely_partial(bytes, known) {
            return 0;
        }
        match parse(bytes) {
            Parsed::Partial => 0,
            Parsed::Complete(mut request, length) => {
                self.record_request_line(bytes);
                cx.shared.admit(&mut request);
                self.begin(&request, bytes.split_at(length), cx);
                length
            }
            Parsed::Refused(status) => {
                self.record_request_line(bytes);
                self.refuse(status, input::has_method_head(bytes), cx);
                bytes.len()
            }
        }
    }

    fn record_request_line(&mut self, head: &[u8]) {
        if let Some(client) = &mut self.client {
            client.record_request_line(head);
        }
    }

    fn begin(&mut self, request: &Request, (head, rest): (&[u8], &[u8]), cx: &mut Cx<'_>) {
        if request.framing.is_empty() {
            return self.respond(request, head, &[], cx);
        }
        self.begin_body(*request, (head, rest), cx);
    }

    fn begin_body(&mut self, request: Request, (head, rest): (&[u8], &[u8]), cx: &mut Cx<'_>) {
        let waits_for_continue = request.expects_continue && rest.is_empty();
        match request.action {
            // The response needs the head, which is not kept while a body is read.
            Action::Route(Route::Files) => return self.refuse_body(request, head, cx),
            Action::Route(_) => {}
            _ if waits_for_continue => return self.refuse_body(request, head, cx),
            _ => {}
        }
        let keeps = matches!(request.action, Action::Route(Route::Echo));
        let body = if keeps {
            let room = request.framing.first_reservation();
            if !cx.shared.bodies.reserve_or_wait(cx.token, room) {
                self.state = Some(Box::new(State::Queued(request)));
                return;
            }
            BodyReader::keeping(request.framing)
        } else {
            BodyReader::discarding(request.framing)
        };
        if waits_for_continue {
            cx.shared.output.extend_from_slice(CONTINUE);
        }
        self.set_body(request, body);
    }

    fn set_body(&mut self, request: Request, body: BodyReader) {
        self.state = Some(Box::new(State::Body(request, body)));
    }

    /// Responds to a request without reading its body. The client may send the body nevertheless,
    /// even with `Expect: 100-continue` (RFC 9110, section 10.1.1), so the bytes that follow cannot
    /// be parsed.
    fn refuse_body(&mut self, request: Request, head: &[u8], cx: &mut Cx<'_>) {
        let last = Request {
            keep_alive: false,
            ..request
        };
        self.lingers = true;
        self.respond(&last, head, &[], cx);
    }

    /// Serves a piece of a body. Returns its length.
    fn serve_body(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        let Some(State::Body(request, body)) = self.state.as_deref_mut() else {
            return 0;
        };
        let head_only = request.head_only;
        match body.feed(bytes, &mut cx.shared.bodies) {
            Ok(used) if body.is_done() => {
                let done = self.leave_body(cx.token, cx.shared);
                if let Some(State::Body(request, body)) = done.map(|state| *state) {
                    self.respond(&request, &[], &body.into_kept(), cx);
                }
                used
            }
            Ok(used) => used,
            Err(status) => {
                self.refuse(status, head_only, cx);
                bytes.len()
            }
        }
    }

    /// Ends the current body, or its wait for memory. The response takes over the body's memory.
    fn leave_body(&mut self, token: Token, shared: &mut Shared) -> Option<Box<State>> {
        let left = self.state.take();
        match left.as_deref() {
            Some(State::Queued(_)) => shared.bodies.cancel_wait(token),
            Some(State::Body(_, body)) => self.output.room += body.room(),
            _ => {}
        }
        left
    }

    #[inline(always)]
    fn respond(&mut self, request: &Request, head: &[u8], body: &[u8], cx: &mut Cx<'_>) {
        let shared = &mut *cx.shared;
        match shared.respond(request, body, &mut self.phase, cx.clock) {
            Rest::Sleep(time) => {
                self.state = Some(Box::new(State::Sleeping(*request, time)));
                return;
            }
            Rest::Payload(length) => self.payload = Payload::repeated(length),
            Rest::Worker => shared.respond_with_worker(request, self.client_address(), cx.clock),
            Rest::File => {
                if let Some(part) = shared.respond_with_file(request, head, cx.clock) {
                    self.payload = Payload::of(part);
                }
            }
            Rest::Nothing => {}
        }
        self.on_response(request, cx);
    }

    #[inline]
    fn on_response(&mut self, request: &Request, cx: &mut Cx<'_>) {
        self.log_response(cx);
        self.state = None;
        self.is_last_response = !cx.shared.keeps(request);
        // A client that wanted to keep the connection may have sent more already.
        self.lingers |= self.is_last_response && request.keep_alive;
        self.timers.has_responded = true;
    }

    fn refuse_partial_head(&mut self, cx: &mut Cx<'_>) {
        let head = self.input.take();
        if input::has_request_line(&head) {
            self.record_request_line(&head);
        }
        self.refuse(Status::RequestTimeout, input::has_method_head(&head), cx);
    }

    /// Responds with an error, or only with the head of that response. The connection ends when the
    /// response is sent.
    fn refuse(&mut self, status: Status, head_only: bool, cx: &mut Cx<'_>) {
        cx.shared.refuse(status, head_only, cx.clock);
        self.log_response(cx);
        self.leave_body(cx.token, cx.shared);
        self.input = Input::default();
        self.is_last_response = true;
        self.lingers = true;
    }

    fn client_address(&self) -> Option<IpAddr> {
        self.client.as_ref()?.address
    }

    fn log_response(&mut self, cx: &mut Cx<'_>) {
        if let Some(client) = &mut self.client {
            client.log_response(cx.shared, cx.clock);
        }
    }
}
