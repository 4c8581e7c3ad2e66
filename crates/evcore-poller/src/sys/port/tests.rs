//! A poller with this backend, over the model of a port.

use std::{ffi::c_int, os::fd::RawFd, time::Duration};

use rustix::io::Errno;

use super::{
    EventPorts,
    fake_kernel::{
        Call::{self, Associate, Dissociate, Getn},
        End, FIRST, FakeKernel,
    },
};
use crate::{Error, Events, Interest, Mode, Poller, Ready, Result, Waker};

mod changes;
mod closing;
#[path = "../masked_modes.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "each backend has a fixture of its own"
)]
mod masked_modes;
mod model;
mod modes;
mod waits;

const IN: c_int = libc::POLLIN as c_int;
const OUT: c_int = libc::POLLOUT as c_int;
const PRI: c_int = libc::POLLPRI as c_int;
const ERR: c_int = libc::POLLERR as c_int;
const HUP: c_int = libc::POLLHUP as c_int;

const SECOND: Duration = Duration::from_secs(1);
const NOW: Option<Duration> = Some(Duration::ZERO);

/// Two files of the model.
const A: RawFd = FIRST;
const B: RawFd = FIRST + 1;

struct Fixture {
    kernel: FakeKernel,
    poller: Poller,
    events: Events,
}

impl Fixture {
    fn new() -> Self {
        Self::with_room(8)
    }

    /// Makes a fixture in which the files [`A`] and [`B`] are open.
    fn with_room(capacity: usize) -> Self {
        let kernel = FakeKernel::default();
        kernel.port().open(A);
        kernel.port().open(B);
        let ports = EventPorts::over(kernel.clone()).expect("a waker");
        Self {
            kernel,
            poller: Poller::from(ports),
            events: Events::bounded(capacity),
        }
    }

    fn add(&mut self, fd: RawFd, key: u64, interest: Interest, mode: Mode) {
        self.try_add(fd, key, interest, mode).expect("add");
    }

    fn try_add(&mut self, fd: RawFd, key: u64, interest: Interest, mode: Mode) -> Result<()> {
        self.poller.add_number(fd, key, interest, mode)
    }

    fn modify(&mut self, key: u64, interest: Interest) {
        self.poller.modify(key, interest).expect("registered");
    }

    fn rearm(&mut self, key: u64, interest: Interest) {
        self.poller.rearm(key, interest).expect("registered");
    }

    fn remove(&mut self, key: u64) {
        self.poller.remove(key).expect("registered");
    }

    fn set(&self, fd: RawFd, ready: c_int) {
        self.kernel.port().set(fd, ready);
    }

    fn close(&self, fd: RawFd) {
        self.kernel.port().close(fd);
    }

    fn open(&self, fd: RawFd) {
        self.kernel.port().open(fd);
    }

    /// The events of a wait without a timeout, by key.
    fn wait(&mut self) -> Vec<(u64, Ready)> {
        self.try_wait(NOW).expect("a wait")
    }

    fn try_wait(&mut self, timeout: Option<Duration>) -> Result<Vec<(u64, Ready)>> {
        self.poller.wait(&mut self.events, timeout)?;
        let mut reported: Vec<_> = self
            .events
            .iter()
            .map(|event| (event.key, event.ready))
            .collect();
        reported.sort_unstable_by_key(|event| event.0);
        Ok(reported)
    }

    /// The calls about files of the model, and the waits, since the last look.
    fn calls(&self) -> Vec<Call> {
        self.kernel.port().calls()
    }
}
