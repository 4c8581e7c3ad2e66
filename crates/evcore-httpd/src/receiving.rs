//! What comes from a client: read, cut into requests, and served.

use std::{
    io::{self, ErrorKind},
    mem,
};

use evcore::{Acceptor, Interest, Transport};

use crate::{
    access_log::keep_request_line,
    body::BodyReader,
    connection::{Connection, Progress, Sleep, State, Visit},
    request::{Ask, MOST_HEAD_BYTES, Parsed, Request, parse},
    response::{CONTINUE, Status},
    route::Route,
    site::Rest,
};

/// Answers to pipelined requests are sent when they have come to this.
pub const MOST_OUTPUT_BYTES: usize = 64 * 1024;

impl<S: Transport> Connection<S> {
    /// Serves what was kept from earlier reads; whether that led anywhere.
    pub fn serve_kept(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> bool {
        if self.input.is_empty() || self.partial {
            return false;
        }
        self.serve_input(0, visit);
        true
    }

    /// Reads once, and serves what came.
    pub fn receive(&mut self, visit: &mut Visit<'_, impl Acceptor>) -> io::Result<Progress> {
        if !self.readable {
            return Ok(Progress::Waits);
        }
        let mut buffer = mem::take(&mut visit.site.input);
        let received = self.read(&mut buffer, visit);
        let taken_in = match received {
            Ok(Some(n)) => self.take_in(&buffer[..n], visit),
            _ => Ok(()),
        };
        visit.site.input = buffer;
        taken_in?;
        Ok(match received? {
            None => Progress::Waits,
            Some(0) => Progress::Over,
            Some(_) => Progress::More,
        })
    }

    /// Reads once; `None` where the socket is empty.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        visit: &mut Visit<'_, impl Acceptor>,
    ) -> io::Result<Option<usize>> {
        match self.stream.recv(buffer) {
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
    fn drained(&mut self, visit: &mut Visit<'_, impl Acceptor>) {
        self.readable = false;
        visit.ev.rearm(visit.token, Interest::READ);
    }

    /// Serves new bytes, straight from the shared buffer where nothing was kept before.
    fn take_in(&mut self, bytes: &[u8], visit: &mut Visit<'_, impl Acceptor>) -> io::Result<()> {
        let known = self.input.len();
        let used = if known == 0 {
            self.serve(bytes, 0, visit)
        } else {
            0
        };
        self.input.try_reserve(bytes.len() - used)?;
        self.input.extend_from_slice(&bytes[used..]);
        if known > 0 {
            self.serve_input(known, visit);
        }
        Ok(())
    }

    /// Serves what is in `input`, of which `known` bytes were looked at before.
    fn serve_input(&mut self, known: usize, visit: &mut Visit<'_, impl Acceptor>) {
        let mut input = mem::take(&mut self.input);
        let used = self.serve(&input, known, visit);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Serves requests from `bytes` until they end in the middle of one, or until an answer has to
    /// be sent first; how many bytes that took.
    fn serve(&mut self, bytes: &[u8], known: usize, visit: &mut Visit<'_, impl Acceptor>) -> usize {
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
    fn may_serve(&self, visit: &Visit<'_, impl Acceptor>) -> bool {
        let at_request = matches!(self.state, State::Head | State::Body(_));
        let room = self.filling == 0 && visit.site.output.len() < MOST_OUTPUT_BYTES;
        at_request && room && !self.last && !self.partial
    }

    /// Serves a head; its length, or 0 where it is not whole.
    fn serve_head(
        &mut self,
        bytes: &[u8],
        known: usize,
        visit: &mut Visit<'_, impl Acceptor>,
    ) -> usize {
        // A head ends with a line: until another has ended, parsing again would find nothing new.
        // So a client that sends a byte at a time does not make us parse at every byte.
        if !bytes[known..].contains(&b'\n') && bytes.len() < MOST_HEAD_BYTES {
            return 0;
        }
        match parse(bytes) {
            Parsed::Partial => 0,
            Parsed::Complete(request, length) => {
                self.note(bytes, visit);
                let request = visit.site.admit(request);
                self.begin(request, bytes.len() > length, visit);
                length
            }
            Parsed::Refused(status) => {
                self.note(bytes, visit);
                self.refuse(status, visit);
                bytes.len()
            }
        }
    }

    /// Keeps what the access log will tell of a request.
    fn note(&mut self, head: &[u8], visit: &Visit<'_, impl Acceptor>) {
        if visit.site.log.is_some() {
            keep_request_line(&mut self.asked, head);
        }
    }

    fn begin(
        &mut self,
        request: Request,
        more_is_here: bool,
        visit: &mut Visit<'_, impl Acceptor>,
    ) {
        if request.framing.is_empty() {
            return self.answer(&request, &[], visit);
        }
        let waits_for_continue = request.expects_continue && !more_is_here;
        if waits_for_continue && !matches!(request.ask, Ask::Route(_)) {
            return self.refuse_body(request, visit);
        }
        // Only `/echo` wants its body; what others are sent has to be read all the same.
        let keeps = matches!(request.ask, Ask::Route(Route::Echo));
        let body = if keeps {
            let room = request.framing.first_room();
            if !visit.site.bodies.take_or_wait(visit.token, room) {
                self.state = State::Queued(request);
                return;
            }
            BodyReader::keeping(request.framing)
        } else {
            BodyReader::discarding(request.framing)
        };
        if waits_for_continue {
            visit.site.output.extend_from_slice(CONTINUE);
        }
        self.state = State::body(request, body);
    }

    /// Answers a client that asks before it sends its body, and need not send it. It may do so all
    /// the same (RFC 9110, section 10.1.1): so nothing behind this answer can be told from a body.
    fn refuse_body(&mut self, request: Request, visit: &mut Visit<'_, impl Acceptor>) {
        let last = Request {
            keep_alive: false,
            ..request
        };
        self.lingers = true;
        self.answer(&last, &[], visit);
    }

    /// Serves a piece of a body; how long it was.
    fn serve_body(&mut self, bytes: &[u8], visit: &mut Visit<'_, impl Acceptor>) -> usize {
        let State::Body(body) = &mut self.state else {
            return 0;
        };
        match body.1.feed(bytes, &mut visit.site.bodies) {
            Ok(used) if body.1.is_done() => {
                if let State::Body(done) = self.leave_body(visit.token, visit.site) {
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

    fn answer(&mut self, request: &Request, body: &[u8], visit: &mut Visit<'_, impl Acceptor>) {
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

    pub fn answered(&mut self, request: &Request, visit: &mut Visit<'_, impl Acceptor>) {
        self.log_answer(visit);
        self.state = State::Head;
        self.last = !visit.site.keeps(request);
        // A client that would have gone on may have sent more before it reads that this is the end.
        self.lingers |= self.last && request.keep_alive;
        self.fresh = true;
    }

    /// Says why, and ends the connection once that is said.
    pub fn refuse(&mut self, status: Status, visit: &mut Visit<'_, impl Acceptor>) {
        visit.site.refuse(status, visit.ev.clock());
        self.log_answer(visit);
        self.leave_body(visit.token, visit.site);
        self.input = Vec::new();
        self.last = true;
        self.lingers = true;
    }

    fn log_answer(&mut self, visit: &mut Visit<'_, impl Acceptor>) {
        let clock = visit.ev.clock();
        visit.site.log_answer(self.peer, &self.asked, clock);
        self.asked.clear();
    }
}
