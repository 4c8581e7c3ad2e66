//! What every scenario stands on: a poller with its buffer, and sockets to play with.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use evcore_poller::{BackendKind, Events, Interest, Mode, Poller, Ready, Source};

use crate::{
    company::{Present, alone},
    ground::Ground,
    kernel::Kernel,
    simulated::{Shape, Simulated},
    socket::Socket,
};

pub(crate) const READABLE: Ready = Ready::READABLE;
pub(crate) const WRITABLE: Ready = Ready::WRITABLE;
pub(crate) const READ_CLOSED: Ready = Ready::READ_CLOSED;
pub(crate) const WRITE_CLOSED: Ready = Ready::WRITE_CLOSED;
pub(crate) const ERROR: Ready = Ready::ERROR;

/// Only a failure waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A poller on its ground, in one scenario.
pub(crate) struct Stage {
    pub(crate) ground: Arc<dyn Ground>,
    pub(crate) poller: Poller,
    pub(crate) events: Events,
    /// Backend and scenario, for what panics.
    pub(crate) name: String,
    /// What was last asked for under each key.
    asked: BTreeMap<u64, Interest>,
    // `None` in a world: who forks has nothing of it.
    present: Option<Present>,
}

/// What a wait brought, by rising keys.
pub(crate) type Trace = Vec<(u64, Ready)>;

impl Stage {
    pub(crate) fn of_kernel(kind: BackendKind, scenario: &str) -> Self {
        let present = Present::enter();
        Self {
            present: Some(present),
            ..Self::new(Arc::new(Kernel::new(kind)), scenario)
        }
    }

    pub(crate) fn of_world(shape: Shape, scenario: &str) -> Self {
        Self::new(Arc::new(Simulated::new(shape)), scenario)
    }

    fn new(ground: Arc<dyn Ground>, scenario: &str) -> Self {
        Self {
            poller: ground.poller(),
            events: Events::with_capacity(64),
            name: format!("{}, {scenario}", ground.name()),
            asked: BTreeMap::new(),
            ground,
            present: None,
        }
    }

    pub(crate) fn pair(&self) -> (Socket, Socket) {
        self.ground.pair()
    }

    /// Waits until the other scenarios are over: for who forks. None begins while the guard lives.
    pub(crate) fn alone(&mut self) -> MutexGuard<'static, usize> {
        self.present = None;
        alone()
    }

    #[track_caller]
    pub(crate) fn add(
        &mut self,
        fd: &(impl Source + ?Sized),
        key: u64,
        interest: Interest,
        mode: Mode,
    ) {
        self.asked.insert(key, interest);
        let added = self.poller.add(fd, key, interest, mode);
        added.unwrap_or_else(|error| panic!("{}: add {key}: {error}", self.name));
    }

    /// Registers a descriptor for each key, and then closes them all. Each has a
    /// [number of its own](Ground::with_a_number_of_its_own), from the `first` on.
    #[track_caller]
    pub(crate) fn add_closed(&mut self, first: i32, keys: Range<u64>, interest: Interest) {
        let mut closed = Vec::new();
        for (nth, key) in (first..).zip(keys) {
            let socket = self.ground.with_a_number_of_its_own(self.pair().0, nth);
            self.add(&socket, key, interest, Mode::Level);
            closed.push(socket);
        }
    }

    #[track_caller]
    pub(crate) fn add_exclusive(
        &mut self,
        fd: &(impl Source + ?Sized),
        key: u64,
        interest: Interest,
        mode: Mode,
    ) {
        self.asked.insert(key, interest);
        let added = self.poller.add_exclusive(fd, key, interest, mode);
        added.unwrap_or_else(|error| panic!("{}: add {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn modify(&mut self, key: u64, interest: Interest) {
        self.asked.insert(key, interest);
        let modified = self.poller.modify(key, interest);
        modified.unwrap_or_else(|error| panic!("{}: modify {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn rearm(&mut self, key: u64, interest: Interest) {
        let rearmed = self.poller.rearm(key, interest);
        rearmed.unwrap_or_else(|error| panic!("{}: rearm {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn remove(&mut self, key: u64) {
        let removed = self.poller.remove(key);
        removed.unwrap_or_else(|error| panic!("{}: remove {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Trace {
        let waited = self.poller.wait(&mut self.events, timeout);
        let count = waited.unwrap_or_else(|error| panic!("{}: wait: {error}", self.name));
        let events = self.events.iter();
        let mut trace: Trace = events.map(|event| (event.key, event.ready)).collect();
        assert_eq!(count, trace.len(), "{}: the count of a wait", self.name);
        trace.sort_unstable_by_key(|event| event.0);
        trace
    }

    /// What is ready now. (What one end of a pair does, the other end can see at once.)
    #[track_caller]
    pub(crate) fn now(&mut self) -> Trace {
        self.wait(Some(Duration::ZERO))
    }

    /// Waits without waiting, and compares with what holds, as far as this backend can tell it.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &[(u64, Ready)]) {
        let told = expected.iter().map(|it| (it.0, self.told(it.0, it.1)));
        let told: Trace = told.collect();
        assert_eq!(self.now(), told, "{}", self.name);
    }

    /// Waits without waiting for the end of what has reported before and was not rearmed. Where the
    /// backend can see it at all, what is due is `end`, and `perhaps` with it.
    #[track_caller]
    pub(crate) fn expect_end(&mut self, key: u64, end: Ready, perhaps: Ready) {
        let trace = self.now();
        let backend = self.ground.backend();
        if (end & backend.ends_behind_a_report()).is_empty() {
            assert_eq!(trace, [], "{}", self.name);
            return;
        }
        let due = self.told(key, end);
        assert!(
            matches!(trace[..], [(at, said)]
                if at == key && said & due == due && said & (end | perhaps) == said),
            "{}: {trace:?}",
            self.name
        );
    }

    /// What this backend reports under a key where `holds` is true.
    fn told(&self, key: u64, holds: Ready) -> Ready {
        let interest = self.asked.get(&key).copied().unwrap_or(Interest::BOTH);
        self.ground.backend().told(holds, interest)
    }

    /// Waits while somebody wakes the poller.
    #[track_caller]
    pub(crate) fn wait_while_woken(&mut self, timeout: Option<Duration>) -> Trace {
        let waker = self.poller.waker();
        self.wait_while(|ground, wait| ground.wake_during(&waker, wait), timeout)
    }

    /// Waits while somebody writes a byte, by the first of a [late pair](Ground::late_pair).
    #[track_caller]
    pub(crate) fn wait_while_written(&mut self, near: &Socket, timeout: Option<Duration>) -> Trace {
        self.wait_while(|ground, wait| ground.write_during(near, wait), timeout)
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        self.expect(&[]);
    }

    /// Waits that would end early, or bring something, if anything were left to report.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        let timeout = Duration::from_millis(5);
        for _ in 0..3 {
            let start = self.ground.time();
            assert_eq!(self.wait(Some(timeout)), [], "{}", self.name);
            assert!(self.ground.time() - start >= timeout, "{}", self.name);
        }
    }

    #[track_caller]
    fn wait_while(
        &mut self,
        during: impl FnOnce(&dyn Ground, &mut dyn FnMut()),
        timeout: Option<Duration>,
    ) -> Trace {
        let (ground, mut trace) = (Arc::clone(&self.ground), None);
        during(&*ground, &mut || trace = Some(self.wait(timeout)));
        trace.expect("it has waited")
    }
}
