//! The order of the phases in a turn (iteration of the loop). The order is nginx's. A *plan* is the
//! balancer's decision for one or more turns, for example whether this worker listens.
//!
//! [`plan_turn`](EventLoop::plan_turn) comes before the wait, and
//! [`begin_turn`](EventLoop::begin_turn) after it. [`next_in_order`](EventLoop::next_in_order) has
//! the phases that follow.

use std::time::Duration;

use evcore_balancer::Coordinator;

use crate::{
    acceptor::Acceptor,
    error::{Error, Result},
    event_loop::EventLoop,
    keys::is_listener,
    phase::Phase,
    step::Step,
    time::{NEVER, rough_time_to, time_to},
};

impl<L: Acceptor> EventLoop<L> {
    /// The next step after the wait. This table is the order of a turn: a phase runs until it has
    /// no step, and then the next phase runs.
    pub(crate) fn next_in_order(&mut self) -> Option<Step<L::Stream>> {
        loop {
            let (step, next) = match self.phase {
                Phase::Events => (self.next_event(), self.phase_after_events()),
                Phase::ChooseEvictions => (self.choose_evictions(), Phase::Accepts),
                Phase::Accepts => (self.next_accepted(), Phase::ReleaseLock),
                Phase::ReleaseLock => (self.release_lock(), Phase::Wakes),
                Phase::Wakes => (self.next_wake(), Phase::Timers),
                Phase::Timers => (self.next_expired(), Phase::Posts),
                Phase::Posts => (self.next_posted(), Phase::Evictions),
                Phase::Evictions => (self.next_eviction(), Phase::Over),
                Phase::Over | Phase::Prepared => return None,
            };
            if step.is_some() {
                return step;
            }
            self.phase = next;
        }
    }

    /// Does the work before the wait: finishes the previous turn, makes a new plan if the last one
    /// is over or does not fit any more, and returns the timeout of the wait (`None`: without
    /// limit).
    ///
    /// `now_ns` is the present time if it has been read since the previous turn ended. `is_plain`
    /// is a constant in each call, so that the compiler removes the branches on it.
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    pub(crate) fn plan_turn(&mut self, now_ns: Option<u64>, is_plain: bool) -> Option<Duration> {
        self.finish_turn();
        let due_ns = if is_plain {
            self.timers.due_at_ns()
        } else {
            self.due_at_ns()
        };
        // A plan does not outlast a pause or a suspension of listeners.
        let ends_ns = due_ns.min(self.accepting.coordinator.plan_ends_at_ns());
        let ends = ends_ns != NEVER;
        let rough = if ends && is_plain {
            self.rough_time_to(ends_ns)
        } else {
            None
        };
        let is_near = ends && rough.is_none();
        let timeout = if is_near || !self.keeps_plan() {
            self.plan_by_clock(now_ns, due_ns, is_near)
        } else {
            rough
        };
        if self.has_work() || !is_plain && self.shutdown_has_steps() {
            self.slots.begin_turn();
            return Some(Duration::ZERO);
        }
        timeout
    }

    /// Reads the clock, makes a plan if the last one is over or does not fit any more, and returns
    /// the timeout, which counts from now. If `is_near` is false, the last plan does not fit.
    #[inline(never)]
    fn plan_by_clock(
        &mut self,
        now_ns: Option<u64>,
        due_ns: u64,
        is_near: bool,
    ) -> Option<Duration> {
        let clock = &self.clock;
        let now_ns = now_ns.unwrap_or_else(|| clock.monotonic_ns_now());
        if is_near && self.updates.is_every_wait() {
            let lasted_ns = now_ns.saturating_sub(self.turn_began_ns());
            if lasted_ns >= Coordinator::LONG_TURN_NS {
                self.end_long_turn(lasted_ns, now_ns);
            }
        }
        let is_over = !is_near || self.accepting.coordinator.plan_ends_at_ns() <= now_ns;
        if is_over || !self.keeps_plan() {
            self.make_plan(now_ns);
        }
        let ends_ns = due_ns.min(self.accepting.coordinator.plan_ends_at_ns());
        time_to(ends_ns, now_ns)
    }

    /// The time at which this turn began. The clock shows a later time if a handler has updated it.
    fn turn_began_ns(&self) -> u64 {
        let (turn, began_ns) = self.updated_turn;
        if turn == self.stats.turns {
            began_ns
        } else {
            self.clock.monotonic_ns()
        }
    }

    pub(crate) fn update_clock_within_turn(&mut self) {
        self.updated_turn = (self.stats.turns, self.turn_began_ns());
        self.clock.update();
    }

    /// Returns whether the last plan, which is not over, fits this turn. Takes the accept lock
    /// again if the plan holds it.
    #[inline]
    fn keeps_plan(&mut self) -> bool {
        let (load, evictions) = (self.load(), &self.evictions);
        let offer = || evictions.load_to_offer(load);
        self.accepting.coordinator.keeps_plan(load.active, offer)
    }

    /// A timeout for a deadline that is far away, without a reading of the clock: about half of the
    /// time from the beginning of the turn to the deadline. `None` if the deadline is near, or
    /// after a turn without events, so that the next wait is exact.
    ///
    /// After a turn with events, other events mostly come before the deadline. The rough timeout
    /// makes a timer late only if this turn takes longer than the other half, and then by less than
    /// the length of this turn.
    #[inline]
    fn rough_time_to(&self, ends_ns: u64) -> Option<Duration> {
        if self.batch.len() == 0 {
            return None;
        }
        rough_time_to(ends_ns, self.clock.monotonic_ns())
    }

    /// The time at which the wait must end for a timer, an act of a shutdown, or an update of the
    /// clock without a ticker.
    pub(crate) fn due_at_ns(&mut self) -> u64 {
        let due_ns = self.timers.due_at_ns().min(self.shutdown.next_ns());
        self.updates.wait_ends_at_ns(due_ns, &self.clock)
    }

    /// Reports a long turn to the balancer. After `prepare` nothing is reported, because `prepare`
    /// has reported the turn, and an outer loop may have slept since then.
    #[cold]
    #[inline(never)]
    fn end_long_turn(&mut self, lasted_ns: u64, now_ns: u64) {
        if self.phase != Phase::Prepared {
            self.accepting.coordinator.on_turn_end(lasted_ns, now_ns);
        }
    }

    /// Waits, and updates the clock. `is_plain` is a constant in each call.
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    pub(crate) fn wait_for_events(
        &mut self,
        timeout: Option<Duration>,
        is_plain: bool,
    ) -> Result<()> {
        match self.batch.wait(&mut self.poller, timeout) {
            Ok(0) => self.on_no_events(timeout),
            Ok(count) => self.stats.events += count as u64,
            Err(error) => return self.leave_failed_wait(error),
        }
        if is_plain {
            self.clock.update();
        } else if let Err(error) = self.update_clock_after_wait() {
            return self.leave_failed_wait(error);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn on_no_events(&mut self, timeout: Option<Duration>) {
        if self.batch.is_nothing() && timeout.is_none() {
            self.stats.empty_waits += 1;
        }
    }

    /// Keeps the events and the wake-up of a wait that failed. No later wait reports this wake-up.
    /// If only the clock failed, the kernel may not report these events again.
    #[cold]
    #[inline(never)]
    fn leave_failed_wait(&mut self, error: Error) -> Result<()> {
        self.take_wake();
        self.phase = Phase::Over;
        self.leave_turn();
        Err(error)
    }

    /// Does the work after the wait: takes in the requests of other threads. If this turn holds the
    /// accept lock and a client waits, posts the batch (queues its events for a later phase), so
    /// that clients are accepted before handlers run.
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    pub(crate) fn begin_turn(&mut self) {
        self.stats.turns += 1;
        self.phase = Phase::Events;
        if self.batch.is_full_or_woken() || self.requests.may_have_posts() {
            self.on_full_or_requests();
        }
        if self.accepting.coordinator.holds_lock() {
            if self.accepting.has_queued() || self.batch.has(is_listener) {
                self.post_batch();
            } else {
                self.unlock();
            }
        }
    }

    #[inline(never)]
    fn on_full_or_requests(&mut self) {
        if self.batch.is_full() {
            self.accepting.on_full_batch();
        }
        self.take_wake();
        if self.requests.may_have_posts() {
            self.take_requests();
        }
    }

    /// Records that a waker ended the wait, because other threads may have made requests.
    fn take_wake(&mut self) {
        if self.batch.was_woken() {
            self.requests.on_woken();
        }
    }

    /// Finishes the previous turn, if the program left it early: its remaining events are posted,
    /// and the lock is released. A turn that `prepare` has prepared stays prepared until its wait
    /// has begun or failed.
    #[inline]
    fn finish_turn(&mut self) {
        if self.phase != Phase::Over {
            self.leave_turn();
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_turn(&mut self) {
        self.post_batch();
        self.unlock();
        if self.phase != Phase::Prepared {
            self.phase = Phase::Over;
        }
    }

    /// Returns whether there are posted steps, listeners to try, or requests of other threads. A
    /// turn that begins with such work does not wait.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.queued() | self.requests.pending() != 0
    }

    /// Number of posted steps and of listeners to try. It is a sum, because one test is cheaper
    /// than two.
    #[inline]
    pub(crate) fn queued(&self) -> u32 {
        self.slots.posted() + self.accepting.queued()
    }

    /// Skips the later phases if none of them has anything to do. Otherwise resets their budgets.
    #[inline]
    pub(crate) fn phase_after_events(&mut self) -> Phase {
        if !self.has_later_work() {
            return Phase::Over;
        }
        self.timers.begin_phase(self.clock.monotonic_ns());
        self.left = self.budgets;
        self.left.accepts = self.accepting.allowance(self.budgets.accepts);
        Phase::ChooseEvictions
    }

    #[inline]
    pub(crate) fn has_later_work(&self) -> bool {
        self.has_work()
            || self.accepting.coordinator.holds_lock()
            || self.timers.may_expire(self.clock.monotonic_ns())
            || !self.is_plain && self.shutdown_has_steps()
    }
}
