//! Limits the memory that a connection takes, and checks that turns (iterations of the loop)
//! allocate nothing.

use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use evcore::{
    Acceptor, Builder, EventLoop, InstrumentOptions, Interest, Listener, Mode, Ready, Step, Stream,
    Timer, Token, TokenMap,
    balancer::{AcceptMutex, Policy, WorkerId},
    clock::{Clock, ManualTimeSource},
    net::{Accept, Error},
    poller::{
        Backend, BackendKind, Capabilities, EventSink, Registration, Result, Source, Target,
        WakeChannel, Waker,
    },
};
use evcore_testing::{CountingAllocator, allocations, bytes_in_use, not_run};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CONNECTIONS: u32 = 10_000;

/// The index of the first token of a loop with one listener.
const FIRST_INDEX: u32 = 3;

/// The most bytes of a connection in all tables, as in the README. epoll has no tables of its own.
const BYTES_MAX: usize = 128;

/// The most bytes of a connection on a backend; `None` for a backend that is not measured.
fn bytes_max(kind: BackendKind) -> Option<usize> {
    match kind {
        BackendKind::Epoll | BackendKind::EpollMasked => Some(BYTES_MAX),
        BackendKind::Poll => Some(BYTES_MAX + 40),
        BackendKind::IoUring => Some(180),
        _ => None,
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A backend that reports its registrations one after the other, a hundred in each wait, and
/// allocates nothing. It reports a wake-up in every wait.
#[derive(Debug)]
struct RoundRobin {
    waker: WakeChannel,
    keys: Vec<u64>,
    next: usize,
}

impl RoundRobin {
    fn new() -> Self {
        Self {
            waker: WakeChannel::new().unwrap(),
            keys: Vec::with_capacity(CONNECTIONS as usize + 1),
            next: 0,
        }
    }
}

impl Backend for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn capabilities(&self) -> Capabilities {
        simulated()
    }

    fn add(&mut self, new: &Registration) -> Result<()> {
        self.keys.push(new.key);
        Ok(())
    }

    fn modify(&mut self, _: &Registration) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        self.keys.retain(|key| *key != old.key);
        Ok(())
    }

    fn remove_before_close(&mut self, old: &Registration) {
        self.keys.retain(|key| *key != old.key);
    }

    fn wait(&mut self, mut events: EventSink<'_>, _: Option<Duration>) -> Result<()> {
        self.waker.drain();
        events.set_woken();
        for _ in 0..100 {
            self.next = (self.next + 1) % self.keys.len();
            events.push(self.keys[self.next], Ready::READABLE);
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.waker()
    }
}

/// A backend without tables, like epoll's.
#[derive(Debug)]
struct NoTables(WakeChannel);

impl NoTables {
    fn new() -> Self {
        Self(WakeChannel::new().unwrap())
    }
}

impl Backend for NoTables {
    fn name(&self) -> &'static str {
        "no-tables"
    }

    fn capabilities(&self) -> Capabilities {
        simulated()
    }

    fn add(&mut self, _: &Registration) -> Result<()> {
        Ok(())
    }

    fn modify(&mut self, _: &Registration) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _: &Registration) -> Result<()> {
        Ok(())
    }

    fn remove_before_close(&mut self, _: &Registration) {}

    fn wait(&mut self, _: EventSink<'_>, _: Option<Duration>) -> Result<()> {
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.0.waker()
    }
}

const IDLE: Duration = Duration::from_secs(60);

fn simulated() -> Capabilities {
    let mut capabilities = Capabilities::default();
    capabilities.simulated = true;
    capabilities
}

fn number(index: u32) -> Target<'static> {
    Target::Simulated(index)
}

/// A listener that these backends watch by a number.
#[derive(Debug)]
struct Numbered(Listener);

impl Source for Numbered {
    fn target(&self) -> Target<'_> {
        number(2 * CONNECTIONS)
    }
}

impl Acceptor for Numbered {
    type Stream = Stream;

    fn accept(&self) -> Result<Accept, Error> {
        self.0.accept()
    }
}

fn with_connections<L: Acceptor>(mut ev: EventLoop<L>) -> (EventLoop<L>, TokenMap<()>) {
    let mut conns = TokenMap::new();
    fill(&mut ev, &mut conns, CONNECTIONS, number);
    (ev, conns)
}

fn spread(n: u32) -> Duration {
    Duration::from_millis(u64::from(n % 60_000))
}

/// Adds connections, each of which uses every table.
fn fill<'a, L: Acceptor>(
    ev: &mut EventLoop<L>,
    conns: &mut TokenMap<()>,
    connections: u32,
    fd: impl Fn(u32) -> Target<'a>,
) {
    for index in 0..connections {
        let added = ev.add(&fd(index), Interest::READ, Mode::Edge);
        let token = added.unwrap();
        conns.insert(token, ());
        // The timers are spread over the next minute, which the wheel divides finely, so lists are
        // short.
        ev.arm(token, Timer::READ, spread(37 * index));
        ev.arm(token, Timer::WRITE, spread(101 * index));
        ev.modify(token, Interest::BOTH).unwrap();
        ev.post(token, Ready::PRIORITY);
        ev.post_next(token, Ready::PRIORITY);
        ev.set_idle(token);
    }
}

/// Most tables grow by a quarter, so a connection costs the most just after a growth, and the least
/// just before it.
#[test]
fn connections_of_any_number_take_at_most_the_documented_bytes() {
    let sweep = (0..).map(|n| 1_000 + n * 950).take_while(|n| *n <= 20_000);
    for connections in sweep.chain(growths()) {
        for limit in [connections, 2 * connections] {
            let builder = EventLoop::builder().connections(limit);
            let ev = builder.backend(NoTables::new()).build().unwrap();
            let each = bytes_each(ev, connections, number);
            assert!(each <= BYTES_MAX, "{connections} of {limit}: {each}");
            assert!(
                each >= 8 + 16 + 16 + 8 + 8,
                "{each} bytes are not even a slot, two timers in two tables, and places in a queue \
                 and among the idle"
            );
        }
    }
}

#[test]
fn a_connection_takes_at_most_the_documented_bytes_on_measured_backends() {
    let end = UnixStream::pair().unwrap().0;
    let descriptors = raise_descriptors();
    for connections in growths() {
        if connections + 100 > descriptors {
            not_run(&format!("{connections} descriptors cannot be had"));
            continue;
        }
        for kind in BackendKind::usable() {
            let Some(most) = bytes_max(kind) else {
                continue;
            };
            // The loop is built first, so that its own descriptors have low numbers. Otherwise a
            // backend whose table is indexed by descriptor would allocate the table with the loop,
            // and its memory would not be counted.
            let builder = EventLoop::builder().connections(2 * connections);
            let ev = builder.poller(kind).build().unwrap();
            let all = (0..connections).map(|_| end.try_clone().unwrap());
            let all: Vec<_> = all.collect();
            let fd = |index: u32| Target::Descriptor(all[index as usize].as_fd());
            let each = bytes_each(ev, connections, fd);
            println!("{kind}, {connections}: {each}");
            assert!(each <= most, "{kind}, {connections}: {each}");
        }
    }
}

/// Numbers of connections at which a table has just grown.
fn growths() -> impl Iterator<Item = u32> {
    let doublings = (10..=14).map(|bits| (1 << bits) + 1);
    doublings.chain([1_057, 3_169, 7_393, 15_841])
}

/// Bytes per connection, rounded down, if each connection has changed its interest twice since it
/// was registered. Each change on `io_uring` cancels a request and makes another one.
fn bytes_each<'a>(mut ev: EventLoop, connections: u32, fd: impl Fn(u32) -> Target<'a>) -> usize {
    let before = bytes_in_use();
    let mut conns = TokenMap::new();
    fill(&mut ev, &mut conns, connections, fd);
    for interest in [Interest::WRITE, Interest::READ] {
        turn(&mut ev);
        for (token, ()) in conns.iter() {
            ev.modify(token, interest).unwrap();
        }
    }
    bytes_in_use().wrapping_sub(before) / connections as usize
}

/// Makes a turn that takes all ready steps and does not sleep.
fn turn(ev: &mut EventLoop) {
    ev.handle().wake();
    ev.wait().unwrap();
    while ev.next_step().is_some() {}
}

fn raise_descriptors() -> u32 {
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: allowed.maximum,
        ..allowed
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let most = allowed.maximum.unwrap_or(u64::MAX);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// An empty loop has little more than the wheel, the events of a batch, and the histograms if they
/// are on. The system's clock is left out, because it reads its time zone once in each process.
#[test]
fn an_empty_loop_takes_as_much_as_documented() {
    for (histograms, expected) in [(false, 0..50 * 1024), (true, 100 * 1024..150 * 1024)] {
        let (backend, time) = (RoundRobin::new(), ManualTimeSource::new());
        let before = bytes_in_use();
        let builder = EventLoop::builder()
            .connections(CONNECTIONS)
            .clock(Clock::with_source(time))
            .instruments(InstrumentOptions::new().histograms(histograms))
            .backend(backend);
        let ev = builder.build().unwrap();
        let all = bytes_in_use().wrapping_sub(before);
        println!("{all} bytes a loop, with histograms: {histograms}");
        assert!(expected.contains(&all), "{all} bytes");
        drop(ev);
    }
}

#[test]
fn turns_allocate_nothing() {
    let time = ManualTimeSource::new();
    let me = WorkerId::from_slot(0);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let builder = Builder::default()
        .listener(Numbered(listener))
        .policy(Policy::mutex())
        .group(AcceptMutex::new().unwrap().lock_handle(me))
        .connections(2 * CONNECTIONS)
        .clock(Clock::with_source(time.clone()))
        .instruments(
            InstrumentOptions::new()
                .histograms(true)
                .watchdog(Duration::from_millis(1))
                .flight_recorder(100),
        )
        .backend(RoundRobin::new());
    let (mut ev, mut conns) = with_connections(builder.build().unwrap());

    let rounds = 3 * CONNECTIONS / 100;
    let (mut steps, mut before) = (0, 0);
    for round in 0..2 * rounds {
        if round == rounds {
            // Every connection has used every table.
            before = allocations();
            steps = 0;
        }
        time.advance(Duration::from_millis(700));
        ev.wait().unwrap();
        while let Some(step) = ev.next_step() {
            steps += 1;
            match step {
                Step::Ready(token, ready) if ready.is_readable() => read(&mut ev, token),
                Step::Ready(token, _) => written(&mut ev, &mut conns, token),
                Step::Expired(token, timer) => assert!(ev.arm(token, timer, IDLE)),
                Step::Accepted(_) | Step::Woken | Step::ShuttingDown | Step::Evict(_) => {
                    unreachable!("there is no client")
                }
            }
        }
    }
    assert!(steps > 3 * CONNECTIONS, "{steps} steps");
    assert!(
        ev.stats().expired > u64::from(CONNECTIONS),
        "{:?}",
        ev.stats()
    );
    assert!(ev.stats().received > u64::from(CONNECTIONS));
    assert!(ev.stats().slow_turns > 0);
    assert_eq!(allocations() - before, 0);
}

/// Makes all calls for a connection that stays.
fn read<L: Acceptor>(ev: &mut EventLoop<L>, token: Token) {
    ev.arm(token, Timer::READ, IDLE);
    ev.arm(token, Timer::WRITE, IDLE);
    ev.disarm(token, Timer::WRITE);
    ev.modify(token, Interest::BOTH).unwrap();
    ev.modify(token, Interest::READ).unwrap();
    ev.rearm(token, Interest::READ);
    ev.set_busy(token);
    ev.set_idle(token);
    match token.index() % 4 {
        0 => assert!(ev.post_next(token, Ready::WRITABLE)),
        1 => assert!(ev.handle().post(token, Ready::WRITABLE)),
        _ => assert!(ev.post(token, Ready::WRITABLE)),
    }
}

fn written<L: Acceptor>(ev: &mut EventLoop<L>, conns: &mut TokenMap<()>, token: Token) {
    if token.index() % 50 == 0 {
        assert!(conns.close(ev, token));
        let again = number(token.index() - FIRST_INDEX);
        let token = ev.add(&again, Interest::READ, Mode::Edge).unwrap();
        conns.insert(token, ());
        ev.arm(token, Timer::READ, IDLE);
    }
}
