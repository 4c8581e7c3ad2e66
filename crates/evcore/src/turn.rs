//! One pass of the loop, in nginx's order. Each line calls one part.

use std::time::Duration;

use evcore_balancer::Plan;
use evcore_poller::Ready;
use evcore_timer::TimerQueue;

use crate::{
    EventLoop, Result, Step,
    event_loop::until_tick,
    naming::{Named, named, timer_owner},
};

/// Where a turn is. The order of the variants is the order of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What the kernel reported, listeners included, as it came.
    Batch,
    /// The listeners of a batch that was posted, while the accept lock is held.
    Accepts,
    /// A wake-up from elsewhere.
    Woken,
    /// Timers.
    Expired,
    /// The posted queue.
    Posted,
    /// Nothing is left to do in this turn.
    Over,
}

impl EventLoop {
    /// Begins a turn: waits until there is something to do, and updates the clock.
    ///
    /// A turn that was left early is finished first: the accept lock is released, and what was not
    /// delivered is kept for this turn, which then does not wait. A signal ends the wait, and may
    /// make a turn that has no steps.
    ///
    /// # Errors
    ///
    /// The poller's or a listener's; the loop can go on.
    pub fn wait(&mut self) -> Result<()> {
        self.finish_turn();
        self.report_failure()?;
        let plan = self.plan();
        self.follow(&plan)?;
        let timeout = self.timeout(&plan);
        self.wait_for_events(timeout)?;
        self.clock.update();
        self.begin_turn(&plan);
        Ok(())
    }

    /// The next thing to do in this turn; `None` ends the turn.
    #[inline]
    pub fn next_step(&mut self) -> Option<Step> {
        while self.phase != Phase::Over {
            let step = match self.phase {
                Phase::Batch => self.next_reported(),
                Phase::Accepts => self.next_accept(),
                Phase::Woken => self.next_wake(),
                Phase::Expired => self.next_expired(),
                Phase::Posted => self.next_posted(),
                Phase::Over => None,
            };
            if step.is_some() {
                return step;
            }
            self.enter_next_phase();
        }
        None
    }

    fn enter_next_phase(&mut self) {
        self.phase = match self.phase {
            Phase::Batch => Phase::Accepts,
            Phase::Accepts => {
                self.release_lock();
                Phase::Woken
            }
            Phase::Woken => Phase::Expired,
            Phase::Expired => Phase::Posted,
            Phase::Posted | Phase::Over => Phase::Over,
        };
    }

    /// Leaves nothing of the turn before but what is queued.
    fn finish_turn(&mut self) {
        self.post_rest_of_batch();
        self.accepts.clear();
        self.release_lock();
        self.phase = Phase::Over;
    }

    fn report_failure(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// The earliest of the next deadline, what the accept side allows, and now if work was carried
    /// over.
    fn timeout(&self, plan: &Plan) -> Option<Duration> {
        if self.woken || !self.posted.is_empty() {
            return Some(Duration::ZERO);
        }
        let now_ns = self.clock.monotonic_ns();
        let timer = self
            .timers
            .next_deadline()
            .map(|tick| until_tick(now_ns, tick));
        [timer, self.accept_wait_limit(plan)]
            .into_iter()
            .flatten()
            .min()
    }

    fn wait_for_events(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.next_event = 0;
        match self.poller.wait(&mut self.batch, timeout) {
            Ok(_) | Err(evcore_poller::Error::Interrupted) => Ok(()),
            Err(error) => {
                self.release_lock();
                Err(error.into())
            }
        }
    }

    fn begin_turn(&mut self, plan: &Plan) {
        self.stats.turns += 1;
        self.stats.events += self.batch.len() as u64;
        self.woken |= self.batch.woken();
        self.left = self.budgets;
        self.phase = Phase::Batch;
        if plan.holds_lock {
            self.post_rest_of_batch();
        }
    }

    /// Puts what is left of the batch into the queues: listeners to be accepted from, all others
    /// to be delivered after the lock is released.
    fn post_rest_of_batch(&mut self) {
        while let Some(event) = self.batch.at(self.next_event) {
            self.next_event += 1;
            match named(event.key, self.first_token) {
                Named::Listener(id) => {
                    self.accepts.post(id);
                }
                Named::Token(token) => {
                    if !self.post(token, event.ready) {
                        self.stats.stale += 1;
                    }
                }
            }
        }
    }

    /// From the batch, as it came; a listener's clients where its event stands.
    #[inline]
    fn next_reported(&mut self) -> Option<Step> {
        loop {
            if !self.accepts.is_empty()
                && let Some(step) = self.next_accept()
            {
                return Some(step);
            }
            let event = self.batch.at(self.next_event)?;
            self.next_event += 1;
            match named(event.key, self.first_token) {
                Named::Token(token) if self.slots.has(token) => {
                    return Some(Step::Ready(token, event.ready));
                }
                Named::Token(_) => self.stats.stale += 1,
                Named::Listener(id) => {
                    self.accepts.post(id);
                }
            }
        }
    }

    fn next_wake(&mut self) -> Option<Step> {
        std::mem::take(&mut self.woken).then_some(Step::Woken)
    }

    fn next_expired(&mut self) -> Option<Step> {
        self.left.expired = self.left.expired.checked_sub(1)?;
        let (id, _) = self.timers.pop_expired(self.clock.monotonic_ms())?;
        let (index, side) = timer_owner(id);
        let token = self
            .slots
            .living(index)
            .expect("closing a token disarms its timers");
        self.stats.expired += 1;
        Some(Step::Expired(token, side))
    }

    fn next_posted(&mut self) -> Option<Step> {
        self.left.posted = self.left.posted.checked_sub(1)?;
        let index = self.posted.pop()?;
        let token = self
            .slots
            .living(index)
            .expect("closing a token cancels its posts");
        let slot = self.slots.of(token).expect("it lives");
        let ready = std::mem::replace(&mut slot.posted, Ready::NONE);
        self.stats.posted += 1;
        Some(Step::Ready(token, ready))
    }
}
