//! Pollers with this backend, over the model of a kernel. Each test of a file without a kernel's name
//! runs over all three kernels, and prints the one that it failed for.

use std::{ffi::c_short, os::fd::RawFd, time::Duration};

use rustix::io::Errno;

use super::{
    PollLike,
    devpoll::DevPoll,
    fake_kernel::{Call, FIRST, FakeKernel, Machine},
    flags::{asking, readiness},
    poll::Poll,
    port::Port,
};
use crate::{Error, Events, Interest, Mode, Poller, Ready, Result};

mod changes;
mod closing;
mod devpoll;
mod model;
mod modes;
mod port;
mod refusals;
mod strays;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Port,
    DevPoll,
    Poll,
}

const KINDS: [Kind; 3] = [Kind::Port, Kind::DevPoll, Kind::Poll];

/// Those that may refuse a change.
const REFUSING: [Kind; 2] = [Kind::Port, Kind::DevPoll];

impl Kind {
    /// What the kernels differ in.
    fn pick<T>(self, [port, devpoll, poll]: [T; 3]) -> T {
        match self {
            Self::Port => port,
            Self::DevPoll => devpoll,
            Self::Poll => poll,
        }
    }
}

struct Fixture {
    kind: Kind,
    kernel: FakeKernel,
    poller: Poller,
    events: Events,
}

impl Fixture {
    /// One of each kernel.
    fn each() -> impl Iterator<Item = Self> {
        KINDS.into_iter().map(Self::new)
    }

    fn new(kind: Kind) -> Self {
        Self::with_room(kind, 8)
    }

    /// With the files [`A`] and [`B`] open.
    fn with_room(kind: Kind, capacity: usize) -> Self {
        println!("{kind:?}");
        let kernel = FakeKernel::default();
        kernel.machine().open(A);
        kernel.machine().open(B);
        let poller = match kind {
            Kind::Port => PollLike::over(Port::over(kernel.clone())).map(Poller::from),
            Kind::DevPoll => PollLike::over(DevPoll::over(kernel.clone())).map(Poller::from),
            Kind::Poll => PollLike::over(Poll::over(kernel.clone())).map(Poller::from),
        };
        Self {
            kind,
            kernel,
            poller: poller.expect("a waker"),
            events: Events::bounded(capacity),
        }
    }

    fn kernel(&self) -> std::sync::MutexGuard<'_, Machine> {
        self.kernel.machine()
    }

    fn add(&mut self, fd: RawFd, key: u64, interest: Interest, mode: Mode) {
        self.try_add(fd, key, interest, mode).expect("add");
    }

    fn try_add(&mut self, fd: RawFd, key: u64, interest: Interest, mode: Mode) -> Result<()> {
        self.poller.add_number(fd, key, interest, mode)
    }

    /// Adds [`A`] under the key 1 and [`B`] under 2, both readable.
    fn add_both(&mut self) {
        for (fd, key) in [(A, 1), (B, 2)] {
            self.add(fd, key, Interest::READ, Mode::Level);
            self.set(fd, IN);
        }
    }

    /// Opens further files, and adds them under the keys from 0 on; all are readable.
    fn add_more(&mut self, count: RawFd) -> std::ops::Range<RawFd> {
        let fds = B + 1..B + 1 + count;
        for (fd, key) in fds.clone().zip(0..) {
            self.open(fd);
            self.add(fd, key, Interest::READ, Mode::Level);
            self.set(fd, IN);
        }
        fds
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
        self.kernel().set(fd, ready);
    }

    fn close(&self, fd: RawFd) {
        self.kernel().close(fd);
    }

    fn open(&self, fd: RawFd) {
        self.kernel().open(fd);
    }

    /// The events of a wait without a timeout, by key.
    fn wait(&mut self) -> Vec<(u64, Ready)> {
        self.try_wait(NOW).expect("a wait")
    }

    fn try_wait(&mut self, timeout: Option<Duration>) -> Result<Vec<(u64, Ready)>> {
        self.poller.wait(&mut self.events, timeout)?;
        let events = self.events.iter();
        let mut reported: Vec<_> = events.map(|event| (event.key, event.ready)).collect();
        reported.sort_unstable_by_key(|event| event.0);
        Ok(reported)
    }

    /// The keys of this many waits, sorted.
    fn keys_of_waits(&mut self, count: usize) -> Vec<u64> {
        let waits = (0..count).flat_map(|_| self.wait());
        let mut keys: Vec<_> = waits.map(|event| event.0).collect();
        keys.sort_unstable();
        keys
    }

    /// The calls since the last look.
    fn calls(&self) -> Vec<Call> {
        self.kernel().calls()
    }

    /// The number of calls since the last look, those that wait not counted.
    fn changes(&self) -> usize {
        let calls = self.calls();
        let changes = calls.iter().filter(|call| !matches!(call, Call::Wait(..)));
        changes.count()
    }

    /// The files that the kernel watches, with their flags.
    fn watched(&self) -> Vec<(RawFd, c_short)> {
        self.kernel().watched()
    }
}
