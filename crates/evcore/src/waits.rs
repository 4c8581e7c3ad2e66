//! The calls that begin a turn, which is one iteration of the loop.
//!
//! [`prepare`](EventLoop::prepare) and [`wait_at_most`](EventLoop::wait_at_most) are the halves of
//! a wait, for an outer loop that sleeps between them. Leaving out or repeating a half loses
//! nothing.

use std::{os::fd::BorrowedFd, time::Duration};

use crate::{
    acceptor::Acceptor, error::Result, event_loop::EventLoop, phase::Phase, record::Record,
    time::time_to,
};

/// The way to sleep until a loop has something to do. [`EventLoop::prepare`] returns it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Sleep<'a> {
    /// The longest sleep; `None` without limit.
    pub timeout: Option<Duration>,
    /// The descriptor of the backend; `None` if it has none. epoll and kqueue have one.
    ///
    /// It is readable if the kernel has an event for the loop, a wake-up included. Timers and work
    /// that was carried over do not make it readable; the timeout is for these.
    pub descriptor: Option<BorrowedFd<'a>>,
}

impl<L: Acceptor> EventLoop<L> {
    /// Begins a turn: waits until there is something to do, and updates the clock (with a
    /// [`timer_resolution`](crate::Builder::timer_resolution), only when a tick is due). Returns
    /// false, without waiting, if a [shutdown](Self::shutdown) is complete; the connections that
    /// are still open then get no further steps. Drop them.
    ///
    /// If you left the previous turn early, it is finished first: the accept lock is released, and
    /// steps that were not delivered are kept for this turn, which then does not wait. A signal
    /// ends the wait, and may make a turn without steps. A wait for a timer more than two seconds
    /// away may also end without a step: after a turn with events it lasts only about half of that
    /// time, because the loop then need not read the clock.
    ///
    /// # Errors
    ///
    /// `wait` fails only if the loop cannot go on, so a server may exit with the error: the system
    /// call that waits failed, or the loop is used in a forked child
    /// ([`Error::Poller`](crate::Error::Poller)), or the ticker of the
    /// [`timer_resolution`](crate::Builder::timer_resolution) failed
    /// ([`Error::Ticker`](crate::Error::Ticker)). The accept lock is then released, and steps that
    /// were not delivered are kept, in case you wait again.
    ///
    /// A failure of a single descriptor does not fail the wait. A listener that fails is suspended,
    /// and [`take_error`](crate::ListenersMut::take_error) returns its error. If the kernel
    /// refuses a [`modify`](Self::modify), the connection gets a
    /// [`Step::Ready`](crate::Step::Ready) with [`Ready::ERROR`](crate::Ready::ERROR).
    ///
    /// # Stopping a worker
    ///
    /// Under a supervisor, check before each wait whether it has requested a stop
    /// (`worker.stop_within(timeout)` in `evcore-prefork`). The stop request must also wake the
    /// loop, through a [`Handle`](crate::Handle). (A `Worker` of `evcore-serve` does both.)
    ///
    /// ```
    /// use evcore::{TokenMap, EventLoop, Interest, Mode, Step};
    /// use std::{os::unix::net::UnixStream, time::Duration};
    ///
    /// let (stream, peer) = UnixStream::pair()?;
    /// let mut conns = TokenMap::new();
    /// let mut ev = EventLoop::builder().build()?;
    /// conns.add(&mut ev, stream, Interest::READ, Mode::Level)?;
    /// drop(peer);
    ///
    /// let stop_within = || Some(Duration::from_secs(30));
    /// loop {
    ///     if let Some(timeout) = stop_within() {
    ///         ev.shutdown(timeout);
    ///     }
    ///     if !ev.wait()? {
    ///         break;
    ///     }
    ///     while let Some(step) = ev.next_step() {
    ///         if let Step::Ready(token, _) = step {
    ///             conns.close(&mut ev, token); // its client has left
    ///         }
    ///     }
    /// }
    /// assert_eq!(ev.stats().turns, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    // This is not inlined, so that the caller's loop keeps its registers for the steps.
    #[inline(never)]
    pub fn wait(&mut self) -> Result<bool> {
        if !self.is_plain {
            return self.wait_limited(None);
        }
        // Both halves are in this one function, which costs less than a call for each half.
        let timeout = self.plan_turn(None, true);
        self.wait_for_events(timeout, true)?;
        self.begin_turn();
        Ok(true)
    }

    /// Begins a turn as [`wait`](Self::wait) does, but waits for at most `limit`, even if there is
    /// nothing to do. This is for a program with a deadline of its own. With [`Duration::ZERO`] the
    /// call does not sleep, and takes the events that are ready now. `None` means no limit.
    ///
    /// A wait that ends without a step may have been shorter than `limit`, because a signal ends a
    /// wait, too. So compute the rest of the time for each wait, as the example does.
    ///
    /// After [`prepare`](Self::prepare), the call is the second half of that wait. Posts made and
    /// timers armed since `prepare` count for this half. If the balancer has to decide anew, for
    /// example because a slot has become free and this worker may listen, the wait ends at once.
    ///
    /// # Errors
    ///
    /// The errors of [`wait`](Self::wait).
    ///
    /// ```
    /// use evcore::{EventLoop, Step, Timer};
    /// use std::time::{Duration, Instant};
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let token = ev.add_unwatched()?;
    /// ev.arm(token, Timer::READ, Duration::from_secs(60));
    ///
    /// let deadline = Instant::now() + Duration::from_millis(5);
    /// loop {
    ///     let rest = deadline.saturating_duration_since(Instant::now());
    ///     if rest.is_zero() {
    ///         break;
    ///     }
    ///     ev.wait_at_most(rest)?;
    ///     while let Some(step) = ev.next_step() {
    ///         assert!(!matches!(step, Step::Expired(..)), "it is not due yet");
    ///     }
    /// }
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn wait_at_most(&mut self, limit: impl Into<Option<Duration>>) -> Result<bool> {
        self.wait_limited(limit.into())
    }

    /// This is not generic and not inlined, so that no wait is built into the caller.
    #[inline(never)]
    fn wait_limited(&mut self, limit: Option<Duration>) -> Result<bool> {
        if self.is_shut_down() {
            return Ok(false);
        }
        if self.phase == Phase::Prepared {
            self.phase = Phase::Over;
            let rest = self.rest_of_wait();
            return self.wait_planned([rest, limit].into_iter().flatten().min());
        }
        let planned = self.plan();
        self.wait_planned([planned, limit].into_iter().flatten().min())
    }

    /// The time that the wait may still last after its first half. The caller may have posted,
    /// armed a timer, closed a connection or slept since.
    fn rest_of_wait(&mut self) -> Option<Duration> {
        let offer = self.evictions.load_to_offer(self.load());
        let fits = self.accepting.coordinator.fits_plan(offer);
        if !fits || self.has_work() || self.shutdown_has_steps() {
            self.slots.begin_turn();
            return Some(Duration::ZERO);
        }
        let ends_ns = self
            .due_at_ns()
            .min(self.accepting.coordinator.plan_ends_at_ns());
        time_to(ends_ns, self.clock.monotonic_ns_now())
    }

    /// The first half of a wait, before the sleep: flushes the poller's changes, and returns the
    /// way to sleep instead of sleeping here. [`wait_at_most`](Self::wait_at_most) is the second
    /// half.
    ///
    /// With this call a program drives several loops from one thread, for example in a simulator,
    /// or runs this loop inside another one. The worker may hold the accept lock from this call
    /// until it has accepted, as with [`wait`](Self::wait).
    ///
    /// # Inside another loop
    ///
    /// Repeat these steps:
    ///
    /// 1. Call `prepare`, which returns the timeout and the descriptor.
    /// 2. If the previous turn had no step, sleep in the other loop until the descriptor is
    ///    readable or the timeout has passed. Otherwise do not sleep, because kqueue takes the
    ///    changes of [`modify`](Self::modify) only in `wait_at_most`.
    /// 3. Call `wait_at_most` with a limit of zero, and handle all steps of the turn.
    ///
    /// If you change the loop between two turns, treat that as a step. The example is an outer loop
    /// that has nothing else to do. `tests/compat` has an outer loop in tokio.
    ///
    /// # Errors
    ///
    /// [`Error::Poller`](crate::Error::Poller) if the loop is used in a forked child.
    ///
    /// ```
    /// use evcore::{EventLoop, Step, Timer};
    /// use rustix::event::{PollFd, PollFlags, poll};
    /// use std::time::Duration;
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let token = ev.add_unwatched()?;
    /// ev.arm(token, Timer::READ, Duration::from_millis(1));
    ///
    /// let (mut expired, mut had_steps) = (false, true);
    /// while !expired {
    ///     let sleep = ev.prepare()?;
    ///     if let Some(descriptor) = sleep.descriptor.filter(|_| !had_steps) {
    ///         let timeout = sleep.timeout.map(|timeout| timeout.try_into()).transpose()?;
    ///         poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], timeout.as_ref())?;
    ///     }
    ///     ev.wait_at_most(Duration::ZERO)?;
    ///     had_steps = false;
    ///     while let Some(step) = ev.next_step() {
    ///         had_steps = true;
    ///         expired |= matches!(step, Step::Expired(expired, _) if expired == token);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare(&mut self) -> Result<Sleep<'_>> {
        let timeout = self.plan();
        // A change that the kernel refuses makes an event, so the caller must not sleep.
        match self.poller.flush() {
            Ok(has_refused) => {
                self.phase = Phase::Prepared;
                let is_due = has_refused || self.is_shut_down();
                Ok(Sleep {
                    timeout: is_due.then_some(Duration::ZERO).or(timeout),
                    descriptor: self.poller.backend().descriptor(),
                })
            }
            Err(error) => {
                self.phase = Phase::Over;
                self.unlock();
                Err(error.into())
            }
        }
    }

    /// Does the work before the wait, and returns its timeout (`None`: without limit).
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    fn plan(&mut self) -> Option<Duration> {
        self.end_steps();
        if !self.instruments.is_on() {
            return self.plan_turn(None, false);
        }
        let now_ns = self.end_measuring();
        let timeout = self.plan_turn(now_ns, false);
        if self.accepting.coordinator.holds_lock() {
            self.record(Record::LockTaken);
        }
        timeout
    }

    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    fn wait_planned(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let ticks = self.stats.ticks;
        self.wait_for_events(timeout, false)?;
        let clock_is_updated = self.updates.is_every_wait() || self.stats.ticks > ticks;
        if !self.instruments.is_on() {
            self.begin_turn();
            self.watch_steps();
            return Ok(true);
        }
        self.record(Record::TurnBegan {
            turn: self.stats.turns + 1,
            at_ns: self.clock.monotonic_ns(),
            events: u32::try_from(self.batch.len()).unwrap_or(u32::MAX),
        });
        self.begin_turn();
        self.begin_measuring(clock_is_updated);
        self.watch_steps();
        Ok(true)
    }
}
