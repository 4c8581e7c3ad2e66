//! A model of `/dev/poll`, after illumos' `usr/src/uts/common/io/devpoll.c` (`dpwrite`,
//! `dp_pcache_poll` and `dpioctl`) and, for closes, after `sonode_fini` of its sockets.
//!
//! A call looks only at marked entries. A write marks the entry that it changes, and a driver marks
//! it when the file becomes ready. (The model leaves out drivers that never do so.) A list as long
//! as the limit of descriptors is refused, as in the manual page (illumos itself now shortens the
//! list).

use std::collections::BTreeMap;

use super::{
    super::poll_like::devpoll::{REMOVE, Sys},
    Call, Errno, FIRST, FakeKernel, Machine, REAL, RawFd, UNREQUESTED, c_int, c_short, poll,
    recorded,
};

#[derive(Debug, Default)]
struct Entry {
    /// The file; `None` if the entry was removed, or if its number was not open when the entry was
    /// written.
    file: Option<u64>,
    flags: c_short,
    is_marked: bool,
    /// The file whose changes mark the entry.
    marked_by: Option<u64>,
}

#[derive(Debug, Default)]
pub(in crate::sys) struct Device {
    entries: BTreeMap<RawFd, Entry>,
    /// The number at which the next call begins to look.
    scan_from: RawFd,
    /// Number of writes that will fail from now on, without applying a change.
    pub(in crate::sys) failing_writes: usize,
    /// True if the last close of an idle file does not mark its entries.
    pub(in crate::sys) closes_silently: bool,
    pub(in crate::sys) is_in_child: bool,
    /// The limit on descriptors of the process; `None` if it is higher than any test needs.
    pub(in crate::sys) limit: Option<usize>,
}

impl Device {
    /// Handles the last close of a file. No entry is removed.
    pub(super) fn close(&mut self, file: u64) {
        for entry in self.entries.values_mut() {
            if entry.marked_by == Some(file) {
                entry.marked_by = None;
                entry.is_marked |= !self.closes_silently;
            }
        }
    }

    pub(super) fn mark(&mut self, file: u64) {
        for entry in self.entries.values_mut() {
            entry.is_marked |= entry.marked_by == Some(file);
        }
    }

    /// The simulated descriptors whose entry has flags or a file, with those flags.
    pub(super) fn watched(&self) -> impl Iterator<Item = (RawFd, c_short)> {
        let ours = self.entries.range(FIRST..);
        let present = ours.filter(|(_, entry)| entry.file.is_some() || entry.flags != 0);
        present.map(|(fd, entry)| (*fd, entry.flags))
    }

    fn watches_waker(&self) -> bool {
        let mut real = self.entries.range(..FIRST);
        real.any(|(_, entry)| entry.file.is_some() && entry.flags == libc::POLLIN)
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

    fn remove(&mut self, fd: RawFd) {
        let entry = self.entries.get_mut(&fd);
        if let Some(entry) = entry.filter(|entry| entry.file.is_some()) {
            *entry = Entry::default();
        }
    }
}

impl Machine {
    fn write_entry(&mut self, fd: RawFd, flags: c_short) -> Result<(), Errno> {
        let (file, ready) = (self.file(fd), self.ready(fd));
        let entry = self.device.entries.entry(fd).or_default();
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
    fn look_at_entry(&mut self, fd: RawFd) -> c_short {
        if self.device.entries[&fd].file.is_none() {
            return 0;
        }
        let (Some(file), Some(ready)) = (self.file(fd), self.ready(fd)) else {
            return libc::POLLNVAL;
        };
        let entry = self.device.entries.get_mut(&fd).expect("it is there");
        entry.file = Some(file);
        let found = ready & (entry.flags | UNREQUESTED);
        if found == 0 && file != REAL {
            entry.marked_by = Some(file);
            entry.is_marked = false;
        }
        found
    }

    /// Fills the list from the marked entries, in a circle from `scan_from` on. Returns the number
    /// of filled places.
    fn scan(&mut self, list: &mut [libc::pollfd]) -> usize {
        let first = self.device.scan_from;
        let entries = &self.device.entries;
        let circle = entries.range(first..).chain(entries.range(..first));
        let marked = circle.filter(|(_, entry)| entry.is_marked);
        let marked: Vec<_> = marked.map(|(fd, _)| *fd).collect();
        let mut count = 0;
        for fd in marked {
            if count == list.len() {
                break;
            }
            let found = self.look_at_entry(fd);
            if found != 0 {
                // `events` is never written, because the kernel does not write it for a closed
                // descriptor.
                (list[count].fd, list[count].revents) = (fd, found);
                count += 1;
            }
        }
        if count == list.len() {
            self.device.scan_from = list[count - 1].fd + 1;
        }
        count
    }
}

impl Sys for FakeKernel {
    fn is_open(&self, fd: RawFd) -> Result<(), Errno> {
        poll::Sys::is_open(self, fd)
    }

    fn write(&mut self, changes: &[libc::pollfd]) -> Result<(), Errno> {
        let mut machine = self.machine();
        assert!(!changes.is_empty(), "the write has no changes");
        let changes = changes.iter().map(|change| (change.fd, change.events));
        let ours = changes.clone().filter(|change| change.0 >= FIRST);
        machine.calls.push(Call::Write(ours.collect()));
        let most = machine.device.limit.unwrap_or(usize::MAX);
        machine.device.check(changes.len(), most)?;
        if machine.device.failing_writes > 0 {
            machine.device.failing_writes -= 1;
            return Err(Errno::IO);
        }
        for (fd, flags) in changes.filter(|change| change.0 >= 0) {
            match flags {
                REMOVE => machine.device.remove(fd),
                flags => machine.write_entry(fd, flags)?,
            }
        }
        Ok(())
    }

    fn poll(&mut self, list: &mut [libc::pollfd], timeout: c_int) -> Result<usize, Errno> {
        let mut machine = self.machine();
        let most = machine.device.limit.map_or(usize::MAX, |limit| limit - 1);
        machine.device.check(list.len(), most)?;
        assert!(!list.is_empty(), "such a call only sleeps");
        let watches_waker = machine.device.watches_waker();
        let timeout = recorded(timeout);
        machine.calls.push(Call::Wait(list.len(), timeout));
        machine.wait(timeout, watches_waker, |machine| machine.scan(list))
    }
}
