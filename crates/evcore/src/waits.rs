//! The calls that begin a turn.

use std::{os::fd::BorrowedFd, time::Duration};

use crate::{Acceptor, EventLoop, Result, turn::Phase};

impl<L: Acceptor> EventLoop<L> {
    /// Begins a turn: waits until there is something to do, and updates the clock (with a
    /// [`timer_resolution`](Builder::timer_resolution), only when a tick is due).
    ///
    /// If you left the previous turn early, it is finished first: the accept lock is released, and
    /// steps that were not delivered are kept for this turn, which then does not wait. A signal
    /// ends the wait, and may make a turn without steps.
    ///
    /// # Errors
    ///
    /// Only if the loop cannot go on, so a server may end with it: the system call that waits
    /// failed, or the loop is used in a forked child ([`Error::Poller`](crate::Error::Poller)), or
    /// the ticker of the [`timer_resolution`](Builder::timer_resolution) failed
    /// ([`Error::Ticker`](crate::Error::Ticker)). The accept lock is then released, and steps that
    /// were not delivered are kept, in case you wait again.
    ///
    /// A failure of a single descriptor is no error of the wait. A listener that fails is suspended,
    /// and [`take_listener_error`](Self::take_listener_error) returns its error. If the kernel
    /// refuses a [`modify`](Self::modify), the connection gets a [`Step::Ready`] with
    /// [`Ready::ERROR`](crate::Ready::ERROR).
    // Not inlined, so that the caller's loop keeps its registers for the steps.
    #[inline(never)]
    pub fn wait(&mut self) -> Result<()> {
        if self.instruments.is_some() {
            return self.wait_measured();
        }
        let timeout = self.plan_turn(None);
        self.wait_for_events(timeout)?;
        self.begin_turn();
        Ok(())
    }

    /// The first half of [`wait`](Self::wait), up to the wait itself: flushes the poller's changes
    /// and returns how long to wait at most (`None`: without limit).
    ///
    /// Use with [`poll`](Self::poll) to drive several loops from one thread, for example in a
    /// simulator, or to run this loop [inside another one](Self::descriptor). The accept lock may be
    /// held from here until the accepts are done, as in [`wait`](Self::wait).
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
        let timeout = if self.instruments.is_some() {
            self.plan_measured_turn()
        } else {
            self.plan_turn(None)
        };
        // A change that the kernel refuses is an event already.
        match self.poller.flush() {
            Ok(true) => Ok(Some(Duration::ZERO)),
            Ok(false) => Ok(timeout),
            Err(error) => {
                self.unlock();
                Err(error.into())
            }
        }
    }

    /// The second half of [`wait`](Self::wait): waits for at most `timeout`, updates the clock, and
    /// begins the turn. A timer that became due since [`prepare`](Self::prepare) does not end the
    /// wait.
    ///
    /// Call `prepare` before each `poll`, also if you only want to wait for a limited time. Without it
    /// no listener is registered, and steps that were [put off](Self::post_next) do not come.
    ///
    /// # Errors
    ///
    /// The poller's errors of [`wait`](Self::wait).
    #[inline(never)]
    pub fn poll(&mut self, timeout: Option<Duration>) -> Result<()> {
        if self.phase != Phase::Over {
            // There was no `prepare`: at least nothing is lost.
            self.end_measuring();
            self.finish_turn();
        }
        let clock_is_updated = self.wait_for_events(timeout)?;
        if self.instruments.is_some() {
            self.begin_measured_turn(clock_is_updated);
        } else {
            self.begin_turn();
        }
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
