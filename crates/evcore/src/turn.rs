//! The order of a turn, which is nginx's.
//!
//! Before the wait comes [`plan_turn`](EventLoop::plan_turn), after it
//! [`begin_turn`](EventLoop::begin_turn). Then the table in
//! [`next_in_order`](EventLoop::next_in_order) names the phases. What a phase does is in `phases.rs`
//! and in the rooms that it calls.

use std::time::Duration;

use crate::{
    Acceptor, EventLoop, Result, Step,
    timers::{NEVER, time_to},
};

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
    /// The beginning of a shutdown, and a wake-up from another thread.
    Wakes,
    /// Timers that have expired.
    Timers,
    /// The posted queue.
    Posts,
    /// Idle connections to be closed.
    Evictions,
    /// The turn is over.
    Over,
    /// The next turn is planned, and its wait has not begun.
    Prepared,
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
                Phase::Over | Phase::Prepared => return None,
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
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    pub(crate) fn plan_turn(&mut self, now_ns: Option<u64>) -> Option<Duration> {
        self.finish_turn();
        let due_ns = self.timers.due_at_ns().min(self.shutdown_acts_at_ns());
        let now_ns = now_ns.or_else(|| self.time_of_wait(due_ns));
        if let Some(now_ns) = now_ns.filter(|_| self.updates.is_every_wait()) {
            let lasted_ns = now_ns.saturating_sub(self.clock.monotonic_ns());
            self.accepting.coordinator.on_turn_end(lasted_ns, now_ns);
        }
        let (load, known_ns) = (self.load(), now_ns.unwrap_or(self.clock.monotonic_ns()));
        let evictions = &self.evictions;
        let offer = || evictions.load_to_offer(load);
        if self.batch.is_full() {
            self.accepting.on_full_batch();
        }
        let now_ns = if self
            .accepting
            .coordinator
            .keeps_plan(known_ns, load.active, offer)
        {
            now_ns
        } else {
            Some(self.make_plan(now_ns))
        };
        if self.has_work() || self.is_shut_down() {
            return Some(Duration::ZERO);
        }
        self.timeout(due_ns, now_ns)
    }

    /// Waits, and updates the clock. Returns whether it was updated.
    #[expect(clippy::inline_always, reason = "the wait is one function")]
    #[inline(always)]
    pub(crate) fn wait_for_events(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let waited = self.batch.wait(&mut self.poller, timeout);
        // Even if the wait failed: no other wait reports this wake-up.
        if self.batch.was_woken() {
            self.remote.on_woken();
        }
        let updated = waited.and_then(|()| self.update_clock_after_wait());
        if updated.is_err() {
            // If only the clock failed, the kernel may not report these events again.
            self.post_batch();
            self.unlock();
        } else if timeout.is_none() && self.batch.is_nothing() {
            self.stats.empty_waits += 1;
        }
        updated
    }

    /// After the wait: takes in what other threads have requested. A turn that holds the accept
    /// lock releases it before handlers run. If a client waits, it posts its batch and accepts
    /// first.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        self.stats.turns += 1;
        self.stats.events += self.batch.len() as u64;
        self.phase = Phase::Events;
        if self.remote.has_news() {
            self.take_remote_requests();
        }
        if self.accepting.coordinator.holds_lock() {
            if self.accepting.has_queued() || self.batch.has(|key| self.keys.is_listener(key)) {
                self.post_batch();
            } else {
                self.unlock();
            }
        }
    }

    /// Leaves nothing of the turn before except what is queued. What was put off to the next turn
    /// is due now.
    #[inline]
    pub(crate) fn finish_turn(&mut self) {
        if self.phase != Phase::Over {
            self.post_batch();
        }
        self.phase = Phase::Over;
        if self.slots.has_posted() {
            self.slots.begin_turn();
        }
        self.unlock();
    }

    /// Whether anything was left over for this turn, which then does not wait.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.has_queued() || self.remote.has_work()
    }

    /// Whether the loop itself has left something over.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.slots.has_posted() || self.accepting.has_queued() || self.has_evictions()
    }

    /// Skips the later phases if none of them has anything to do. Otherwise their budgets begin.
    #[inline]
    pub(crate) fn phase_after_events(&mut self) -> Phase {
        if !self.has_later_work() {
            return Phase::Over;
        }
        self.timers.begin_phase(self.clock.monotonic_ms());
        self.left = self.budgets;
        self.left.accepts = self.accepting.allowance(self.budgets.accepts);
        Phase::ChooseEvictions
    }

    /// Whether a phase after the events has anything to do.
    #[inline]
    pub(crate) fn has_later_work(&self) -> bool {
        self.has_work()
            || self.accepting.coordinator.holds_lock()
            || self.timers.may_expire(self.clock.monotonic_ms())
    }

    /// The present, if the next wait has a limit that counts from it.
    ///
    /// The clock is behind by what the handlers took, and by what was done before the first wait or
    /// after a wait that failed. Between two ticks it stands still, and timers count from what it
    /// shows.
    #[inline]
    fn time_of_wait(&self, due_ns: u64) -> Option<u64> {
        let plan_ends_ns = self.accepting.coordinator.plan_ends_at_ns();
        let is_due = due_ns != NEVER && self.updates.is_every_wait();
        (is_due || plan_ends_ns != NEVER).then(|| self.clock.monotonic_ns_now())
    }

    /// The time to the first of: the next timer or act of a shutdown (`due_ns`), the end of a
    /// pause of the listeners, the end of the plan.
    #[inline]
    fn timeout(&self, due_ns: u64, now_ns: Option<u64>) -> Option<Duration> {
        let limit_ns = self.accepting.coordinator.plan_ends_at_ns();
        if !self.updates.is_every_wait() {
            return self
                .updates
                .timeout_between_ticks(due_ns, limit_ns, now_ns, &self.clock);
        }
        let now_ns = now_ns.unwrap_or(self.clock.monotonic_ns());
        time_to(due_ns.min(limit_ns), now_ns)
    }
}
