//! One pass of the loop, in nginx's order. Each line calls one part.

use std::time::Duration;

use evcore_balancer::Plan;
use evcore_poller::{Event, Ready};

use crate::{
    Acceptor, EventLoop, Result, Step,
    naming::{Naming, Other},
    timers::{NS_PER_MS, late_ns},
};

/// Where a turn is. The order of the variants is the order of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Any of the others: the watchdog knows which, and withholds the batch.
    Watched,
    /// What the kernel reported, as it came.
    Batch,
    /// Clients of the listeners.
    Accepts,
    /// A wake-up from elsewhere.
    Woken,
    /// Timers.
    Expired,
    /// The posted queue.
    Posted,
    /// The idle, if their places are wanted or the loop shuts down.
    Closing,
    /// Nothing is left to do in this turn.
    Over,
}

impl<L: Acceptor> EventLoop<L> {
    /// Begins a turn: waits until there is something to do, and updates the clock (unless there is
    /// a [`timer_resolution`](crate::Builder::timer_resolution), and it is not time to).
    ///
    /// A turn that was left early is finished first: the accept lock is released, and what was not
    /// delivered is kept for this turn, which then does not wait. A signal ends the wait, and may
    /// make a turn that has no steps.
    ///
    /// # Errors
    ///
    /// Only if the loop cannot go on: the system call that waits failed
    /// ([`Error::Poller`](crate::Error::Poller)), the loop is used in a forked child (the same), or
    /// the [`timer_resolution`](crate::Builder::timer_resolution)'s ticker failed
    /// ([`Error::Ticker`](crate::Error::Ticker)). So a server may end with it. The accept lock is
    /// not held then, and what was not delivered is kept, should you wait again.
    ///
    /// What concerns one descriptor is no error of the wait. A listener that fails is suspended,
    /// and [`take_listener_error`](Self::take_listener_error) returns its error. A connection whose
    /// [`modify`](Self::modify) the kernel refuses is a [`Step::Ready`] with
    /// [`Ready::ERROR`].
    pub fn wait(&mut self) -> Result<()> {
        let timeout = self.follow_plan();
        self.poll(timeout)
    }

    /// The first half of [`wait`](Self::wait), up to the wait itself: finishes the turn before,
    /// asks the balancer, starts or stops listening, tells the poller's changes to the kernel, and
    /// says how long to wait at most (`None`: without limit).
    ///
    /// With [`poll`](Self::poll), for who drives more than one loop from one thread: above
    /// all, a simulator of many workers. (There is no descriptor by which another loop would learn
    /// that this one has news, and kqueue is told of changes in the wait alone.) From here to the
    /// end of the accepts this worker may hold the accept lock, so do not put the other half off
    /// for longer than you would wait.
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
    /// // ... whatever else there is to do, for no longer than the timeout ...
    /// ev.poll(Some(Duration::ZERO))?;
    /// assert!(ev.next_step().is_none());
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn prepare(&mut self) -> Result<Option<Duration>> {
        let timeout = self.follow_plan();
        // Who sleeps elsewhere is to be woken by what the kernel is told now.
        match self.poller.flush() {
            Ok(true) => Ok(Some(Duration::ZERO)),
            Ok(false) => Ok(timeout),
            Err(error) => {
                self.accepting.release_lock();
                Err(error.into())
            }
        }
    }

    /// The second half of [`wait`](Self::wait): waits for so long at most, updates the clock, and
    /// begins the turn. What became due since [`prepare`](Self::prepare) does not end the wait.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait) that are the poller's.
    pub fn poll(&mut self, timeout: Option<Duration>) -> Result<()> {
        if self.phase != Phase::Over {
            // Not prepared: at least nothing is lost.
            self.finish_turn();
        }
        let updated = self.wait_for_events(timeout)?;
        self.begin_turn();
        self.begin_measuring(updated);
        Ok(())
    }

    /// The next thing to do in this turn; `None` ends the turn.
    #[inline]
    pub fn next_step(&mut self) -> Option<Step<L::Stream>> {
        // Mostly it is this; and in the later phases nothing is left of the batch, so which phase
        // it is need not be asked for each event.
        match self.next_reported() {
            Some(step) => Some(step),
            None => {
                self.find_later();
                self.found.take()
            }
        }
    }

    /// Leaves in `found` what the later phases have next. Not inlined, so that what is inlined into
    /// the caller's loop is short; and not returned, see there.
    #[inline(never)]
    fn find_later(&mut self) {
        self.found = self.next_of_later_phases();
    }

    fn next_of_later_phases(&mut self) -> Option<Step<L::Stream>> {
        loop {
            let step = match self.phase {
                Phase::Watched => return self.next_watched(),
                Phase::Batch => None,
                Phase::Accepts => self.next_accepted(),
                Phase::Woken => self.next_wake(),
                Phase::Expired => self.next_expired(),
                Phase::Posted => self.next_posted(),
                Phase::Closing => self.next_closing(),
                Phase::Over => return None,
            };
            if step.is_some() {
                return step;
            }
            self.enter_next_phase();
        }
    }

    /// Ends the turn before, does what the balancer says, and tells how long to wait.
    fn follow_plan(&mut self) -> Option<Duration> {
        let ended_ns = self.finish_turn();
        let now_ns = self.plans_from(ended_ns);
        let (plan, followed) = self.plan_and_follow(now_ns);
        if followed {
            return self.timeout(&plan, now_ns);
        }
        // No listener could be registered. While they are suspended the plan is not to listen.
        let (plan, _) = self.plan_and_follow(now_ns);
        self.timeout(&plan, now_ns)
    }

    /// Asks the balancer, and does what it says; whether that could be done.
    fn plan_and_follow(&mut self, now_ns: u64) -> (Plan, bool) {
        let now_ms = now_ns / NS_PER_MS;
        let load = self.load_to_offer();
        let was_full = self.batch.is_full();
        let (accepting, poller) = (&mut self.accepting, &mut self.poller);
        let plan = accepting.plan(now_ms, load, was_full, poller, &mut self.stats);
        let followed = accepting.follow(&plan, &self.clock, poller, &mut self.stats);
        (plan, followed)
    }

    /// The time from which the next wait is to be counted, in nanoseconds.
    fn plans_from(&self, ended_ns: Option<u64>) -> u64 {
        if !self.pace.is_every_wait() && !self.accepting.goes_by_time() {
            return self.clock.monotonic_ns();
        }
        // The clock is behind by what the handlers took or, where no turn was measured (before the
        // first, and after a wait that failed), by whatever has been done instead. A delay is not
        // to begin then.
        ended_ns.unwrap_or_else(|| self.clock.monotonic_ns_now())
    }

    fn enter_next_phase(&mut self) {
        self.phase = match self.phase {
            Phase::Batch => {
                self.choose_oldest();
                Phase::Accepts
            }
            Phase::Accepts => {
                self.accepting.release_lock();
                Phase::Woken
            }
            Phase::Woken => Phase::Expired,
            Phase::Expired => Phase::Posted,
            Phase::Posted => Phase::Closing,
            Phase::Closing | Phase::Over | Phase::Watched => Phase::Over,
        };
    }

    /// Leaves nothing of the turn before but what is queued; what waited for the next turn is due.
    /// Returns the time, if it was asked for.
    fn finish_turn(&mut self) -> Option<u64> {
        let ended_ns = self.end_measuring();
        self.post_rest_of_batch();
        self.slots.begin_turn();
        self.accepting.release_lock();
        self.phase = Phase::Over;
        ended_ns
    }

    /// The earliest of the next timer, the end of a pause of the listeners, that of a shutdown, the
    /// limit of the plan, and now if work was carried over or there is nothing to wait for any
    /// more.
    fn timeout(&self, plan: &Plan, now_ns: u64) -> Option<Duration> {
        if self.has_work() || self.is_done() {
            return Some(Duration::ZERO);
        }
        let limit = plan.wait_at_most;
        let limit = earliest(limit, self.accepting.resumes_in(now_ns));
        if self.pace.is_every_wait() {
            return earliest(self.due_in(now_ns), limit);
        }
        // The clock stands still until a tick: what is due by another time is not due yet.
        let due = self.due_in(self.clock.monotonic_ns());
        earliest(self.pace.wait(due, &self.clock), limit)
    }

    /// How long until a timer is due, or a shutdown gives up.
    #[inline]
    fn due_in(&self, now_ns: u64) -> Option<Duration> {
        earliest(self.timers.wait(now_ns), self.gives_up_in(now_ns))
    }

    /// Whether anything was left over for this turn.
    pub(crate) fn has_work(&self) -> bool {
        let queued = self.slots.has_posted() || self.accepting.has_queued();
        queued || self.outside.has_work() || self.has_closings()
    }

    /// Waits, and says whether the clock was updated.
    fn wait_for_events(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let waited = self.batch.wait(&mut self.poller, timeout);
        // Even of a wait that failed: no other will tell of this.
        if self.batch.was_woken() {
            self.outside.wait_was_ended();
        }
        let waited = waited.and_then(|()| self.pace.update(&mut self.clock, &self.batch));
        match waited {
            Ok(ticked) => {
                let is_empty = timeout.is_none() && self.batch.is_nothing();
                self.stats.empty_waits += u64::from(is_empty);
                self.stats.ticks += u64::from(ticked);
            }
            Err(_) => self.accepting.release_lock(),
        }
        Ok(waited? || self.pace.is_every_wait())
    }

    fn begin_turn(&mut self) {
        self.stats.turns += 1;
        self.stats.events += self.batch.len() as u64;
        self.left = self.budgets;
        self.left.accepts = self.accepting.allowance(self.budgets.accepts);
        self.phase = Phase::Batch;
        if self.outside.has_news() {
            self.take_in_news();
        }
        if self.accepting.holds_lock() {
            self.post_rest_of_batch();
        }
    }

    /// Does what other threads want: queues what they have posted, as if it were posted here, and
    /// begins a shutdown.
    fn take_in_news(&mut self) {
        for (token, ready) in self.outside.posts(self.budgets.posted) {
            let known = self.slots.post(token, ready);
            self.stats.received += 1;
            self.stats.stale += u64::from(!known);
        }
        if let Some(timeout) = self.outside.take_shutdown() {
            self.shutdown(timeout);
        }
    }

    /// Queues what is left of the batch: to be accepted from, or to be delivered as posted.
    fn post_rest_of_batch(&mut self) {
        while let Some(Event { key, ready, .. }) = self.batch.take() {
            match self.slots.find(self.naming.bits(key)) {
                Some(token) if self.slots.post(token, ready) => {}
                _ => self.note(key, ready),
            }
        }
    }

    #[inline]
    fn next_reported(&mut self) -> Option<Step<L::Stream>> {
        while let Some(Event { key, ready, .. }) = self.batch.take() {
            match self.slots.find(self.naming.bits(key)) {
                Some(token) => return Some(Step::Ready(token, ready)),
                None => self.note(key, ready),
            }
        }
        None
    }

    /// Takes in an event that is no token's, or of a token that does not live any more.
    #[cold]
    #[inline(never)]
    fn note(&mut self, key: u64, ready: Ready) {
        let known = match Naming::other(key) {
            Other::Listener(id) => self.accepting.note(id, ready),
            Other::Notification => self.accepting.on_notified(),
            Other::Ticker => true,
            Other::Gone => false,
        };
        self.stats.stale += u64::from(!known);
    }

    fn next_accepted(&mut self) -> Option<Step<L::Stream>> {
        if self.load().is_full() {
            self.accepting.leave_to_kernel(&mut self.stats);
            return None;
        }
        let left = &mut self.left.accepts;
        let client = self.accepting.next(left, &self.clock, &mut self.stats)?;
        Some(Step::Accepted(client))
    }

    fn next_wake(&mut self) -> Option<Step<L::Stream>> {
        self.outside.take_wake().then_some(Step::Woken)
    }

    fn next_expired(&mut self) -> Option<Step<L::Stream>> {
        let (left, now_ms) = (&mut self.left.expired, self.clock.monotonic_ms());
        let (index, timer, due_ms) = self.timers.pop_expired(now_ms, left)?;
        self.stats.expired += 1;
        let late_ns = late_ns(self.clock.monotonic_ns(), due_ms);
        self.measures.histograms.timer_was_late(late_ns);
        Some(Step::Expired(self.slots.occupant(index), timer))
    }

    fn next_posted(&mut self) -> Option<Step<L::Stream>> {
        self.left.posted = self.left.posted.checked_sub(1)?;
        let (token, ready) = self.slots.pop_posted()?;
        self.stats.posted += 1;
        Some(Step::Ready(token, ready))
    }
}

/// The lesser of two times, if there are any.
#[inline]
pub(crate) fn earliest<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
