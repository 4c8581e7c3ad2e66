//! What all connections of a worker share.

use std::{net::IpAddr, time::Duration};

use evcore::clock::Clock;

use crate::{
    access_log::{AccessLog, Entry},
    bodies::Bodies,
    counts::{Counts, Doing},
    options::Options,
    receiving::MOST_OUTPUT_BYTES,
    request::{Ask, MOST_BODY_BYTES, Request, Version},
    response::{Head, Status, refusal},
    route::Route,
};

/// What is read at once. A read that brings less has emptied the socket.
const INPUT_BYTES: usize = 32 * 1024;

/// What is made of answers at most before they are sent, the largest body and its head among them:
/// so no client decides what memory it takes to answer. The system gives it as it is used.
const OUTPUT_BYTES: usize = MOST_OUTPUT_BYTES + MOST_BODY_BYTES + 4096;

/// Up to here, a body of `/bytes` goes into the buffer with its head.
const MOST_INLINE: usize = 16 * 1024;

/// A worker's settings, counts and buffers. Buffers are shared because between two steps nearly all
/// connections have nothing in them: so an idle one owns none.
#[derive(Debug)]
pub struct Site {
    pub limits: Limits,
    pub counts: Counts,
    pub bodies: Bodies,
    /// What was just read.
    pub input: Vec<u8>,
    /// Answers that are about to be sent.
    pub output: Vec<u8>,
    /// Whether this worker is to stop: then each answer is the last of its connection.
    pub stopping: bool,
    pub log: Option<AccessLog>,
    /// Status and bytes of the body of the answer that was made last.
    answered: (Status, u64),
    delay_endpoints: bool,
    index: usize,
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub header: Duration,
    pub keep_alive: Duration,
    pub send: Duration,
}

/// What is left to do after the head of an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Nothing,
    /// So many bytes of filling.
    Filling(u64),
    /// Say nothing at all until that long has passed, then answer.
    Sleep(Duration),
}

impl Site {
    pub fn new(options: &Options, index: usize, counts: Counts) -> Self {
        Self {
            limits: Limits {
                header: options.header_timeout,
                keep_alive: options.keepalive_timeout,
                send: options.send_timeout,
            },
            counts,
            bodies: Bodies::new(options.bodies, options.connections),
            input: vec![0; INPUT_BYTES],
            output: Vec::with_capacity(OUTPUT_BYTES),
            stopping: false,
            log: None,
            answered: (Status::Ok, 0),
            delay_endpoints: options.delay_endpoints,
            index,
        }
    }

    /// The request, for something that is not there if this server does not offer it.
    pub fn admit(&self, request: Request) -> Request {
        match request.ask {
            Ask::Route(route) | Ask::NotAllowed(route)
                if route.delays() && !self.delay_endpoints =>
            {
                Request {
                    ask: Ask::NotFound,
                    ..request
                }
            }
            _ => request,
        }
    }

    /// Logs the answer that was made last, if anything is logged.
    pub fn log_answer(&mut self, peer: Option<IpAddr>, request_line: &[u8], clock: &Clock) {
        let Some(log) = &mut self.log else {
            return;
        };
        let (status, body_bytes) = self.answered;
        log.add(&Entry {
            peer,
            time: clock.access_log_time().as_bytes(),
            request_line,
            status: status.code(),
            body_bytes,
        });
    }

    /// Whether the connection goes on after an answer to `request`.
    pub fn keeps(&self, request: &Request) -> bool {
        request.keep_alive && !self.stopping
    }

    /// Answers a request whose body, if any, has come.
    pub fn answer(
        &mut self,
        request: &Request,
        body: &[u8],
        doing: &mut Doing,
        clock: &Clock,
    ) -> Rest {
        self.counts.request();
        match request.ask {
            Ask::Route(Route::Hello) => self.reply(request, clock, b"Hello, World!"),
            Ask::Route(Route::Bytes(length)) => return self.bytes(request, clock, length),
            Ask::Route(Route::Echo) => self.reply(request, clock, body),
            Ask::Route(Route::Sleep(time)) => return Rest::Sleep(time),
            Ask::Route(Route::Block(time)) => {
                // On purpose: it shows how the other workers take over.
                std::thread::sleep(time);
                self.reply(request, clock, b"blocked\n");
            }
            Ask::Route(Route::Worker) => {
                let pid = std::process::id();
                let body = format!("{{\"worker\":{},\"pid\":{pid}}}\n", self.index);
                self.reply_as(request, clock, "application/json", body.as_bytes());
            }
            Ask::Route(Route::Status) => {
                // The one who asks is being answered, and sees itself so.
                self.counts.change(doing, Doing::Writing);
                self.counts.publish();
                let body = self.counts.status_text();
                self.reply(request, clock, body.as_bytes());
            }
            Ask::Route(Route::StatusJson) => {
                self.counts.change(doing, Doing::Writing);
                self.counts.publish();
                let body = self.counts.status_json();
                self.reply_as(request, clock, "application/json", body.as_bytes());
            }
            Ask::NotFound => self.turn_down(request, clock, Status::NotFound, None),
            Ask::NotAllowed(route) => {
                let allow = Some(route.allowed());
                self.turn_down(request, clock, Status::MethodNotAllowed, allow);
            }
        }
        Rest::Nothing
    }

    /// Answers a request that has slept its time.
    pub fn answer_sleeper(&mut self, request: &Request, clock: &Clock) {
        self.reply(request, clock, b"slept\n");
    }

    /// Says why the connection ends.
    pub fn refuse(&mut self, status: Status, clock: &Clock) {
        let head = Head {
            status,
            ..Head::new(clock, Version::Http11, false)
        };
        self.write(head, false, refusal(status).as_bytes());
    }

    /// Refuses a request, and goes on.
    fn turn_down(
        &mut self,
        request: &Request,
        clock: &Clock,
        status: Status,
        allow: Option<&'static str>,
    ) {
        let head = Head {
            status,
            allow,
            ..self.head(request, clock)
        };
        self.write(head, request.head_only, refusal(status).as_bytes());
    }

    fn reply(&mut self, request: &Request, clock: &Clock, body: &[u8]) {
        let head = self.head(request, clock);
        self.write(head, request.head_only, body);
    }

    fn reply_as(
        &mut self,
        request: &Request,
        clock: &Clock,
        content_type: &'static str,
        body: &[u8],
    ) {
        let head = Head {
            content_type,
            ..self.head(request, clock)
        };
        self.write(head, request.head_only, body);
    }

    /// A body of that length: with its head if it is short, else to be sent as the socket takes it.
    fn bytes(&mut self, request: &Request, clock: &Clock, length: u64) -> Rest {
        let head = Head {
            content_type: "application/octet-stream",
            content_length: length,
            ..self.head(request, clock)
        };
        head.write(&mut self.output);
        self.answered = (Status::Ok, if request.head_only { 0 } else { length });
        match usize::try_from(length) {
            _ if request.head_only => Rest::Nothing,
            Ok(length) if length <= MOST_INLINE => {
                self.output.resize(self.output.len() + length, FILLING);
                Rest::Nothing
            }
            _ => Rest::Filling(length),
        }
    }

    /// The head of an answer to `request`, as far as all have it in common.
    fn head<'a>(&self, request: &Request, clock: &'a Clock) -> Head<'a> {
        Head::new(clock, request.version, self.keeps(request))
    }

    fn write(&mut self, head: Head<'_>, head_only: bool, body: &[u8]) {
        let head = Head {
            content_length: body.len() as u64,
            ..head
        };
        head.write(&mut self.output);
        self.answered = (head.status, 0);
        if !head_only {
            self.answered.1 = head.content_length;
            self.output.extend_from_slice(body);
        }
    }
}

/// What `/bytes` is full of.
pub const FILLING: u8 = b'.';
