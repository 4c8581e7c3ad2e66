//! The process of a descriptor store, which keeps the idle connections of its worker if the worker
//! dies. It exists on Linux only.
//!
//! A store shares the descriptor table of its worker (`CLONE_FILES`), so the connections stay open,
//! whatever ends the worker. A connection costs the store one byte, its mark.
//!
//! # What the store may do
//!
//! Worker and store share one descriptor table, but each has its own memory. While the worker
//! lives, the store must neither open nor close a descriptor, so it waits in `poll`. The store is
//! made while the worker has one thread, so no lock is held in the store's memory.
//!
//! # Whose child it is
//!
//! A store is a child of the master (`CLONE_PARENT`). The master reaps it, and it dies with the
//! master (`PR_SET_PDEATHSIG`). Before `clone` returns in either process, the kernel writes the
//! store's process id into memory that the master reads (`CLONE_PARENT_SETTID`). So the master
//! finds each store, even if the worker is killed within the call.
//!
//! # What the worker's end leaves
//!
//! The store first closes all descriptors that are not kept. Until then the worker's listeners and
//! its poller are open. No client is missed meanwhile, because the kernel passes over a poller in
//! which no process waits.

#![allow(
    unsafe_code,
    reason = "clone, and descriptors that are known by their numbers"
)]

use std::{
    io,
    mem::{self, MaybeUninit},
    ops::RangeInclusive,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    panic::{self, AssertUnwindSafe},
    ptr,
    sync::atomic::{AtomicI32, AtomicU8, Ordering::Acquire},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{SocketType, getpeername, sockopt::socket_type},
    process::{
        Pid, PidfdFlags, Resource, Signal, getpid, getppid, getrlimit, pidfd_open,
        set_parent_process_death_signal,
    },
};

use crate::{
    error::{Error, Result},
    exit::WorkerInfo,
    idle_marks::{self, Marked, RETURNED},
    kept::{HandOn, Kept, KeptCounts},
    shared_slice::shared_slice,
    store_place::StorePlace,
};

/// The most descriptors of a worker that can be marked. The marks take a byte each, once they are
/// used.
const DESCRIPTORS_MAX: u64 = 1 << 22;

/// Returns an error unless the kernel has all that a store needs.
pub(crate) fn require() -> Result<()> {
    let needed = "looking for the calls of a descriptor store (pidfd_open, close_range; Linux 5.9)";
    pidfd_open(getpid(), PidfdFlags::empty()).map_err(Error::os(needed))?;
    // This closes nothing, because the highest number is not a descriptor.
    close(u32::MAX..=u32::MAX).map_err(Error::os(needed))
}

/// Makes the store of this worker process, which must have one thread. Returns the marks of the
/// worker's descriptors, indexed by their numbers. `place` gets the store's process id and its
/// report.
///
/// # Errors
///
/// The kernel's error. The worker then serves without a store.
pub(crate) fn begin(
    worker: WorkerInfo,
    master: Pid,
    place: &'static StorePlace,
    successors: Successors,
    hand_on: &HandOn<'_>,
) -> io::Result<&'static [AtomicU8]> {
    let most = getrlimit(Resource::Nofile).maximum;
    let most = most.unwrap_or(DESCRIPTORS_MAX).clamp(4, DESCRIPTORS_MAX);
    let most = usize::try_from(most).expect("the number is at most DESCRIPTORS_MAX");
    let marks = shared_slice::<AtomicU8>(most)?;
    let worker_end = pidfd_open(getpid(), PidfdFlags::empty())?;
    if clone_with_descriptors(&place.pid)? {
        let store = Store {
            worker,
            master,
            worker_end,
            place,
            successors,
            marks,
        };
        store.run(hand_on);
    }
    // A descriptor that was dropped here would be closed in the store, too.
    mem::forget(worker_end);
    Ok(marks)
}

/// Makes a process as `fork` does, but the new process shares the descriptor table of this one and
/// has the same parent. Returns true in the new process.
fn clone_with_descriptors(number: &AtomicI32) -> io::Result<bool> {
    let flags = libc::CLONE_FILES | libc::CLONE_PARENT | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
    let (flags, stack) = (libc::c_long::from(flags), 0);
    // On s390x the first two arguments are swapped.
    let (first, second) = match cfg!(target_arch = "s390x") {
        true => (stack, flags),
        false => (flags, stack),
    };
    // SAFETY: without a stack of its own and without `CLONE_VM` it is a fork: the new process has a
    // copy of the memory. This process has one thread, so no lock is held. `number` outlives the
    // call.
    let pid = unsafe { libc::syscall(libc::SYS_clone, first, second, number.as_ptr(), 0, 0) };
    match pid {
        ..0 => Err(io::Error::last_os_error()),
        pid => Ok(pid == 0),
    }
}

/// The successors of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successors {
    /// The sending ends of their mailboxes. The first one is for workers of the same master, and
    /// the second one for workers of another binary. The worker keeps both ends open.
    pub(crate) mailboxes: [RawFd; 2],
    /// The kind of the successor, which the master writes.
    pub(crate) kind: &'static AtomicU8,
}

struct Store {
    worker: WorkerInfo,
    master: Pid,
    worker_end: OwnedFd,
    place: &'static StorePlace,
    successors: Successors,
    marks: &'static [AtomicU8],
}

impl Store {
    /// Waits until the worker has ended, and hands on the connections that it has left. Does not
    /// return, because the caller's values are copies of the worker's.
    fn run(self, hand_on: &HandOn<'_>) -> ! {
        let handed_on = panic::catch_unwind(AssertUnwindSafe(|| self.keep(hand_on)));
        end(handed_on.is_err().into())
    }

    fn keep(self, hand_on: &HandOn<'_>) {
        ignore_signals();
        // The name is only for people to read, so a failure does not matter.
        let _ = rustix::thread::set_name(c"descriptor store");
        let dies = set_parent_process_death_signal(Some(Signal::KILL));
        if dies.is_err() || getppid() != Some(self.master) {
            end(1);
        }
        if wait_for(self.worker_end.as_fd()).is_err() || self.has_returned() {
            end(0);
        }
        // Reading `/proc` needs a descriptor, and the worker may have used up its limit. This drop
        // frees one.
        drop(self.worker_end);
        let Marked { idle, busy } = idle_marks::marked(idle_marks::of_open(self.marks));
        let Successors { mailboxes, kind } = self.successors;
        let all = idle.iter().copied().chain(mailboxes);
        for range in idle_marks::all_but(all.collect()) {
            if close(range).is_err() {
                end(1);
            }
        }
        let all = idle.len() + busy;
        let descriptors = idle.into_iter().filter_map(connection);
        let taken = hand_on(Kept {
            worker: self.worker,
            descriptors: descriptors.collect(),
            // SAFETY: the table has kept them open, and nothing else uses them.
            mailboxes: mailboxes.map(|end| unsafe { OwnedFd::from_raw_fd(end) }),
            successor: kind,
        });
        // The application has counted the taken connections, so the number may be too high.
        let taken = taken.min(all);
        let lost = all - taken;
        self.place.report(KeptCounts { taken, lost });
    }

    fn has_returned(&self) -> bool {
        self.marks[0].load(Acquire) == RETURNED
    }
}

/// Takes a marked descriptor. Closes it if it is not a stream connection, because the mark was then
/// a mistake.
fn connection(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: it is borrowed for these calls, which fail if it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    if socket_type(fd) != Ok(SocketType::STREAM) || getpeername(fd).is_err() {
        let number =
            u32::try_from(number).expect("the number of a marked descriptor is not negative");
        let _ = close(number..=number);
        return None;
    }
    // SAFETY: it is open, and the worker that owned it is gone.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

fn wait_for(process: BorrowedFd<'_>) -> Result<(), Errno> {
    loop {
        let mut ended = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
        match poll(&mut ended, None) {
            Err(Errno::INTR) => {}
            polled => return polled.map(drop),
        }
    }
}

/// Blocks all signals, because a stop signal for the whole process group must not end the store.
fn ignore_signals() {
    let mut all = MaybeUninit::uninit();
    // SAFETY: the call fills the set, which it gets as a pointer to memory of its size.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set is filled, and the old one is not requested.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut()) };
}

fn close(range: RangeInclusive<u32>) -> io::Result<()> {
    let (first, last) = (*range.start(), *range.end());
    // SAFETY: after this, a store does not use the worker's values that own these descriptors. It
    // ends by `_exit`, so the destructors of these values do not run. The call in `require` closes
    // nothing.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends this process without destructors, and without writing output that the worker has buffered.
fn end(code: i32) -> ! {
    // SAFETY: it takes a number, and does not return.
    unsafe { libc::_exit(code) }
}
