//! The fixture of a scenario: a poller with its buffer, and sockets.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use evcore_poller::{BackendKind, Events, Interest, Mode, Poller, Ready, Source};
use evcore_tests::is_permitted;

use crate::{
    exclusive_run::{Running, alone},
    kernel::Kernel,
    platform::Platform,
    simulated::{Shape, Simulated},
    socket::Socket,
};

pub(crate) const READABLE: Ready = Ready::READABLE;
pub(crate) const WRITABLE: Ready = Ready::WRITABLE;
pub(crate) const READ_CLOSED: Ready = Ready::READ_CLOSED;
pub(crate) const WRITE_CLOSED: Ready = Ready::WRITE_CLOSED;
pub(crate) const ERROR: Ready = Ready::ERROR;

/// Only a failing test waits this long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Fixture {
    pub(crate) platform: Arc<dyn Platform>,
    pub(crate) poller: Poller,
    pub(crate) events: Events,
    pub(crate) name: String,
    /// The last interest under each key.
    interests: BTreeMap<u64, Interest>,
    // `None` in a simulation, which a fork does not affect, and after the first call of `alone`.
    present: Option<Running>,
}

/// The events of a wait, sorted by key.
pub(crate) type Trace = Vec<(u64, Ready)>;

impl Fixture {
    /// Returns `None` and reports the scenario as not run if the running kernel refuses the
    /// backend.
    pub(crate) fn if_permitted(kind: BackendKind, scenario: &str) -> Option<Self> {
        // Kernels and sandboxes often refuse `io_uring`.
        let runs = kind != BackendKind::IoUring || is_permitted(kind);
        runs.then(|| Self::of_kernel(kind, scenario))
    }

    pub(crate) fn of_kernel(kind: BackendKind, scenario: &str) -> Self {
        let present = Running::enter();
        Self {
            present: Some(present),
            ..Self::new(Arc::new(Kernel::new(kind)), scenario)
        }
    }

    pub(crate) fn of_simulation(shape: Shape, scenario: &str) -> Self {
        Self::new(Arc::new(Simulated::new(shape)), scenario)
    }

    fn new(platform: Arc<dyn Platform>, scenario: &str) -> Self {
        Self {
            poller: platform.poller(),
            events: Events::bounded(64),
            name: format!("{}, {scenario}", platform.name()),
            interests: BTreeMap::new(),
            platform,
            present: None,
        }
    }

    pub(crate) fn pair(&self) -> (Socket, Socket) {
        self.platform.pair()
    }

    /// Waits until no other scenario runs. No other scenario begins while the guard lives.
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
        self.interests.insert(key, interest);
        let added = self.poller.add(fd, key, interest, mode);
        added.unwrap_or_else(|error| panic!("{}: add {key}: {error}", self.name));
    }

    /// Registers a descriptor for each key, and then closes all of them. Each has a [number of its
    /// own](Platform::with_a_number_of_its_own), counted from `first`.
    #[track_caller]
    pub(crate) fn add_closed(&mut self, first: i32, keys: Range<u64>, interest: Interest) {
        let mut closed = Vec::new();
        for (nth, key) in (first..).zip(keys) {
            let socket = self.platform.with_a_number_of_its_own(self.pair().0, nth);
            self.add(&socket, key, interest, Mode::Level);
            closed.push(socket);
        }
    }

    #[track_caller]
    pub(crate) fn modify(&mut self, key: u64, interest: Interest) {
        self.interests.insert(key, interest);
        let modified = self.poller.modify(key, interest);
        modified.unwrap_or_else(|error| panic!("{}: modify {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn rearm(&mut self, key: u64, interest: Interest) {
        let rearmed = self.poller.rearm(key, interest);
        rearmed.unwrap_or_else(|error| panic!("{}: rearm {key}: {error}", self.name));
    }

    #[track_caller]
    pub(crate) fn reregister(&mut self, key: u64) {
        let reregistered = self.poller.reregister(key);
        reregistered.unwrap_or_else(|error| panic!("{}: reregister {key}: {error}", self.name));
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

    #[track_caller]
    pub(crate) fn now(&mut self) -> Trace {
        self.wait(Some(Duration::ZERO))
    }

    /// Polls, and compares the reports with the true readiness, as far as this backend reports it.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &[(u64, Ready)]) {
        let reported = expected
            .iter()
            .map(|report| (report.0, self.reported(report.0, report.1)));
        let reported: Trace = reported.collect();
        assert_eq!(self.now(), reported, "{}", self.name);
    }

    /// Polls for the end of a stream whose `Edge` registration has reported and was not rearmed. A
    /// backend that reports such an end must report `end`, and may report the bits of `perhaps`.
    #[track_caller]
    pub(crate) fn expect_end(&mut self, key: u64, end: Ready, perhaps: Ready) {
        let trace = self.now();
        let backend = self.platform.backend();
        if (end & backend.ends_behind_a_report()).is_empty() {
            assert_eq!(trace, [], "{}", self.name);
            return;
        }
        let due = self.reported(key, end);
        assert!(
            matches!(trace[..], [(at, reported)]
                if at == key && reported & due == due && reported & (end | perhaps) == reported),
            "{}: {trace:?}",
            self.name
        );
    }

    fn reported(&self, key: u64, holds: Ready) -> Ready {
        let interest = self.interests.get(&key).copied().unwrap_or(Interest::BOTH);
        self.platform.backend().reported(holds, interest)
    }

    #[track_caller]
    pub(crate) fn wait_while_woken(&mut self, timeout: Option<Duration>) -> Trace {
        let waker = self.poller.waker();
        self.wait_while(|platform, wait| platform.wake_during(&waker, wait), timeout)
    }

    /// Waits while a byte is written to the first of a [late pair](Platform::late_pair).
    #[track_caller]
    pub(crate) fn wait_while_written(&mut self, near: &Socket, timeout: Option<Duration>) -> Trace {
        self.wait_while(|platform, wait| platform.write_during(near, wait), timeout)
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        self.expect(&[]);
    }

    /// Checks that nothing is left to report, and that no wait ends early.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        let timeout = Duration::from_millis(5);
        for _ in 0..3 {
            let start = self.platform.time();
            assert_eq!(self.wait(Some(timeout)), [], "{}", self.name);
            assert!(self.platform.time() - start >= timeout, "{}", self.name);
        }
    }

    #[track_caller]
    fn wait_while(
        &mut self,
        during: impl FnOnce(&dyn Platform, &mut dyn FnMut()),
        timeout: Option<Duration>,
    ) -> Trace {
        let (platform, mut trace) = (Arc::clone(&self.platform), None);
        during(&*platform, &mut || trace = Some(self.wait(timeout)));
        trace.expect("it has waited")
    }
}
