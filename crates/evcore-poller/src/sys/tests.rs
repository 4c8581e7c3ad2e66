//! Tests of pollers over models of the kernels that do not run here, and over a model of poll. Each
//! test runs over all kernels for which it makes sense, and prints the name of each. So the last
//! printed name is the name of the kernel for which a test failed.

use std::sync::MutexGuard;
pub(super) use std::{ffi::c_short, os::fd::RawFd, time::Duration};

pub(super) use rustix::io::Errno;

use super::{
    fake_kernel::Machine,
    kqueue::Kqueue,
    poll_like::{PollLike, devpoll::DevPoll, poll::Poll, port::Port},
};
pub(super) use super::{
    fake_kernel::{Call, FIRST, FakeKernel},
    poll_like::flags::requested_flags,
};
pub(super) use crate::{Error, Events, Interest, Mode, Poller, Ready, Result};

mod changes;
mod closing;
mod modes;
mod refusals;
mod strays;
mod waits;

pub(super) const IN: c_short = libc::POLLIN;
pub(super) const OUT: c_short = libc::POLLOUT;
pub(super) const PRI: c_short = libc::POLLPRI;
pub(super) const ERR: c_short = libc::POLLERR;
pub(super) const HUP: c_short = libc::POLLHUP;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const NOW: Option<Duration> = Some(Duration::ZERO);

pub(super) const MODES: [Mode; 3] = [Mode::Level, Mode::Edge, Mode::Oneshot];

pub(super) const A: RawFd = FIRST;
pub(super) const B: RawFd = FIRST + 1;

/// The readiness that is reported if a descriptor with an interest in reading was closed or
/// refused.
pub(super) const GONE: Ready =
    Ready::from_bits_truncate(Ready::ERROR.bits() | Ready::READABLE.bits());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Port,
    DevPoll,
    Poll,
    Kqueue,
}

const KINDS: [Kind; 4] = [Kind::Port, Kind::DevPoll, Kind::Poll, Kind::Kqueue];

/// The kernels without `Edge` and `Oneshot`. The poller emulates both modes by masking: after a
/// report, it stops watching the reported side of an `Edge`, or all sides of a `Oneshot`.
pub(super) const MASKING: [Kind; 3] = [Kind::Port, Kind::DevPoll, Kind::Poll];

/// The kernels that may refuse a change.
const REFUSING: [Kind; 3] = [Kind::Port, Kind::DevPoll, Kind::Kqueue];

impl Kind {
    pub(super) fn pick<T>(self, [port, devpoll, poll, kqueue]: [T; 4]) -> T {
        match self {
            Self::Port => port,
            Self::DevPoll => devpoll,
            Self::Poll => poll,
            Self::Kqueue => kqueue,
        }
    }
}

pub(super) struct Fixture {
    pub(super) kind: Kind,
    kernel: FakeKernel,
    pub(super) poller: Poller,
    pub(super) events: Events,
}

impl Fixture {
    fn each(kinds: impl IntoIterator<Item = Kind>) -> impl Iterator<Item = Self> {
        kinds.into_iter().map(Self::new)
    }

    pub(super) fn new(kind: Kind) -> Self {
        Self::with_room(kind, 8)
    }

    /// Makes a fixture in which the files [`A`] and [`B`] are open.
    pub(super) fn with_room(kind: Kind, capacity: usize) -> Self {
        println!("{kind:?}");
        let kernel = FakeKernel::default();
        let poller = match kind {
            Kind::Port => PollLike::over(Port::over(kernel.clone())).map(Poller::from),
            Kind::DevPoll => PollLike::over(DevPoll::over(kernel.clone())).map(Poller::from),
            Kind::Poll => PollLike::over(Poll::over(kernel.clone())).map(Poller::from),
            Kind::Kqueue => Kqueue::over(kernel.clone()).map(Poller::from),
        };
        let fixture = Self {
            kind,
            kernel,
            poller: poller.expect("a waker"),
            events: Events::bounded(capacity),
        };
        fixture.open(A);
        fixture.open(B);
        fixture.costs();
        fixture
    }

    pub(super) fn kernel(&self) -> MutexGuard<'_, Machine> {
        self.kernel.machine()
    }

    pub(super) fn add(&mut self, fd: RawFd, key: u64, interest: Interest, mode: Mode) {
        self.try_add(fd, key, interest, mode).expect("add");
    }

    pub(super) fn try_add(
        &mut self,
        fd: RawFd,
        key: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<()> {
        self.poller.add_number(fd, key, interest, mode)
    }

    /// Adds [`A`] under the key 1 and [`B`] under 2, both readable.
    pub(super) fn add_both(&mut self) {
        for (fd, key) in [(A, 1), (B, 2)] {
            self.add(fd, key, Interest::READ, Mode::Level);
            self.set(fd, IN);
        }
    }

    /// Opens further files, and adds them under the keys from 0 on; all are readable.
    pub(super) fn add_more(&mut self, count: RawFd) -> std::ops::Range<RawFd> {
        let fds = B + 1..B + 1 + count;
        for (fd, key) in fds.clone().zip(0..) {
            self.open(fd);
            self.add(fd, key, Interest::READ, Mode::Level);
            self.set(fd, IN);
        }
        fds
    }

    pub(super) fn modify(&mut self, key: u64, interest: Interest) {
        self.poller.modify(key, interest).expect("registered");
    }

    pub(super) fn rearm(&mut self, key: u64, interest: Interest) {
        self.poller.rearm(key, interest).expect("registered");
    }

    pub(super) fn remove(&mut self, key: u64) {
        self.poller.remove(key).expect("registered");
    }

    pub(super) fn remove_before_close(&mut self, key: u64) {
        self.poller.remove_before_close(key).expect("registered");
    }

    pub(super) fn set(&self, fd: RawFd, ready: c_short) {
        self.kernel().set(fd, ready);
    }

    pub(super) fn raise(&self, fd: RawFd, ready: c_short) {
        self.kernel().raise(fd, ready);
    }

    pub(super) fn lower(&self, fd: RawFd, ready: c_short) {
        self.kernel().lower(fd, ready);
    }

    pub(super) fn close(&self, fd: RawFd) {
        self.kernel().close(fd);
    }

    pub(super) fn open(&self, fd: RawFd) {
        self.kernel().open(fd);
    }

    fn refuse(&self, fd: RawFd) {
        self.kernel().refuses.push(fd);
    }

    fn refuse_nothing(&self) {
        self.kernel().refuses.clear();
    }

    fn fail_wait(&self, errno: Errno) {
        self.kernel().ends.push_back(Some(errno));
    }

    /// Returns the events of a wait that returns at once, by key.
    pub(super) fn wait(&mut self) -> Vec<(u64, Ready)> {
        self.try_wait(NOW).expect("a wait")
    }

    pub(super) fn try_wait(&mut self, timeout: Option<Duration>) -> Result<Vec<(u64, Ready)>> {
        self.poller.wait(&mut self.events, timeout)?;
        let events = self.events.iter();
        let mut reported: Vec<_> = events.map(|event| (event.key, event.ready)).collect();
        reported.sort_unstable_by_key(|event| event.0);
        Ok(reported)
    }

    /// Returns the keys of this many waits, sorted.
    pub(super) fn keys_of_waits(&mut self, count: usize) -> Vec<u64> {
        let waits = (0..count).flat_map(|_| self.wait());
        let mut keys: Vec<_> = waits.map(|event| event.0).collect();
        keys.sort_unstable();
        keys
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.kernel().calls()
    }

    /// Returns, for the calls since the last check, the number of those that change something
    /// (kqueue: the number of changes), and the timeout of each one that waits.
    pub(super) fn costs(&self) -> (usize, Vec<Option<Duration>>) {
        let (mut changes, mut timeouts) = (0, Vec::new());
        for call in self.calls() {
            match call {
                Call::Wait(_, timeout) => timeouts.push(timeout),
                Call::Kevent(list, timeout) => {
                    changes += list.len();
                    timeouts.push(timeout);
                }
                Call::Associate(..) | Call::Dissociate(_) | Call::Write(_) => changes += 1,
            }
        }
        (changes, timeouts)
    }

    pub(super) fn changes(&self) -> usize {
        self.costs().0
    }

    pub(super) fn timeouts(&self) -> Vec<Option<Duration>> {
        self.costs().1
    }

    pub(super) fn watched(&self) -> Vec<(RawFd, c_short)> {
        self.kernel().watched()
    }
}
