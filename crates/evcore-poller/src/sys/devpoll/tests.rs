//! A poller with this backend, over the model of the device.

use std::{ffi::c_short, os::fd::RawFd, time::Duration};

use rustix::io::Errno;

use super::{
    DevPoll, asking,
    fake_kernel::{
        Call::{self, Poll, Write},
        End, FIRST, FakeKernel,
    },
    kernel::{REMOVE, entry},
    readiness,
};
use crate::{Error, Events, Interest, Mode, Poller, Ready, Result};

mod changes;
mod closing;
mod manual;
#[path = "../masked_modes.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "each backend has a fixture of its own"
)]
mod masked_modes;
mod model;
mod modes;
mod waits;

const IN: c_short = libc::POLLIN;
const OUT: c_short = libc::POLLOUT;
const PRI: c_short = libc::POLLPRI;
const ERR: c_short = libc::POLLERR;
const HUP: c_short = libc::POLLHUP;

const SECOND: Duration = Duration::from_secs(1);
const NOW: Option<Duration> = Some(Duration::ZERO);

/// Two files of the model.
const A: RawFd = FIRST;
const B: RawFd = FIRST + 1;

/// The readiness reported of a descriptor that was closed or refused, to an interest in reading.
const GONE: Ready = Ready::from_bits_truncate(Ready::ERROR.bits() | Ready::READABLE.bits());

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
        kernel.device().open(A);
        kernel.device().open(B);
        let backend = DevPoll::over(kernel.clone()).expect("a waker");
        Self {
            kernel,
            poller: Poller::from(backend),
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

    fn remove_before_close(&mut self, key: u64) {
        self.poller.remove_before_close(key).expect("registered");
    }

    fn set(&self, fd: RawFd, ready: c_short) {
        self.kernel.device().set(fd, ready);
    }

    fn close(&self, fd: RawFd) {
        self.kernel.device().close(fd);
    }

    fn open(&self, fd: RawFd) {
        self.kernel.device().open(fd);
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

    /// The calls since the last look.
    fn calls(&self) -> Vec<Call> {
        self.kernel.device().calls()
    }

    /// The device's entries.
    fn entries(&self) -> Vec<(RawFd, c_short)> {
        self.kernel.device().entries()
    }
}
