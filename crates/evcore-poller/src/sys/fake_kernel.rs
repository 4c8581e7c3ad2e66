//! A model of a kernel that has event ports, `/dev/poll`, kqueue and poll, for tests.
//!
//! This file has what the interfaces share: files, time, and the calls that were made. The modules
//! [`port`], [`devpoll`] and [`kqueue`] have the kernel's state for their interface. For poll the
//! kernel has no state.
//!
//! - A file has one or more numbers. Its readiness is what the test has set.
//! - Errors and hang-ups are reported without being requested.
//! - A wait ends at once, with the ready files or as if its timeout had passed. Only a wait in
//!   which a file [becomes ready](Machine::set_in_wait) takes time. That time is real, because the
//!   poller reads the real clock.
//! - Numbers from [`FIRST`] on are files of the model. Lower numbers are real descriptors, which
//!   every call polls for real, so that a real waker works.
//!
//! The model has no other processes, no threads, and no limit on the kernel's memory.

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::{c_int, c_short},
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rustix::io::Errno;

use self::real::{is_readable, pass};
use super::{kqueue::kernel::Change, poll_like::poll, raw_fd};

mod devpoll;
pub(super) mod kqueue;
mod port;
mod real;

/// The first number of the model's own files.
pub(super) const FIRST: RawFd = 5_000;

/// The flags that are reported without a request.
const UNREQUESTED: c_short = libc::POLLERR | libc::POLLHUP;

/// The number of the one file that stands for every real descriptor. Each call polls real
/// descriptors by their numbers, so their files need not be distinguished.
const REAL: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Associate(RawFd, c_short),
    Dissociate(RawFd),
    /// The changes, without those of real files.
    Write(Vec<(RawFd, c_short)>),
    /// The greatest number of events (poll: the number of entries), and the timeout.
    Wait(usize, Option<Duration>),
    Kevent(Vec<Change>, Option<Duration>),
}

#[derive(Debug, Default)]
pub(super) struct Machine {
    /// The file of each open number.
    numbers: BTreeMap<RawFd, u64>,
    /// The readiness of each file.
    files: BTreeMap<u64, c_short>,
    last_file: u64,
    pub(super) port: port::Port,
    pub(super) device: devpoll::Device,
    pub(super) queue: kqueue::Queue,
    array: Vec<libc::pollfd>,
    /// The numbers that the kernel refuses to watch.
    pub(super) refuses: Vec<RawFd>,
    /// The errors of the next waits. A wait with an error fails; one with `None` works.
    pub(super) ends: VecDeque<Option<Errno>>,
    /// The time that calls would have waited until their timeouts. (It is added up, and does not
    /// pass.)
    pub(super) waited: Duration,
    /// The file that becomes ready in the next call that waits, and the time after which it does.
    change: Option<(Duration, RawFd, c_short)>,
    calls: Vec<Call>,
}

impl Machine {
    pub(super) fn open(&mut self, fd: RawFd) {
        self.last_file += 1;
        self.open_in_place(fd);
    }

    /// Opens a file under `fd`, at the address of the file that was opened last, so that the kernel
    /// cannot distinguish the two.
    pub(super) fn open_in_place(&mut self, fd: RawFd) {
        self.files.insert(self.last_file, 0);
        self.open_as(fd, self.last_file);
    }

    pub(super) fn duplicate(&mut self, of: RawFd, fd: RawFd) {
        self.open_as(fd, self.numbers[&of]);
    }

    fn open_as(&mut self, fd: RawFd, file: u64) {
        assert!(fd >= FIRST && self.numbers.insert(fd, file).is_none());
    }

    pub(super) fn close(&mut self, fd: RawFd) {
        let file = self.numbers.remove(&fd).expect("it is open");
        self.port.close(fd);
        self.queue.close(fd);
        if !self.numbers.values().any(|other| *other == file) {
            self.files.remove(&file);
            self.device.close(file);
        }
    }

    /// Sets the readiness of the file of `fd` to exactly `ready`.
    pub(super) fn set(&mut self, fd: RawFd, ready: c_short) {
        let before = self.files[&self.numbers[&fd]];
        self.lower(fd, !ready);
        self.change(fd, ready & !before, ready);
    }

    /// Adds `ready` to the readiness of the file of `fd`. A condition that was already true counts
    /// as having happened again.
    pub(super) fn raise(&mut self, fd: RawFd, ready: c_short) {
        let all = self.files[&self.numbers[&fd]] | ready;
        self.change(fd, ready, all);
    }

    /// Removes `ready` from the readiness of the file of `fd`. No kernel evaluates a registration
    /// because of that.
    pub(super) fn lower(&mut self, fd: RawFd, ready: c_short) {
        let file = self.files.get_mut(&self.numbers[&fd]);
        *file.expect("it is open") &= !ready;
    }

    fn change(&mut self, fd: RawFd, raised: c_short, all: c_short) {
        let file = self.numbers[&fd];
        self.files.insert(file, all);
        self.device.mark(file);
        let numbers = self.numbers.iter().filter(|(_, other)| **other == file);
        for (fd, _) in numbers {
            self.port.look(*fd, all);
            self.queue.look(*fd, raised, all);
        }
    }

    /// Sets the readiness of the file of `fd` to `ready` when the next call that waits has waited
    /// for `after`.
    pub(super) fn set_in_wait(&mut self, after: Duration, fd: RawFd, ready: c_short) {
        self.change = Some((after, fd, ready));
    }

    /// Takes the calls since the last check, without those for real files.
    pub(super) fn calls(&mut self) -> Vec<Call> {
        let calls = std::mem::take(&mut self.calls);
        let is_ours = |call: &Call| match call {
            Call::Associate(fd, _) | Call::Dissociate(fd) => *fd >= FIRST,
            Call::Write(changes) => !changes.is_empty(),
            Call::Wait(..) | Call::Kevent(..) => true,
        };
        calls.into_iter().filter(is_ours).collect()
    }

    /// Returns the model's files that the kernel watches, each with its flags.
    pub(super) fn watched(&self) -> Vec<(RawFd, c_short)> {
        let array = self.array.iter().map(|entry| (entry.fd, entry.events));
        let of_poll = array.filter(|(fd, _)| *fd >= FIRST);
        let mut all: Vec<_> = of_poll
            .chain(self.port.watched())
            .chain(self.device.watched())
            .chain(self.queue.watched())
            .collect();
        all.sort_unstable();
        all
    }

    fn file(&self, fd: RawFd) -> Option<u64> {
        if fd >= FIRST {
            return self.numbers.get(&fd).copied();
        }
        (fd >= 0 && raw_fd::is_open(fd).is_ok()).then_some(REAL)
    }

    /// Returns the readiness, or `None` if the file is not open.
    fn ready(&self, fd: RawFd) -> Option<c_short> {
        Some(match self.file(fd)? {
            REAL if is_readable(fd) => libc::POLLIN,
            REAL => 0,
            file => self.files[&file],
        })
    }

    /// Makes a call that waits. `scan` looks for ready files.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        watches_waker: bool,
        mut scan: impl FnMut(&mut Self) -> usize,
    ) -> Result<usize, Errno> {
        let returns_at_once = timeout == Some(Duration::ZERO);
        assert!(
            watches_waker || returns_at_once,
            "no waker is watched in this wait"
        );
        if let Some(errno) = self.ends.pop_front().flatten() {
            return Err(errno);
        }
        let mut count = scan(self);
        if count == 0 && !returns_at_once {
            if let Some((after, fd, ready)) = self.change.take() {
                pass(after);
                self.set(fd, ready);
                count = scan(self);
            }
        }
        if count == 0 {
            let timeout = timeout.expect("a wait without a timeout needs a ready file");
            self.waited = self.waited.saturating_add(timeout);
        }
        Ok(count)
    }

    fn look(&self, array: &mut [libc::pollfd]) -> usize {
        for entry in &mut *array {
            let flags = entry.events | UNREQUESTED;
            let ready = self.ready(entry.fd);
            entry.revents = ready.map_or(libc::POLLNVAL, |ready| ready & flags);
        }
        array.iter().filter(|entry| entry.revents != 0).count()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct FakeKernel {
    machine: Arc<Mutex<Machine>>,
}

impl FakeKernel {
    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().expect("no test goes on after a panic")
    }
}

impl poll::Sys for FakeKernel {
    fn is_open(&self, fd: RawFd) -> Result<(), Errno> {
        self.machine().file(fd).map(drop).ok_or(Errno::BADF)
    }

    fn poll(
        &mut self,
        array: &mut [libc::pollfd],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let mut machine = self.machine();
        machine.array = array.to_vec();
        let mut entries = array.iter();
        let watches_waker = entries.any(|entry| entry.fd < FIRST && entry.events == libc::POLLIN);
        machine.calls.push(Call::Wait(array.len(), timeout));
        machine.wait(timeout, watches_waker, |machine| machine.look(array))
    }
}

fn recorded(ms: c_int) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
