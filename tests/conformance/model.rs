//! Compares every backend with a model, step by step, over random histories.
//!
//! The model has the interests of the caller, the reports so far, and the actions of the peer. The
//! platform supplies the true readiness of a socket: a kernel by a bare `poll`, a simulation by a
//! poller that has never seen the socket. So the model predicts every bit that `Level` and
//! `Oneshot` report. For `Edge`, it predicts the readiness that must be reported and the readiness
//! that may be reported.
//!
//! A second model has a buffer that is too small, and changes that are refused before each wait. It
//! checks that a kernel's backend reports no wake late, and that no ready socket waits for long.

use std::{
    io::{Read, Write},
    mem,
};

use evcore_poller::{BackendKind, Events, Interest, Mode, Ready};
use proptest::prelude::*;

use crate::{
    expectations::Backend,
    fixture::{ERROR, Fixture, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED},
    simulated::Shape,
    socket::{Drained, Socket, drain, fill},
};

/// Number of ids that a program (a list of steps) uses.
pub(crate) const IDS: u64 = 4;

/// A step of a program. The fuzz target in `tests/fuzz/` makes programs from bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Add(u64, Interest, Mode),
    Modify(u64, Interest),
    Remove(u64),
    /// Calls `remove_before_close`, closes both ends and opens a new pair, often under the same
    /// numbers.
    Replace(u64),
    /// Does the same as `Replace`, but a duplicate of the old socket stays open (if the platform
    /// has duplicates), so that epoll could go on reporting the socket.
    LeaveBehind(u64),
    /// Drains until `WouldBlock` and rearms reading, unless the stream has ended.
    RearmRead(u64),
    /// Fills until `WouldBlock` and rearms writing.
    RearmWrite(u64),
    PeerWrites(u64),
    PeerReads(u64),
    PeerShutsDown(u64),
    /// The peer reads everything, and then the socket's writing side is shut down. If the peer has
    /// shut its side too, that is a hang-up. (The peer reads first because select does not report a
    /// hang-up of a full socket.)
    ShutsDown(u64),
    PeerCloses(u64),
    Read(u64),
    Wake,
    /// Wakes the poller by a write to the descriptor of its waker, if there is one.
    WakeByHand,
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..IDS;
    let interest = || {
        prop::sample::select(vec![
            Interest::NONE,
            Interest::READ,
            Interest::WRITE,
            Interest::BOTH,
            Interest::PRIORITY,
            Interest::BOTH | Interest::PRIORITY,
        ])
    };
    let mode = prop::sample::select(vec![Mode::Level, Mode::Edge, Mode::Oneshot]);
    prop_oneof![
        4 => (id.clone(), interest(), mode).prop_map(|(id, i, m)| Step::Add(id, i, m)),
        3 => (id.clone(), interest()).prop_map(|(id, i)| Step::Modify(id, i)),
        1 => id.clone().prop_map(Step::Remove),
        1 => id.clone().prop_map(Step::Replace),
        1 => id.clone().prop_map(Step::LeaveBehind),
        2 => id.clone().prop_map(Step::RearmRead),
        2 => id.clone().prop_map(Step::RearmWrite),
        3 => id.clone().prop_map(Step::PeerWrites),
        2 => id.clone().prop_map(Step::PeerReads),
        1 => id.clone().prop_map(Step::PeerShutsDown),
        1 => id.clone().prop_map(Step::ShutsDown),
        1 => id.clone().prop_map(Step::PeerCloses),
        2 => id.prop_map(Step::Read),
        2 => Just(Step::Wake),
        1 => Just(Step::WakeByHand),
        6 => Just(Step::Wait),
    ]
}

#[derive(Clone, Debug)]
struct Registered {
    key: u64,
    mode: Mode,
    wanted: Interest,
    /// The value of `wanted` at the last wait.
    settled: Interest,
    /// The sides (reading, writing) of an `Edge` that must be reported when they are ready.
    due: Interest,
    /// The ways in which the stream has ended (half-close, hang-up, error) that an `Edge`
    /// registration has reported.
    ended: Ready,
    /// True for a `Oneshot` that has not reported since it was armed.
    armed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Open,
    ShutDown,
    Closed,
}

struct Course {
    fixture: Fixture,
    pairs: Vec<(Socket, Socket)>,
    peers: Vec<Peer>,
    registered: Vec<Option<Registered>>,
    is_shut: Vec<bool>,
    generation: u64,
    /// Duplicates of sockets that were replaced.
    left_behind: Vec<Socket>,
    /// True if the poller was woken since the last wait.
    is_woken: bool,
}

/// The place of an id in the tables.
fn at(id: u64) -> usize {
    usize::try_from(id).expect("there are four")
}

impl Course {
    fn new(fixture: Fixture) -> Self {
        Self {
            pairs: (0..IDS).map(|_| fixture.pair()).collect(),
            peers: (0..IDS).map(|_| Peer::Open).collect(),
            fixture,
            registered: (0..IDS).map(|_| None).collect(),
            is_shut: vec![false; at(IDS)],
            generation: 0,
            left_behind: Vec::new(),
            is_woken: false,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Add(id, interest, mode) => self.add(id, interest, mode),
            Step::Modify(id, interest) => self.modify(id, interest),
            Step::Remove(id) => {
                if let Some(registered) = self.registered[at(id)].take() {
                    self.fixture.remove(registered.key);
                }
            }
            Step::Replace(id) => self.replace(id),
            Step::LeaveBehind(id) => {
                self.left_behind.extend(self.pairs[at(id)].0.duplicate());
                self.replace(id);
            }
            Step::RearmRead(id) => {
                if drain(&self.pairs[at(id)].0).1 == Drained::Empty {
                    self.rearm(id, Interest::READ);
                }
            }
            // A write to a peer that has closed does not return `WouldBlock`.
            Step::RearmWrite(id) if self.peers[at(id)] == Peer::Closed => {}
            Step::RearmWrite(id) => {
                if !self.is_shut[at(id)] {
                    fill(&self.pairs[at(id)].0);
                    self.rearm(id, Interest::WRITE);
                }
            }
            Step::PeerWrites(id) => {
                // The write fails if the peer has shut its side, or if the socket is full.
                let _ = (&self.pairs[at(id)].1).write(b"a");
            }
            Step::PeerReads(id) => {
                drain(&self.pairs[at(id)].1);
            }
            Step::PeerShutsDown(id) => {
                let _ = self.pairs[at(id)].1.shutdown_write();
                if self.peers[at(id)] == Peer::Open {
                    self.peers[at(id)] = Peer::ShutDown;
                }
            }
            Step::PeerCloses(id) => {
                // A close with unread data would be reported as an error at the other end.
                drain(&self.pairs[at(id)].1);
                self.pairs[at(id)].1 = self.fixture.pair().0;
                self.peers[at(id)] = Peer::Closed;
            }
            Step::ShutsDown(id) => {
                drain(&self.pairs[at(id)].1);
                let _ = self.pairs[at(id)].0.shutdown_write();
                self.is_shut[at(id)] = true;
            }
            Step::Read(id) => {
                let _ = (&self.pairs[at(id)].0).read(&mut [0]);
            }
            Step::Wake => {
                self.fixture.poller.waker().wake();
                self.is_woken = true;
            }
            Step::WakeByHand => {
                if let Socket::Real(_) = self.pairs[0].0 {
                    let waker = self.fixture.poller.waker();
                    let fd = waker.descriptor().expect("a kernel's backend");
                    rustix::io::write(fd, &1u64.to_ne_bytes()).expect("write");
                    self.is_woken = true;
                }
            }
            Step::Wait => self.wait(),
        }
    }

    fn watchable(&self, interest: Interest) -> Interest {
        match self.fixture.platform.backend() {
            Backend::Kqueue => interest - Interest::PRIORITY,
            _ => interest,
        }
    }

    fn add(&mut self, id: u64, interest: Interest, mode: Mode) {
        let interest = self.watchable(interest);
        self.generation += 1;
        let key = (self.generation << 32) | id;
        if self.registered[at(id)].is_some() {
            let fd = &self.pairs[at(id)].0;
            let again = self.fixture.poller.add(fd, key, interest, mode);
            assert!(again.is_err(), "{}", self.fixture.name);
            return;
        }
        self.fixture.add(&self.pairs[at(id)].0, key, interest, mode);
        self.registered[at(id)] = Some(Registered {
            key,
            mode,
            wanted: interest,
            settled: interest,
            due: interest,
            ended: Ready::NONE,
            armed: true,
        });
    }

    fn replace(&mut self, id: u64) {
        if let Some(registered) = self.registered[at(id)].take() {
            self.fixture
                .poller
                .remove_before_close(registered.key)
                .expect("registered");
        }
        self.pairs[at(id)] = self.fixture.pair();
        self.peers[at(id)] = Peer::Open;
        self.is_shut[at(id)] = false;
    }

    fn modify(&mut self, id: u64, interest: Interest) {
        let interest = self.watchable(interest);
        if let Some(registered) = &mut self.registered[at(id)] {
            self.fixture.modify(registered.key, interest);
            registered.wanted = interest;
            registered.armed = true;
        }
    }

    fn rearm(&mut self, id: u64, side: Interest) {
        if let Some(registered) = &mut self.registered[at(id)] {
            self.fixture.rearm(registered.key, side);
            registered.due |= side;
        }
    }

    /// Waits twice, without a change before the second wait.
    fn wait(&mut self) {
        self.wait_once();
        let edges: Vec<_> = self
            .registered
            .iter()
            .flatten()
            .filter(|source| source.mode == Mode::Edge)
            .collect();
        let again = self.fixture.now();
        assert!(
            !self.fixture.events.was_woken(),
            "{}: woken",
            self.fixture.name
        );
        if !self.left_behind.is_empty() {
            // A poller that registers all descriptors again, to drop a stale registration, reports
            // edges again.
            return;
        }
        for registered in edges {
            let repeated = again.iter().find(|event| event.0 == registered.key);
            assert_eq!(repeated, None, "{}: {registered:?}", self.fixture.name);
        }
    }

    fn wait_once(&mut self) {
        let trace = self.fixture.now();
        let is_woken = mem::take(&mut self.is_woken);
        let name = &self.fixture.name;
        assert_eq!(self.fixture.events.was_woken(), is_woken, "{name}: woken");
        let mut unexplained = trace.clone();
        let (platform, masks) = (
            &self.fixture.platform,
            !self.fixture.poller.backend().capabilities().edge,
        );
        let backend = platform.backend();
        for (place, (near, _)) in self.pairs.iter().enumerate() {
            let Some(registered) = &mut self.registered[place] else {
                continue;
            };
            let reported = trace.iter().find(|event| event.0 == registered.key);
            let reported = reported.map_or(Ready::NONE, |event| event.1);
            let mut holds = platform.truth(near, registered.wanted);
            if registered.wanted.contains(Interest::READ) && self.peers[place] != Peer::Open {
                // Not every kernel's `poll` has a flag for a half-close.
                holds |= READ_CLOSED;
            }
            let holds = backend.reported(holds, registered.wanted);
            let ends = holds & backend.ends_behind_a_report();
            let possible = if backend.has_late_edges() {
                // The backend polls again before it reports priority data, because the kernel's
                // report of other data includes it. So priority data is never late.
                let late = registered.wanted - Interest::PRIORITY;
                holds | Ready::from_bits_truncate(u16::from(late.bits()))
            } else {
                holds
            };
            registered.check(reported, holds, possible, &self.fixture.name);
            if registered.mode == Mode::Edge {
                registered.check_edge(reported, holds, ends, masks, &self.fixture.name);
            }
            registered.settled = registered.wanted;
            unexplained.retain(|event| event.0 != registered.key);
        }
        assert_eq!(unexplained, [], "{}: of no registration", self.fixture.name);
    }
}

impl Registered {
    /// Checks that a wait has `reported` the true readiness `holds`, or for an `Edge` at most
    /// `possible`.
    fn check(&mut self, reported: Ready, holds: Ready, possible: Ready, name: &str) {
        match self.mode {
            Mode::Level | Mode::Exclusive => assert_eq!(reported, holds, "{name}: {self:?}"),
            Mode::Oneshot => {
                let expected = if self.armed { holds } else { Ready::NONE };
                assert_eq!(reported, expected, "{name}: {self:?}");
                self.armed &= reported.is_empty();
            }
            Mode::Edge | Mode::ExclusiveEdge => assert_eq!(
                reported & possible,
                reported,
                "{name}: it does not hold of {self:?}"
            ),
        }
    }

    /// Checks that due sides are reported. If the poller emulates edges (`masks`), also checks that
    /// nothing is reported while nothing is due. `ends` are the ways in which the stream has ended
    /// that the backend reports even if no side is due.
    fn check_edge(&mut self, reported: Ready, holds: Ready, ends: Ready, masks: bool, name: &str) {
        if self.wanted != self.settled {
            (self.due, self.ended) = (self.wanted, Ready::NONE);
        }
        let mut due = self.due_ends(ends);
        for (side, bit) in [(Interest::READ, READABLE), (Interest::WRITE, WRITABLE)] {
            if self.wanted.contains(side) && self.due.contains(side) && !(holds & bit).is_empty() {
                due |= bit;
                self.due -= side;
            }
        }
        assert_eq!(reported & due, due, "{name}: {due:?} is due of {self:?}");
        assert!(
            !masks || !due.is_empty() || reported.is_empty(),
            "{name}: {reported:?} of {self:?}"
        );
        self.ended |= reported & (READ_CLOSED | WRITE_CLOSED | ERROR);
    }

    /// Returns the ways of ending that must be reported now. Each must be reported once, and none
    /// after a hang-up or an error.
    fn due_ends(&self, ends: Ready) -> Ready {
        if self.ended.is_write_closed() || self.ended.is_error() {
            return Ready::NONE;
        }
        if self.ended.is_read_closed() {
            return ends & (WRITE_CLOSED | ERROR);
        }
        ends
    }
}

#[derive(Clone, Copy, Debug)]
enum Scarcity {
    /// The peer writes a byte, which stays unread.
    Ready(usize),
    Drained(usize),
    /// From here on, a change that the kernel refuses is made before each wait.
    Refused(usize),
    /// Ends the refused changes of this key.
    Dropped(usize),
    Wake,
    Wait,
}

/// Number of descriptors that can be ready, and number of changes that can be refused.
const CROWD: usize = 5;

fn scarcity() -> impl Strategy<Value = Scarcity> {
    let member = 0..CROWD;
    prop_oneof![
        4 => member.clone().prop_map(Scarcity::Ready),
        1 => member.clone().prop_map(Scarcity::Drained),
        2 => member.clone().prop_map(Scarcity::Refused),
        1 => member.prop_map(Scarcity::Dropped),
        2 => Just(Scarcity::Wake),
        10 => Just(Scarcity::Wait),
    ]
}

/// Many descriptors, and a small event buffer. Keys below `CROWD` are sockets, and higher keys are
/// closed descriptors.
struct Scarce {
    fixture: Fixture,
    pairs: Vec<(Socket, Socket)>,
    is_ready: [bool; CROWD],
    is_refused: [bool; CROWD],
    is_woken: bool,
    /// For each socket, number of successive waits that did not report it although it was ready.
    waits_without: [usize; CROWD],
    capacity: usize,
}

impl Scarce {
    fn new(mut fixture: Fixture, capacity: usize) -> Self {
        let pairs: Vec<_> = (0..CROWD).map(|_| fixture.pair()).collect();
        for ((near, _), key) in pairs.iter().zip(0..) {
            fixture.add(near, key, Interest::READ, Mode::Level);
        }
        fixture.add_closed(14, refused_key(0)..refused_key(CROWD), Interest::NONE);
        fixture.events = Events::bounded(capacity);
        Self {
            fixture,
            pairs,
            is_ready: [false; CROWD],
            is_refused: [false; CROWD],
            is_woken: false,
            waits_without: [0; CROWD],
            capacity,
        }
    }

    fn take(&mut self, step: Scarcity) {
        match step {
            Scarcity::Ready(nth) => {
                (&self.pairs[nth].1).write_all(b"a").expect("room");
                self.is_ready[nth] = true;
            }
            Scarcity::Drained(nth) => {
                drain(&self.pairs[nth].0);
                self.is_ready[nth] = false;
                self.waits_without[nth] = 0;
            }
            Scarcity::Refused(nth) => self.is_refused[nth] = true,
            Scarcity::Dropped(nth) => {
                self.is_refused[nth] = false;
                self.fixture.modify(refused_key(nth), Interest::NONE);
            }
            Scarcity::Wake => {
                self.fixture.poller.waker().wake();
                self.is_woken = true;
            }
            Scarcity::Wait => self.wait(),
        }
    }

    fn wait(&mut self) {
        for nth in (0..CROWD).filter(|nth| self.is_refused[*nth]) {
            self.fixture.modify(refused_key(nth), Interest::READ);
        }
        let trace = self.fixture.now();
        let name = &self.fixture.name;
        let is_woken = mem::take(&mut self.is_woken);
        // A simulation's backend keeps a wake until the poller calls the backend. A wait whose
        // buffer is full of refusals does not call it.
        if matches!(self.pairs[0].0, Socket::Real(_)) {
            assert_eq!(self.fixture.events.was_woken(), is_woken, "{name}: woken");
        }
        for nth in 0..CROWD {
            let key = u64::try_from(nth).expect("a few");
            let is_reported = trace.contains(&(key, READABLE));
            assert!(self.is_ready[nth] || !is_reported, "{name}: {trace:?}");
            let waits = &mut self.waits_without[nth];
            *waits = match (is_reported, self.is_ready[nth]) {
                (false, true) if !is_woken => *waits + 1,
                // The wake may have taken the place of a report. Only one of two waits reports
                // readiness first, so the wake may cost two waits: this one, and one counted
                // before.
                (false, true) => waits.saturating_sub(1),
                _ => 0,
            };
            // One of any two waits reports readiness before refusals.
            let limit = 2 * CROWD.div_ceil(self.capacity);
            assert!(
                *waits <= limit,
                "{name}: {key} waits for its turn: {trace:?}"
            );
            let refused = (refused_key(nth), READABLE | ERROR);
            assert!(
                self.is_refused[nth] || !trace.contains(&refused),
                "{name}: {trace:?}"
            );
        }
    }
}

/// The key of the `nth` closed descriptor, whose changes are refused.
fn refused_key(nth: usize) -> u64 {
    u64::try_from(CROWD + nth).expect("a few")
}

/// Runs a program on every backend, and compares the reports with the model.
pub(crate) fn run(steps: &[Step]) {
    let kernels = BackendKind::usable();
    let worlds = Shape::ALL.iter();
    let kernels = kernels
        .iter()
        .map(|kind| Fixture::of_kernel(*kind, "the model"));
    let worlds = worlds.map(|shape| Fixture::of_simulation(*shape, "the model"));
    for fixture in kernels.chain(worlds) {
        let mut course = Course::new(fixture);
        for step in steps {
            course.take(*step);
        }
        course.wait();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_backend_keeps_to_the_model(steps in prop::collection::vec(step(), 1..80)) {
        run(&steps);
    }

    #[test]
    fn a_small_buffer_delays_no_wake_and_starves_nothing(
        steps in prop::collection::vec(scarcity(), 1..120),
        capacity in 1..CROWD,
    ) {
        let kernels = BackendKind::usable();
        let worlds = Shape::ALL.iter();
        let kernels = kernels.iter().map(|kind| Fixture::of_kernel(*kind, "a small buffer"));
        let worlds = worlds.map(|shape| Fixture::of_simulation(*shape, "a small buffer"));
        for fixture in kernels.chain(worlds) {
            let mut scarce = Scarce::new(fixture, capacity);
            for step in &steps {
                scarce.take(*step);
            }
        }
    }
}
