//! The loop under test, its fake backend and its connections, with methods for the tests.

use std::{
    fs::File,
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    time::Duration,
};

use evcore::{
    Accepted, Builder, EventLoop, InstrumentOptions, Interest, Listener, Mode, Ready, Result, Step,
    Timer, Token, TokenMap,
    balancer::Policy,
    clock::{Clock, ManualTimeSource},
};

use crate::fake_backend::{FakeBackend, Recorded};

pub(crate) struct Fixture {
    pub(crate) ev: EventLoop,
    pub(crate) backend: FakeBackend,
    pub(crate) time: ManualTimeSource,
    /// The connections. Any descriptor is enough, because only the fake backend gets it.
    conns: TokenMap<File>,
    /// The accepted clients, each with the number of its listener.
    pub(crate) accepted: Vec<Accepted>,
    listeners: Vec<Known>,
    clients: Vec<TcpStream>,
    /// Number of steps that announced a shutdown.
    pub(crate) announcements: u32,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::built(0, |builder, _| builder)
    }

    /// A loop that listens without a lock.
    pub(crate) fn listening(listeners: usize) -> Self {
        Self::built(listeners, |builder, _| builder)
    }

    /// A loop that listens when it gets the lock.
    pub(crate) fn locking(listeners: usize) -> Self {
        Self::built(listeners, |builder, backend| {
            builder.policy(Policy::mutex()).group(backend.clone())
        })
    }

    pub(crate) fn with_instruments(listeners: usize, options: InstrumentOptions) -> Self {
        Self::built(listeners, |builder, _| builder.instruments(options))
    }

    /// A loop with the settings of `build`. A shutdown evicts idle connections at once, unless
    /// `build` sets a grace for the recently idle ones.
    pub(crate) fn built(
        listeners: usize,
        build: impl FnOnce(Builder, &FakeBackend) -> Builder,
    ) -> Self {
        let (backend, time) = (FakeBackend::new(), ManualTimeSource::new());
        let mut builder = EventLoop::builder()
            .backend(backend.clone())
            .idle_grace(Duration::ZERO)
            .clock(Clock::with_source(time.clone()));
        let mut known = Vec::new();
        for _ in 0..listeners {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            known.push(Known {
                number: listener.as_fd().as_raw_fd(),
                duplicate: listener.as_fd().try_clone_to_owned().unwrap(),
                address: listener.local_addr().tcp().unwrap(),
            });
            builder = builder.listener(listener);
        }
        Self {
            ev: build(builder, &backend).build().unwrap(),
            backend,
            time,
            conns: TokenMap::new(),
            accepted: Vec::new(),
            listeners: known,
            clients: Vec::new(),
            announcements: 0,
        }
    }

    pub(crate) fn join(&mut self) -> Token {
        self.try_join().unwrap()
    }

    pub(crate) fn try_join(&mut self) -> Result<Token> {
        let file = File::open("/dev/null").unwrap();
        self.conns
            .add(&mut self.ev, file, Interest::READ, Mode::Level)
    }

    pub(crate) fn join_idle(&mut self) -> Token {
        let token = self.join();
        assert!(self.ev.set_idle(token));
        token
    }

    pub(crate) fn begin(&mut self) -> Token {
        let token = self.ev.add_unwatched().unwrap();
        self.conns.insert(token, File::open("/dev/null").unwrap());
        token
    }

    /// Ends a connection. Its index is the next one to be reused.
    pub(crate) fn leave(&mut self, token: Token) {
        self.conns.remove(&mut self.ev, token).unwrap();
    }

    /// Queues a wait that reports all of these as readable.
    pub(crate) fn report_readable(&self, tokens: &[Token]) {
        let fds = tokens
            .iter()
            .map(|token| (self.fd(*token), Ready::READABLE));
        self.backend.report(fds.collect());
    }

    /// Queues a wait that reports all of these as readable, and after them the first listener. A
    /// loop that holds the accept lock then accepts first, and delivers the other events as posted
    /// steps.
    pub(crate) fn report_before_listener(&self, tokens: &[Token]) {
        let numbers = tokens.iter().map(|token| self.fd(*token));
        let fds = numbers.chain([self.listener_fd(0)]);
        self.backend
            .report(fds.map(|fd| (fd, Ready::READABLE)).collect());
    }

    pub(crate) fn connect(&mut self, listener: usize, clients: usize) {
        for _ in 0..clients {
            let client = TcpStream::connect(self.listeners[listener].address).unwrap();
            self.clients.push(client);
        }
    }

    /// Makes accepting from this listener fail.
    pub(crate) fn break_listener(&self, listener: usize) {
        let listener = &self.listeners[listener].duplicate;
        rustix::net::shutdown(listener, rustix::net::Shutdown::Both).unwrap();
    }

    pub(crate) fn wait(&mut self) {
        self.ev.wait().unwrap();
    }

    /// Takes the next step of this turn, and records it. The announcement of a shutdown is only
    /// counted.
    pub(crate) fn step(&mut self) -> Option<Recorded> {
        let recorded = match self.ev.next_step()? {
            Step::ShuttingDown => {
                self.announcements += 1;
                return self.step();
            }
            Step::Accepted(new) => {
                let recorded = Recorded::Accepted(new.listener);
                self.accepted.push(new);
                recorded
            }
            Step::Ready(token, ready) => Recorded::Ready(token, ready),
            Step::Expired(token, timer) => Recorded::Expired(token, timer),
            Step::Woken => Recorded::Woken,
            Step::Evict(token) => Recorded::Evict(token),
        };
        self.backend.note(recorded);
        Some(recorded)
    }

    /// Takes the rest of this turn's steps.
    pub(crate) fn rest(&mut self) -> Vec<Recorded> {
        std::iter::from_fn(|| self.step()).collect()
    }

    /// Makes a turn whose only step announces a shutdown.
    pub(crate) fn announced(&mut self) {
        assert_eq!((self.turn(), self.announcements), (Vec::new(), 1));
    }

    pub(crate) fn turn(&mut self) -> Vec<Recorded> {
        self.wait();
        self.rest()
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        self.time.advance(Duration::from_millis(ms));
    }

    pub(crate) fn arm_ms(&mut self, token: Token, timer: Timer, ms: u64) {
        assert!(self.ev.arm(token, timer, Duration::from_millis(ms)));
    }

    pub(crate) fn fd(&self, token: Token) -> RawFd {
        self.conns.get(token).unwrap().as_raw_fd()
    }

    pub(crate) fn listener_fd(&self, listener: usize) -> RawFd {
        self.listeners[listener].number
    }

    pub(crate) fn listeners(&self) -> usize {
        self.listeners.len()
    }

    /// Queues a wait that reports these listeners as readable.
    pub(crate) fn report_listeners(&self, listeners: &[usize]) {
        let fds = listeners
            .iter()
            .map(|number| (self.listener_fd(*number), Ready::READABLE));
        self.backend.report(fds.collect());
    }
}

struct Known {
    number: RawFd,
    duplicate: OwnedFd,
    address: SocketAddr,
}

/// The step of a token that is only readable.
pub(crate) fn readable(token: Token) -> Recorded {
    Recorded::Ready(token, Ready::READABLE)
}
