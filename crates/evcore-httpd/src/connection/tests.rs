//! Tests of a connection with bytes instead of a stream, in every state that a client can cause. A
//! loop runs the timers.

mod any_client;
mod stops;

use std::{os::unix::net::UnixDatagram, time::Duration};

use evcore::{
    EventLoop, Interest, Mode, Step, Timer, Token,
    balancer::WorkerId,
    clock::{Clock, ManualTimeSource},
};
use evcore_recording::Outside;

use super::{Abort, Changes, Connection, Cx, Expiry, State, Task, output::UNRESERVED_MAX};
use crate::{
    body::MAX_BODY_BYTES,
    counts::Counts,
    headroom::Headroom,
    options::Options,
    phases::Phase,
    scoreboard::{Scoreboard, WorkerStats},
    shared::Shared,
    timers::{Change, RECEIVE, SEND, Timeout},
};

const INPUT_BYTES: usize = 32 * 1024;

#[derive(Debug)]
struct Close;

impl From<Abort> for Close {
    fn from(_: Abort) -> Self {
        Self
    }
}

#[derive(Debug, Default)]
struct Client {
    /// The bytes that the client has sent and the server has not received.
    sent: Vec<u8>,
    has_ended: bool,
    /// Number of bytes that the client takes before the stream blocks.
    room: usize,
    taken: Vec<u8>,
    /// True if the kernel has not delivered all bytes that it took.
    is_slow: bool,
}

const BODIES: usize = MAX_BODY_BYTES;

struct Fixture {
    ev: EventLoop,
    shared: Shared,
    scoreboard: Scoreboard,
    token: Token,
    time: ManualTimeSource,
    others_reserved: usize,
    client: Client,
    connection: Option<Connection>,
    _socket: UnixDatagram,
}

impl Fixture {
    fn new() -> Self {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let mut ev = EventLoop::builder().clock(clock).build().expect("a poller");
        // The tests move the bytes, so the socket is never readable. The loop watches it because
        // only a watched token can be idle.
        let socket = UnixDatagram::unbound().expect("a descriptor");
        let added = ev.add(&socket, Interest::READ, Mode::Edge);
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let options = Options {
            bodies: BODIES,
            ..Options::default()
        };
        let counts = Counts::new(scoreboard.clone(), WorkerId::from_slot(0));
        let shared = Shared::new(&options, 0, counts, Outside::Direct);
        let mut fixture = Self {
            ev,
            scoreboard,
            token: added.expect("the loop has room for a token"),
            time,
            others_reserved: 0,
            client: Client::default(),
            connection: Some(Connection::new(None, &shared)),
            shared,
            _socket: socket,
        };
        fixture.step(|connection, cx| Ok(Some(connection.handle_accepted(cx.shared))));
        fixture
    }

    /// Calls `handle` with the connection, and applies the changes that it returns. If it returns
    /// none, moves bytes as after an event of the stream.
    fn step(
        &mut self,
        handle: impl FnOnce(&mut Connection, &mut Cx<'_>) -> Result<Option<Changes>, Close>,
    ) {
        if let Some(connection) = &mut self.connection {
            let mut cx = Cx {
                shared: &mut self.shared,
                clock: self.ev.clock(),
                token: self.token,
            };
            let changes = handle(connection, &mut cx).and_then(|changes| match changes {
                Some(changes) => Ok(changes),
                None => move_bytes(connection, &mut self.client, &mut cx),
            });
            match changes {
                Ok(changes) => self.apply(&changes),
                Err(Close) => self.close(),
            }
        }
    }

    /// Moves bytes, as after an event of the stream.
    fn proceed(&mut self) {
        self.step(|_, _| Ok(None));
        self.verify();
    }

    fn apply(&mut self, changes: &Changes) {
        match changes.is_idle {
            Some(true) => assert!(self.ev.set_idle(self.token)),
            Some(false) => _ = self.ev.set_busy(self.token),
            None => {}
        }
        for (timer, change) in [(RECEIVE, changes.receive), (SEND, changes.send)] {
            match change {
                Change::Keep => {}
                Change::Arm(time) => assert!(self.ev.arm(self.token, timer, time)),
                Change::Disarm => _ = self.ev.disarm(self.token, timer),
            }
        }
    }

    fn close(&mut self) {
        let connection = self.connection.take();
        let mut connection = connection.expect("the connection was just called, so it is open");
        connection.release(self.token, &mut self.shared);
        self.ev.remove(self.token);
    }

    fn send(&mut self, bytes: &str) {
        self.client.sent.extend_from_slice(bytes.as_bytes());
        self.proceed();
    }

    /// Lets the client take up to `n` more bytes.
    fn receive(&mut self, n: usize) {
        self.client.room += n;
        self.proceed();
    }

    fn shut_down(&mut self) {
        self.client.has_ended = true;
        self.proceed();
    }

    fn stop(&mut self) {
        self.shared.stopping = true;
        self.ev.shutdown(Duration::from_secs(3600));
        self.advance(Duration::ZERO);
    }

    /// Evicts the connection if it is idle, as the loop does if a new client needs its place.
    fn evict(&mut self) {
        // The loop, too, marks a connection as busy before it evicts it.
        if self.ev.set_busy(self.token) {
            self.on_evict();
        }
    }

    /// Does the same as `Session::on_evict`.
    fn on_evict(&mut self) {
        self.step(|_, _| Ok(None));
        let is_idle = self.connection.as_ref().is_some_and(Connection::is_idle);
        if is_idle && !self.ev.is_idle(self.token) {
            let is_delivered = !self.client.is_slow;
            self.step(|connection, cx| {
                let changes = connection.handle_eviction(is_delivered, cx.shared);
                changes.map(Some).ok_or(Close)
            });
        }
        self.verify();
    }

    fn others_hold(&mut self, bytes: usize) {
        self.shared.bodies.release(self.others_reserved);
        self.others_reserved = bytes.min(BODIES - self.shared.bodies.reserved());
        assert!(self.shared.bodies.reserve(self.others_reserved));
        // The server admits waiting bodies in the same way.
        while let Some(token) = self.shared.bodies.admit_next() {
            assert_eq!(token, self.token);
            let connection = self.connection.as_mut().expect("it waits, so it is open");
            connection.handle_body_room();
        }
        self.proceed();
    }

    fn taken(&self) -> String {
        String::from_utf8_lossy(&self.client.taken).into_owned()
    }

    /// Advances the time, and handles the timers that expire and the eviction of a shutdown.
    fn advance(&mut self, time: Duration) {
        self.time.advance(time);
        self.ev
            .wait_at_most(Duration::ZERO)
            .expect("the poller waits");
        while let Some(step) = self.ev.next_step() {
            match step {
                Step::Expired(_, timer) => self.on_timer(timer),
                Step::Evict(_) => self.on_evict(),
                _ => {}
            }
        }
    }

    /// Expires a timer, if it is armed. Returns whether it was armed.
    fn expire(&mut self, timer: Timer) -> bool {
        let armed = self.ev.disarm(self.token, timer);
        if armed {
            self.on_timer(timer);
        }
        armed
    }

    /// Does the same as `Session::on_timer`.
    fn on_timer(&mut self, timer: Timer) {
        let mut is_evicted = false;
        self.step(|connection, cx| match connection.handle_timer(timer, cx) {
            Expiry::Respond => Ok(None),
            Expiry::Evict => {
                is_evicted = true;
                Ok(Some(Changes {
                    is_idle: Some(false),
                    ..Changes::default()
                }))
            }
            Expiry::Close => Err(Close),
        });
        if is_evicted {
            self.on_evict();
        }
        self.verify();
    }

    /// The body memory that a connection holds, and the number of bodies that wait.
    fn room_of(connection: &Connection) -> (usize, usize) {
        let room = connection.output.room;
        match connection.state.as_deref() {
            Some(State::Queued(_)) => (room, 1),
            Some(State::Body(_, body)) => (room + body.room(), 0),
            _ => (room, 0),
        }
    }

    fn verify(&self) {
        assert!(self.shared.output.is_empty(), "the buffer is shared");
        let (held, waiting) = self.connection.as_ref().map_or((0, 0), Self::room_of);
        assert_eq!(self.shared.bodies.reserved(), self.others_reserved + held);
        assert_eq!(self.shared.bodies.waiting(), waiting);
        let counts = WorkerStats::sum_of(&self.scoreboard);
        assert_eq!(counts.active, u64::from(self.connection.is_some()));
        assert_eq!(counts.phases.to_array().iter().sum::<u64>(), counts.active);
        // A stopping worker may wait for one more request. Then it does not mark the connection
        // idle, because the loop would evict it.
        let is_idle = self.ev.is_idle(self.token);
        assert_eq!(
            is_idle,
            counts.phases[Phase::Waiting] == 1 && (is_idle || !self.shared.stopping)
        );
        let Some(connection) = &self.connection else {
            return;
        };
        assert!(
            self.ev.stats().timers_armed > 0,
            "no timer is armed: {connection:?}"
        );
        let is_blocked = self.client.room == 0 && connection.timers.send == Some(Timeout::Send);
        let waits = matches!(
            connection.state.as_deref(),
            Some(State::Sleeping(..) | State::Queued(_))
        );
        assert!(
            is_blocked || waits || self.client.sent.is_empty(),
            "input is ignored: {connection:?}"
        );
    }
}

/// Moves bytes between the client and the connection, as `Session` does with a stream, until no
/// bytes are left or the client takes no more.
fn move_bytes(
    connection: &mut Connection,
    client: &mut Client,
    cx: &mut Cx<'_>,
) -> Result<Changes, Close> {
    loop {
        match connection.poll_task(cx.shared, cx.clock, cx.token)? {
            Task::Send(_) if client.room == 0 => {
                connection.handle_blocked();
                break;
            }
            Task::Send(bytes) => {
                let n = bytes.len().min(client.room);
                client.taken.extend_from_slice(&bytes[..n]);
                client.room -= n;
                connection.handle_sent(n, cx.shared)?;
            }
            Task::Receive if client.sent.is_empty() && client.has_ended => return Err(Close),
            Task::Receive if client.sent.is_empty() => break,
            Task::Receive => {
                let n = client.sent.len().min(INPUT_BYTES);
                let received: Vec<u8> = client.sent.drain(..n).collect();
                connection.handle_input(&received, cx)?;
            }
            Task::Finish { lingers } => {
                if !lingers && client.sent.is_empty() && !client.has_ended {
                    return Err(Close);
                }
                connection.handle_shut_down();
            }
            Task::Wait => break,
            Task::SendMore(_) | Task::SendFile { .. } => unreachable!("there is no root"),
        }
    }
    Ok(connection.poll_changes(cx.shared)?)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")
}

/// The send timeout and the delay of `/sleep` use the same timer.
#[test]
fn the_send_timeout_is_not_taken_for_the_end_of_a_sleep() {
    let mut fixture = Fixture::new();
    fixture.receive(1);
    fixture.send(&(get("/") + &get("/sleep/1000")));
    assert!(fixture.expire(SEND));
    assert!(fixture.connection.is_none());
}

#[test]
fn a_sleep_begins_when_earlier_responses_are_sent() {
    let mut fixture = Fixture::new();
    fixture.send(&(get("/") + &get("/sleep/1000")));
    fixture.receive(usize::MAX / 2);
    assert!(!fixture.expire(RECEIVE), "a delayed response is not idle");
    assert!(fixture.expire(SEND));
    assert!(fixture.taken().ends_with("slept\n"));
    assert!(fixture.connection.is_some(), "kept alive");
}

#[test]
fn an_empty_line_after_a_request_leaves_the_connection_idle() {
    let mut fixture = Fixture::new();
    fixture.receive(10_000);
    fixture.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nhi\r\n");
    let answer = fixture.taken();
    assert!(answer.ends_with("hi"), "{answer}");
    assert!(fixture.connection.as_ref().is_some_and(Connection::is_idle));
    fixture.send("\r\n\n");
    assert!(fixture.connection.as_ref().is_some_and(Connection::is_idle));
    fixture.advance(Duration::from_secs(66));
    assert!(fixture.connection.is_none(), "the keep-alive timeout");
    assert_eq!(fixture.taken(), answer, "no other answer");
}

#[test]
fn the_history_is_refused_if_there_is_no_memory_for_it() {
    let mut fixture = Fixture::new();
    fixture.receive(10_000);
    fixture.send(&get("/history.json"));
    assert!(fixture.taken().starts_with("HTTP/1.1 200 "));
    fixture.shared.bodies.headroom = Headroom::without_any();
    fixture.send(&get("/history.json"));
    assert!(fixture.taken().contains("HTTP/1.1 503 "));
}

#[test]
fn eviction_serves_a_request_that_has_just_arrived() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture.client.sent.extend_from_slice(get("/").as_bytes());
    fixture.evict();
    assert!(fixture.connection.is_some(), "it served a request");
    assert!(fixture.taken().ends_with("Hello, World!"));
    fixture.evict();
    assert!(fixture.connection.is_none());
}

fn post(length: usize) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn a_body_waits_in_the_kernel_for_body_memory() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture.others_hold(BODIES - 99_999);
    fixture.send(&post(100_000));
    for _ in 0..10 {
        fixture.send(&"x".repeat(10_000));
    }
    let sent = fixture.client.sent.len();
    assert_eq!(sent, 100_000, "nothing is received");
    fixture.others_hold(BODIES - 100_000);
    assert!(fixture.taken().ends_with("xxx"));
    fixture.send(&get("/"));
    assert!(fixture.taken().ends_with("Hello, World!"));
}

#[test]
fn a_body_that_waits_too_long_for_memory_is_a_503() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture.others_hold(BODIES);
    fixture.send(&post(100));
    fixture.advance(Duration::from_secs(40));
    // Sending more does not extend the timeout.
    fixture.send("x");
    fixture.advance(Duration::from_secs(19));
    assert_eq!(fixture.taken(), "");
    fixture.advance(Duration::from_secs(2));
    assert!(fixture.taken().starts_with("HTTP/1.1 503 "));
    fixture.others_hold(0);
    assert!(!fixture.taken().contains("200 OK"));
}

#[test]
fn continue_is_sent_when_there_is_body_memory() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    fixture.others_hold(BODIES);
    fixture.send(&post(3).replace("Host", "Expect: 100-continue\r\nHost"));
    assert_eq!(fixture.taken(), "");
    fixture.others_hold(0);
    assert_eq!(fixture.taken(), "HTTP/1.1 100 Continue\r\n\r\n");
    fixture.send("abc");
    assert!(fixture.taken().ends_with("\r\n\r\nabc"));
}

#[test]
fn body_memory_is_held_until_the_response_is_sent() {
    let mut fixture = Fixture::new();
    fixture.send(&(post(10_000) + &"x".repeat(10_000)));
    assert_eq!(fixture.shared.bodies.reserved(), 10_000);
    fixture.receive(5_000);
    assert_eq!(fixture.shared.bodies.reserved(), 10_000);
    fixture.receive(10_000);
    assert_eq!(fixture.shared.bodies.reserved(), 0);
}

#[test]
fn a_long_page_that_is_not_read_takes_body_memory() {
    let mut fixture = Fixture::new();
    let length = BODIES / 2 + UNRESERVED_MAX;
    for has_memory in [true, false] {
        let shared = &mut fixture.shared;
        let output = &mut fixture.connection.as_mut().expect("it is open").output;
        shared.output.resize(length, b'.');
        assert_eq!(output.keep(0, shared).is_ok(), has_memory);
        shared.output.clear();
        if has_memory {
            assert_eq!(shared.bodies.reserved(), BODIES / 2);
            assert!(output.advance(length, shared).is_ok());
            assert_eq!(shared.bodies.reserved(), 0);
        }
        fixture.others_hold(BODIES / 2 + 1);
    }
}

#[test]
fn a_body_releases_its_memory_however_it_ends() {
    type End = fn(&mut Fixture);
    let ends: [End; 3] = [
        Fixture::shut_down,
        |fixture| assert!(fixture.expire(RECEIVE)),
        |fixture| fixture.send("no chunk"),
    ];
    for (others, end) in [0, BODIES].into_iter().zip([ends, ends]) {
        for end in end {
            let mut fixture = Fixture::new();
            fixture.receive(usize::MAX / 2);
            fixture.others_hold(others);
            fixture.send(&post(3).replace("Content-Length: 3", "Transfer-Encoding: chunked"));
            end(&mut fixture);
            // The timer ends the lingering after an error.
            fixture.expire(RECEIVE);
            fixture.others_hold(0);
            fixture.shut_down();
            assert!(fixture.connection.is_none());
            assert_eq!(fixture.shared.bodies.reserved(), 0);
        }
    }
}
