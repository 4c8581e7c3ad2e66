//! A model of `/dev/poll`, for tests.
//!
//! The model follows illumos' `usr/src/uts/common/io/devpoll.c` (`dpwrite`, `dp_pcache_poll` and
//! `dpioctl`) and, for closes, `sonode_fini` of its sockets:
//!
//! - An entry belongs to a descriptor's number. It has the file that the number had, the flags of all
//!   its writes, and a mark if the next call must look at it.
//! - A write marks the entry, except if it changes neither file nor flags. A number without an open
//!   file gets an entry that has flags and no file. A number that is not a descriptor is ignored.
//! - `POLLREMOVE` alone empties an entry that has a file. Any other entry is left as it is.
//! - A file that refuses to be watched ends the write. What comes before it is applied.
//! - A call looks at the marked entries, in a circle that begins behind the last reported one. An
//!   entry without a file is passed over. One whose number is not open is reported as `POLLNVAL`,
//!   and stays marked. One whose number has another file takes that file over. One that has nothing
//!   to report loses its mark, until its file marks it again.
//! - The last close of a file marks its entries (sockets), or does not ([`Device::closes_silently`]).
//! - `EINVAL` for more entries than the limit of descriptors (the manual page; illumos itself now
//!   shortens the list). `EACCES` for another process than that of the first call.
//!
//! It has no threads, no files that forget to mark, and no limit on the kernel's memory.
//!
//! Numbers from [`FIRST`] on are files of the model. Those below are real ones, which a real poll
//! looks at in every call: so a real waker works. Time does not pass: a wait without an event ends
//! at once, and is recorded, unless something becomes ready [in a wait](Device::set_in_wait).

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::{c_int, c_short},
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    super::{
        model_support::{is_readable, pass},
        raw_fd,
    },
    kernel::{Kernel, REMOVE},
};

/// The first number of the model's own files.
pub(super) const FIRST: RawFd = 5_000;

/// The flags that are reported without a request.
const UNREQUESTED: c_short = libc::POLLERR | libc::POLLHUP;

/// The file of each real number. Real files are looked at in every call, so they need not be
/// distinguished.
const REAL: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The changes, without those of real files.
    Write(Vec<(RawFd, c_short)>),
    /// The greatest number of entries, and the timeout in milliseconds.
    Poll(usize, c_int),
}

/// An unusual end of a call of `ioctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A signal ends the call.
    Interrupted,
    /// The call fails with another error.
    Broken,
}

/// An entry of the kernel's array.
#[derive(Debug, Default)]
struct Entry {
    /// The file; `None` if the entry was removed, or if its number was not open when it was
    /// written.
    file: Option<u64>,
    flags: c_short,
    is_marked: bool,
    /// The file that marks the entry.
    marked_by: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Device {
    /// The file of each open number.
    numbers: BTreeMap<RawFd, u64>,
    /// The readiness of each file.
    files: BTreeMap<u64, c_short>,
    last_file: u64,
    entries: BTreeMap<RawFd, Entry>,
    /// The number at which the next call begins to look.
    scan_from: RawFd,
    /// The ends of the next calls of `ioctl`.
    pub(super) ends: VecDeque<End>,
    /// The numbers whose files refuse to be watched.
    pub(super) refuses: Vec<RawFd>,
    /// The number of the next writes that fail, and apply nothing.
    pub(super) failing_writes: usize,
    /// True if the last close of an idle file does not mark its entries.
    pub(super) closes_silently: bool,
    /// True if the calls come from a forked child.
    pub(super) is_in_child: bool,
    /// The limit on descriptors of the process; `None` if it is higher than any test needs.
    pub(super) limit: Option<usize>,
    /// The file that becomes ready in the next call that waits, and the time after which it does.
    change: Option<(Duration, RawFd, c_short)>,
    calls: Vec<Call>,
}

impl Device {
    /// Opens a file, with nothing ready.
    pub(super) fn open(&mut self, fd: RawFd) {
        self.last_file += 1;
        self.files.insert(self.last_file, 0);
        self.open_as(fd, self.last_file);
    }

    /// Opens a file under `fd` that the kernel cannot distinguish from the last one: it is at the same
    /// place in its memory.
    pub(super) fn open_in_place(&mut self, fd: RawFd) {
        self.files.insert(self.last_file, 0);
        self.open_as(fd, self.last_file);
    }

    /// Opens another number of the same file.
    pub(super) fn duplicate(&mut self, of: RawFd, fd: RawFd) {
        self.open_as(fd, self.numbers[&of]);
    }

    fn open_as(&mut self, fd: RawFd, file: u64) {
        assert!(fd >= FIRST && self.numbers.insert(fd, file).is_none());
    }

    /// Closes a number. No entry is removed.
    pub(super) fn close(&mut self, fd: RawFd) {
        let file = self.numbers.remove(&fd).expect("it is open");
        if self.numbers.values().any(|other| *other == file) {
            return;
        }
        self.files.remove(&file);
        for entry in self.entries.values_mut() {
            if entry.marked_by == Some(file) {
                entry.marked_by = None;
                entry.is_marked |= !self.closes_silently;
            }
        }
    }

    /// Makes all of `ready`, and nothing else, true of the file of `fd`.
    pub(super) fn set(&mut self, fd: RawFd, ready: c_short) {
        let file = self.numbers[&fd];
        self.files.insert(file, ready);
        for entry in self.entries.values_mut() {
            entry.is_marked |= entry.marked_by == Some(file);
        }
    }

    /// Makes `ready` true of `fd` when the next call that waits has waited for `after`, in real
    /// time, by which the poller measures.
    pub(super) fn set_in_wait(&mut self, after: Duration, fd: RawFd, ready: c_short) {
        self.change = Some((after, fd, ready));
    }

    /// The calls since the last look.
    pub(super) fn calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    /// The flags of each entry of the model's files that has some, or a file.
    pub(super) fn entries(&self) -> Vec<(RawFd, c_short)> {
        let ours = self.entries.range(FIRST..);
        let present = ours.filter(|(_, entry)| entry.file.is_some() || entry.flags != 0);
        present.map(|(fd, entry)| (*fd, entry.flags)).collect()
    }

    /// The file of an open number.
    fn file(&self, fd: RawFd) -> Option<u64> {
        if fd >= FIRST {
            return self.numbers.get(&fd).copied();
        }
        raw_fd::is_open(fd).is_ok().then_some(REAL)
    }

    fn ready(&self, fd: RawFd, file: u64) -> c_short {
        match file {
            REAL if is_readable(fd) => libc::POLLIN,
            REAL => 0,
            _ => self.files[&file],
        }
    }

    fn check(&self, count: usize, most: usize) -> Result<(), Errno> {
        if self.is_in_child {
            return Err(Errno::ACCESS);
        }
        if count > most {
            return Err(Errno::INVAL);
        }
        Ok(())
    }

    fn write(&mut self, changes: &[(RawFd, c_short)]) -> Result<(), Errno> {
        let ours: Vec<_> = changes
            .iter()
            .copied()
            .filter(|change| change.0 >= FIRST)
            .collect();
        if !ours.is_empty() {
            self.calls.push(Call::Write(ours));
        }
        assert!(!changes.is_empty(), "a call for nothing");
        self.check(changes.len(), self.limit.unwrap_or(usize::MAX))?;
        if self.failing_writes > 0 {
            self.failing_writes -= 1;
            return Err(Errno::IO);
        }
        for (fd, flags) in changes.iter().filter(|change| change.0 >= 0) {
            if *flags == REMOVE {
                self.remove(*fd);
            } else {
                self.change(*fd, *flags)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, fd: RawFd) {
        if let Some(entry) = self
            .entries
            .get_mut(&fd)
            .filter(|entry| entry.file.is_some())
        {
            *entry = Entry::default();
        }
    }

    fn change(&mut self, fd: RawFd, flags: c_short) -> Result<(), Errno> {
        let file = self.file(fd);
        let ready = file.map(|file| self.ready(fd, file));
        let entry = self.entries.entry(fd).or_default();
        let (Some(file), Some(ready)) = (file, ready) else {
            entry.is_marked = true;
            entry.flags |= flags;
            return Ok(());
        };
        if entry.flags == flags && entry.file == Some(file) {
            return Ok(());
        }
        entry.is_marked = true;
        if self.refuses.contains(&fd) {
            return Err(Errno::NXIO);
        }
        entry.file = Some(file);
        entry.flags |= flags;
        if ready & (flags | UNREQUESTED) == 0 {
            entry.marked_by = Some(file);
        }
        Ok(())
    }

    /// Returns the flags that a marked entry has to report, or 0 if it has none.
    fn look(&mut self, fd: RawFd) -> c_short {
        if self.entries[&fd].file.is_none() {
            return 0;
        }
        let Some(file) = self.file(fd) else {
            return libc::POLLNVAL;
        };
        let ready = self.ready(fd, file);
        let entry = self.entries.get_mut(&fd).expect("it is there");
        entry.file = Some(file);
        let found = ready & (entry.flags | UNREQUESTED);
        if found == 0 && file != REAL {
            entry.marked_by = Some(file);
            entry.is_marked = false;
        }
        found
    }

    /// Fills the list, in a circle, and returns the number of filled places.
    fn scan(&mut self, list: &mut [libc::pollfd]) -> usize {
        let first = self.scan_from;
        let behind = self.entries.range(first..);
        let circle = behind.chain(self.entries.range(..first));
        let marked = circle.filter(|(_, entry)| entry.is_marked);
        let marked: Vec<_> = marked.map(|(fd, _)| *fd).collect();
        let mut count = 0;
        for fd in marked {
            if count == list.len() {
                break;
            }
            let found = self.look(fd);
            if found != 0 {
                // The flags of a closed descriptor are not written.
                (list[count].fd, list[count].revents) = (fd, found);
                count += 1;
            }
        }
        if count == list.len() {
            self.scan_from = list[count - 1].fd + 1;
        }
        count
    }

    fn poll(&mut self, list: &mut [libc::pollfd], timeout: c_int) -> Result<usize, Errno> {
        self.calls.push(Call::Poll(list.len(), timeout));
        self.check(list.len(), self.limit.map_or(usize::MAX, |limit| limit - 1))?;
        assert!(!list.is_empty(), "such a call only sleeps");
        let mut real = self.entries.range(..FIRST);
        let has_waker = real.any(|(_, entry)| entry.file.is_some() && entry.flags == libc::POLLIN);
        assert!(has_waker || timeout == 0, "this wait is deaf to wakes");
        match self.ends.pop_front() {
            Some(End::Interrupted) => return Err(Errno::INTR),
            Some(End::Broken) => return Err(Errno::BADF),
            None => {}
        }
        let mut count = self.scan(list);
        if count == 0 && timeout != 0 {
            if let Some((after, fd, ready)) = self.change.take() {
                pass(after);
                self.set(fd, ready);
                count = self.scan(list);
            }
        }
        assert!(count > 0 || timeout >= 0, "this wait would never end");
        Ok(count)
    }
}

/// The device, as the backend and its test see it.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeKernel {
    device: Arc<Mutex<Device>>,
}

impl FakeKernel {
    pub(super) fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().expect("no test panics with the device")
    }
}

impl Kernel for FakeKernel {
    fn is_open(&self, fd: RawFd) -> Result<(), Errno> {
        self.device().file(fd).map(drop).ok_or(Errno::BADF)
    }

    fn write(&mut self, changes: &[libc::pollfd]) -> Result<(), Errno> {
        let changes: Vec<_> = changes
            .iter()
            .map(|change| (change.fd, change.events))
            .collect();
        self.device().write(&changes)
    }

    fn poll(&mut self, list: &mut [libc::pollfd], timeout: c_int) -> Result<usize, Errno> {
        self.device().poll(list, timeout)
    }
}
