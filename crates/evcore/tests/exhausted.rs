//! A worker that lacks descriptors or memory to accept a client. It may evict idle connections, or
//! notify another worker.
//!
//! `out_of_descriptors.rs` has a test with a real limit.

use std::{cell::Cell, net::TcpStream, rc::Rc, time::Duration};

use evcore::{
    Acceptor, Builder, EventLoop, Interest, Listener, Mode, Step, Stream, Token, TokenMap,
    balancer::{GroupMember, Leader, Load, Member, Policy, WorkerGroup, WorkerId},
    clock::{Clock, ManualTimeSource},
    net::{self, Accept, Resource},
    poller::{Source, Target},
};

/// The default grace, within which an idle connection is not evicted for lack of descriptors, plus
/// the eighth of it by which an eviction may come later.
const GRACE: Duration = Duration::from_millis(1125);

/// A listener that runs out of a resource when the test wants it to.
#[derive(Debug)]
struct Exhaustible {
    listener: Listener,
    lacking: Rc<Cell<Option<Resource>>>,
}

impl Source for Exhaustible {
    fn target(&self) -> Target<'_> {
        self.listener.target()
    }
}

impl Acceptor for Exhaustible {
    type Stream = Stream;

    fn accept(&self) -> Result<Accept, net::Error> {
        match self.lacking.get() {
            Some(resource) => Ok(Accept::Exhausted(resource)),
            None => self.listener.accept(),
        }
    }
}

struct Worker {
    ev: EventLoop<Exhaustible>,
    conns: TokenMap<Stream>,
    clients: Vec<TcpStream>,
    time: ManualTimeSource,
    lacking: Rc<Cell<Option<Resource>>>,
    /// True if closing an evicted connection ends the shortage.
    frees: bool,
    address: evcore::Address,
}

impl Worker {
    fn new() -> Self {
        Self::built(|builder| builder)
    }

    fn built(build: impl FnOnce(Builder<Exhaustible>) -> Builder<Exhaustible>) -> Self {
        let (time, lacking) = (ManualTimeSource::new(), Rc::default());
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().clone();
        let listener = Exhaustible {
            listener,
            lacking: Rc::clone(&lacking),
        };
        let builder = Builder::default().listener(listener);
        let builder = builder.clock(Clock::with_source(time.clone()));
        Self {
            ev: build(builder).build().unwrap(),
            conns: TokenMap::new(),
            clients: Vec::new(),
            time,
            lacking,
            frees: true,
            address,
        }
    }

    /// A worker that has this many idle connections, and is out of descriptors.
    fn with_idle(idle: usize) -> (Self, Vec<Token>) {
        let mut worker = Self::new();
        let tokens = worker.join_idle(idle);
        worker.lacking.set(Some(Resource::Process));
        (worker, tokens)
    }

    fn connect(&mut self, clients: usize) {
        for _ in 0..clients {
            let client = TcpStream::connect(&self.address).unwrap();
            self.clients.push(client);
        }
    }

    /// Connects clients, and returns their connections, which are idle.
    fn join_idle(&mut self, clients: usize) -> Vec<Token> {
        self.connect(clients);
        let mut tokens = Vec::new();
        while tokens.len() < clients {
            tokens.extend(self.turn().accepted);
        }
        tokens
    }

    /// Makes a turn that does not sleep, because a wake-up ends its wait. Accepted connections
    /// become idle, and evicted ones are closed.
    fn turn(&mut self) -> Turn {
        let mut turn = Turn::default();
        self.ev.handle().wake();
        self.ev.wait().unwrap();
        while let Some(step) = self.ev.next_step() {
            match step {
                Step::Accepted(new) => {
                    let (ev, interest) = (&mut self.ev, Interest::NONE);
                    let token = self.conns.add(ev, new.stream, interest, Mode::Level);
                    let token = token.unwrap();
                    self.ev.set_idle(token);
                    turn.accepted.push(token);
                }
                Step::Evict(token) => {
                    self.conns.close(&mut self.ev, token);
                    turn.evicted.push(token);
                    if self.frees {
                        self.lacking.set(None);
                    }
                }
                Step::Woken | Step::ShuttingDown => {}
                step => panic!("{step:?}"),
            }
        }
        turn
    }

    fn turns(&mut self, turns: usize) -> Turn {
        let mut sum = Turn::default();
        for _ in 0..turns {
            let turn = self.turn();
            sum.accepted.extend(turn.accepted);
            sum.evicted.extend(turn.evicted);
        }
        sum
    }
}

#[derive(Debug, Default)]
struct Turn {
    accepted: Vec<Token>,
    evicted: Vec<Token>,
}

#[test]
fn an_exhausted_worker_evicts_an_eighth_and_accepts_at_once() {
    let (mut worker, idle) = Worker::with_idle(24);
    worker.time.advance(GRACE);
    worker.turn();
    worker.connect(1);
    assert_eq!(worker.turn().evicted, idle[..3]);
    assert_eq!(worker.turn().accepted.len(), 1, "no time has passed");
    assert_eq!(worker.ev.stats().last_exhausted, Some(Resource::Process));
    let stats = worker.ev.stats();
    assert_eq!((stats.accept_pauses, stats.evictions), (1, 3));
}

#[test]
fn at_most_32_idle_connections_are_evicted_for_one_shortage() {
    let (mut worker, idle) = Worker::with_idle(300);
    worker.time.advance(GRACE);
    worker.turn();
    worker.connect(1);
    assert_eq!(worker.turns(3).evicted, idle[..32]);
}

#[test]
fn a_process_that_stays_exhausted_evicts_more_in_each_turn() {
    let (mut worker, idle) = Worker::with_idle(3);
    worker.frees = false;
    worker.time.advance(GRACE);
    worker.turn();
    worker.connect(1);
    assert_eq!(worker.turns(4).evicted, idle);
    assert_eq!(worker.ev.stats().accept_pauses, 4);
    worker.turns(10);
    assert_eq!(worker.ev.stats().accept_pauses, 4, "accepting is paused");
    assert!(!worker.ev.stats().listening);
}

#[test]
fn a_shortage_of_the_system_evicts_nothing() {
    for resource in [Resource::System, Resource::Memory] {
        let (mut worker, _idle) = Worker::with_idle(3);
        worker.lacking.set(Some(resource));
        worker.time.advance(GRACE);
        worker.turn();
        worker.connect(1);
        // Nothing is evicted, because another process may take the freed resource.
        assert!(worker.turns(10).evicted.is_empty());
        assert_eq!(worker.ev.stats().last_exhausted, Some(resource));
        worker.lacking.set(None);
        worker.time.advance(Duration::from_millis(500));
        assert_eq!(worker.turns(2).accepted.len(), 1);
    }
}

#[test]
fn without_an_idle_connection_clients_wait() {
    let (mut worker, idle) = Worker::with_idle(2);
    for token in &idle {
        worker.ev.set_busy(*token);
    }
    worker.time.advance(GRACE);
    worker.turn();
    worker.connect(1);
    assert!(worker.turns(5).evicted.is_empty());
    assert_eq!(worker.ev.stats().accept_pauses, 1);
    assert!(!worker.ev.stats().listening);

    // The client is served when a connection is closed.
    worker.lacking.set(None);
    worker.conns.close(&mut worker.ev, idle[0]);
    assert_eq!(worker.turn().accepted.len(), 1);
}

#[test]
fn connections_within_the_grace_are_not_evicted_for_descriptors() {
    let (mut worker, old) = Worker::with_idle(1);
    worker.time.advance(Duration::from_millis(200));
    worker.turn();
    worker.lacking.set(None);
    let recent = worker.join_idle(1);
    worker.lacking.set(Some(Resource::Process));
    worker.frees = false;
    worker.connect(1);
    let pause = Duration::from_millis(500);
    let mut evicted = Vec::new();
    for _ in 0..4 {
        evicted.push(worker.turns(5).evicted);
        worker.time.advance(pause);
    }
    // These turns are 0.2, 0.7, 1.2 and 1.7 seconds after `old` became idle.
    assert_eq!(evicted, [vec![], vec![], old, recent]);
}

#[test]
fn without_a_grace_any_idle_connection_makes_room() {
    let mut worker = Worker::built(|builder| builder.idle_grace(Duration::ZERO));
    let idle = worker.join_idle(1);
    worker.lacking.set(Some(Resource::Process));
    worker.connect(1);
    assert_eq!(worker.turn().evicted, idle);
}

/// A worker with an idle connection, and another member of its group.
fn grouped(policy: Policy) -> (Worker, Member) {
    let group = WorkerGroup::new(policy, 2).unwrap();
    let mut worker = Worker::built(|builder| builder.group(group.join(WorkerId::from_slot(0))));
    worker.join_idle(1);
    worker.time.advance(GRACE);
    worker.turn();
    (worker, group.join(WorkerId::from_slot(1)))
}

#[test]
fn another_worker_with_a_free_slot_is_notified_before_evicting() {
    let load = |active| Load {
        active,
        capacity: 10,
    };
    for policy in [Policy::least_loaded(), Policy::mutex()] {
        let (mut worker, other) = grouped(policy);
        worker.lacking.set(Some(Resource::Process));
        worker.connect(1);
        let _ = other.sync(load(3));
        assert!(worker.turns(2).evicted.is_empty(), "{policy:?}");
        assert!(other.is_notified() && !worker.ev.stats().listening);

        // The other worker has accepted and is full, so after the pause no worker can be notified.
        assert_eq!(other.sync(load(10)).least_loaded, None);
        worker.time.advance(Duration::from_millis(500));
        let turns = worker.turns(3);
        assert_eq!((turns.evicted.len(), turns.accepted.len()), (1, 1));
        assert!(!other.is_notified());
    }
}

#[test]
fn a_notification_while_descriptors_run_out_is_followed_later() {
    let (mut worker, other) = grouped(Policy::least_loaded());
    let idle = worker.join_idle(1);
    worker.ev.set_busy(idle[0]);
    let none = Load::default();
    assert_eq!(other.sync(none).leader, Leader::Other);

    worker.connect(1);
    let timeout = worker.ev.prepare().unwrap().timeout;
    other.lead();
    other.notify(WorkerId::from_slot(0));
    worker.lacking.set(Some(Resource::Process));
    worker.ev.wait_at_most(timeout).unwrap();
    while worker.ev.next_step().is_some() {}
    assert_eq!(worker.ev.stats().accept_pauses, 1);
    worker.lacking.set(None);
    worker.conns.close(&mut worker.ev, idle[0]);
    worker.turn();
    let leader = other.sync(none).leader;
    assert_eq!(leader, Leader::Other, "it has registered again");
}
