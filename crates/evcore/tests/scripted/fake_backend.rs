//! A backend and an accept lock that a test controls, with a record of the loop's actions.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use evcore::{
    Ready, Timer, Token,
    balancer::GroupMember,
    poller::{Backend, Capabilities, Error, EventSink, Registration, Result, WakeChannel, Waker},
};

use crate::fake_member::Call;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recorded {
    /// The loop tried the accept lock. True if it got the lock.
    TryLock(bool),
    Unlock,
    /// The poller called the backend's `add`, which may have refused the registration. The next
    /// three variants are the poller's calls of `modify`, `remove` and `remove_before_close`.
    Add(RawFd),
    Modify(RawFd),
    Remove(RawFd),
    Forget(RawFd),
    Wait(Option<Duration>),
    /// The loop yielded a client of the listener with this number.
    Accepted(usize),
    Ready(Token, Ready),
    Expired(Token, Timer),
    Woken,
    Evict(Token),
    /// A call of the loop to its member, if the member
    /// [records](crate::fake_member::FakeMember::record_in) its calls here.
    Member(Call),
}

#[derive(Debug)]
enum Outcome {
    Events(Vec<(RawFd, Ready)>),
    Interrupted,
    Failed,
}

/// Clones are handles to the same backend.
#[derive(Clone, Debug)]
pub(crate) struct FakeBackend(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    waker: WakeChannel,
    /// The keys of the poller's registrations, by descriptor.
    keys: HashMap<RawFd, u64>,
    /// Descriptors whose last registration was exclusive, removed ones included.
    exclusively: HashSet<RawFd>,
    /// Descriptors whose last registration was edge-triggered, removed ones included.
    edges: HashSet<RawFd>,
    outcomes: VecDeque<Outcome>,
    /// Number of registrations that succeed before one fails.
    adds_until_failure: Option<usize>,
    adds_fail: bool,
    removals_fail: bool,
    exclusive: bool,
    lock_is_free: bool,
    lock_is_held: bool,
    record: Vec<Recorded>,
}

impl FakeBackend {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Shared {
            waker: WakeChannel::new().unwrap(),
            keys: HashMap::new(),
            exclusively: HashSet::new(),
            edges: HashSet::new(),
            outcomes: VecDeque::new(),
            adds_until_failure: None,
            adds_fail: false,
            removals_fail: false,
            exclusive: false,
            lock_is_free: true,
            lock_is_held: false,
            record: Vec::new(),
        })))
    }

    /// Queues a wait that reports these events. If that wait has too little room, the waits that
    /// follow report the rest.
    pub(crate) fn report(&self, events: Vec<(RawFd, Ready)>) {
        self.shared().outcomes.push_back(Outcome::Events(events));
    }

    /// Queues a wait that a signal interrupts.
    pub(crate) fn interrupt(&self) {
        self.shared().outcomes.push_back(Outcome::Interrupted);
    }

    /// Queues a wait that fails.
    pub(crate) fn fail_wait(&self) {
        self.shared().outcomes.push_back(Outcome::Failed);
    }

    /// Makes one registration fail, after `successes` registrations that succeed.
    pub(crate) fn fail_add_after(&self, successes: usize) {
        self.shared().adds_until_failure = Some(successes);
    }

    pub(crate) fn refuse_adds(&self, refuse: bool) {
        self.shared().adds_fail = refuse;
    }

    /// Makes all later calls of `remove` fail.
    pub(crate) fn fail_removals(&self) {
        self.shared().removals_fail = true;
    }

    /// Gives the poller exclusive wake-ups and edges. Call this before a loop is built.
    pub(crate) fn make_exclusive(&self) {
        self.shared().exclusive = true;
    }

    pub(crate) fn set_lock_free(&self, free: bool) {
        self.shared().lock_is_free = free;
    }

    pub(crate) fn holds_lock(&self) -> bool {
        self.shared().lock_is_held
    }

    pub(crate) fn is_exclusive(&self, fd: RawFd) -> bool {
        self.watches(fd) && self.shared().exclusively.contains(&fd)
    }

    pub(crate) fn is_edge_triggered(&self, fd: RawFd) -> bool {
        self.watches(fd) && self.shared().edges.contains(&fd)
    }

    pub(crate) fn watches(&self, fd: RawFd) -> bool {
        self.shared().keys.contains_key(&fd)
    }

    /// Takes the record since the last call.
    pub(crate) fn record(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.shared().record)
    }

    pub(crate) fn note(&self, recorded: Recorded) {
        self.shared().record.push(recorded);
    }

    /// The timeouts of the waits since the record was last taken.
    pub(crate) fn timeouts(&self) -> Vec<Option<Duration>> {
        let record = self.record().into_iter();
        record
            .filter_map(|recorded| match recorded {
                Recorded::Wait(timeout) => Some(timeout),
                _ => None,
            })
            .collect()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap()
    }
}

impl Shared {
    fn register(&mut self, registration: &Registration) -> Result<()> {
        self.record.push(Recorded::Add(registration.fd));
        let refused = self.adds_fail || self.adds_until_failure == Some(0);
        self.adds_until_failure = match self.adds_until_failure {
            None | Some(0) => None,
            Some(successes) => Some(successes - 1),
        };
        if refused {
            return Err(refusal("add"));
        }
        self.keys.insert(registration.fd, registration.key);
        self.exclusively.remove(&registration.fd);
        if registration.mode.is_exclusive() {
            self.exclusively.insert(registration.fd);
        }
        self.edges.remove(&registration.fd);
        if registration.mode.is_edge() {
            self.edges.insert(registration.fd);
        }
        Ok(())
    }

    fn wait(&mut self, mut events: EventSink<'_>) -> Result<()> {
        if self.waker.drain() {
            events.set_woken();
        }
        match self.outcomes.pop_front() {
            None => Ok(()),
            Some(Outcome::Interrupted) => Err(Error::Interrupted),
            Some(Outcome::Failed) => Err(refusal("wait")),
            Some(Outcome::Events(mut batch)) => {
                let rest = batch.split_off(batch.len().min(events.remaining()));
                for (fd, ready) in batch {
                    events.push(self.keys[&fd], ready);
                }
                if !rest.is_empty() {
                    self.outcomes.push_front(Outcome::Events(rest));
                }
                Ok(())
            }
        }
    }
}

fn refusal(call: &'static str) -> Error {
    Error::Os {
        call,
        source: std::io::Error::other("scripted"),
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        "backend"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::default();
        capabilities.exclusive = self.shared().exclusive;
        // The loop uses exclusive wake-ups only together with edges.
        capabilities.edge = capabilities.exclusive;
        capabilities
    }

    fn add(&mut self, registration: &Registration) -> Result<()> {
        self.shared().register(registration)
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        self.shared().record.push(Recorded::Modify(registration.fd));
        Ok(())
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        let mut shared = self.shared();
        shared.record.push(Recorded::Remove(registration.fd));
        shared.keys.remove(&registration.fd);
        if shared.removals_fail {
            return Err(refusal("remove"));
        }
        Ok(())
    }

    fn remove_before_close(&mut self, registration: &Registration) {
        let mut shared = self.shared();
        shared.record.push(Recorded::Forget(registration.fd));
        shared.keys.remove(&registration.fd);
    }

    fn wait(&mut self, events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let mut shared = self.shared();
        shared.record.push(Recorded::Wait(timeout));
        shared.wait(events)
    }

    fn waker(&self) -> Waker {
        self.shared().waker.waker()
    }
}

impl GroupMember for FakeBackend {
    fn try_lock(&self) -> bool {
        let mut shared = self.shared();
        assert!(
            !shared.lock_is_held,
            "the lock was kept from the turn before"
        );
        shared.lock_is_held = shared.lock_is_free;
        let got = shared.lock_is_held;
        shared.record.push(Recorded::TryLock(got));
        got
    }

    fn unlock(&self) {
        let mut shared = self.shared();
        assert!(shared.lock_is_held, "nothing to release");
        shared.lock_is_held = false;
        shared.record.push(Recorded::Unlock);
    }
}
