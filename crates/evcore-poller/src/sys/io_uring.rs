//! The `io_uring` backend, for Linux 6.1 and later. It uses `io_uring` only to wait for readiness.
//!
//! A registration is a poll request. One call submits the changes and waits, and events are read
//! from memory. The kernel does the work of a wake-up only in a call of this thread (*deferred
//! work*). The backend relies on these facts, from the kernel's sources (`io_uring/poll.c` and
//! `io_uring/io_uring.c`) and from tests:
//!
//! - A request without `IORING_POLL_ADD_MULTI` completes once: with the readiness when it is
//!   submitted, or with the first wake-up. `Level` and `Oneshot` begin with such a request. After
//!   the report of a `Level`, its request is made again, and completes at once if the descriptor is
//!   still ready. (`IORING_POLL_ADD_LEVEL` is in the kernel's header, but a request with it is
//!   refused.)
//! - Each request also completes when the peer has ended its side (`EPOLLRDHUP`), even if the
//!   request does not have that flag. A `Level` or a `Oneshot` that does not report this continues
//!   with a multishot request, because another one-shot request would complete at once, again and
//!   again.
//! - A wake-up completes a request only if the two have a flag in common other than `EPOLLPRI`. The
//!   wake-up for priority data has `EPOLLIN` too, so a request for priority data also has
//!   `EPOLLIN`. Data that the registration does not watch for is not reported.
//! - A multishot request implements `Edge`. It completes with the present readiness, and then with
//!   each wake-up, without another call. It ends when the completion queue is full, or when the
//!   wake-up comes from another ring, and is then made again. It also ends if nothing can wake the
//!   file, because the file's `poll` function names no wait queue. A request for such a file ends
//!   while it is submitted; other multishot requests end by deferred work. So if a renewed request
//!   ends in a call that does no deferred work, nothing can wake the file. The registration then
//!   *rests*: no further request is made for it.
//! - The completion of a wake-up has the flags that the waking driver passed, and the descriptor is
//!   not evaluated again. By the time of the wait, the data may have been read. A wake-up for data
//!   also claims priority data. So the backend checks claimed priority data, and completions that
//!   may be stale, by a call of `poll`. An `Edge` is reported unchecked if it claims no priority
//!   data, because it is only a hint: the read or write after it may return `WouldBlock`.
//! - A completion may be stale only if its wake-up came before this wait, because this thread
//!   cannot have used up later readiness. A flag in the shared memory shows whether there was such
//!   a wake-up.
//! - A request holds its file. Closing the descriptor does not close the file before the request is
//!   cancelled. So a removal cancels the request at once, by a call.
//! - `IORING_OP_ASYNC_CANCEL` marks a request, and the request's next deferred work ends it. This
//!   works even while a wake-up is pending, which under load is the usual case, because a call
//!   submits before it does deferred work. (`IORING_OP_POLL_REMOVE` and its
//!   `IORING_POLL_UPDATE_EVENTS` are refused with `EALREADY` while a wake-up is pending.) A removal
//!   repeats its call until the request's work is done.
//! - A request releases its file when its work is done, even if the completion queue is full,
//!   because only a copy of the completion then waits outside of the queue. So a removal makes no
//!   call for the copy.
//! - Completions keep the order in which they were made, even if they overflow. A call first makes
//!   the completions of new requests, and then does deferred work. So a wait whose events fill the
//!   buffer does all deferred work. Otherwise the next wait's requests for sources that are still
//!   ready would complete before wake-ups that were not reported yet, and the next removal would
//!   have to do all of that work.
//! - A cancellation by `IORING_ASYNC_CANCEL_ALL` searches from the start for each request. So a
//!   poller that is dropped cancels each request by its name.
//! - A cancelled request makes one completion, which must not end a wait. So for each cancellation
//!   the wait requires one more completion. A cancellation that finds no request makes a completion
//!   itself; in that case the request has already completed.
//! - A call with requests that ends by its timeout or by a signal does not report which of the two
//!   it was. There are then fewer completions than requested, and the clock shows whether the
//!   timeout has passed.
//! - Completions that report nothing may end a call. Then the wait goes on for the time that is
//!   left, so it reads the clock before a call that may block for a limited time.
//! - A call may be refused for now: with `EAGAIN` if there is no memory for a request, with `EBUSY`
//!   (which none of the tested kernels returned) if there is no room for completions. The call is
//!   repeated for about a second, unless completions can be taken.
//! - Since Linux 6.13, a call does the deferred work of only some twenty wake-ups
//!   (`IO_LOCAL_TW_DEFAULT_MAX`), so a wait may make several calls.
//! - Exclusive requests (`EPOLLEXCLUSIVE`) are accepted, but they take a wake-up even if their
//!   worker is busy, whereas an epoll set passes it on to a worker that waits. So the backend has
//!   no [`exclusive`](Capabilities::exclusive) registrations.
//! - Only the thread that opened the ring may enter it, and its requests end with that thread. If
//!   the poller has moved to another thread, its next call opens a new ring, and its next wait
//!   makes all requests again.
//! - A ring that is closed ends its requests a moment later, on a thread of the kernel. This
//!   releases the files if no cancellation can: after a drop in another thread than the ring's,
//!   after a move to another thread, and after an exit without a drop. The kernel needs linear time
//!   for that, since it goes through all requests once.
//! - A forked child shares the memory of the queues. It must not touch them, so it does not cancel
//!   requests either.

use std::{
    fmt, mem,
    os::fd::{AsFd, AsRawFd, RawFd},
    time::Duration,
};

use rustix::io::Errno;

use super::{ForkGuard, raw_fd};
use crate::{
    backend::{Backend, Capabilities, Registration},
    error::{Error, Result},
    event_sink::EventSink,
    events::Events,
    interest::Mode,
    ready::Ready,
    waker::{WakeChannel, Waker},
};

mod at_rest;
mod countdown;
mod recheck;
mod refusal;
mod request;
mod ring;
mod table;

#[cfg(test)]
mod tests;

use countdown::Countdown;
use request::{Completion, Request};
use ring::{Entered, Ring};
use table::Table;

/// The name of the waker's request. Its number is above the highest number of other requests.
const WAKE: u64 = u64::MAX;
/// The name of the requests that cancel others.
const CANCEL: u64 = u64::MAX - 1;

/// A call does at least the deferred work of this many wake-ups.
const WORK_OF_CALL: usize = 16;

pub(super) struct IoUring {
    ring: Ring,
    table: Table,
    wake: WakeChannel,
    wake_is_watched: bool,
    // Invariant: if true, the waker is watched, and the last `wait_here` has left no request in the
    // queue. (A call that is refused leaves some.)
    is_submitted: bool,
    /// Number of cancellations whose completion has not come.
    cancellations_pending: u32,
    /// True if this ring has lost completions, or belongs to another thread, and opening a new ring
    /// has failed. The kernel reports lost completions only once.
    must_renew: bool,
    /// Ids whose readiness must be checked, each with the claimed readiness; and the entries for
    /// `poll`.
    // Invariant: both are empty between waits.
    unchecked: Vec<(usize, Ready)>,
    poll_entries: Vec<libc::pollfd>,
    fork_guard: ForkGuard,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    /// True if there were wake-ups or completions before this wait. They may be stale.
    had_completions: bool,
}

impl IoUring {
    pub(super) fn new() -> Result<Self> {
        Self::over(Ring::open()?)
    }

    fn over(ring: Ring) -> Result<Self> {
        Ok(Self {
            ring,
            table: Table::default(),
            wake: WakeChannel::new()?,
            wake_is_watched: false,
            is_submitted: false,
            cancellations_pending: 0,
            must_renew: false,
            unchecked: Vec::new(),
            poll_entries: Vec::new(),
            fork_guard: ForkGuard::new(),
        })
    }

    /// Opens a new ring for this thread. The next wait registers everything again.
    #[cold]
    fn renew(&mut self) -> Result<()> {
        self.must_renew = true;
        self.ring = self.ring.open_next()?;
        self.must_renew = false;
        // This reads the eventfd. Otherwise its new request would report an old wake again.
        self.wake.renew();
        (self.wake_is_watched, self.is_submitted) = (false, false);
        self.cancellations_pending = 0;
        self.table.arm_all();
        Ok(())
    }

    #[inline(never)]
    fn queue_changes(&mut self) -> Result<(), Errno> {
        let has_ended_edges = self.table.take_ended_edges();
        let start = has_ended_edges.then(|| self.ring.completions_end());
        self.queue_cancellations(usize::MAX)?;
        let ring = &mut self.ring;
        if !self.wake_is_watched {
            ring.make_room()?;
            ring.push(Request::Watch {
                fd: self.wake.as_fd().as_raw_fd(),
                flags: u32::from(libc::POLLIN.unsigned_abs()),
                multishot: true,
                name: WAKE,
            });
            self.wake_is_watched = true;
        }
        self.table.make_requests(|request| {
            ring.make_room()?;
            ring.push(request);
            Ok(())
        })?;
        start.map_or(Ok(()), |start| self.rest_edges(start))
    }

    /// Submits the requests, and finds each `Edge` that nothing can wake: its request ends while it
    /// is submitted. `start` is the number of the first completion since these requests were
    /// queued.
    #[cold]
    fn rest_edges(&mut self, start: u32) -> Result<(), Errno> {
        self.ring.submit()?;
        for completion in self.ring.completions_since(start) {
            // If nothing can wake the file, the result is `EINVAL` if the file is not ready, and
            // flags if it is. Other errors are reported.
            let is_unwakeable = matches!(completion.result, Err(Errno::INVAL) | Ok(_));
            if is_unwakeable && !completion.more {
                self.table.rest(completion.name);
            }
        }
        Ok(())
    }

    fn queue_cancellations(&mut self, most: usize) -> Result<(), Errno> {
        let count = most.min(self.table.cancelled());
        for _ in 0..count {
            self.ring.make_room()?;
            let target = self.table.next_cancelled().expect("there are as many");
            let name = CANCEL;
            self.ring.push(Request::Cancel { name, target });
            self.cancellations_pending += 1;
        }
        Ok(())
    }

    /// Refuses the descriptor of the waker, which the ring watches itself.
    fn refuse_own_waker(&self, fd: RawFd) -> Result<()> {
        if fd == self.wake.as_fd().as_raw_fd() {
            return Err(Error::AlreadyWatched { fd });
        }
        Ok(())
    }

    /// Ends a registration, and releases its file.
    fn leave(&mut self, old: &Registration) -> Result<()> {
        self.table.leave(old);
        // The work of an earlier cancellation may be left.
        let is_pending = self.cancellations_pending > 0 && self.ring.has_work();
        let holds_file = self.table.cancelled() > 0 || is_pending;
        if !holds_file || self.fork_guard.is_in_child() {
            return Ok(());
        }
        match self.finish_cancellations() {
            // Another thread has made the requests. They end with its ring, which `renew` closes.
            Err(Errno::EXIST) => self.renew(),
            result => {
                self.drop_stale();
                result.map_err(refusal::failed)
            }
        }
    }

    /// Cancels the requests of all registrations, which releases their files. A forked child
    /// cancels nothing.
    ///
    /// The kernel searches for a request in one of some hundred lists, from the newest on, and
    /// walks over cancelled ones, too, until their work is done. So the newest are cancelled first,
    /// in groups whose work fits into one call.
    fn cancel_all(&mut self) -> Result<(), Errno> {
        if self.fork_guard.is_in_child() {
            return Ok(());
        }
        self.table.cancel_all();
        while self.table.cancelled() > 0 {
            self.queue_cancellations(WORK_OF_CALL)?;
            self.ring.enter(0, None)?;
        }
        self.finish_work()
    }

    fn finish_cancellations(&mut self) -> Result<(), Errno> {
        self.queue_cancellations(usize::MAX)?;
        self.ring.enter(0, None)?;
        self.finish_work()
    }

    /// Does the deferred work of all requests. Completions that wait outside of the queue may stay
    /// there, because they hold no file.
    fn finish_work(&mut self) -> Result<(), Errno> {
        // The work is done in its order of arrival, and each request has at most one piece. So this
        // bound is enough, whatever peers add later.
        let requests = self.table.len() + self.cancellations_pending as usize;
        let mut calls = 0..1 + requests.div_ceil(WORK_OF_CALL);
        while self.ring.has_work() && calls.next().is_some() {
            self.ring.enter(0, None)?;
        }
        Ok(())
    }

    /// Drops completions from the front of the queue while they report nothing.
    fn drop_stale(&mut self) {
        while let Some(completion) = self.ring.first() {
            if completion.name == WAKE || self.table.id_of(completion.name).is_some() {
                break;
            }
            self.ring.drop_first();
            self.count_stale(&completion);
        }
    }

    #[cold]
    fn count_stale(&mut self, stale: &Completion) {
        // Each cancellation makes one of these two completions.
        if stale.name == CANCEL || stale.result == Err(Errno::CANCELED) {
            // The subtraction saturates, because the kernel may also cancel a request by itself, if
            // the file's driver frees the wait queue (`POLLFREE`). The cancellation of that request
            // then completes as well.
            self.cancellations_pending = self.cancellations_pending.saturating_sub(1);
        }
    }

    #[inline(never)]
    fn wait_here(&mut self, events: &mut Events, clock: &mut Countdown) -> Result<(), Errno> {
        self.is_submitted = false;
        self.drop_stale();
        let before = Before {
            had_completions: self.ring.first().is_some() || self.ring.has_more(),
        };
        self.table.begin_wait();
        // Earlier wake-ups mostly have something to report, so the call need not wait, and the
        // clock is not read.
        let mut at_once = before.had_completions;
        loop {
            if self.table.has_changes() || !self.wake_is_watched {
                match self.queue_changes() {
                    // The kernel has no room for more completions, so some have to be taken first.
                    // The next call submits the rest.
                    Err(Errno::BUSY) if self.ring.first().is_some() => {}
                    queued => queued?,
                }
                self.drop_stale();
            }
            at_once |= self.ring.first().is_some() || clock.is_zero();
            let entered = self.enter(at_once, clock)?;
            let was_woken = self.gather(events, before);
            if !events.is_empty() || was_woken || clock.is_over() {
                self.is_submitted = self.wake_is_watched && self.ring.queued() == 0;
                return Ok(());
            }
            if entered == Entered::Interrupted {
                return Err(Errno::INTR);
            }
            // The completions of this call report nothing. A peer may cause such completions
            // without end, so the timeout is checked.
            at_once = false;
        }
    }

    /// Submits the queue and, unless `at_once`, waits for something to report.
    fn enter(&mut self, at_once: bool, clock: &mut Countdown) -> Result<Entered, Errno> {
        if at_once {
            return self.ring.enter(0, None);
        }
        let timeout = clock.start();
        self.ring.enter(1 + self.cancellations_pending, timeout)
    }

    /// Takes completions while there is room for their events. Returns whether there was a wake.
    fn gather(&mut self, events: &mut Events, before: Before) -> bool {
        let mut was_woken = false;
        // The calls are limited, because a peer that never pauses would keep this loop going for
        // ever.
        let mut calls = 0..64 + events.capacity();
        loop {
            while events.remaining() > self.unchecked.len() {
                let Some(completion) = self.ring.first() else {
                    break;
                };
                self.ring.drop_first();
                if let Some(id) = self.table.id_of(completion.name) {
                    if !self.take_hint(id, &completion, events) {
                        self.take(id, &completion, events, before);
                    }
                } else if completion.name == WAKE {
                    self.wake_is_watched = completion.more;
                    self.is_submitted &= completion.more;
                    was_woken |= self.wake.acknowledge();
                } else {
                    self.count_stale(&completion);
                }
            }
            let is_full = events.remaining() <= self.unchecked.len();
            if is_full {
                self.check_readiness(events);
            }
            if events.remaining() == 0 {
                break;
            }
            let has_room_again = is_full && self.ring.first().is_some();
            if has_room_again {
                continue;
            }
            let may_call = self.ring.has_more() && calls.next().is_some();
            if !may_call || self.ring.enter(0, None).is_err() {
                break;
            }
        }
        self.check_readiness(events);
        if events.remaining() == 0 {
            // The work must come before removals, and before the next wait's requests for reported
            // descriptors. If this fails, a later call does the work.
            let _ = self.finish_work();
        }
        #[cfg(test)]
        self.table.verify();
        if was_woken {
            events.set_woken();
        }
        was_woken
    }

    /// Takes a completion that is just a hint (an `Edge` without priority data, whose request goes
    /// on). Returns whether it is one.
    #[inline]
    fn take_hint(&mut self, id: usize, completion: &Completion, events: &mut Events) -> bool {
        let row = self.table.row(id);
        let (Mode::Edge, true, Ok(found)) = (row.mode, completion.more, completion.result) else {
            return false;
        };
        let ready = row.readiness(found);
        let is_hint = !ready.is_priority();
        if is_hint {
            self.report(id, ready, events);
        }
        is_hint
    }

    #[inline(never)]
    fn take(&mut self, id: usize, completion: &Completion, events: &mut Events, before: Before) {
        let is_new = self.table.is_new(completion.name);
        if !completion.more {
            self.table.end_request(id);
        }
        let row = self.table.row(id);
        let found = match completion.result {
            Ok(found) => found,
            // The kernel has cancelled the request itself: the thread that made it has ended, or
            // the file's driver has freed the wait queue (`POLLFREE`).
            Err(Errno::CANCELED) => return self.table.arm_again(id),
            Err(_) => return self.report(id, Ready::ERROR, events),
        };
        let (mode, ready) = (row.mode, row.readiness(found));
        if ready.is_empty() {
            // The completion reports data or the end of the peer's side, but the registration does
            // not watch for that.
            match (completion.more, mem::replace(&mut row.is_multishot, true)) {
                (true, _) => {}
                (false, true) => self.table.arm_edge_again(id),
                (false, false) => self.table.arm_again(id),
            }
            return;
        }
        // After a report, only an `Edge` may rest. The request of a `Level` is made again after
        // each report, even if it completes while it is submitted.
        row.has_ended &= mode == Mode::Edge;
        match mode {
            Mode::Level | Mode::Exclusive => self.table.make_anew(id),
            Mode::Oneshot => self.table.cancel(id),
            Mode::Edge | Mode::ExclusiveEdge if completion.more => {}
            // The request has ended. A spurious edge is harmless, but a missing one is not.
            Mode::Edge | Mode::ExclusiveEdge => self.table.arm_edge_again(id),
        }
        let is_out_of_date = before.had_completions && !is_new && mode != Mode::Edge;
        if is_out_of_date || ready.is_priority() {
            self.unchecked.push((id, ready));
        } else {
            self.report(id, ready, events);
        }
    }

    /// Adds an event, or adds readiness to the event that this wait already has for the
    /// registration.
    #[inline]
    fn report(&mut self, id: usize, ready: Ready, events: &mut Events) {
        if ready.is_empty() {
            return;
        }
        let row = self.table.row(id);
        if !events.add_ready(row.position as usize, row.key, ready) {
            row.position = u32::try_from(events.len()).expect("the capacity has a limit");
            events.push(row.key, ready);
        }
    }
}

impl Backend for IoUring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            edge: true,
            oneshot: true,
            exclusive: false,
            watches_files: false,
            batches_changes: true,
            simulated: false,
        }
    }

    /// Makes no call, because the wait submits the request. The descriptor is open, because the
    /// caller of [`Poller::add`](crate::Poller::add) holds it.
    fn add(&mut self, new: &Registration) -> Result<()> {
        self.refuse_own_waker(new.fd)?;
        self.table.enter(new);
        Ok(())
    }

    /// Makes no call, except if the registration watched nothing before. Then it checks that the
    /// descriptor is still open.
    fn modify(&mut self, new: &Registration) -> Result<()> {
        if new.interest.is_empty() {
            self.table.leave(new);
            return Ok(());
        }
        if !self.table.is_watched(new) {
            self.refuse_own_waker(new.fd)?;
            raw_fd::is_open(new.fd).map_err(Error::os("fcntl(F_GETFD)"))?;
        }
        self.table.enter(new);
        Ok(())
    }

    fn remove(&mut self, old: &Registration) -> Result<()> {
        self.leave(old)
    }

    /// Cancels the request by a call, because otherwise the file would stay open.
    fn remove_before_close(&mut self, old: &Registration) {
        // If this fails, the next wait cancels the request.
        let _ = self.leave(old);
    }

    fn wait(&mut self, events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let events = events.into_events();
        if self.must_renew {
            self.renew()?;
        }
        if timeout.is_none() {
            match self.wait_at_rest(events) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // The wait below gets the same error again, and handles it.
                Err(Errno::EXIST) => {}
                // The kernel reports lost completions only once, so the wait below would not get
                // this error.
                Err(Errno::BADR) => self.renew()?,
                Err(errno) => return Err(refusal::wait_failed(errno)),
            }
        }
        let mut clock = Countdown::of(timeout);
        let waited = match self.wait_here(events, &mut clock) {
            // The poller has moved to another thread, or completions were lost.
            Err(Errno::EXIST | Errno::BADR) => {
                self.renew()?;
                self.wait_here(events, &mut clock)
            }
            waited => waited,
        };
        waited.map_err(refusal::wait_failed)
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

/// Releases all files. Closing the ring would release them only after a while.
impl Drop for IoUring {
    fn drop(&mut self) {
        // This fails in another thread than the ring's. Then closing the ring releases the files.
        let _ = self.cancel_all();
    }
}

impl fmt::Debug for IoUring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoUring")
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}
