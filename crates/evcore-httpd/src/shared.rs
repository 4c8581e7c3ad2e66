//! The state that the connections of a worker share: settings, counters and buffers.

use std::{net::IpAddr, time::Duration};

use evcore::{Token, clock::Clock};
use evcore_recording::Outside;

use crate::{
    access_log::AccessLog,
    body::MAX_BODY_BYTES,
    body_memory::BodyMemory,
    counts::Counts,
    dashboard::{self, Asset},
    files::{Files, Part},
    headroom::Headroom,
    history::SAMPLES,
    log_entry::{Entry, LogFormat},
    options::Options,
    phases::Phase,
    prometheus,
    request::{Action, Request},
    response::{Head, Status, TextHead, error_body},
    route::{self, Route},
    version::Version,
};

/// The size of a read. A shorter read means that the socket is empty.
const INPUT_BYTES: usize = 32 * 1024;

/// The number of response bytes in the output buffer at which they are sent before the next
/// pipelined request is served.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The capacity of the output buffer: pipelined responses, the largest body and its head. The
/// buffer grows only for `/metrics` or `/history.json` of a server with many workers. The system
/// provides the memory when it is first used.
const OUTPUT_BYTES: usize = MAX_OUTPUT_BYTES + MAX_BODY_BYTES + 4096;

/// The maximum size of a body of `/bytes` that goes into the output buffer with its head.
const MAX_INLINE: usize = 16 * 1024;

/// The most memory that making the page `/history.json` takes with this many workers, in bytes. The
/// text is first in a string, which grows by doubling, and then also in the output buffer.
fn history_bytes(workers: usize) -> usize {
    // During reloads that follow each other closely, at most four sets of workers run.
    (SAMPLES + 1) * (1_000 + 4 * 700 * workers) * 3
}

/// A worker's settings, counters and buffers.
///
/// The buffers are shared, because between two steps (events of the loop) the buffers of almost
/// every connection would be empty. So an idle connection owns no buffer.
#[derive(Debug)]
pub struct Shared {
    /// The timeouts.
    pub limits: Limits,
    /// The counters of this worker, and the pages about all workers.
    pub counts: Counts,
    /// The memory for request bodies, and the headroom below the process's memory limit.
    pub bodies: BodyMemory,
    /// The bytes of the current read.
    pub input: Vec<u8>,
    /// The responses of the current connection that are not sent yet.
    pub output: Vec<u8>,
    /// True while the worker shuts down, so that each response is the last of its connection.
    pub stopping: bool,
    /// The access log, if there is one.
    pub log: Option<AccessLog>,
    /// The files of `--root`, if it is given.
    pub files: Option<Box<Files>>,
    last_response: (Status, u64),
    text_head: TextHead,
    delay_endpoints: bool,
    /// True if load balancers report the addresses of clients.
    has_proxies: bool,
    index: usize,
    history_bytes: usize,
    pid: u32,
    /// The input that the server gets from outside its loop.
    pub outside: Outside,
}

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time for a request head, between two reads of a body, and for a body to wait for memory.
    pub header: Duration,
    /// The time that a connection may be idle.
    pub keep_alive: Duration,
    /// The time between two successful writes.
    pub send: Duration,
}

/// The work that remains after [`Shared::respond`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// No work: the response is in the output buffer.
    Nothing,
    /// This many payload bytes have to be sent.
    Payload(u64),
    /// The response of `/worker` has to be written.
    Worker,
    /// A response with a file has to be written.
    File,
    /// A response has to be written after this time.
    Sleep(Duration),
}

impl Shared {
    /// Creates the shared state of the worker with this index.
    pub fn new(options: &Options, index: usize, counts: Counts, outside: Outside) -> Self {
        let headroom = Headroom::new(outside.clone());
        Self {
            limits: Limits {
                header: options.header_timeout,
                keep_alive: options.keepalive_timeout,
                send: options.send_timeout,
            },
            counts,
            bodies: BodyMemory::with_headroom(options.bodies, options.connections, headroom),
            input: vec![0; INPUT_BYTES],
            output: Vec::with_capacity(OUTPUT_BYTES),
            stopping: false,
            log: None,
            files: None,
            last_response: (Status::Ok, 0),
            text_head: TextHead::default(),
            delay_endpoints: options.delay_endpoints,
            has_proxies: options.proxy_protocol.is_some(),
            index,
            history_bytes: history_bytes(options.workers().max(1)),
            pid: outside.value("pid", std::process::id),
            outside,
        }
    }

    /// Counts a request. A request for a disabled endpoint becomes one for an unknown path.
    pub fn admit(&mut self, request: &mut Request) {
        self.counts.request();
        if let Action::Route(route) | Action::NotAllowed(route) = request.action {
            if route.delays() && !self.delay_endpoints {
                request.action = Action::NotFound;
            }
        }
    }

    /// Adds the most recent response to the access log, if there is one.
    pub fn log_response(&mut self, peer: Option<IpAddr>, request_line: &[u8], clock: &Clock) {
        let Some(log) = &mut self.log else {
            return;
        };
        let (status, body_bytes) = self.last_response;
        let (common, iso);
        let time = match log.format() {
            LogFormat::Common => {
                common = clock.access_log_time();
                common.as_str()
            }
            LogFormat::Json => {
                iso = clock.iso8601();
                iso.as_str()
            }
        };
        log.add(&Entry {
            peer,
            time,
            request_line,
            status: status.code(),
            body_bytes,
        });
    }

    /// Returns whether the access log or `/worker` shows the clients.
    pub fn shows_clients(&self) -> bool {
        self.log.is_some() || self.has_proxies
    }

    /// Responds to a request for `/worker`.
    pub fn respond_with_worker(
        &mut self,
        request: &Request,
        client: Option<IpAddr>,
        clock: &Clock,
    ) {
        let (index, pid) = (self.index, self.pid);
        let client = client.filter(|_| self.has_proxies);
        let client = client.map_or(String::new(), |client| format!(",\"client\":\"{client}\""));
        let body = format!("{{\"worker\":{index},\"pid\":{pid}{client}}}\n");
        let head = Head {
            content_type: "application/json",
            ..self.head(request, clock)
        };
        self.write(head, request.head_only, body.as_bytes());
    }

    /// Returns whether the connection stays open after the response to `request`.
    pub fn keeps(&self, request: &Request) -> bool {
        request.keep_alive && !self.stopping
    }

    /// Responds to a request whose body, if any, has been read.
    pub fn respond(
        &mut self,
        request: &Request,
        body: &[u8],
        phase: &mut Phase,
        clock: &Clock,
    ) -> Rest {
        match request.action {
            Action::Route(Route::Hello) => self.reply(request, clock, b"Hello, World!"),
            Action::Route(Route::Bytes(length)) => return self.bytes(request, clock, length),
            Action::Route(Route::Files) => return Rest::File,
            Action::Route(Route::Echo) => self.reply(request, clock, body),
            Action::Route(Route::Sleep(time)) => return Rest::Sleep(time),
            Action::Route(Route::Block(time)) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "it blocks on purpose, to show how the other workers take over"
                )]
                self.outside.value("block", || std::thread::sleep(time));
                self.reply(request, clock, b"blocked\n");
            }
            Action::Route(Route::Worker) => return Rest::Worker,
            Action::Route(Route::Status) => {
                // The connection of this request counts as writing.
                self.counts.change(phase, Phase::Writing);
                let body = self.page(clock, |counts, _| counts.status_text());
                self.reply(request, clock, body.as_bytes());
            }
            Action::Route(Route::StatusJson) => {
                self.counts.change(phase, Phase::Writing);
                self.reply_page(request, clock, "application/json", Counts::status_json);
            }
            Action::Route(Route::HistoryJson)
                if !self.bodies.headroom.allows(self.history_bytes) =>
            {
                self.reply_error(request, clock, Status::ServiceUnavailable, None);
            }
            Action::Route(Route::HistoryJson) => {
                self.counts.change(phase, Phase::Writing);
                self.reply_page(request, clock, "application/json", Counts::history_json);
            }
            Action::Route(Route::Metrics) => {
                self.counts.change(phase, Phase::Writing);
                self.reply_page(
                    request,
                    clock,
                    prometheus::CONTENT_TYPE,
                    Counts::metrics_text,
                );
            }
            Action::Route(Route::Dashboard(asset)) => self.dashboard(request, clock, asset),
            Action::Options => {
                let head = Head {
                    allow: Some(route::METHODS),
                    ..self.head(request, clock)
                };
                self.write(head, request.head_only, b"");
            }
            Action::NotFound => self.reply_error(request, clock, Status::NotFound, None),
            Action::NotAllowed(Route::Files) if self.files.is_none() => {
                self.reply_error(request, clock, Status::NotFound, None);
            }
            Action::NotAllowed(route) => {
                let allow = Some(route.allowed());
                self.reply_error(request, clock, Status::MethodNotAllowed, allow);
            }
        }
        Rest::Nothing
    }

    fn page(&self, clock: &Clock, make: impl FnOnce(&Counts, &Clock) -> String) -> String {
        // A replay takes the page from the recording, and does not call `make`. But readings of the
        // wall clock are recorded separately, so a replay has to read it, too. It is read here; in
        // the same turn, `make` gets the cached value.
        let _ = clock.unix_seconds();
        self.outside.value("page", || make(&self.counts, clock))
    }

    /// Responds to a request for a file. `head` has the bytes of the request's head. Returns the
    /// part of the file to send after the output buffer.
    pub fn respond_with_file(
        &mut self,
        request: &Request,
        head: &[u8],
        clock: &Clock,
    ) -> Option<Part> {
        let end = (request.version, self.keeps(request));
        let answer = match &mut self.files {
            Some(files) => files.answer(request, head, end, clock, &mut self.output),
            None => Err(Status::NotFound),
        };
        match answer {
            Ok(answer) => {
                let length = answer.body.as_ref().map_or(0, |part| part.length);
                self.last_response = (answer.status, length);
                answer.body
            }
            Err(status) => {
                self.reply_error(request, clock, status, None);
                None
            }
        }
    }

    /// Removes the disk read of a connection that is closed.
    pub fn cancel_disk_read(&mut self, token: Token) {
        if let Some(files) = &mut self.files {
            files.reads.cancel(token);
        }
    }

    /// Responds to `/sleep` after its time.
    pub fn respond_after_sleep(&mut self, request: &Request, clock: &Clock) {
        self.reply(request, clock, b"slept\n");
    }

    /// Responds with the error that ends the connection.
    pub fn refuse(&mut self, status: Status, head_only: bool, clock: &Clock) {
        // Only CONNECT gets a 405 here. `Allow` is empty, because the server has no tunnels.
        let allow = (status == Status::MethodNotAllowed).then_some("");
        let head = Head {
            status,
            allow,
            ..Head::new(clock, Version::Http11, false)
        };
        self.write(head, head_only, error_body(status).as_bytes());
    }

    fn reply_error(
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
        self.write(head, request.head_only, error_body(status).as_bytes());
    }

    fn reply(&mut self, request: &Request, clock: &Clock, body: &[u8]) {
        let end = (request.version, self.keeps(request));
        let (out, length) = (&mut self.output, body.len() as u64);
        self.text_head.write(out, clock, end, length);
        self.write_body(Status::Ok, request.head_only, body);
    }

    /// Responds with a page about all workers. No page is made for a HEAD, because a client that
    /// sends hundreds of HEADs at a time would block the worker. So the response to a HEAD has no
    /// length.
    fn reply_page(
        &mut self,
        request: &Request,
        clock: &Clock,
        content_type: &'static str,
        make: impl FnOnce(&Counts, &Clock) -> String,
    ) {
        let head = Head {
            content_type,
            ..self.head(request, clock)
        };
        if request.head_only {
            let head = Head {
                content_length: None,
                ..head
            };
            head.write(&mut self.output);
            self.last_response = (Status::Ok, 0);
            return;
        }
        let body = self.page(clock, make);
        self.write(head, false, body.as_bytes());
    }

    fn dashboard(&mut self, request: &Request, clock: &Clock, asset: Asset) {
        let head = Head {
            content_type: asset.content_type(),
            further: dashboard::HEADERS,
            ..self.head(request, clock)
        };
        self.write(head, request.head_only, asset.content().as_bytes());
    }

    /// Responds with `length` bytes: in the output buffer if they are few, otherwise in pieces.
    fn bytes(&mut self, request: &Request, clock: &Clock, length: u64) -> Rest {
        let head = Head {
            content_type: "application/octet-stream",
            content_length: Some(length),
            ..self.head(request, clock)
        };
        head.write(&mut self.output);
        self.last_response = (Status::Ok, if request.head_only { 0 } else { length });
        match usize::try_from(length) {
            _ if request.head_only => Rest::Nothing,
            Ok(length) if length <= MAX_INLINE => {
                self.output.resize(self.output.len() + length, PAYLOAD_BYTE);
                Rest::Nothing
            }
            _ => Rest::Payload(length),
        }
    }

    fn head(&self, request: &Request, clock: &Clock) -> Head {
        Head::new(clock, request.version, self.keeps(request))
    }

    fn write(&mut self, head: Head, head_only: bool, body: &[u8]) {
        let head = Head {
            content_length: Some(body.len() as u64),
            ..head
        };
        head.write(&mut self.output);
        self.write_body(head.status, head_only, body);
    }

    fn write_body(&mut self, status: Status, head_only: bool, body: &[u8]) {
        self.last_response = (status, 0);
        if !head_only {
            self.last_response.1 = body.len() as u64;
            self.output.extend_from_slice(body);
        }
    }
}

/// The byte that `/bytes` repeats.
pub const PAYLOAD_BYTE: u8 = b'.';
