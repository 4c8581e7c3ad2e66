//! The work of each phase of a turn, which is one iteration of the loop. `turn.rs` has the order of
//! the phases.

use evcore_poller::{Event, Ready};
use evcore_token::Token;

use crate::{
    acceptor::Acceptor,
    error::Result,
    event_loop::EventLoop,
    keys::{KeyOwner, TICKER_KEY},
    record::Record,
    step::Step,
    time::late_ns,
};

impl<L: Acceptor> EventLoop<L> {
    /// The next event of a current token. This is inlined into the caller's loop, because most
    /// steps are events.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Step<L::Stream>> {
        while let Some(Event { key, ready, .. }) = self.batch.take() {
            match self.slots.find(key) {
                Some(token) => return Some(Step::Ready(token, ready)),
                None => self.on_other_event(key, ready),
            }
        }
        None
    }

    #[inline(never)]
    pub(crate) fn make_plan(&mut self, now_ns: u64) {
        let load = self.load();
        let idle = self.evictions.len();
        self.accepting.coordinator.plan_moves(load.active, idle);
        let offered = self.evictions.load_to_offer(load);
        let clock = &self.clock;
        let (poller, stats) = (&mut self.poller, &mut self.stats);
        self.accepting.note_load(load, offered, stats);
        let plan = self
            .accepting
            .make_plan(now_ns, offered, clock, poller, stats);
        self.record(Record::of_plan(&plan));
    }

    #[inline]
    pub(crate) fn update_clock_after_wait(&mut self) -> Result<()> {
        if self.updates.is_every_wait() {
            self.clock.update();
            return Ok(());
        }
        self.update_clock_by_ticks()
    }

    #[cold]
    #[inline(never)]
    fn update_clock_by_ticks(&mut self) -> Result<()> {
        let batch = &self.batch;
        // A full batch may have left out the ticker's event.
        let may_have_ticked = || batch.is_full() || batch.has(|key| key == TICKER_KEY);
        let ticked = self.updates.update(&mut self.clock, may_have_ticked)?;
        self.stats.ticks += u64::from(ticked);
        Ok(())
    }

    /// Posts the events that are left in the batch, so that their steps come in a later phase or in
    /// the next turn. The events of listeners are queued for accepting.
    #[inline(never)]
    pub(crate) fn post_batch(&mut self) {
        while let Some(Event { key, ready, .. }) = self.batch.take() {
            match self.slots.find(key) {
                Some(token) if self.post(token, ready) => {}
                _ => self.on_other_event(key, ready),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn on_other_event(&mut self, key: u64, ready: Ready) {
        let known = match KeyOwner::of(key) {
            KeyOwner::Listener(id) => self.accepting.on_event(id, ready),
            KeyOwner::Notifier => self.accepting.on_notified(ready),
            KeyOwner::Ticker => true,
            KeyOwner::Ended(_) => false,
        };
        if !known {
            self.on_stale(Token::from_bits(key));
        }
    }

    /// Counts a dropped event. `token` is the closed token; `None` for an event of a listener.
    #[cold]
    pub(crate) fn on_stale(&mut self, token: Option<Token>) {
        self.stats.stale += 1;
        self.record(Record::Stale(token));
    }

    /// Queues posts of other threads, at most a budget of them, and begins a shutdown that other
    /// threads have requested.
    #[inline(never)]
    pub(crate) fn take_requests(&mut self) {
        self.requests.take_posts(self.budgets.posted);
        while let Some((index, generation, ready)) = self.requests.next_post() {
            let token = Token::new(index, generation);
            let known = self.slots.post(token, ready);
            self.stats.received += 1;
            self.stats.stale += u64::from(!known);
            self.record(Record::of_post(token, ready, known));
        }
        if let Some(timeout) = self.requests.take_shutdown() {
            self.shutdown(timeout);
        }
    }

    pub(crate) fn next_accepted(&mut self) -> Option<Step<L::Stream>> {
        if self.load().is_full() {
            self.accepting.drop_backlog_hints(&mut self.stats);
            return None;
        }
        let left = &mut self.left.accepts;
        let client = self.accepting.next(left, &self.clock, &mut self.stats);
        if client.is_none() {
            self.after_accepting();
        }
        client.map(Step::Accepted)
    }

    /// Chooses evictions if descriptors are lacking, or forgets the choice if no client has come:
    /// the kernel may wake several workers for a client, and another one may have accepted it.
    #[inline]
    fn after_accepting(&mut self) {
        if self.accepting.take_need_of_evictions() {
            self.choose_evictions_by_age();
        } else if self.evictions.any_chosen() && !self.has_met_clients() {
            self.evictions.forget_choice();
        }
    }

    /// Returns whether this turn has accepted a client, or may have left one in a backlog.
    fn has_met_clients(&self) -> bool {
        let allowance = self.accepting.allowance(self.budgets.accepts);
        self.accepting.has_queued() || self.left.accepts < allowance
    }

    pub(crate) fn release_lock(&mut self) -> Option<Step<L::Stream>> {
        self.unlock();
        None
    }

    #[inline]
    pub(crate) fn unlock(&mut self) {
        if self.accepting.coordinator.holds_lock() {
            self.unlock_held();
        }
    }

    #[inline(never)]
    fn unlock_held(&mut self) {
        self.accepting.coordinator.release_lock();
        self.record(Record::LockReleased);
    }

    pub(crate) fn next_wake(&mut self) -> Option<Step<L::Stream>> {
        if self.shutdown.take_announcement() {
            return Some(Step::ShuttingDown);
        }
        self.requests.take_wake().then_some(Step::Woken)
    }

    pub(crate) fn next_expired(&mut self) -> Option<Step<L::Stream>> {
        let (index, timer, due_ms) = self.timers.pop_expired(&mut self.left.expired)?;
        self.stats.expired += 1;
        let now_ns = self.clock.monotonic_ns();
        self.instruments.timer_was_late(|| late_ns(now_ns, due_ms));
        Some(Step::Expired(self.slots.occupant(index), timer))
    }

    pub(crate) fn next_posted(&mut self) -> Option<Step<L::Stream>> {
        self.left.posted = self.left.posted.checked_sub(1)?;
        let (token, ready) = self.slots.pop_posted()?;
        self.stats.posted += 1;
        Some(Step::Ready(token, ready))
    }
}
