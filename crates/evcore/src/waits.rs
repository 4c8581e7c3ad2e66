//! The calls that begin a turn.
//!
//! [`wait`](EventLoop::wait) and [`wait_at_most`](EventLoop::wait_at_most) are for programs.
//! [`prepare`](EventLoop::prepare) and [`poll`](EventLoop::poll) are the halves of a wait, for an
//! outer loop that sleeps between them. A half that is left out or repeated loses nothing.

use std::{os::fd::BorrowedFd, time::Duration};

use crate::{Acceptor, EventLoop, Result, instruments::record::Record, turn::Phase};

impl<L: Acceptor> EventLoop<L> {
    /// Begins a turn: waits until there is something to do, and updates the clock (with a
    /// [`timer_resolution`](crate::Builder::timer_resolution), only when a tick is due).
    ///
    /// If you left the previous turn early, it is finished first: the accept lock is released, and
    /// steps that were not delivered are kept for this turn, which then does not wait. A signal
    /// ends the wait, and may make a turn without steps.
    ///
    /// # Errors
    ///
    /// Only if the loop cannot go on, so a server may end with it: the system call that waits
    /// failed, or the loop is used in a forked child ([`Error::Poller`](crate::Error::Poller)), or
    /// the ticker of the [`timer_resolution`](crate::Builder::timer_resolution) failed
    /// ([`Error::Ticker`](crate::Error::Ticker)). The accept lock is then released, and steps that
    /// were not delivered are kept, in case you wait again.
    ///
    /// A failure of a single descriptor is no error of the wait. A listener that fails is suspended,
    /// and [`take_error`](crate::ListenersMut::take_error) returns its error. If the kernel
    /// refuses a [`modify`](Self::modify), the connection gets a
    /// [`Step::Ready`](crate::Step::Ready) with [`Ready::ERROR`](crate::Ready::ERROR).
    // Not inlined, so that the caller's loop keeps its registers for the steps.
    #[inline(never)]
    pub fn wait(&mut self) -> Result<()> {
        if self.instruments.is_some() {
            return self.wait_within(None);
        }
        // The same as one function, which costs less than a call for each half.
        let timeout = self.plan_turn(None);
        self.wait_for_events(timeout)?;
        self.begin_turn();
        Ok(())
    }

    /// Begins a turn as [`wait`](Self::wait) does, but waits for no longer than `limit`, also if there
    /// is nothing to do: for a program with a deadline of its own, or with
    /// [`Duration::ZERO`] for what is ready now.
    ///
    /// A turn without steps need not have lasted that long, because a signal ends a wait too. So
    /// compute the rest of the time for each wait, as the example does.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait).
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
    pub fn wait_at_most(&mut self, limit: Duration) -> Result<()> {
        self.wait_within(Some(limit))
    }

    /// The first half of [`wait`](Self::wait), up to the wait itself: flushes the poller's changes
    /// and returns how long to wait at most (`None`: without limit).
    ///
    /// Use with [`poll`](Self::poll) to drive several loops from one thread, for example in a
    /// simulator, or to run this loop [inside another one](Self::descriptor). To wait for a limited
    /// time, [`wait_at_most`](Self::wait_at_most) is enough. The accept lock may be held from here
    /// until the accepts are done, as in [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`Error::Poller`](crate::Error::Poller) if the loop is used in a forked child.
    ///
    /// ```
    /// # use evcore::EventLoop;
    /// use std::time::Duration;
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let timeout = ev.prepare()?;
    /// assert_eq!(timeout, None, "there is nothing to wait for");
    /// // ... other work, for no longer than the timeout ...
    /// ev.poll(Some(Duration::ZERO))?;
    /// assert!(ev.next_step().is_none());
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn prepare(&mut self) -> Result<Option<Duration>> {
        let timeout = self.plan();
        // A change that the kernel refuses is an event already.
        match self.poller.flush() {
            Ok(has_refused) => {
                self.phase = Phase::Prepared;
                let at_once = has_refused.then_some(Duration::ZERO);
                Ok(at_once.or(timeout))
            }
            Err(error) => {
                self.unlock();
                Err(error.into())
            }
        }
    }

    /// The second half of [`wait`](Self::wait): waits for at most `timeout`, updates the clock, and
    /// begins the turn. A timer that became due since [`prepare`](Self::prepare) does not end the
    /// wait, so give it no more than `prepare` returned, less what has passed since.
    ///
    /// Without a `prepare` before it, it is a whole wait: it plans the turn first, and waits for no
    /// longer than that allows.
    ///
    /// # Errors
    ///
    /// The poller's errors of [`wait`](Self::wait).
    pub fn poll(&mut self, timeout: Option<Duration>) -> Result<()> {
        if self.phase == Phase::Prepared {
            self.phase = Phase::Over;
            self.wait_planned(timeout)
        } else {
            self.wait_within(timeout)
        }
    }

    /// A whole wait, for no longer than a limit, with the instruments there are.
    // Cold, which places the call of `wait` out of the way of loops without instruments.
    #[cold]
    #[inline(never)]
    fn wait_within(&mut self, limit: Option<Duration>) -> Result<()> {
        let planned = self.plan();
        self.wait_planned([planned, limit].into_iter().flatten().min())
    }

    /// What comes before the wait. Returns how long it may last (`None`: without limit).
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    fn plan(&mut self) -> Option<Duration> {
        if self.instruments.is_none() {
            return self.plan_turn(None);
        }
        let now_ns = self.end_measuring();
        let timeout = self.plan_turn(now_ns);
        if self.accepting.coordinator.holds_lock() {
            self.record(Record::LockTaken);
        }
        timeout
    }

    /// The wait itself, and what comes after it.
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    fn wait_planned(&mut self, timeout: Option<Duration>) -> Result<()> {
        let clock_is_updated = self.wait_for_events(timeout)?;
        if self.instruments.is_none() {
            self.begin_turn();
            return Ok(());
        }
        self.record(Record::TurnBegan {
            turn: self.stats.turns + 1,
            at_ns: self.clock.monotonic_ns(),
            events: u32::try_from(self.batch.len()).unwrap_or(u32::MAX),
        });
        self.begin_turn();
        self.begin_measuring(clock_is_updated);
        Ok(())
    }

    /// Borrows the descriptor of the backend (epoll, kqueue), to run this loop inside another one.
    /// `None` on the other backends.
    ///
    /// It is readable if the kernel has an event for this loop, a wake-up included. Timers and work
    /// that was carried over do not make it readable; [`prepare`](Self::prepare) returns how long to
    /// sleep for these.
    ///
    /// # Inside another loop
    ///
    /// Repeat these steps:
    ///
    /// 1. Call [`prepare`](Self::prepare), which returns the timeout.
    /// 2. If the turn before had no step, sleep in the other loop until the descriptor is readable or
    ///    the timeout has passed. Otherwise do not sleep: kqueue takes the changes of
    ///    [`modify`](Self::modify) in `poll` only.
    /// 3. Call [`poll`](Self::poll) with a timeout of zero, and handle all steps of the turn.
    ///
    /// If you change the loop between two turns, treat that as a step. Take the descriptor anew for
    /// each sleep, as the borrow demands: on epoll, `poll` may replace it.
    ///
    /// The example is an outer loop that has nothing else to do. `tests/compat` has one in tokio.
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
    ///     let timeout = ev.prepare()?;
    ///     if let Some(descriptor) = ev.descriptor().filter(|_| !had_steps) {
    ///         let timeout = timeout.map(|timeout| timeout.try_into()).transpose()?;
    ///         poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], timeout.as_ref())?;
    ///     }
    ///     ev.poll(Some(Duration::ZERO))?;
    ///     had_steps = false;
    ///     while let Some(step) = ev.next_step() {
    ///         had_steps = true;
    ///         expired |= matches!(step, Step::Expired(expired, _) if expired == token);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.poller.descriptor()
    }
}
