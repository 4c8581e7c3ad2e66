//! The system call. Its structure differs between the systems in the width of its fields.
//!
//! rustix has the call too, but its events do not give the `fflags` of a filter for reading or
//! writing, which is the error of a socket.

#![allow(unsafe_code, reason = "kevent is called through libc")]

use std::{
    mem::ManuallyDrop,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    ptr,
    time::Duration,
};

use rustix::{
    event::kqueue::kqueue,
    io::{Errno, FdFlags, fcntl_setfd},
};

use super::kernel::{Change, Event, Filter, Ident, Kernel, flag};
use crate::{
    error::{Error, Result},
    sys::{ForkGuard, errno},
};

#[cfg(target_os = "netbsd")]
type Count = libc::size_t;
#[cfg(not(target_os = "netbsd"))]
type Count = libc::c_int;

/// The room for a peer's address, which is not read.
#[expect(clippy::cast_possible_truncation, reason = "a hundred bytes")]
const ADDRESS_LENGTH: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

pub(in crate::sys) struct System {
    /// The queue, which [`drop`](Self::drop) closes.
    fd: ManuallyDrop<OwnedFd>,
    fork_guard: ForkGuard,
    /// The list is empty between calls, and kept for its allocation.
    changes: Vec<libc::kevent>,
    // Invariant: its length is the highest `limit` of any call so far.
    events: Vec<libc::kevent>,
}

// SAFETY: only the pointers in the two lists keep it from being `Send`. This file stores ids in
// them, and never follows them.
unsafe impl Send for System {}

impl System {
    pub(super) fn open() -> Result<Self> {
        let fd = kqueue().map_err(Error::os("kqueue"))?;
        fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(Error::os("fcntl(F_SETFD)"))?;
        Ok(Self {
            fd: ManuallyDrop::new(fd),
            fork_guard: ForkGuard::new(),
            changes: Vec::new(),
            events: Vec::new(),
        })
    }
}

/// Closes the queue, unless this is a forked child. A child does not inherit the queue, and the
/// queue's number may belong to another file there.
impl Drop for System {
    fn drop(&mut self) {
        if !self.fork_guard.is_in_child() {
            // SAFETY: nothing uses the descriptor after this.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

impl Kernel for System {
    fn kevent(
        &mut self,
        changes: &[Change],
        limit: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        self.changes.clear();
        self.changes.extend(changes.iter().map(encode));
        if self.events.len() < limit {
            self.events.resize(limit, blank());
        }
        let timeout = timeout.map(timespec);
        // SAFETY: both lists have at least as many entries as the call is given, and `timeout`
        // outlives the call.
        let count = unsafe {
            libc::kevent(
                self.fd.as_raw_fd(),
                self.changes.as_ptr(),
                to_count(self.changes.len()),
                self.events.as_mut_ptr(),
                to_count(limit),
                timeout.as_ref().map_or(ptr::null(), ptr::from_ref),
            )
        };
        usize::try_from(count).map_err(|_| errno::last())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn event(&self, index: usize) -> Event {
        decode(&self.events[index])
    }

    fn is_connected(&self, fd: RawFd) -> bool {
        // SAFETY: the structure holds only numbers, for which all bits are valid.
        let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut length = ADDRESS_LENGTH;
        // SAFETY: the kernel writes at most `length` bytes, which is the size of `address`. For a
        // number that is not a socket's, the call fails.
        let found = unsafe { libc::getpeername(fd, (&raw mut address).cast(), &raw mut length) };
        found == 0
    }
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}

fn encode(change: &Change) -> libc::kevent {
    let mut entry = blank();
    entry.ident = change.ident.0;
    entry.filter = match change.filter {
        Filter::Read => libc::EVFILT_READ,
        Filter::Write => libc::EVFILT_WRITE,
    };
    entry.flags = change.flags.into();
    entry.udata = ptr::without_provenance_mut(change.id as usize);
    entry
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::unnecessary_cast,
    reason = "the kernel gives back what it was given; the widths differ between the systems"
)]
fn decode(entry: &libc::kevent) -> Event {
    Event {
        ident: Ident(entry.ident),
        filter: if entry.filter == libc::EVFILT_READ {
            Filter::Read
        } else {
            Filter::Write
        },
        flags: entry.flags as u16,
        fflags: entry.fflags,
        data: entry.data as i64,
        id: entry.udata.addr() as u32,
    }
}

fn blank() -> libc::kevent {
    // SAFETY: an entry has numbers, and a pointer that is never followed, so any bits are valid.
    unsafe { std::mem::zeroed() }
}

/// Converts a timeout of at most a few weeks.
fn timespec(timeout: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).expect("weeks of seconds fit everywhere"),
        tv_nsec: libc::c_long::try_from(timeout.subsec_nanos()).expect("below 10^9"),
    }
}

fn to_count(len: usize) -> Count {
    Count::try_from(len).unwrap_or(Count::MAX)
}

/// The flags of this backend have the same values as the system's flags.
#[allow(
    clippy::unnecessary_cast,
    reason = "the widths differ between the systems"
)]
const _: () = {
    assert!(flag::ADD as u32 == libc::EV_ADD as u32);
    assert!(flag::DELETE as u32 == libc::EV_DELETE as u32);
    assert!(flag::ONESHOT as u32 == libc::EV_ONESHOT as u32);
    assert!(flag::CLEAR as u32 == libc::EV_CLEAR as u32);
    assert!(flag::RECEIPT as u32 == libc::EV_RECEIPT as u32);
    assert!(flag::ERROR as u32 == libc::EV_ERROR as u32);
    assert!(flag::EOF as u32 == libc::EV_EOF as u32);
};
