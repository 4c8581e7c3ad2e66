//! A connection on a wire that does what a test says: every state that a client can bring it to.

use std::{
    cell::RefCell,
    io::{self, ErrorKind},
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
    board::{Board, Line},
    connection::{Connection, Fate, ReadTimer, State, Visit},
    counts::Counts,
    options::Options,
    request::MOST_BODY_BYTES,
    site::Site,
};

/// The client's timer.
#[derive(Debug, Default)]
struct Script {
    /// Sent, and not yet read by the server.
    sent: Vec<u8>,
    has_ended: bool,
    /// So many bytes it still takes.
    room: usize,
    taken: Vec<u8>,
}

/// The stream that the client's timer is behind.
#[derive(Debug, Default)]
struct Scripted(RefCell<Script>);

impl Transport for Scripted {
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut script = self.0.borrow_mut();
        if script.sent.is_empty() && !script.has_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = script.sent.len().min(buffer.len());
        buffer[..n].copy_from_slice(&script.sent[..n]);
        script.sent.drain(..n);
        Ok(n)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut script = self.0.borrow_mut();
        if script.room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = bytes.len().min(script.room);
        script.taken.extend_from_slice(&bytes[..n]);
        script.room -= n;
        Ok(n)
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

/// The room for bodies.
const BODIES: usize = MOST_BODY_BYTES;

/// A server of one connection.
struct Stage {
    ev: EventLoop,
    site: Site,
    board: Board,
    token: Token,
    time: ManualTimeSource,
    /// The room that the bodies of other connections hold.
    of_others: usize,
    /// `None` once it has ended.
    connection: Option<Connection<Scripted>>,
    _socket: UnixDatagram,
}

impl Stage {
    fn new() -> Self {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let mut ev = EventLoop::builder().clock(clock).build().expect("a poller");
        // Never readable: the tests say what is. But watched, for only then it can be idle.
        let socket = UnixDatagram::unbound().expect("a descriptor");
        let added = ev.add(&socket, Interest::READ, Mode::Edge);
        let token = added.expect("the first");
        let board = Line::board(1).expect("a page");
        let options = Options {
            bodies: BODIES,
            ..Options::default()
        };
        let counts = Counts::new(board.clone(), WorkerId::from_slot(0));
        let mut site = Site::new(&options, 0, counts);
        let mut visit = Visit {
            ev: &mut ev,
            site: &mut site,
            token,
        };
        let connection = Some(Connection::new(Scripted::default(), None, &mut visit));
        Self {
            ev,
            site,
            board,
            token,
            time,
            of_others: 0,
            connection,
            _socket: socket,
        }
    }

    fn wire(&mut self) -> Option<&mut Script> {
        let connection = self.connection.as_mut()?;
        Some(connection.stream.0.get_mut())
    }

    /// The client sends.
    fn sends(&mut self, bytes: &str) {
        if let Some(wire) = self.wire() {
            wire.sent.extend_from_slice(bytes.as_bytes());
            self.visit(|connection, visit| connection.ready(Ready::READABLE, visit));
        }
    }

    /// The client takes so many bytes more.
    fn takes(&mut self, n: usize) {
        if let Some(wire) = self.wire() {
            wire.room += n;
            self.visit(|connection, visit| connection.ready(Ready::WRITABLE, visit));
        }
    }

    /// The client ends its timer.
    fn ends(&mut self) {
        if let Some(wire) = self.wire() {
            wire.has_ended = true;
            let ready = Ready::READABLE | Ready::READ_CLOSED;
            self.visit(|connection, visit| connection.ready(ready, visit));
        }
    }

    /// The worker stops, or only wants the place, where it has found the connection idle.
    fn closes(&mut self, stopping: bool) {
        self.site.stopping |= stopping;
        // As the loop does when it names one.
        if self.ev.set_busy(self.token) {
            self.visit(Connection::closing);
        }
    }

    /// The bodies of other connections hold so much of the room, or as much of it as there is.
    fn others_hold(&mut self, room: usize) {
        self.site.bodies.give_back(self.of_others);
        self.of_others = room.min(BODIES - self.site.bodies.held());
        assert!(self.site.bodies.take(self.of_others));
        // As the server does.
        while let Some(token) = self.site.bodies.admit_next() {
            let connection = self.connection.as_mut().expect("one that has ended waits");
            connection.admitted();
            self.ev.post(token, Ready::WRITABLE);
        }
        self.visit(|connection, visit| connection.ready(Ready::WRITABLE, visit));
    }

    /// What the client has received, as text.
    fn taken(&mut self) -> String {
        let wire = self.wire().expect("the connection has not ended");
        String::from_utf8_lossy(&wire.taken).into_owned()
    }

    /// Time passes, and the timers fire that are due then.
    fn passes(&mut self, time: Duration) {
        self.time.advance(time);
        self.ev
            .poll(Some(Duration::ZERO))
            .expect("the poller waits");
        while let Some(step) = self.ev.next_step() {
            if let Step::Expired(_, timer) = step {
                self.visit(|connection, visit| connection.expired(timer, visit));
            }
        }
    }

    /// The time of a timer comes, if it is armed.
    fn expires(&mut self, timer: Timer) -> bool {
        let armed = self.ev.disarm(self.token, timer);
        if armed {
            self.visit(|connection, visit| connection.expired(timer, visit));
        }
        armed
    }

    /// Calls, and goes on for as long as the connection posts itself.
    fn visit(&mut self, call: impl FnOnce(&mut Connection<Scripted>, &mut Visit<'_>) -> Fate) {
        self.call(call);
        while !self.ev.cancel(self.token).is_empty() {
            self.call(|connection, visit| connection.ready(Ready::WRITABLE, visit));
        }
        self.verify();
    }

    fn call(&mut self, call: impl FnOnce(&mut Connection<Scripted>, &mut Visit<'_>) -> Fate) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let mut visit = Visit {
            ev: &mut self.ev,
            site: &mut self.site,
            token: self.token,
        };
        if call(connection, &mut visit) == Fate::Ends {
            let mut connection = self.connection.take().expect("just called");
            connection.end(self.token, &mut self.site);
            self.ev.close(self.token);
        }
    }

    /// How much room a connection holds, and whether it waits for some.
    fn room_of(connection: &Connection<Scripted>) -> (usize, usize) {
        match &connection.state {
            State::Queued(_) => (connection.room, 1),
            State::Body(body) => (connection.room + body.1.room(), 0),
            _ => (connection.room, 0),
        }
    }

    /// What must hold between two visits, whatever the client did.
    fn verify(&mut self) {
        assert!(self.site.output.is_empty(), "the buffer is everybody's");
        let (held, waiting) = self.connection.as_ref().map_or((0, 0), Self::room_of);
        assert_eq!(self.site.bodies.held(), self.of_others + held);
        assert_eq!(self.site.bodies.waiting(), waiting);
        self.site.counts.publish();
        let counts = Line::sum_of(&self.board);
        assert_eq!(counts.active, u64::from(self.connection.is_some()));
        assert_eq!(
            counts.reading + counts.writing + counts.waiting,
            counts.active
        );
        // The loop is not to name it again while it may send its last request.
        let connection = self.connection.as_ref();
        let last_request = connection.is_some_and(|it| it.read_timer == ReadTimer::LastRequest);
        let idle = counts.waiting == 1 && !last_request;
        assert_eq!(self.ev.is_idle(self.token), idle);
        let Some(connection) = &self.connection else {
            return;
        };
        assert!(
            self.ev.timers_armed() > 0,
            "it may live for ever: {connection:?}"
        );
        let script = connection.stream.0.borrow();
        let blocked = script.room == 0 && connection.send_timed;
        let waits = matches!(connection.state, State::Sleeping { .. } | State::Queued(_));
        assert!(
            blocked || waits || script.sent.is_empty(),
            "it has forgotten its client: {connection:?}"
        );
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n")
}

/// The send timer and the sleep are the same timer: the one must not pass for the other.
#[test]
fn a_client_that_takes_nothing_is_left_although_it_asked_for_a_sleep() {
    let mut stage = Stage::new();
    stage.takes(1);
    stage.sends(&(get("/") + &get("/sleep/1000")));
    assert!(stage.expires(Timer::WRITE));
    assert!(stage.connection.is_none());
}

#[test]
fn a_sleep_begins_when_what_came_before_it_is_sent() {
    let mut stage = Stage::new();
    stage.sends(&(get("/") + &get("/sleep/1000")));
    stage.takes(usize::MAX / 2);
    assert!(!stage.expires(Timer::READ), "a sleeper is not idle");
    assert!(stage.expires(Timer::WRITE));
    let wire = stage.wire().expect("kept alive");
    assert!(wire.taken.ends_with(b"slept\n"));
}

#[test]
fn one_whose_place_is_wanted_ends_unless_a_request_has_just_come() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    if let Some(wire) = stage.wire() {
        wire.sent.extend_from_slice(get("/").as_bytes());
    }
    stage.closes(false);
    let wire = stage.wire().expect("it has been of use");
    assert!(wire.taken.ends_with(b"Hello, World!"));
    stage.closes(false);
    assert!(stage.connection.is_none());
}

#[test]
fn the_answer_to_a_request_that_came_just_before_the_stop_is_the_last() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    if let Some(wire) = stage.wire() {
        wire.sent.extend_from_slice(get("/").as_bytes());
    }
    stage.closes(true);
    let wire = stage.wire().expect("the client may have sent more");
    assert!(wire.taken.ends_with(b"Hello, World!"));
    stage.ends();
    assert!(stage.connection.is_none());
}

#[test]
fn who_has_not_asked_when_the_worker_stops_may_do_so_once() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    stage.closes(true);
    stage.sends(&get("/"));
    let wire = stage.wire().expect("the client may have sent more");
    assert!(wire.taken.ends_with(b"Hello, World!"));
    // Sent before the client has read that the answer was the last one. Closing would reset it.
    stage.sends(&get("/"));
    let wire = stage.wire().expect("nobody has ended");
    assert_eq!(
        String::from_utf8_lossy(&wire.taken).matches("200").count(),
        1
    );
    stage.ends();
    assert!(stage.connection.is_none());
    let mut silent = Stage::new();
    silent.closes(true);
    assert!(silent.expires(Timer::READ));
    assert!(silent.connection.is_none(), "it is not told anything");
}

#[test]
fn a_client_answered_just_before_the_stop_may_send_one_more_request() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    stage.sends(&get("/"));
    stage.passes(Duration::from_millis(200));
    stage.closes(true);
    // It was on its way.
    stage.sends(&get("/"));
    let wire = stage.wire().expect("the client may have sent more");
    let taken = String::from_utf8_lossy(&wire.taken);
    assert_eq!(taken.matches("200 OK").count(), 2, "{taken}");
    assert_eq!(taken.matches("Connection: close").count(), 1, "{taken}");
    stage.ends();
    assert!(stage.connection.is_none());
}

#[test]
fn a_client_that_is_silent_after_the_stop_has_a_second() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    stage.sends(&get("/"));
    stage.passes(Duration::from_millis(900));
    stage.closes(true);
    stage.passes(Duration::from_millis(999));
    assert!(stage.connection.is_some());
    stage.passes(Duration::from_millis(2));
    assert!(stage.connection.is_none());
}

#[test]
fn a_client_idle_for_more_than_a_second_is_closed_at_once() {
    for request in ["", &get("/")] {
        let mut stage = Stage::new();
        stage.takes(usize::MAX / 2);
        stage.sends(request);
        stage.passes(Duration::from_millis(1001));
        stage.closes(true);
        assert!(stage.connection.is_none(), "{request:?}");
    }
}

fn post(length: usize) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn a_body_waits_in_the_kernel_until_there_is_room() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    stage.others_hold(BODIES - 99_999);
    stage.sends(&post(100_000));
    for _ in 0..10 {
        stage.sends(&"x".repeat(10_000));
    }
    let wire = stage.wire().expect("it waits");
    assert_eq!(wire.sent.len(), 100_000, "nothing is read");
    stage.others_hold(BODIES - 100_000);
    assert!(stage.taken().ends_with("xxx"));
    stage.sends(&get("/"));
    assert!(stage.taken().ends_with("Hello, World!"));
}

#[test]
fn a_body_that_waits_for_room_for_too_long_is_a_503() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    stage.others_hold(BODIES);
    stage.sends(&post(100));
    stage.passes(Duration::from_secs(40));
    // Speaking buys no time.
    stage.sends("x");
    stage.passes(Duration::from_secs(19));
    assert_eq!(stage.taken(), "");
    stage.passes(Duration::from_secs(2));
    assert!(stage.taken().starts_with("HTTP/1.1 503 "));
    stage.others_hold(0);
    assert!(!stage.taken().contains("200 OK"));
}

#[test]
fn a_client_that_expects_it_is_told_to_continue_when_there_is_room() {
    let mut stage = Stage::new();
    stage.takes(usize::MAX / 2);
    stage.others_hold(BODIES);
    stage.sends(&post(3).replace("Host", "Expect: 100-continue\r\nHost"));
    assert_eq!(stage.taken(), "");
    stage.others_hold(0);
    assert_eq!(stage.taken(), "HTTP/1.1 100 Continue\r\n\r\n");
    stage.sends("abc");
    assert!(stage.taken().ends_with("\r\n\r\nabc"));
}

#[test]
fn the_room_of_a_body_is_held_until_its_answer_is_taken() {
    let mut stage = Stage::new();
    stage.sends(&(post(10_000) + &"x".repeat(10_000)));
    assert_eq!(stage.site.bodies.held(), 10_000);
    stage.takes(5_000);
    assert_eq!(stage.site.bodies.held(), 10_000);
    stage.takes(10_000);
    assert_eq!(stage.site.bodies.held(), 0);
}

#[test]
fn a_body_that_ends_in_whatever_way_gives_its_room_back() {
    type End = fn(&mut Stage);
    let ends: [End; 3] = [
        Stage::ends,
        |stage| assert!(stage.expires(Timer::READ)),
        |stage| stage.sends("no chunk"),
    ];
    for (others, end) in [0, BODIES].into_iter().zip([ends, ends]) {
        for end in end {
            let mut stage = Stage::new();
            stage.takes(usize::MAX / 2);
            stage.others_hold(others);
            stage.sends(&post(3).replace("Content-Length: 3", "Transfer-Encoding: chunked"));
            end(&mut stage);
            // Lingering, if it was refused.
            stage.expires(Timer::READ);
            stage.others_hold(0);
            stage.ends();
            assert!(stage.connection.is_none());
            assert_eq!(stage.site.bodies.held(), 0);
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Sends(String),
    Takes(usize),
    Ends,
    Expires(Timer),
    /// By the loop, which stops or not.
    Closes(bool),
    /// Of the room for bodies.
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

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let requests = prop::collection::vec(request(), 1..40).prop_map(|all| all.concat());
    let sends = (requests, 0.0..1.0f64).prop_map(|(mut text, part)| {
        // Some are cut short: the next act goes on in the middle of one, or never.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a part of a length"
        )]
        let cut = (text.len() as f64 * (part * 2.0).min(1.0)) as usize;
        text.truncate(cut);
        Act::Sends(text)
    });
    let timer = prop_oneof![Just(Timer::READ), Just(Timer::WRITE)];
    let act = prop_oneof![
        8 => sends,
        4 => (0..300_000usize).prop_map(Act::Takes),
        2 => Just(Act::Takes(100_000_000)),
        3 => timer.prop_map(Act::Expires),
        1 => Just(Act::Ends),
        1 => any::<bool>().prop_map(Act::Closes),
        2 => (0..=BODIES).prop_map(Act::OthersHold),
        1 => Just(Act::OthersHold(BODIES)),
    ];
    prop::collection::vec(act, 1..20)
}

proptest! {
    #[test]
    fn no_client_brings_it_out_of_order(acts in acts()) {
        let mut stage = Stage::new();
        for act in acts {
            match act {
                Act::Sends(text) => stage.sends(&text),
                Act::Takes(n) => stage.takes(n),
                Act::Ends => stage.ends(),
                Act::Expires(timer) => {
                    stage.expires(timer);
                }
                Act::Closes(stopping) => stage.closes(stopping),
                Act::OthersHold(room) => stage.others_hold(room),
            }
        }
    }
}
