//! The ring itself: memory that is shared with the kernel, and the calls on it.
//!
//! Requests go into the submission queue, completions come from the completion queue, and one call,
//! [`Ring::enter`], submits the former and waits for the latter. All `unsafe` code of this backend is
//! here. The structures are the kernel's, from `linux/io_uring.h`; libc has the numbers of the calls
//! alone.
//!
//! The thread that opened a ring is the only one that may enter it (`IORING_SETUP_SINGLE_ISSUER`).
//! In return the kernel does the work of a wake-up in that thread's next call
//! (`IORING_SETUP_DEFER_TASKRUN`) and interrupts it for none.

#![allow(
    unsafe_code,
    reason = "the queues are memory that the kernel shares, and the calls are made by number"
)]

use std::{
    ffi::{c_int, c_long, c_uint, c_void},
    fmt, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rustix::io::Errno;

use crate::{Error, Result, sys::epoll::KernelTimespec};

/// What a ring does for the backend.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// `IORING_OP_POLL_ADD`.
    Watch {
        fd: RawFd,
        /// In the flags of poll.
        flags: u32,
        /// Each wake-up makes a completion, until one has no `more`.
        multishot: bool,
        name: u64,
    },
    /// `IORING_OP_POLL_REMOVE`. It completes only if it fails; the cancelled request completes with
    /// `ECANCELED`.
    Cancel { name: u64, target: u64 },
    /// `IORING_OP_ASYNC_CANCEL` of every request.
    CancelAll { name: u64 },
}

/// The result of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    /// The name of the request.
    pub(super) name: u64,
    /// Flags of poll, or the error.
    pub(super) result: Result<u32, Errno>,
    /// The request goes on.
    pub(super) more: bool,
}

/// How a call ended that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// There are as many completions as were asked for; or a call with requests ended for another
    /// reason, which the kernel does not report.
    Returned,
    TimedOut,
}

/// How many requests fit into the submission queue; then it is submitted early.
const REQUESTS: u32 = 256;

/// How many completions fit into the completion queue. The kernel keeps those beyond it apart.
const COMPLETIONS: u32 = 4096;

pub(super) struct Ring {
    fd: OwnedFd,
    /// Both queues.
    queues: Mapping,
    requests: Mapping,
    offsets: Params,
    /// Our copy: only this side writes it.
    submission_tail: u32,
    /// Our copy: only this side writes it.
    completion_head: u32,
}

// SAFETY: the pointers of the mappings belong to this ring alone, and go wherever it goes. The
// kernel refuses calls of another thread, and its own accesses are by atomics.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring for the calling thread.
    pub(super) fn open() -> Result<Self> {
        Self::with_room_for(COMPLETIONS)
    }

    /// Opens a ring whose completion queue has this length.
    pub(super) fn with_room_for(completions: u32) -> Result<Self> {
        let mut params = Params {
            completions,
            flags: setup::CQSIZE
                | setup::CLAMP
                | setup::SUBMIT_ALL
                | setup::TASKRUN_FLAG
                | setup::SINGLE_ISSUER
                | setup::DEFER_TASKRUN,
            ..Params::default()
        };
        // SAFETY: the kernel reads and writes `params`, which outlives the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_io_uring_setup,
                REQUESTS.min(completions),
                &raw mut params,
            )
        };
        let fd = number(fd).map_err(refused)?;
        // SAFETY: the call has just returned it, so nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let queues = params.queues_len();
        let requests = params.requests as usize * size_of::<SubmissionEntry>();
        let mut ring = Self {
            queues: Mapping::of(&fd, queues, 0)?,
            requests: Mapping::of(&fd, requests, REQUESTS_AT)?,
            fd,
            submission_tail: 0,
            completion_head: 0,
            offsets: params,
        };
        ring.number_requests();
        Ok(ring)
    }

    /// Fills the list of indices into the requests: each place has its own, for good.
    fn number_requests(&mut self) {
        for index in 0..self.offsets.requests {
            let place = self.offsets.submission.array + index * 4;
            self.word(place).store(index, Ordering::Relaxed);
        }
    }

    /// Makes room for a request: if there is none, submits what is queued.
    ///
    /// # Errors
    ///
    /// As for [`enter`](Self::enter).
    pub(super) fn make_room(&mut self) -> Result<(), Errno> {
        while self.queued() == self.offsets.requests {
            self.call(0, 0, ptr::null(), 0)?;
        }
        Ok(())
    }

    /// Queues a request, for which there is [room](Self::make_room).
    pub(super) fn push(&mut self, request: Request) {
        assert!(self.queued() < self.offsets.requests, "there is room");
        let index = self.submission_tail & (self.offsets.requests - 1);
        let entries = self.requests.start.cast::<SubmissionEntry>();
        // SAFETY: the index is below the number of entries in the mapping.
        let entry = unsafe { entries.add(index as usize) };
        // SAFETY: the kernel has read the previous request in this place: there was room.
        unsafe { entry.write(request.into()) };
        self.submission_tail = self.submission_tail.wrapping_add(1);
        // Release: the entry is written first.
        self.word(self.offsets.submission.tail)
            .store(self.submission_tail, Ordering::Release);
    }

    /// How many requests are not submitted yet.
    pub(super) fn queued(&self) -> u32 {
        let head = self.word(self.offsets.submission.head);
        // Acquire: the kernel has read the entries before the head.
        self.submission_tail
            .wrapping_sub(head.load(Ordering::Acquire))
    }

    /// Submits what is queued, does the deferred work, and waits until there are `least` completions,
    /// for at most `timeout`, which is a few weeks at most. `None` waits without limit.
    ///
    /// # Errors
    ///
    /// [`Errno::EXIST`]: another thread opened the ring. [`Errno::INTR`]: a signal came.
    /// [`Errno::BADR`]: completions were lost, because the kernel had no memory.
    pub(super) fn enter(
        &mut self,
        least: u32,
        timeout: Option<Duration>,
    ) -> Result<Entered, Errno> {
        loop {
            let queued = self.queued();
            let submitted = match timeout {
                Some(timeout) if least > 0 => {
                    let limit = KernelTimespec::from(timeout);
                    let argument = WaitArgument {
                        timeout: (&raw const limit).addr() as u64,
                        ..WaitArgument::default()
                    };
                    let length = size_of::<WaitArgument>();
                    self.call(
                        least,
                        enter::GETEVENTS | enter::EXT_ARG,
                        (&raw const argument).cast(),
                        length,
                    )
                }
                _ => self.call(least, enter::GETEVENTS, ptr::null(), 0),
            };
            match submitted {
                Err(Errno::TIME) => return Ok(Entered::TimedOut),
                // Without memory, the kernel takes some, and then does not wait.
                Ok(submitted) if submitted < queued => {}
                submitted => return submitted.map(|_| Entered::Returned),
            }
        }
    }

    /// Makes the call. `argument` is null, or points to what `flags` say.
    fn call(
        &mut self,
        least: u32,
        flags: c_uint,
        argument: *const c_void,
        length: usize,
    ) -> Result<u32, Errno> {
        // SAFETY: the requests hold no pointer, and the argument is null or outlives the call.
        let submitted = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd.as_raw_fd(),
                self.queued(),
                least,
                flags,
                argument,
                length,
            )
        };
        number(submitted).map(c_int::unsigned_abs)
    }

    /// The first completion.
    pub(super) fn first(&self) -> Option<Completion> {
        let tail = self.word(self.offsets.completion.tail);
        // Acquire: the kernel has written the completions before the tail.
        if tail.load(Ordering::Acquire) == self.completion_head {
            return None;
        }
        let index = self.completion_head & (self.offsets.completions - 1);
        let start = self.at(self.offsets.completion.entries);
        // SAFETY: the index is below the number of entries in the mapping.
        let entry = unsafe { start.cast::<CompletionEntry>().add(index as usize) };
        // SAFETY: the kernel has written this entry, and does not reuse it before the head moves.
        let entry = unsafe { entry.read() };
        Some(entry.into())
    }

    /// Gives the place of the first completion back to the kernel.
    pub(super) fn drop_first(&mut self) {
        self.completion_head = self.completion_head.wrapping_add(1);
        // Release: the entry was read first.
        self.word(self.offsets.completion.head)
            .store(self.completion_head, Ordering::Release);
    }

    /// Whether wake-ups came that have made no completion yet, or completions wait outside of the
    /// queue: a call finds more.
    pub(super) fn has_more(&self) -> bool {
        self.has_flag(flag::TASKRUN | flag::CQ_OVERFLOW)
    }

    /// Whether completions wait outside of the queue, which is full.
    pub(super) fn has_overflowed(&self) -> bool {
        self.has_flag(flag::CQ_OVERFLOW)
    }

    fn has_flag(&self, flags: u32) -> bool {
        // Acquire: as from the kernel that has set it.
        let found = self
            .word(self.offsets.submission.flags)
            .load(Ordering::Acquire);
        found & flags != 0
    }

    /// One of the words that the kernel shares.
    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the kernel gave this offset, which is aligned; the mapping lives as long as `self`.
        unsafe { self.at(offset).cast::<AtomicU32>().as_ref() }
    }

    fn at(&self, offset: u32) -> NonNull<u8> {
        debug_assert!((offset as usize) < self.queues.len);
        // SAFETY: the kernel gave this offset, which is inside of the mapping.
        unsafe { self.queues.start.add(offset as usize) }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}

/// Memory of the ring.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn of(ring: &OwnedFd, len: usize, offset: libc::off_t) -> Result<Self> {
        // SAFETY: the kernel chooses the place, so nothing else is replaced.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                ring.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::os("mmap(io_uring)")(last_errno()));
        }
        let start = NonNull::new(start.cast()).expect("a mapping does not begin at 0");
        Ok(Self { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole of a mapping that was made here, and nothing borrows from it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Looks what is ready of `fds` now, without waiting.
pub(super) fn poll_now(fds: &mut [libc::pollfd]) -> Result<(), Errno> {
    let count = libc::nfds_t::try_from(fds.len()).expect("there are not so many descriptors");
    loop {
        // SAFETY: the kernel reads and writes the `count` entries.
        let found = unsafe { libc::poll(fds.as_mut_ptr(), count, 0) };
        match number(c_long::from(found)) {
            Err(Errno::INTR) => {}
            found => return found.map(drop),
        }
    }
}

/// The refusal of a ring.
fn refused(errno: Errno) -> Error {
    match errno {
        // The flags that older kernels do not have.
        Errno::INVAL => Error::os("io_uring_setup (Linux 6.1 or later is needed)")(errno),
        // A sandbox, or the sysctl `kernel.io_uring_disabled`.
        Errno::PERM | Errno::NOSYS => {
            Error::os("io_uring_setup (this system does not permit it)")(errno)
        }
        _ => Error::os("io_uring_setup")(errno),
    }
}

/// The result of a call.
fn number(result: c_long) -> Result<c_int, Errno> {
    match c_int::try_from(result) {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(last_errno()),
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// The offset of the requests in the ring's file.
const REQUESTS_AT: libc::off_t = 0x1000_0000;

/// `IORING_SETUP_*`
mod setup {
    pub(super) const CQSIZE: u32 = 1 << 3;
    pub(super) const CLAMP: u32 = 1 << 4;
    pub(super) const SUBMIT_ALL: u32 = 1 << 7;
    pub(super) const TASKRUN_FLAG: u32 = 1 << 9;
    pub(super) const SINGLE_ISSUER: u32 = 1 << 12;
    pub(super) const DEFER_TASKRUN: u32 = 1 << 13;
}

/// `IORING_ENTER_*`
mod enter {
    pub(super) const GETEVENTS: u32 = 1;
    pub(super) const EXT_ARG: u32 = 1 << 3;
}

/// `IORING_SQ_*`
mod flag {
    pub(super) const CQ_OVERFLOW: u32 = 1 << 1;
    pub(super) const TASKRUN: u32 = 1 << 2;
}

/// `IORING_OP_*`, and their flags.
mod op {
    pub(super) const POLL_ADD: u8 = 6;
    pub(super) const POLL_REMOVE: u8 = 7;
    pub(super) const ASYNC_CANCEL: u8 = 14;

    pub(super) const POLL_ADD_MULTI: u32 = 1;
    pub(super) const CANCEL_ALL_OF_ANY: u32 = 1 | 1 << 2;
    /// `IOSQE_CQE_SKIP_SUCCESS`
    pub(super) const SKIP_SUCCESS: u8 = 1 << 6;
    /// `IORING_CQE_F_MORE`
    pub(super) const MORE: u32 = 1 << 1;
}

/// `struct io_uring_params`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Params {
    requests: u32,
    completions: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    submission: SubmissionOffsets,
    completion: CompletionOffsets,
}

impl Params {
    /// The length of the mapping of both queues (`IORING_FEAT_SINGLE_MMAP`, since Linux 5.4).
    fn queues_len(&self) -> usize {
        let entries = self.completions as usize * size_of::<CompletionEntry>();
        let completions = self.completion.entries as usize + entries;
        let array = self.requests as usize * size_of::<u32>();
        completions.max(self.submission.array as usize + array)
    }
}

/// `struct io_sqring_offsets`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    length: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

/// `struct io_cqring_offsets`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    length: u32,
    overflow: u32,
    entries: u32,
    flags: u32,
    reserved: u32,
    user_address: u64,
}

/// `struct io_uring_sqe`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SubmissionEntry {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    offset: u64,
    address: u64,
    length: u32,
    op_flags: u32,
    name: u64,
    buffer: u16,
    personality: u16,
    file_index: u32,
    rest: [u64; 2],
}

/// `struct io_uring_cqe`
#[repr(C)]
#[derive(Clone, Copy)]
struct CompletionEntry {
    name: u64,
    result: i32,
    flags: u32,
}

/// `struct io_uring_getevents_arg`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct WaitArgument {
    signals: u64,
    signals_len: u32,
    least_wait: u32,
    /// The address of a timespec.
    timeout: u64,
}

const _: () = {
    assert!(size_of::<Params>() == 120);
    assert!(size_of::<SubmissionEntry>() == 64);
    assert!(size_of::<CompletionEntry>() == 16);
    assert!(size_of::<WaitArgument>() == 24);
};

impl From<Request> for SubmissionEntry {
    fn from(request: Request) -> Self {
        let none = Self {
            fd: -1,
            ..Self::default()
        };
        match request {
            Request::Watch {
                fd,
                flags,
                multishot,
                name,
            } => Self {
                opcode: op::POLL_ADD,
                fd,
                length: if multishot { op::POLL_ADD_MULTI } else { 0 },
                // The kernel's two halves are those of a little-endian number.
                op_flags: if cfg!(target_endian = "big") {
                    flags.rotate_left(16)
                } else {
                    flags
                },
                name,
                ..none
            },
            Request::Cancel { name, target } => Self {
                opcode: op::POLL_REMOVE,
                flags: op::SKIP_SUCCESS,
                address: target,
                name,
                ..none
            },
            Request::CancelAll { name } => Self {
                opcode: op::ASYNC_CANCEL,
                op_flags: op::CANCEL_ALL_OF_ANY,
                name,
                ..none
            },
        }
    }
}

impl From<CompletionEntry> for Completion {
    fn from(entry: CompletionEntry) -> Self {
        Self {
            name: entry.name,
            result: u32::try_from(entry.result)
                .map_err(|_| Errno::from_raw_os_error(entry.result.wrapping_neg())),
            more: entry.flags & op::MORE != 0,
        }
    }
}
