//! The ring itself: memory that is shared with the kernel, and the calls on it. All `unsafe` code
//! of this backend is here.
//!
//! Only the thread that opened a ring may enter it (`IORING_SETUP_SINGLE_ISSUER`). In return the
//! kernel does not interrupt that thread for a wake-up. It does the work of the wake-up in the
//! thread's next call with `IORING_ENTER_GETEVENTS` (`IORING_SETUP_DEFER_TASKRUN`).

#![allow(unsafe_code, reason = "the queues are memory that the kernel shares")]

use std::{
    fmt,
    os::fd::OwnedFd,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rustix::{
    io::Errno,
    io_uring::{
        IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringCqeFlags, IoringEnterFlags, IoringSetupFlags,
        IoringSqFlags, io_uring_cqe, io_uring_enter, io_uring_enter_arg, io_uring_getevents_arg,
        io_uring_params, io_uring_ptr, io_uring_setup, io_uring_sqe,
    },
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

use super::{
    refusal::{refused, refused_call},
    request::{Completion, Request},
};
use crate::{
    error::{Error, Result},
    sys::epoll::KernelTimespec,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// There are as many completions as were requested, or some must be taken before the kernel can
    /// make more.
    Completed,
    TimedOut,
    /// A timeout or a signal ended a call that had submitted requests. The kernel does not report
    /// which of the two it was.
    Interrupted,
}

/// Number of requests that fit into the submission queue. A full queue is submitted early.
const REQUESTS: u32 = 256;

/// Number of completions that fit into the completion queue. The kernel keeps further completions
/// in a list outside of the queue.
const COMPLETIONS: u32 = 4096;

/// The longest timeout of a call, some 68 years. The kernel adds it to the time since boot, and the
/// sum must fit into nanoseconds of 64 bits.
const LONGEST: Duration = Duration::from_secs(1 << 31);

/// Milliseconds between the attempts of a call that the kernel refuses for now, because it has no
/// memory for a request, or no room for completions. They add up to a second.
const PAUSES_MS: [u64; 11] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

pub(super) struct Ring {
    fd: OwnedFd,
    /// Both queues, into which `shared` points.
    _queues: Mapping,
    requests: Mapping,
    /// The values that the kernel chose: lengths, and offsets into the queues.
    params: io_uring_params,
    shared: Shared,
    /// A copy of the submission queue's tail, which the kernel does not write.
    submission_tail: u32,
    /// The number of the first completion that was not taken. The next call publishes this number.
    completion_head: u32,
    /// The tail of the completion queue, as it was last read.
    completion_tail: u32,
    #[cfg(test)]
    pub(super) calls: u32,
    /// The errors of the next calls, in reverse order.
    #[cfg(test)]
    pub(super) refusals: Vec<Errno>,
    /// Number of calls of `open_next` that will fail from now on.
    #[cfg(test)]
    pub(super) next_refusals: u32,
}

// Invariant: all addresses are in the mapping of the queues, which lives as long as the ring.
struct Shared {
    submission_head: NonNull<AtomicU32>,
    submission_tail: NonNull<AtomicU32>,
    submission_flags: NonNull<AtomicU32>,
    completion_head: NonNull<AtomicU32>,
    completion_tail: NonNull<AtomicU32>,
    completions: NonNull<io_uring_cqe>,
}

// SAFETY: the pointers of the mappings belong only to this ring, and move with it. The kernel
// refuses calls of another thread, and its own accesses are by atomics.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring for the calling thread.
    pub(super) fn open() -> Result<Self> {
        Self::with_room_for(COMPLETIONS)
    }

    /// Opens the ring that replaces this one.
    pub(super) fn open_next(&mut self) -> Result<Self> {
        #[cfg(test)]
        if self.next_refusals > 0 {
            self.next_refusals -= 1;
            return Err(refused(Errno::MFILE));
        }
        Self::open()
    }

    /// Opens a ring whose completion queue has this length, and tries the call that uses it: a
    /// sandbox may permit `io_uring_setup` and deny `io_uring_enter`.
    pub(super) fn with_room_for(completions: u32) -> Result<Self> {
        let mut params = io_uring_params::default();
        params.cq_entries = completions;
        params.flags = IoringSetupFlags::CQSIZE
            | IoringSetupFlags::CLAMP
            | IoringSetupFlags::SUBMIT_ALL
            | IoringSetupFlags::TASKRUN_FLAG
            | IoringSetupFlags::SINGLE_ISSUER
            | IoringSetupFlags::DEFER_TASKRUN;
        // SAFETY: without `ATTACH_WQ`, the call takes no descriptor.
        let fd = unsafe { io_uring_setup(REQUESTS.min(completions), &mut params) };
        let fd = fd.map_err(refused)?;
        let queues = Mapping::of(&fd, queues_len(&params), IORING_OFF_SQ_RING)?;
        let requests = params.sq_entries as usize * size_of::<io_uring_sqe>();
        number_requests(&queues, &params);
        let mut ring = Self {
            shared: Shared::of(&queues, &params),
            _queues: queues,
            requests: Mapping::of(&fd, requests, IORING_OFF_SQES)?,
            fd,
            submission_tail: 0,
            completion_head: 0,
            completion_tail: 0,
            #[cfg(test)]
            calls: 0,
            #[cfg(test)]
            refusals: Vec::new(),
            #[cfg(test)]
            next_refusals: 0,
            params,
        };
        ring.enter(0, None).map_err(refused_call)?;
        Ok(ring)
    }

    /// Submits the queue if it is full, so that there is room for a request.
    ///
    /// # Errors
    ///
    /// The errors of [`submit`](Self::submit).
    pub(super) fn make_room(&mut self) -> Result<(), Errno> {
        if self.queued() == self.params.sq_entries {
            self.submit()?;
        }
        Ok(())
    }

    /// Submits the queue, and does no deferred work. So each completion that this makes belongs to
    /// a request that completed while it was submitted.
    ///
    /// # Errors
    ///
    /// [`Errno::EXIST`] and [`Errno::AGAIN`] as for [`enter`](Self::enter). [`Errno::BUSY`]: the
    /// kernel has no room for completions.
    pub(super) fn submit(&mut self) -> Result<(), Errno> {
        while self.queued() > 0 {
            self.call(self.queued(), 0, IoringEnterFlags::empty(), None)?;
        }
        Ok(())
    }

    /// Queues a request, for which there is [room](Self::make_room).
    pub(super) fn push(&mut self, request: Request) {
        assert!(self.queued() < self.params.sq_entries, "there is room");
        let index = self.submission_tail & (self.params.sq_entries - 1);
        let entry = self.requests.entry::<io_uring_sqe>(0, index);
        // SAFETY: the place is in the mapping, which begins at a page, so it is aligned. The kernel
        // has read the previous request in it, because there was room.
        unsafe { entry.write(request.into()) };
        self.submission_tail = self.submission_tail.wrapping_add(1);
        let tail = self.word(self.shared.submission_tail);
        // Release, because the entry must be written before the tail moves.
        tail.store(self.submission_tail, Ordering::Release);
    }

    #[inline]
    pub(super) fn queued(&self) -> u32 {
        let head = self.word(self.shared.submission_head);
        // Acquire, because the kernel reads the entries before it moves the head.
        self.submission_tail
            .wrapping_sub(head.load(Ordering::Acquire))
    }

    /// Submits the queue, does deferred work, and waits until there are `least` completions, but at
    /// most for `timeout`, which is limited to [`LONGEST`]. `None` waits without limit.
    ///
    /// # Errors
    ///
    /// [`Errno::EXIST`]: another thread opened the ring. [`Errno::INTR`]: a signal ended a call
    /// that had submitted nothing. [`Errno::BADR`]: completions were lost, because the kernel had
    /// no memory. [`Errno::AGAIN`] or [`Errno::BUSY`]: during all of the [pauses](PAUSES_MS), the
    /// kernel had no memory for a request, or no room for completions.
    pub(super) fn enter(
        &mut self,
        least: u32,
        timeout: Option<Duration>,
    ) -> Result<Entered, Errno> {
        let timeout = timeout.filter(|_| least > 0);
        let timeout = timeout.map(|timeout| timeout.min(LONGEST));
        loop {
            let queued = self.queued();
            match self.call(queued, least, IoringEnterFlags::GETEVENTS, timeout) {
                Err(Errno::TIME) => return Ok(Entered::TimedOut),
                // The completions must be taken first. The next call submits the queue.
                Err(Errno::BUSY) if self.completed() > 0 => return Ok(Entered::Completed),
                // Without memory, the kernel takes some of the requests, and does not wait.
                Ok(submitted) if submitted < queued => {}
                Ok(_) if self.completed() < least.min(self.params.cq_entries) => {
                    return Ok(Entered::Interrupted);
                }
                submitted => return submitted.map(|_| Entered::Completed),
            }
        }
    }

    /// Waits without limit for a completion, and does deferred work. The submission queue must be
    /// empty. If the kernel refuses the call for now, this returns without a completion, and the
    /// caller goes on with [`enter`](Self::enter), which repeats such a call.
    ///
    /// # Errors
    ///
    /// [`Errno::EXIST`], [`Errno::INTR`] and [`Errno::BADR`] as for [`enter`](Self::enter).
    #[inline]
    pub(super) fn wait_for_one(&mut self) -> Result<(), Errno> {
        match self.call_once(0, 1, IoringEnterFlags::GETEVENTS, None) {
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Makes one call, and repeats it if it is refused for now. The call submits up to `queued`
    /// requests, and frees the places of taken completions. Returns the number of submitted
    /// requests.
    #[inline]
    fn call(
        &mut self,
        queued: u32,
        least: u32,
        flags: IoringEnterFlags,
        timeout: Option<Duration>,
    ) -> Result<u32, Errno> {
        let result = self.call_once(queued, least, flags, timeout);
        let Err(mut refusal @ (Errno::AGAIN | Errno::BUSY)) = result else {
            return result;
        };
        for pause in PAUSES_MS {
            if refusal == Errno::BUSY && self.completed() > 0 {
                break;
            }
            pause_for(Duration::from_millis(pause));
            match self.call_once(queued, least, flags, timeout) {
                Err(again @ (Errno::AGAIN | Errno::BUSY)) => refusal = again,
                result => return result,
            }
        }
        Err(refusal)
    }

    #[inline(always)]
    fn call_once(
        &mut self,
        queued: u32,
        least: u32,
        flags: IoringEnterFlags,
        timeout: Option<Duration>,
    ) -> Result<u32, Errno> {
        #[cfg(test)]
        {
            self.calls += 1;
            if let Some(refusal) = self.refusals.pop() {
                return Err(refusal);
            }
        }
        let head = self.word(self.shared.completion_head);
        // Release, because the completions must be read before the head moves.
        head.store(self.completion_head, Ordering::Release);
        let Some(timeout) = timeout else {
            // SAFETY: the requests hold no pointer.
            return unsafe { io_uring_enter(&self.fd, queued, least, flags) };
        };
        let limit = KernelTimespec::from(timeout);
        let argument = io_uring_getevents_arg {
            ts: io_uring_ptr::new(ptr::from_ref(&limit).cast_mut().cast()),
            ..io_uring_getevents_arg::default()
        };
        let flags = flags | IoringEnterFlags::EXT_ARG;
        // SAFETY: the requests hold no pointer. The kernel reads `limit`, which outlives the call;
        // there is no signal mask.
        unsafe { io_uring_enter_arg(&self.fd, queued, least, flags, Some(&argument)) }
    }

    #[inline]
    fn completed(&self) -> u32 {
        self.completions_end().wrapping_sub(self.completion_head)
    }

    /// Returns the number of the next completion that the kernel will write.
    #[inline]
    pub(super) fn completions_end(&self) -> u32 {
        let tail = self.word(self.shared.completion_tail);
        // Acquire, because the kernel writes the completions before it moves the tail.
        tail.load(Ordering::Acquire)
    }

    /// Returns the completions from the number `start` on, which must not have been taken.
    pub(super) fn completions_since(&self, start: u32) -> impl Iterator<Item = Completion> + '_ {
        let count = self.completions_end().wrapping_sub(start);
        assert!(
            count <= self.completed(),
            "completion {start} was taken already"
        );
        (0..count).map(move |nth| self.completion(start.wrapping_add(nth)))
    }

    /// Returns the first completion that is not taken yet, and leaves it in the queue.
    #[inline]
    pub(super) fn first(&mut self) -> Option<Completion> {
        if self.completion_head == self.completion_tail {
            self.completion_tail = self.completions_end();
            if self.completion_head == self.completion_tail {
                return None;
            }
        }
        Some(self.completion(self.completion_head))
    }

    #[inline]
    fn completion(&self, number: u32) -> Completion {
        self.entry(number).into()
    }

    /// Returns the entry of the completion with this number, which must be in the queue.
    #[inline(always)]
    fn entry(&self, number: u32) -> &io_uring_cqe {
        let index = number & (self.params.cq_entries - 1);
        // SAFETY: the place is in the mapping, because the index is less than the queue's length,
        // which is a power of two.
        let entry = unsafe { self.shared.completions.add(index as usize) };
        // SAFETY: the kernel has aligned and written this entry, and does not reuse it before the
        // head moves.
        unsafe { entry.as_ref() }
    }

    /// Returns the name of the request (`user_data`) and the poll flags of the first completion.
    /// Returns `None` if there is no completion, if it is an error, or if its request has ended (no
    /// `IORING_CQE_F_MORE`).
    #[inline]
    pub(super) fn first_with_more(&mut self) -> Option<(u64, u32)> {
        self.completion_tail = self.completions_end();
        if self.completion_head == self.completion_tail {
            return None;
        }
        let first = self.entry(self.completion_head);
        let found = u32::try_from(first.res).ok()?;
        let goes_on = first.flags.contains(IoringCqeFlags::MORE);
        goes_on.then_some((first.user_data.u64_(), found))
    }

    /// Takes the first completion. From the next call on, the kernel may reuse its place.
    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.completion_head = self.completion_head.wrapping_add(1);
    }

    /// Registers `eventfd`, to which the kernel then writes for each completion.
    #[cfg(test)]
    pub(super) fn notify(&self, eventfd: &OwnedFd) -> Result<(), Errno> {
        let number = std::os::fd::AsRawFd::as_raw_fd(eventfd);
        let operation = rustix::io_uring::IoringRegisterOp::RegisterEventfd;
        // SAFETY: the kernel reads one `int`, which outlives the call.
        let result = unsafe {
            rustix::io_uring::io_uring_register(
                &self.fd,
                operation,
                ptr::from_ref(&number).cast(),
                1,
            )
        };
        result.map(drop)
    }

    /// Returns whether all completions up to the last-read tail are taken, and there are no
    /// [more](Self::has_more).
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.completion_head == self.completion_tail && !self.has_more()
    }

    /// Returns whether [`enter`](Self::enter) may add completions to the queue, because there is
    /// deferred work, or because completions wait outside of the queue.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.has_flag(IoringSqFlags::TASKRUN | IoringSqFlags::CQ_OVERFLOW)
    }

    /// Returns whether there is deferred work: wake-ups and cancellations that have made no
    /// completion yet.
    pub(super) fn has_work(&self) -> bool {
        self.has_flag(IoringSqFlags::TASKRUN)
    }

    /// Returns whether completions wait outside of the queue, which was full.
    #[cfg(test)]
    pub(super) fn has_overflowed(&self) -> bool {
        self.has_flag(IoringSqFlags::CQ_OVERFLOW)
    }

    #[inline]
    fn has_flag(&self, flags: IoringSqFlags) -> bool {
        // Acquire, because the kernel sets the flag after the writes that it announces.
        let found = self
            .word(self.shared.submission_flags)
            .load(Ordering::Acquire);
        IoringSqFlags::from_bits_retain(found).intersects(flags)
    }

    #[inline]
    fn word(&self, word: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: the word is one of `self.shared`, so it is in a mapping that lives as long as
        // `self`. The kernel accesses it by atomics, too.
        unsafe { word.as_ref() }
    }
}

impl Shared {
    fn of(queues: &Mapping, params: &io_uring_params) -> Self {
        // The kernel has chosen these places, and aligned them.
        let word = |offset| queues.entry(offset, 0);
        // Checks that the last place for a completion is in the mapping.
        let _ = queues.entry::<io_uring_cqe>(params.cq_off.cqes, params.cq_entries - 1);
        Self {
            submission_head: word(params.sq_off.head),
            submission_tail: word(params.sq_off.tail),
            submission_flags: word(params.sq_off.flags),
            completion_head: word(params.cq_off.head),
            completion_tail: word(params.cq_off.tail),
            completions: queues.entry(params.cq_off.cqes, 0),
        }
    }
}

/// Fills the list of indices into the requests. Place `i` always refers to request `i`.
fn number_requests(queues: &Mapping, params: &io_uring_params) {
    for index in 0..params.sq_entries {
        let place = queues.entry::<AtomicU32>(params.sq_off.array, index);
        // SAFETY: the place is in the mapping, and the kernel aligns it.
        unsafe { place.as_ref() }.store(index, Ordering::Relaxed);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}

struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn of(ring: &OwnedFd, len: usize, offset: u64) -> Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the place, so nothing else is replaced.
        let start = unsafe { mmap(ptr::null_mut(), len, access, flags, ring, offset) };
        let start = start.map_err(Error::os("mmap(io_uring)"))?;
        let start = NonNull::new(start.cast()).expect("a mapping does not begin at 0");
        Ok(Self { start, len })
    }

    /// Returns the place with this index in the array that begins at `offset`.
    ///
    /// # Panics
    ///
    /// If the mapping ends before the end of that place.
    fn entry<T>(&self, offset: u32, index: u32) -> NonNull<T> {
        let begin = offset as usize + index as usize * size_of::<T>();
        assert!(begin + size_of::<T>() <= self.len, "it is in the mapping");
        // SAFETY: the place is inside of the mapping.
        unsafe { self.start.add(begin) }.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole of a mapping that was made here, and nothing borrows from it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

/// Returns the length in bytes of the mapping of both queues (`IORING_FEAT_SINGLE_MMAP`, since
/// Linux 5.4).
fn queues_len(params: &io_uring_params) -> usize {
    let entries = params.cq_entries as usize * size_of::<io_uring_cqe>();
    let completions = params.cq_off.cqes as usize + entries;
    let array = params.sq_entries as usize * size_of::<u32>();
    completions.max(params.sq_off.array as usize + array)
}

#[cold]
fn pause_for(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "memory may come back meanwhile")]
    std::thread::sleep(time);
}
