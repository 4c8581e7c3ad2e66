//! Tests that set the wall clock while the server runs. The `Date` follows within a second, and no
//! timer moves.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, UNIX_EPOCH},
};

use evcore::{
    EventLoop, Listener,
    balancer::WorkerId,
    clock::{Clock, ManualTimeSource},
};
use evcore_httpd::{
    counts::Counts,
    options::{Command, Options, parse},
    scoreboard::WorkerStats,
    server::Server,
};
use evcore_testing::eventually;

const START: i64 = 1_764_000_000;

const DAY: i64 = 86_400;

/// A server on this thread, and the source of its time.
struct Fixture {
    ev: EventLoop,
    server: Server,
    time: ManualTimeSource,
    listener: std::net::SocketAddr,
}

impl Fixture {
    fn new() -> Self {
        let time = ManualTimeSource::at(START);
        let listener = Listener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().tcp().expect("an address and port");
        let ev = EventLoop::builder()
            .clock(Clock::with_source(time.clone()))
            .listener(listener)
            .build()
            .expect("a poller");
        let scoreboard = WorkerStats::scoreboard(1).expect("a page");
        let counts = Counts::new(scoreboard, WorkerId::from_slot(0));
        Self {
            server: Server::new(ev.clock(), 0, counts, options()),
            ev,
            time,
            listener: address,
        }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.listener).expect("it listens");
        client.set_nonblocking(true).expect("a socket");
        client
    }

    /// Runs turns until the client has received bytes, and returns them. Returns an empty text at
    /// the end of the stream.
    fn receive(&mut self, client: &mut TcpStream) -> String {
        let mut received = None;
        eventually("the client receives something", || {
            self.turn();
            received = Self::try_receive(client);
            received.is_some()
        });
        received.expect("just waited for")
    }

    fn try_receive(client: &mut TcpStream) -> Option<String> {
        let mut bytes = [0; 4096];
        match client.read(&mut bytes) {
            Ok(n) => Some(String::from_utf8_lossy(&bytes[..n]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn turn(&mut self) {
        self.ev.handle().wake();
        assert!(self.ev.wait().expect("a turn"));
        self.server.on_turn(&mut self.ev);
    }

    /// The `Date` of a response, in seconds since the start.
    fn date(&mut self, client: &mut TcpStream, path: &str) -> i64 {
        send(client, path);
        let response = self.receive(client);
        let (_, date) = response.split_once("\r\nDate: ").expect("a date");
        let date = httpdate::parse_http_date(&date[..29]).expect("a date");
        let seconds = date.duration_since(UNIX_EPOCH).expect("after 1970");
        i64::try_from(seconds.as_secs()).expect("a date") - START
    }

    fn pass(&mut self, ms: u64) {
        self.time.advance(Duration::from_millis(ms));
        self.turn();
        self.turn();
    }
}

fn options() -> Options {
    let words = ["--workers", "0", "--keepalive-timeout", "65000"];
    match parse(words.into_iter().map(Into::into)) {
        Ok(Command::Serve(options)) => *options,
        other => panic!("{other:?}"),
    }
}

fn send(client: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    client.write_all(request.as_bytes()).expect("it is sent");
}

#[test]
fn the_date_follows_a_jump_of_the_wall_clock_within_a_second() {
    let mut server = Fixture::new();
    let mut client = server.connect();
    // The server keeps the start of a 200 response for a second, and makes the start of each 404
    // response anew.
    assert_eq!(server.date(&mut client, "/"), 0);
    assert_eq!(server.date(&mut client, "/none"), 0);
    let mut passed = 0;
    for jump in [DAY, -3 * DAY, 3600, 2 * DAY] {
        let before = server.date(&mut client, "/none");
        server.time.jump_wall(jump);
        server.turn();
        assert_eq!(server.date(&mut client, "/none"), before + jump);
        server.pass(1000);
        passed += 1;
        assert_eq!(server.date(&mut client, "/"), before + jump + 1);
        assert_eq!(server.date(&mut client, "/none"), before + jump + 1);
    }
    assert_eq!(server.date(&mut client, "/"), 3600 + passed);
}

#[test]
fn a_jump_of_the_wall_clock_moves_no_timer() {
    for jump in [DAY, -DAY] {
        let mut server = Fixture::new();
        let mut sleeper = server.connect();
        let mut idle = server.connect();
        let mut silent = server.connect();
        assert_eq!(server.date(&mut idle, "/"), 0);
        send(&mut sleeper, "/sleep/60000");
        server.pass(0);
        let is_silent = |server: &mut Fixture, client: &mut TcpStream| {
            server.turn();
            Fixture::try_receive(client).is_none()
        };
        server.time.jump_wall(jump);
        server.pass(0);
        assert!(
            is_silent(&mut server, &mut sleeper),
            "{jump}: a timer fires early"
        );
        server.pass(59_900);
        server.time.jump_wall(-2 * jump);
        server.pass(0);
        assert!(
            is_silent(&mut server, &mut sleeper),
            "{jump}: a timer fires early"
        );
        assert!(
            is_silent(&mut server, &mut silent),
            "{jump}: a timer fires early"
        );
        server.pass(101);
        // A timer that does not fire in time leaves the client without a response.
        assert!(server.receive(&mut sleeper).ends_with("slept\n"));
        assert!(server.receive(&mut silent).contains(" 408 "));
        server.pass(4_000);
        assert!(
            is_silent(&mut server, &mut idle),
            "{jump}: a timer fires early"
        );
        server.pass(1_100);
        assert_eq!(server.receive(&mut idle), "", "the keep-alive timeout");
    }
}
