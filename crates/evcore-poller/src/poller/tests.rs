//! The poller over a fake backend, which records its calls and reports what a test has prepared.

use std::{
    collections::VecDeque,
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard},
};

use super::*;
use crate::{Capabilities, EventSink, Ready, WakeChannel};

mod changes;
mod failed_waits;
mod kernels;
mod keys;
mod modes;
mod refusals;
mod sources;
mod stale;

const SECOND: Duration = Duration::from_secs(1);

/// The capabilities of epoll.
const ALL: Capabilities = Capabilities {
    edge: true,
    oneshot: true,
    exclusive: true,
    watches_files: true,
    batches_changes: false,
    simulated: false,
};
/// No capability: all modes are emulated, and each change is made at once.
const NOTHING: Capabilities = Capabilities {
    edge: false,
    oneshot: false,
    exclusive: false,
    watches_files: false,
    batches_changes: false,
    simulated: false,
};

#[derive(Debug, Default)]
struct FakeState {
    calls: Vec<Call>,
    /// The results of the next waits. Later waits return nothing, at once.
    answers: VecDeque<Answer>,
    /// Keys for which `add`, `modify` and `remove` fail.
    refuses: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Add(u64, Interest),
    Modify(u64, Interest),
    /// A modification after which only ends are watched.
    WatchEnds(u64, Ready),
    Remove(u64, Interest),
    Forget(u64),
    Reset,
    Wait(Option<Duration>),
}
use Call::{Add, Forget, Modify, Remove, Reset, Wait, WatchEnds};

#[derive(Debug)]
enum Answer {
    Events(Vec<(u64, Ready)>),
    Interrupted,
    Broken,
}

fn reports<const N: usize>(events: [(u64, Ready); N]) -> Answer {
    Answer::Events(events.to_vec())
}

#[derive(Debug)]
struct FakeBackend {
    capabilities: Capabilities,
    state: Arc<Mutex<FakeState>>,
    wake: WakeChannel,
}

fn out_of_memory() -> Error {
    Error::os("pretending")(rustix::io::Errno::NOMEM)
}

impl FakeBackend {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state
            .lock()
            .expect("no test panics while the state is locked")
    }

    fn record(&self, key: u64, call: Call) -> Result<()> {
        let mut state = self.state();
        state.calls.push(call);
        if state.refuses.contains(&key) {
            return Err(out_of_memory());
        }
        Ok(())
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn add(&mut self, new: &Registration) -> Result<()> {
        assert!(!new.ends.is_empty(), "there is nothing to watch");
        self.record(new.key, Add(new.key, new.interest))
    }

    fn modify(&mut self, new: &Registration) -> Result<()> {
        assert!(!new.ends.is_empty(), "there is nothing to watch");
        if new.interest.is_empty() {
            return self.record(new.key, WatchEnds(new.key, new.ends));
        }
        self.record(new.key, Modify(new.key, new.interest))
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        assert!(!old.ends.is_empty(), "the backend does not watch it");
        self.record(old.key, Remove(old.key, old.interest))
    }

    fn remove_before_close(&mut self, old: &Registration) {
        self.state().calls.push(Forget(old.key));
    }

    fn wait(&mut self, mut events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let mut state = self.state();
        state.calls.push(Wait(timeout));
        match state.answers.pop_front() {
            None => Ok(()),
            Some(Answer::Interrupted) => Err(Error::Interrupted),
            Some(Answer::Broken) => Err(out_of_memory()),
            Some(Answer::Events(list)) => {
                for (key, ready) in list {
                    events.push(key, ready);
                }
                Ok(())
            }
        }
    }

    fn reset(&mut self) -> Result<bool> {
        self.state().calls.push(Reset);
        Ok(self.capabilities == ALL)
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

impl Poller {
    /// Registers a number without an open descriptor, for a model of a kernel, and to test a
    /// kernel's error for a closed descriptor.
    pub(crate) fn add_number(
        &mut self,
        fd: RawFd,
        key: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<()> {
        self.register(Registration {
            fd,
            key,
            interest,
            ends: WatchSet::of(interest).ends(),
            mode,
        })
    }
}

struct Fixture {
    poller: Poller,
    state: Arc<Mutex<FakeState>>,
    events: Events,
}

impl Fixture {
    fn new(capabilities: Capabilities) -> Self {
        let state = Arc::<Mutex<FakeState>>::default();
        let backend = FakeBackend {
            capabilities,
            state: Arc::clone(&state),
            wake: WakeChannel::new().expect("a channel"),
        };
        Self {
            poller: Poller::from(backend),
            state,
            events: Events::bounded(4),
        }
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state
            .lock()
            .expect("no test panics while the state is locked")
    }

    fn add(&mut self, key: u64, interest: Interest, mode: Mode) -> Result<()> {
        // Each id has a number of its own in place of a descriptor.
        let fd = RawFd::try_from(key & 0xffff_ffff).expect("a small id");
        let added = self.poller.add_number(fd, key, interest, mode);
        self.poller.registry.verify();
        added
    }

    fn modify(&mut self, key: u64, interest: Interest) {
        self.poller.modify(key, interest).expect("registered");
        self.poller.registry.verify();
    }

    /// Waits, and the backend returns `answer`. Returns the events.
    fn wait(&mut self, answer: Answer) -> Vec<(u64, Ready)> {
        self.state().answers.push_back(answer);
        self.idle()
    }

    /// Waits, and the backend has nothing prepared. Returns the events.
    fn idle(&mut self) -> Vec<(u64, Ready)> {
        let count = self.poller.wait(&mut self.events, None).expect("a wait");
        self.poller.registry.verify();
        assert_eq!(count, self.events.len());
        self.events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect()
    }

    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }
}
