//! A poller with this backend, over a model of the kernel.

use std::{os::fd::RawFd, sync::MutexGuard};

use super::{
    fake_kernel::{Call, FakeKernel, Model, Refusal},
    kernel::{Event as KernelEvent, Filter, Ident},
    *,
};
use crate::{Event, Events, Poller, Ready};

mod changes;
mod closing;
mod ends;
mod model;
mod modes;
mod refusals;
mod waits;

/// The descriptors of the tests. They are above those that the test's own process may have.
const A: RawFd = 5001;
const B: RawFd = 5002;
const C: RawFd = 5003;

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    poller: Poller,
    kernel: FakeKernel,
}

impl Fixture {
    /// Makes a fixture with the three files open, of which no byte can be read or written.
    fn new() -> Self {
        let kernel = FakeKernel::default();
        let backend = Kqueue::over(kernel.clone()).expect("a kqueue");
        let mut fixture = Self {
            poller: Poller::from(backend),
            kernel,
        };
        for fd in [A, B, C] {
            fixture.kernel().open(fd);
        }
        fixture.calls();
        fixture
    }

    fn kernel(&mut self) -> MutexGuard<'_, Model> {
        self.kernel.model()
    }

    fn add(&mut self, fd: RawFd, key: u64, interest: Interest, mode: Mode) -> Result<()> {
        self.poller.add_number(fd, key, interest, mode)
    }

    fn modify(&mut self, key: u64, interest: Interest) {
        self.poller.modify(key, interest).expect("registered");
    }

    /// The events of a wait that returns at once, with room for `capacity`.
    fn wait_with(&mut self, capacity: usize) -> Vec<Event> {
        let mut events = Events::bounded(capacity);
        self.poller
            .wait(&mut events, Some(Duration::ZERO))
            .expect("a wait");
        events.iter().collect()
    }

    /// The events of a wait that returns at once.
    fn wait(&mut self) -> Vec<(u64, Ready)> {
        let events = self.wait_with(16);
        events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect()
    }

    fn calls(&mut self) -> Vec<Call> {
        self.kernel().calls()
    }

    /// The number of changes in each call since the last look.
    fn changes(&mut self) -> Vec<usize> {
        let calls = self.calls();
        calls.iter().map(|call| call.changes.len()).collect()
    }
}

fn refusal(fd: RawFd, filter: Filter) -> Refusal {
    Refusal {
        fd,
        filter,
        errno: Errno::NOMEM,
        made: false,
    }
}
