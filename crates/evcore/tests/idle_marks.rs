//! The marks of idle connections are right at each moment at which a worker may be killed. A
//! descriptor store, the process that keeps the idle connections of a dead worker, reads from the
//! marks which connections are idle.
//!
//! The worker is the real loop, over real sockets, with a program that answers lines. After each
//! call that may change a mark, the test reads the marks as a descriptor store would read them if
//! the process died there. A connection that is marked as idle must be open, with no byte that was
//! read and not answered, and no message that is sent in part.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    sync::atomic::{AtomicU8, Ordering::Acquire},
    time::Duration,
};

use evcore::{Connections, EventLoop, Ready, Step, Stream, Timer, Token};
use proptest::prelude::*;

/// An action of the world outside, or one that the program takes by itself.
#[derive(Clone, Debug)]
enum Act {
    Connect,
    /// A client sends these bytes; each `\n` ends a line.
    Send(usize, &'static str),
    Leave(usize),
    Post(usize),
    /// The program declares a connection busy, sends it a message in two parts, and declares it
    /// idle.
    Announce(usize),
    End(usize),
    /// An iteration of the loop, of which the program takes this many steps at most.
    Turn(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let text = prop::sample::select(vec!["a\n", "b", "c\nd", "\n", "e\nf\n", "ghi"]);
    let act = prop_oneof![
        3 => Just(Act::Connect),
        6 => (0..8_usize, text).prop_map(|(client, text)| Act::Send(client, text)),
        2 => (0..8_usize).prop_map(Act::Leave),
        1 => (0..8_usize).prop_map(Act::Post),
        1 => (0..8_usize).prop_map(Act::Announce),
        2 => (0..8_usize).prop_map(Act::End),
        6 => prop_oneof![2 => Just(100), 1 => 0..4_usize].prop_map(Act::Turn),
    ];
    prop::collection::vec(act, 1..80)
}

/// The open connections by descriptor, and whether another worker could take over each as an idle
/// one.
#[derive(Default)]
struct Oracle {
    is_clean: BTreeMap<RawFd, bool>,
}

struct World {
    ev: EventLoop,
    marks: &'static [AtomicU8],
    connections: Connections<Vec<u8>>,
    clients: Vec<(Token, UnixStream)>,
    oracle: Oracle,
}

impl World {
    fn new() -> Self {
        let marks: Vec<_> = (0..1024).map(|_| AtomicU8::new(0)).collect();
        let marks: &'static [AtomicU8] = marks.leak();
        let mut ev = EventLoop::builder().build().unwrap();
        ev.listeners().set_idle_marks(marks);
        Self {
            ev,
            marks,
            connections: Connections::new(),
            clients: Vec::new(),
            oracle: Oracle::default(),
        }
    }

    /// Checks the marks at a moment at which the worker may be killed.
    fn boundary(&self) {
        for (number, mark) in (0..).zip(self.marks) {
            if mark.load(Acquire) == 1 {
                let is_clean = self.oracle.is_clean.get(&number);
                assert_eq!(
                    is_clean,
                    Some(&true),
                    "descriptor {number} is marked as idle"
                );
            }
        }
    }

    fn set_clean(&mut self, descriptor: RawFd, is_clean: bool) {
        self.oracle.is_clean.insert(descriptor, is_clean);
    }

    fn descriptor(&self, token: Token) -> RawFd {
        let (stream, _) = self.connections.get(token).expect("it is open");
        stream.get_ref().as_fd().as_raw_fd()
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Connect if self.clients.len() < 8 => self.connect(),
            Act::Connect => {}
            Act::Send(client, text) => {
                if let Some((_, stream)) = self.clients.get_mut(client) {
                    // The connection may have ended.
                    let _ = stream.write_all(text.as_bytes());
                }
            }
            Act::Leave(client) => {
                if client < self.clients.len() {
                    self.clients.swap_remove(client);
                }
            }
            Act::Post(client) => {
                let token = self.token(client);
                token.map(|token| self.ev.post(token, Ready::NONE));
            }
            Act::Announce(client) => {
                if let Some(token) = self.token(client) {
                    self.announce(token);
                }
            }
            Act::End(client) => {
                if let Some(token) = self.token(client) {
                    self.end(token);
                }
            }
            Act::Turn(steps) => self.turn(steps),
        }
        self.boundary();
    }

    /// The token of an open connection.
    fn token(&self, client: usize) -> Option<Token> {
        let (token, _) = self.clients.get(client)?;
        self.connections.get(*token).map(|_| *token)
    }

    fn connect(&mut self) {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let stream = Stream::from(OwnedFd::from(server));
        self.boundary();
        self.set_clean(stream.as_fd().as_raw_fd(), true);
        let token = self
            .connections
            .add(&mut self.ev, stream, Vec::new())
            .unwrap();
        self.boundary();
        self.ev.set_idle(token);
        self.ev.arm(token, Timer::READ, Duration::from_millis(1));
        self.clients.push((token, client));
    }

    fn end(&mut self, token: Token) {
        let descriptor = self.descriptor(token);
        let (stream, _) = self.connections.remove(&mut self.ev, token).unwrap();
        // Dropping the stream closes this descriptor.
        self.oracle.is_clean.remove(&descriptor);
        self.boundary();
        drop(stream);
        self.boundary();
    }

    fn announce(&mut self, token: Token) {
        let was_idle = self.ev.is_idle(token);
        self.ev.set_busy(token);
        self.send(token, b"announ", false);
        let (_, input) = self.connections.get(token).unwrap();
        let is_clean = input.is_empty();
        self.send(token, b"cement", is_clean);
        if was_idle {
            self.ev.set_idle(token);
        }
        self.boundary();
    }

    fn send(&mut self, token: Token, bytes: &[u8], is_clean: bool) {
        let descriptor = self.descriptor(token);
        let (stream, _) = self.connections.get_mut(token).unwrap();
        // The client may have left.
        let _ = stream.get_ref().send(bytes);
        self.set_clean(descriptor, is_clean);
        self.boundary();
    }

    fn turn(&mut self, steps: usize) {
        self.ev.wait_at_most(Duration::ZERO).unwrap();
        self.boundary();
        // Before the first step, exactly the idle connections are marked, so a descriptor store
        // misses none of them.
        for (token, (stream, _)) in self.connections.iter() {
            let mark = &self.marks[usize::try_from(stream.get_ref().as_fd().as_raw_fd()).unwrap()];
            assert_eq!(mark.load(Acquire) == 1, self.ev.is_idle(token));
        }
        for _ in 0..steps {
            let Some(step) = self.ev.next_step() else {
                break;
            };
            match step {
                Step::Ready(token, ready) => self.on_ready(token, ready),
                Step::Expired(token, _) => {
                    // `set_busy` is not needed, because the step has marked the connection as busy.
                    let is_idle = self.ev.is_idle(token);
                    self.send(token, b"pi", false);
                    self.send(token, b"ng", is_idle);
                }
                other => panic!("{other:?}"),
            }
            self.boundary();
        }
    }

    fn on_ready(&mut self, token: Token, ready: Ready) {
        let descriptor = self.descriptor(token);
        self.connections.ready(token, ready).unwrap();
        loop {
            let (stream, input) = self.connections.get_mut(token).unwrap();
            let mut buffer = [0; 3];
            match stream.recv(&mut self.ev, &mut buffer) {
                Ok(0) => return self.end(token),
                Ok(n) => {
                    input.extend_from_slice(&buffer[..n]);
                    self.set_clean(descriptor, false);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return self.end(token),
            }
            self.boundary();
        }
        let (_, input) = self.connections.get_mut(token).unwrap();
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            input.drain(..=end);
        }
        let is_idle = input.is_empty();
        // These bytes stand for the answers to all lines.
        self.send(token, b"ok", is_idle);
        match is_idle {
            true => self.ev.set_idle(token),
            false => self.ev.set_busy(token),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_marked_connection_is_idle_whenever_the_worker_dies(acts in acts()) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
        }
    }
}
