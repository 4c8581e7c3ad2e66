//! The receiving half of a connection: read, parse and serve requests.

use std::{
    io::{self, ErrorKind},
    mem,
};

use evcore::{Acceptor, Interest, Transport};

use crate::{
    access_log::copy_request_line,
    body::BodyReader,
    connection::{Connection, Cx, Progress, Sleep, State},
    request::{Action, MAX_HEAD_BYTES, Parsed, Request, parse},
    response::{CONTINUE, Status},
    route::Route,
    shared::Rest,
};

/// Responses to pipelined requests are sent at the latest when they have this many bytes together.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;

impl<S: Transport> Connection<S> {
    /// Serves input that earlier reads left over. Returns whether there was any to serve.
    pub fn serve_buffered(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> bool {
        if self.input.is_empty() || self.partial {
            return false;
        }
        self.serve_input(0, cx);
        true
    }

    /// Reads once, and serves the bytes.
    pub fn receive(&mut self, cx: &mut Cx<'_, impl Acceptor>) -> io::Result<Progress> {
        if !self.readable {
            return Ok(Progress::Blocked);
        }
        let mut buffer = mem::take(&mut cx.shared.input);
        let received = self.read(&mut buffer, cx);
        let processed = match received {
            Ok(Some(n)) => self.process(&buffer[..n], cx),
            _ => Ok(()),
        };
        cx.shared.input = buffer;
        processed?;
        Ok(match received? {
            None => Progress::Blocked,
            Some(0) => Progress::Done,
            Some(_) => Progress::More,
        })
    }

    /// Reads once. Returns `None` if the socket is empty.
    #[inline(always)]
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        cx: &mut Cx<'_, impl Acceptor>,
    ) -> io::Result<Option<usize>> {
        match self.stream.recv(buffer) {
            Ok(n) => {
                // A short read means that the socket is empty, except before the end of the stream.
                if n < buffer.len() && !self.read_closed {
                    self.on_read_drained(cx);
                }
                Ok(Some(n))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.on_read_drained(cx);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The socket is empty. Backends that emulate edge triggering need the rearm.
    fn on_read_drained(&mut self, cx: &mut Cx<'_, impl Acceptor>) {
        self.readable = false;
        cx.ev.rearm(cx.token, Interest::READ);
    }

    /// Serves new bytes, directly from the shared buffer if `input` is empty.
    fn process(&mut self, bytes: &[u8], cx: &mut Cx<'_, impl Acceptor>) -> io::Result<()> {
        let known = self.input.len();
        let used = if known == 0 {
            self.serve(bytes, 0, cx)
        } else {
            0
        };
        if used == bytes.len() {
            return Ok(());
        }
        let rest = bytes.len() - used;
        cx.shared.allocate(rest)?;
        self.input.try_reserve(rest)?;
        self.input.extend_from_slice(&bytes[used..]);
        if known > 0 {
            self.serve_input(known, cx);
        }
        Ok(())
    }

    /// Serves `input`, of which the first `known` bytes were scanned before.
    fn serve_input(&mut self, known: usize, cx: &mut Cx<'_, impl Acceptor>) {
        let mut input = mem::take(&mut self.input);
        let used = self.serve(&input, known, cx);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Serves requests from `bytes` until one is incomplete or a response has to be sent first.
    /// Returns the number of bytes consumed.
    fn serve(&mut self, bytes: &[u8], known: usize, cx: &mut Cx<'_, impl Acceptor>) -> usize {
        let mut used = 0;
        self.partial = false;
        while used < bytes.len() && self.may_serve(cx) {
            let rest = &bytes[used..];
            let taken = match &self.state {
                State::Head => self.serve_head(rest, known.saturating_sub(used), cx),
                _ => self.serve_body(rest, cx),
            };
            self.partial = taken == 0;
            used += taken;
        }
        if self.is_last_response && used < bytes.len() {
            self.lingers = true;
            return bytes.len();
        }
        used
    }

    /// Whether the next request can be parsed now.
    fn may_serve(&self, cx: &Cx<'_, impl Acceptor>) -> bool {
        let at_request = matches!(self.state, State::Head | State::Body(_));
        let room = self.payload_left == 0 && cx.shared.output.len() < MAX_OUTPUT_BYTES;
        at_request && room && !self.is_last_response && !self.partial
    }

    /// Serves a head. Returns its length, or 0 if it is incomplete.
    #[inline(always)]
    fn serve_head(&mut self, bytes: &[u8], known: usize, cx: &mut Cx<'_, impl Acceptor>) -> usize {
        // A head ends with the end of a line, so without a new one there is nothing new to parse.
        // A client that sends a byte at a time does not cause a parse for each byte.
        let has_no_news = !has_line_end(&bytes[known..]) && bytes.len() < MAX_HEAD_BYTES;
        if has_no_news && may_begin_request(bytes) {
            return 0;
        }
        match parse(bytes) {
            Parsed::Partial => 0,
            Parsed::Complete(mut request, length) => {
                self.record_request_line(bytes);
                cx.shared.resolve(&mut request);
                self.begin(&request, bytes.split_at(length), cx);
                length
            }
            Parsed::Refused(status) => {
                self.record_request_line(bytes);
                self.refuse(status, has_method_head(bytes), cx);
                bytes.len()
            }
        }
    }

    /// Copies the request line for the access log.
    fn record_request_line(&mut self, head: &[u8]) {
        if let Some(logged) = &mut self.logged {
            copy_request_line(&mut logged.request_line, head);
        }
    }

    fn begin(
        &mut self,
        request: &Request,
        (head, rest): (&[u8], &[u8]),
        cx: &mut Cx<'_, impl Acceptor>,
    ) {
        if request.framing.is_empty() {
            return self.respond(request, head, &[], cx);
        }
        self.begin_body(*request, (head, rest), cx);
    }

    fn begin_body(
        &mut self,
        request: Request,
        (head, rest): (&[u8], &[u8]),
        cx: &mut Cx<'_, impl Acceptor>,
    ) {
        let waits_for_continue = request.expects_continue && rest.is_empty();
        match request.action {
            // The response needs the head, which is not kept while a body is read.
            Action::Route(Route::Files) => return self.refuse_body(request, head, cx),
            Action::Route(_) => {}
            _ if waits_for_continue => return self.refuse_body(request, head, cx),
            _ => {}
        }
        // Only `/echo` uses its body; other bodies are read and discarded.
        let keeps = matches!(request.action, Action::Route(Route::Echo));
        let body = if keeps {
            let room = request.framing.first_reservation();
            if !cx.shared.bodies.reserve_or_wait(cx.token, room) {
                self.state = State::Queued(Box::new(request));
                return;
            }
            BodyReader::keeping(request.framing)
        } else {
            BodyReader::discarding(request.framing)
        };
        if waits_for_continue {
            cx.shared.output.extend_from_slice(CONTINUE);
        }
        self.state = State::body(request, body);
    }

    /// Responds to a request without reading its body. The client may send the body nevertheless, even
    /// with `Expect: 100-continue` (RFC 9110, section 10.1.1), so what follows cannot be parsed.
    fn refuse_body(&mut self, request: Request, head: &[u8], cx: &mut Cx<'_, impl Acceptor>) {
        let last = Request {
            keep_alive: false,
            ..request
        };
        self.lingers = true;
        self.respond(&last, head, &[], cx);
    }

    /// Serves a piece of a body. Returns its length.
    fn serve_body(&mut self, bytes: &[u8], cx: &mut Cx<'_, impl Acceptor>) -> usize {
        let State::Body(body) = &mut self.state else {
            return 0;
        };
        let head_only = body.0.head_only;
        match body.1.feed(bytes, &mut cx.shared.bodies) {
            Ok(used) if body.1.is_done() => {
                if let State::Body(done) = self.leave_body(cx.token, cx.shared) {
                    let (request, body) = *done;
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

    #[inline(always)]
    fn respond(
        &mut self,
        request: &Request,
        head: &[u8],
        body: &[u8],
        cx: &mut Cx<'_, impl Acceptor>,
    ) {
        let clock = cx.ev.clock();
        match cx.shared.respond(request, body, &mut self.phase, clock) {
            Rest::Sleep(time) => {
                let sleep = (*request, Sleep::Pending(time));
                self.state = State::Sleeping(Box::new(sleep));
                return;
            }
            Rest::Payload(length) => self.payload_left = length,
            Rest::File => self.respond_with_file(request, head, cx),
            Rest::Nothing => {}
        }
        self.on_response(request, cx);
    }

    #[inline]
    pub fn on_response(&mut self, request: &Request, cx: &mut Cx<'_, impl Acceptor>) {
        self.log_response(cx);
        self.state = State::Head;
        self.is_last_response = !cx.shared.keeps(request);
        // A client that wanted to keep the connection may have sent more already.
        self.lingers |= self.is_last_response && request.keep_alive;
        self.responded_since_armed = true;
    }

    /// Responds to a head that is incomplete after its time.
    pub fn refuse_partial_head(&mut self, cx: &mut Cx<'_, impl Acceptor>) {
        let head = mem::take(&mut self.input);
        if has_request_line(&head) {
            self.record_request_line(&head);
        }
        self.refuse(Status::RequestTimeout, has_method_head(&head), cx);
    }

    /// Responds with an error, or with its head alone, and ends the connection when that is sent.
    pub fn refuse(&mut self, status: Status, head_only: bool, cx: &mut Cx<'_, impl Acceptor>) {
        cx.shared.refuse(status, head_only, cx.ev.clock());
        self.log_response(cx);
        self.leave_body(cx.token, cx.shared);
        self.input = Vec::new();
        self.is_last_response = true;
        self.lingers = true;
    }

    fn log_response(&mut self, cx: &mut Cx<'_, impl Acceptor>) {
        if let Some(logged) = &mut self.logged {
            let clock = cx.ev.clock();
            cx.shared
                .log_response(logged.peer, &logged.request_line, clock);
            logged.request_line.clear();
        }
    }
}

/// Whether the first byte may be that of a request, or of an empty line before it. Other protocols, such
/// as TLS, may never send the end of a line.
fn may_begin_request(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b'\r' | b'\n');
    bytes.first().is_none_or(is_plain)
}

/// Whether the method of a head that was not parsed is HEAD, whose response has no body in any case
/// (RFC 9110, section 9.3.2). Empty lines may come before it.
fn has_method_head(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"HEAD ")
}

/// Whether the request line of a head is complete. Empty lines may come before it.
fn has_request_line(head: &[u8]) -> bool {
    has_line_end(head.trim_ascii_start())
}

/// Whether a line ends in `bytes`. The last byte comes first, because most heads arrive whole.
fn has_line_end(bytes: &[u8]) -> bool {
    bytes.last() == Some(&b'\n') || bytes.contains(&b'\n')
}
