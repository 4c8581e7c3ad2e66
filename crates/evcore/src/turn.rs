//! The order of a turn, which is nginx's.
//!
//! Before the wait comes [`plan_turn`](EventLoop::plan_turn), after it
//! [`begin_turn`](EventLoop::begin_turn). Then the table in
//! [`next_in_order`](EventLoop::next_in_order) names the phases. What a phase does is in `phases.rs`
//! and in the rooms that it calls.

use std::time::Duration;

use evcore_balancer::Load;

use crate::{Acceptor, EventLoop, Result, Step, timers::NS_PER_MS};

/// A phase of a turn. [`EventLoop::next_in_order`] has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What the kernel reported, as it came.
    Events,
    /// Chooses the idle connections whose slots this turn needs.
    ChooseEvictions,
    /// Clients of the listeners.
    Accepts,
    /// Gives the accept lock back, if this turn holds it.
    ReleaseLock,
    /// A wake-up from another thread.
    Wakes,
    /// Timers that have expired.
    Timers,
    /// The posted queue.
    Posts,
    /// Idle connections to be closed.
    Evictions,
    /// The turn is over.
    Over,
}

impl<L: Acceptor> EventLoop<L> {
    /// The next step after the wait. This table is the order of a turn: a phase runs until it
    /// has no step, then the next one does.
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
                Phase::Over => return None,
            };
            if step.is_some() {
                return step;
            }
            self.phase = next;
        }
    }

    /// Before the wait: finishes the turn before, makes the listeners follow the balancer's plan,
    /// and returns how long the wait may last (`None`: without limit).
    ///
    /// `now_ns` is the time, if it was read since the turn before.
    pub(crate) fn plan_turn(&mut self, now_ns: Option<u64>) -> Option<Duration> {
        self.finish_turn();
        let now_ns = self.time_of_plan(now_ns);
        let load = self.load_to_offer();
        let limit = if self.accepting.keeps_plan(load) {
            None
        } else {
            self.follow_plan(load, now_ns / NS_PER_MS)
        };
        self.timeout(limit, now_ns)
    }

    /// Waits, and updates the clock. Returns whether it was updated.
    pub(crate) fn wait_for_events(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let waited = self.batch.wait(&mut self.poller, timeout);
        // Even if the wait failed: no other wait reports this wake-up.
        if self.batch.was_woken() {
            self.remote.on_woken();
        }
        let waited = waited.and_then(|()| self.updates.update(&mut self.clock, &self.batch));
        match waited {
            Ok(ticked) => {
                let is_empty = timeout.is_none() && self.batch.is_nothing();
                self.stats.empty_waits += u64::from(is_empty);
                self.stats.ticks += u64::from(ticked);
            }
            Err(_) => self.accepting.release_lock(),
        }
        Ok(waited? || self.updates.is_every_wait())
    }

    /// After the wait: takes in what other threads have requested. A turn that holds the accept
    /// lock posts its batch, so that it accepts and releases the lock before handlers run.
    pub(crate) fn begin_turn(&mut self) {
        self.stats.turns += 1;
        self.stats.events += self.batch.len() as u64;
        self.left = self.budgets;
        self.left.accepts = self.accepting.allowance(self.budgets.accepts);
        self.phase = Phase::Events;
        if self.remote.has_news() {
            self.take_remote_requests();
        }
        if self.accepting.holds_lock() {
            self.post_batch();
        }
    }

    /// Leaves nothing of the turn before except what is queued. What was put off to the next turn
    /// is due now.
    pub(crate) fn finish_turn(&mut self) {
        self.post_batch();
        self.slots.begin_turn();
        self.accepting.release_lock();
        self.phase = Phase::Over;
    }

    /// Whether anything was left over for this turn, which then does not wait.
    pub(crate) fn has_work(&self) -> bool {
        let queued = self.slots.has_posted() || self.accepting.has_queued();
        queued || self.remote.has_work() || self.has_evictions()
    }

    /// Skips the later phases if none of them has anything to do.
    fn phase_after_events(&self) -> Phase {
        let has_work = self.has_work()
            || self.accepting.holds_lock()
            || self.timers.may_expire(self.clock.monotonic_ms());
        if has_work {
            Phase::ChooseEvictions
        } else {
            Phase::Over
        }
    }

    /// Makes the listeners follow the balancer's plan, and returns the plan's limit of the wait.
    fn follow_plan(&mut self, load: Load, now_ms: u64) -> Option<Duration> {
        let batch_was_full = self.batch.is_full();
        loop {
            let (accepting, poller) = (&mut self.accepting, &mut self.poller);
            let plan = accepting.plan(now_ms, load, batch_was_full, &mut self.stats);
            if accepting.follow(&plan, &self.clock, poller, &mut self.stats) {
                return plan.wait_at_most;
            }
            // The poller refused every listener. They are suspended now, so the next plan is not to
            // listen.
        }
    }

    /// The time from which the wait is counted: the present, if anything depends on it.
    ///
    /// The clock is behind by what the handlers took, and by what was done before the first wait or
    /// after a wait that failed. No deadline may be late by that.
    fn time_of_plan(&self, now_ns: Option<u64>) -> u64 {
        let has_deadline = self.updates.is_every_wait() && self.has_deadline();
        if has_deadline || self.accepting.is_timed() {
            now_ns.unwrap_or_else(|| self.clock.monotonic_ns_now())
        } else {
            self.clock.monotonic_ns()
        }
    }

    /// Zero if work was left over or the loop is done; otherwise the time to the first of: the next
    /// timer, the end of a shutdown, the end of a pause of the listeners, the plan's limit.
    fn timeout(&mut self, limit: Option<Duration>, now_ns: u64) -> Option<Duration> {
        if self.has_work() || self.is_shut_down() {
            return Some(Duration::ZERO);
        }
        let limit = earliest(limit, self.accepting.resumes_in(now_ns));
        if self.updates.is_every_wait() {
            return earliest(self.due_in(now_ns), limit);
        }
        // The clock stands still until a tick, so a deadline counts from the time that it shows.
        let due = self.due_in(self.clock.monotonic_ns());
        earliest(self.updates.wait_limit(due, &self.clock), limit)
    }

    /// The time to the next timer or to the end of a shutdown.
    fn due_in(&mut self, now_ns: u64) -> Option<Duration> {
        earliest(self.timers.wait(now_ns), self.gives_up_in(now_ns))
    }

    fn has_deadline(&self) -> bool {
        self.timers.may_be_armed() || self.is_shutting_down()
    }
}

/// The lesser of two values, if there are any.
#[inline]
pub(crate) fn earliest<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
