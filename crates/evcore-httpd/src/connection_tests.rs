//! Tests of the connection over a fake stream, in every state that a client can cause.

mod stops;

use std::{
    cell::RefCell,
    io::{self, ErrorKind},
    iter,
    os::unix::net::UnixDatagram,
    time::Duration,
};

use evcore::{
    Address, EventLoop, Interest, Mode, Ready, Step, Timer, Token, Transport,
    balancer::WorkerId,
    clock::{Clock, ManualTimeSource},
};
use proptest::prelude::*;

use crate::{
    connection::{Connection, Cx, Disposition, State},
    counts::Counts,
    options::Options,
    request::MAX_BODY_BYTES,
    scoreboard::{Scoreboard, WorkerStats},
    shared::Shared,
    timers::{RECEIVE, SEND, SLEEP},
};

/// The state of the fake client.
#[derive(Debug, Default)]
struct FakeClient {
    /// Sent by the client, and not yet read by the server.
    sent: Vec<u8>,
    has_ended: bool,
    /// How many more bytes the client receives before the stream blocks.
    room: usize,
    taken: Vec<u8>,
    /// The kernel still has a part of what was taken.
    is_slow: bool,
}

/// The stream between the fake client and the server.
#[derive(Debug, Default)]
struct FakeStream(RefCell<FakeClient>);

impl Transport for FakeStream {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut client = self.0.borrow_mut();
        if client.sent.is_empty() && !client.has_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = client.sent.len().min(buffer.len());
        buffer[..n].copy_from_slice(&client.sent[..n]);
        client.sent.drain(..n);
        Ok(n)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut client = self.0.borrow_mut();
        if client.room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = bytes.len().min(client.room);
        client.taken.extend_from_slice(&bytes[..n]);
        client.room -= n;
        Ok(n)
    }

    fn is_delivered(&self) -> io::Result<bool> {
        Ok(!self.0.borrow().is_slow)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Ok(())
    }

    fn peer_addr(&self) -> io::Result<Address> {
        Ok(Address::Unnamed)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }
}

/// The limit on body memory.
const BODIES: usize = MAX_BODY_BYTES;

/// A server with one connection.
struct Fixture {
    ev: EventLoop,
    shared: Shared,
    scoreboard: Scoreboard,
    token: Token,
    time: ManualTimeSource,
    /// The memory that the bodies of other connections hold.
    of_others: usize,
    /// `None` once it is closed.
    connection: Option<Connection<FakeStream>>,
    _socket: UnixDatagram,
}

impl Fixture {
    fn new() -> Self {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let mut ev = EventLoop::builder().clock(clock).build().expect("a poller");
        // Never readable: the tests report readiness. It is watched because only a watched token can
        // be idle.
        let socket = UnixDatagram::unbound().expect("a descriptor");
        let added = ev.add(&socket, Interest::READ, Mode::Edge);
        let token = added.expect("the first");
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let options = Options {
            bodies: BODIES,
            ..Options::default()
        };
        let counts = Counts::new(scoreboard.clone(), WorkerId::from_slot(0));
        let mut shared = Shared::new(&options, 0, counts);
        let mut cx = Cx {
            ev: &mut ev,
            shared: &mut shared,
            token,
        };
        let connection = Some(Connection::new(FakeStream::default(), None, &mut cx));
        Self {
            ev,
            shared,
            scoreboard,
            token,
            time,
            of_others: 0,
            connection,
            _socket: socket,
        }
    }

    fn wire(&mut self) -> Option<&mut FakeClient> {
        let connection = self.connection.as_mut()?;
        Some(connection.stream.0.get_mut())
    }

    /// The client sends.
    fn send(&mut self, bytes: &str) {
        if let Some(wire) = self.wire() {
            wire.sent.extend_from_slice(bytes.as_bytes());
            self.dispatch(|connection, cx| connection.on_ready(Ready::READABLE, cx));
        }
    }

    /// The client receives up to `n` more bytes.
    fn receive(&mut self, n: usize) {
        if let Some(wire) = self.wire() {
            wire.room += n;
            self.dispatch(|connection, cx| connection.on_ready(Ready::WRITABLE, cx));
        }
    }

    /// From now on the client does not get what it takes at once, or it has all.
    fn set_slow(&mut self, is_slow: bool) {
        if let Some(wire) = self.wire() {
            wire.is_slow = is_slow;
        }
    }

    /// The client shuts down its write side.
    fn shut_down(&mut self) {
        if let Some(wire) = self.wire() {
            wire.has_ended = true;
            let ready = Ready::READABLE | Ready::READ_CLOSED;
            self.dispatch(|connection, cx| connection.on_ready(ready, cx));
        }
    }

    /// The worker begins to stop.
    fn stop(&mut self) {
        self.shared.stopping = true;
        self.ev.shutdown(Duration::from_secs(3600));
        self.advance(Duration::ZERO);
    }

    /// The loop evicts the connection if it is idle, because its slot is needed.
    fn evict(&mut self) {
        // As the loop does before it evicts.
        if self.ev.set_busy(self.token) {
            self.dispatch(Connection::on_evict);
        }
    }

    /// The bodies of other connections hold `room` bytes, or as many as are available.
    fn others_hold(&mut self, room: usize) {
        self.shared.bodies.release(self.of_others);
        self.of_others = room.min(BODIES - self.shared.bodies.reserved());
        assert!(self.shared.bodies.reserve(self.of_others));
        // As the server does.
        while let Some(token) = self.shared.bodies.admit_next() {
            let connection = self.connection.as_mut().expect("it waits, so it is open");
            connection.on_body_admitted();
            self.ev.post(token, Ready::WRITABLE);
        }
        self.dispatch(|connection, cx| connection.on_ready(Ready::WRITABLE, cx));
    }

    /// What the client has received, as text.
    fn taken(&mut self) -> String {
        let wire = self.wire().expect("the connection has not ended");
        String::from_utf8_lossy(&wire.taken).into_owned()
    }

    /// Advances the time, and handles the timers that expire and the eviction of a shutdown.
    fn advance(&mut self, time: Duration) {
        self.time.advance(time);
        self.ev
            .wait_at_most(Duration::ZERO)
            .expect("the poller waits");
        let steps: Vec<_> = iter::from_fn(|| self.ev.next_step()).collect();
        for step in steps {
            match step {
                Step::Expired(_, timer) => {
                    self.dispatch(|connection, cx| connection.on_timer(timer, cx));
                }
                Step::Evict(_) => self.dispatch(Connection::on_evict),
                _ => {}
            }
        }
    }

    /// Expire a timer, if it is armed. Returns whether it was.
    fn expire(&mut self, timer: Timer) -> bool {
        let armed = self.ev.disarm(self.token, timer);
        if armed {
            self.dispatch(|connection, cx| connection.on_timer(timer, cx));
        }
        armed
    }

    /// Calls a handler, and then the connection as long as it posts itself.
    fn dispatch(
        &mut self,
        call: impl FnOnce(&mut Connection<FakeStream>, &mut Cx<'_>) -> Disposition,
    ) {
        self.call(call);
        while self.is_posted() {
            self.call(|connection, cx| connection.on_ready(Ready::WRITABLE, cx));
        }
        self.verify();
    }

    /// Whether the connection has posted itself. Takes the post.
    fn is_posted(&mut self) -> bool {
        let waited = self.ev.wait_at_most(Duration::ZERO);
        waited.expect("the poller waits");
        let mut is_posted = false;
        while let Some(step) = self.ev.next_step() {
            match step {
                Step::Ready(..) => is_posted = true,
                // `advance` gets it again.
                Step::Evict(token) => _ = self.ev.set_idle(token),
                _ => {}
            }
        }
        is_posted
    }

    fn call(&mut self, call: impl FnOnce(&mut Connection<FakeStream>, &mut Cx<'_>) -> Disposition) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let mut cx = Cx {
            ev: &mut self.ev,
            shared: &mut self.shared,
            token: self.token,
        };
        if call(connection, &mut cx) == Disposition::Close {
            let mut connection = self.connection.take().expect("just called");
            connection.release(self.token, &mut self.shared);
            self.ev.remove(self.token);
        }
    }

    /// The body memory that a connection holds, and the number of bodies that wait.
    fn room_of(connection: &Connection<FakeStream>) -> (usize, usize) {
        match &connection.state {
            State::Queued(_) => (connection.room, 1),
            State::Body(body) => (connection.room + body.1.room(), 0),
            _ => (connection.room, 0),
        }
    }

    /// Checks the invariants that hold between two steps.
    fn verify(&mut self) {
        assert!(self.shared.output.is_empty(), "the buffer is shared");
        let (held, waiting) = self.connection.as_ref().map_or((0, 0), Self::room_of);
        assert_eq!(self.shared.bodies.reserved(), self.of_others + held);
        assert_eq!(self.shared.bodies.waiting(), waiting);
        let counts = WorkerStats::sum_of(&self.scoreboard);
        assert_eq!(counts.active, u64::from(self.connection.is_some()));
        assert_eq!(
            counts.reading + counts.writing + counts.waiting,
            counts.active
        );
        // A stopping worker may wait for one more request: the loop would evict what is idle.
        let is_idle = self.ev.is_idle(self.token);
        assert_eq!(
            is_idle,
            counts.waiting == 1 && (is_idle || !self.shared.stopping)
        );
        let Some(connection) = &self.connection else {
            return;
        };
        assert!(
            self.ev.stats().timers_armed > 0,
            "no timer is armed: {connection:?}"
        );
        let client = connection.stream.0.borrow();
        let blocked = client.room == 0 && connection.send_timer_armed;
        let waits = matches!(connection.state, State::Sleeping(_) | State::Queued(_));
        assert!(
            blocked || waits || client.sent.is_empty(),
            "input is ignored: {connection:?}"
        );
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")
}

/// The send timeout and the delay use the same timer.
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
    assert!(fixture.expire(SLEEP));
    let wire = fixture.wire().expect("kept alive");
    assert!(wire.taken.ends_with(b"slept\n"));
}

#[test]
fn eviction_serves_a_request_that_has_just_arrived() {
    let mut fixture = Fixture::new();
    fixture.receive(usize::MAX / 2);
    if let Some(wire) = fixture.wire() {
        wire.sent.extend_from_slice(get("/").as_bytes());
    }
    fixture.evict();
    let wire = fixture.wire().expect("it served a request");
    assert!(wire.taken.ends_with(b"Hello, World!"));
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
    let wire = fixture.wire().expect("it waits");
    assert_eq!(wire.sent.len(), 100_000, "nothing is read");
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
            // Ends the lingering after an error.
            fixture.expire(RECEIVE);
            fixture.others_hold(0);
            fixture.shut_down();
            assert!(fixture.connection.is_none());
            assert_eq!(fixture.shared.bodies.reserved(), 0);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(String),
    Receive(usize),
    SetSlow(bool),
    ShutDown,
    Expire(Timer),
    Evict,
    Stop,
    Advance(Duration),
    /// Bytes of body memory.
    OthersHold(usize),
}

fn request() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just(get("/")),
        4 => Just(get("/bytes/16384")),
        4 => Just(get("/bytes/200000")),
        4 => Just(get("/sleep/1000")),
        2 => Just(get("/nothing")),
        2 => Just(get("/status").replace("GET", "HEAD")),
        1 => Just("GET / HTTP/1.0\r\n\r\n".to_owned()),
        1 => Just("GARBAGE\r\n".to_owned()),
        1 => Just("\r\n\n".to_owned()),
        1 => Just("GET /sleep/1 HTTP/1.0\r\n\r\n".to_owned()),
        4 => (0..100_000usize).prop_map(|n| format!(
            "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {n}\r\n\r\n{}",
            "x".repeat(n)
        )),
        2 => (1..100usize).prop_map(|n| format!(
            "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n\
             {n:x}\r\n{}\r\n0\r\n\r\n",
            "x".repeat(n)
        )),
        1 => Just(
            "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
                .to_owned()
        ),
        1 => Just(
            "POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
                .to_owned()
        ),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let requests = prop::collection::vec(request(), 1..40).prop_map(|all| all.concat());
    let sends = (requests, 0..2_000usize).prop_map(|(mut text, part)| {
        // Half are cut short: the next operation continues in the middle of one, or none does.
        text.truncate(text.len() * part.min(1_000) / 1_000);
        Op::Send(text)
    });
    let timer = prop_oneof![Just(RECEIVE), Just(SEND)];
    let op = prop_oneof![
        8 => sends,
        4 => (0..300_000usize).prop_map(Op::Receive),
        2 => Just(Op::Receive(100_000_000)),
        1 => any::<bool>().prop_map(Op::SetSlow),
        3 => timer.prop_map(Op::Expire),
        1 => Just(Op::ShutDown),
        1 => Just(Op::Evict),
        1 => Just(Op::Stop),
        1 => (0..1500_u64).prop_map(|ms| Op::Advance(Duration::from_millis(ms))),
        2 => (0..=BODIES).prop_map(Op::OthersHold),
        1 => Just(Op::OthersHold(BODIES)),
    ];
    prop::collection::vec(op, 1..20)
}

proptest! {
    #[test]
    fn invariants_hold_for_any_client(ops in ops()) {
        let mut fixture = Fixture::new();
        for op in ops {
            match op {
                Op::Send(text) => fixture.send(&text),
                Op::Receive(n) => fixture.receive(n),
                Op::SetSlow(is_slow) => fixture.set_slow(is_slow),
                Op::ShutDown => fixture.shut_down(),
                Op::Expire(timer) => {
                    fixture.expire(timer);
                }
                Op::Evict => fixture.evict(),
                Op::Stop => fixture.stop(),
                Op::Advance(time) => fixture.advance(time),
                Op::OthersHold(room) => fixture.others_hold(room),
            }
        }
    }
}
