//! The listeners' side of a turn: when to listen, and taking clients in.
//!
//! Listeners are level-triggered, so nothing is lost where a client is left in the backlog: who
//! waits there is reported again, to this worker or to another.

use std::{mem, time::Duration};

use evcore_accept::{Accept, Backoff, ReserveFd, Resource};
use evcore_balancer::{Leadership, Load, Plan};
use evcore_clock::Clock;
use evcore_poller::{Poller, Ready};
use evcore_posted::PostedQueue;

use crate::{
    Accepted, Acceptor, ListenerError, Result, Stats, group::Coordination, listeners::Listeners,
    timers::NS_PER_MS, turn::earliest,
};

/// The listeners of one worker, and all that decides whether they are watched.
#[derive(Debug)]
pub(crate) struct Accepting<L> {
    // Invariant: from plan to plan, all that are not suspended are registered with the poller, or
    // none is. (That the lock is held is another fact: it is given back every turn, and the
    // registrations stay.)
    listeners: Listeners<L>,
    coordination: Coordination,
    /// Listeners that may have clients waiting, in the order of their turns.
    // Invariant: empty while not listening.
    queue: PostedQueue,
    /// Clients may have been left waiting of whom the queue does not tell any more.
    left_behind: bool,
    /// All places were taken when this was last asked, and it was counted.
    is_full: bool,
    /// How many clients the plan of this turn lets in.
    allowed: usize,
    /// The pause for want of descriptors or memory.
    backoff: Backoff,
    reserve: ReserveFd,
}

impl<L: Acceptor> Accepting<L> {
    pub(crate) fn new(listeners: Vec<L>, coordination: Coordination) -> Self {
        let mut reserve = ReserveFd::empty();
        if L::TAKES_DESCRIPTORS && !listeners.is_empty() {
            reserve.acquire();
        }
        Self {
            listeners: Listeners::new(listeners),
            coordination,
            queue: PostedQueue::new(),
            left_behind: false,
            is_full: false,
            allowed: usize::MAX,
            backoff: Backoff::new(),
            reserve,
        }
    }

    /// The balancer's plan for this turn. The lock may be held from here on. After a full batch the
    /// kernel may still have an event of a listener to report.
    pub(crate) fn plan(
        &mut self,
        now_ms: u64,
        load: Load,
        batch_was_full: bool,
        poller: &Poller,
        stats: &mut Stats,
    ) -> Plan {
        self.backoff.expire(Duration::from_millis(now_ms));
        self.listeners.resume(now_ms);
        if load.is_full() && !self.listeners.is_empty() {
            self.count_full(stats);
        } else {
            self.is_full = false;
        }
        // Without a listener, or out of descriptors, there is no place to put a client either.
        let load = if self.backoff.resumes_at().is_none() && self.listeners.any_accepts() {
            load
        } else {
            full(load)
        };
        let exclusive = poller.capabilities().exclusive;
        // The kernel has woken no other worker for an event that this one leaves there.
        let left_clients = mem::take(&mut self.left_behind)
            || !self.queue.is_empty()
            || (self.is_listening() && batch_was_full);
        let plan = self
            .coordination
            .plan(now_ms, load, left_clients, exclusive);
        self.allowed = plan
            .accepts_at_most
            .map_or(usize::MAX, |clients| clients as usize);
        plan
    }

    /// Registers the listeners, or takes them out, if the plan differs from what is registered, and
    /// notifies the other workers in the order that the plan asks for. A listener that the poller
    /// refuses is suspended.
    ///
    /// Returns false if the plan was to listen, and every listener was refused. This worker then has
    /// no lock and does not lead, and the next plan notifies another in its place.
    #[must_use]
    pub(crate) fn follow(
        &mut self,
        plan: &Plan,
        clock: &Clock,
        poller: &mut Poller,
        stats: &mut Stats,
    ) -> bool {
        if plan.leadership == Leadership::Release {
            self.coordination.step_down();
        }
        let changed = !self.is_listening() || self.listeners.have_changed();
        if self.is_listening() && (!plan.listening || plan.register_again) {
            self.queue.clear();
            self.listeners.deregister(poller, clock, stats);
        }
        if plan.listening && (changed || plan.register_again) {
            let exclusive = plan.exclusive;
            self.listeners.register(exclusive, poller, clock, stats);
        }
        let followed = self.is_listening() == plan.listening;
        if followed {
            self.coordination.publish(plan, stats);
        } else {
            self.queue.clear();
            self.release_lock();
            self.coordination.step_down();
            self.left_behind = true;
        }
        followed
    }

    /// What is left of a turn's budget under the plan.
    pub(crate) fn allowance(&self, budget: usize) -> usize {
        budget.min(self.allowed)
    }

    /// Another worker has notified this one. Returns false if there is no group.
    pub(crate) fn on_notified(&mut self) -> bool {
        self.coordination.on_notified()
    }

    /// Whether what is planned depends on the time, which has to be the true one then.
    pub(crate) fn goes_by_time(&self) -> bool {
        let has_delay = !self.listeners.is_empty() && self.coordination.has_delay();
        has_delay || self.resumes_at().is_some()
    }

    /// How long until a pause is over; `None`: there is none.
    pub(crate) fn resumes_in(&self, now_ns: u64) -> Option<Duration> {
        Some(
            self.resumes_at()?
                .saturating_sub(Duration::from_nanos(now_ns)),
        )
    }

    /// When the next pause is over: of all listeners, or of one that is suspended.
    fn resumes_at(&self) -> Option<Duration> {
        let suspended = self.listeners.resumes_at_ms().map(Duration::from_millis);
        earliest(self.backoff.resumes_at(), suspended)
    }

    /// Notes that a listener may have clients. `false`: it has been closed, or is suspended.
    pub(crate) fn note(&mut self, listener: u32, ready: Ready) -> bool {
        let known = self.is_listening() && self.listeners.accepts(listener);
        if known {
            self.queue.post(listener);
            if ready.is_error() {
                // So the poller says as well that the kernel has refused to go on watching it.
                self.listeners.doubt(listener);
            }
        }
        known
    }

    /// The next client, from one listener after the other, so that none keeps the others from
    /// theirs.
    ///
    /// `None`: nobody waits, or `left` is used up. Who is then still queued comes first next time.
    pub(crate) fn next(
        &mut self,
        left: &mut usize,
        clock: &Clock,
        stats: &mut Stats,
    ) -> Option<Accepted<L::Stream>> {
        while *left > 0 {
            let id = self.queue.pop()?;
            match self.listeners.accept(id) {
                Ok(Accept::Connection(stream, peer)) => {
                    *left -= 1;
                    stats.accepted += 1;
                    self.coordination.accepted();
                    self.queue.post(id);
                    return Some(Accepted {
                        stream,
                        peer,
                        listener: id as usize,
                    });
                }
                Ok(Accept::Aborted) => {
                    *left -= 1;
                    stats.aborted += 1;
                    self.queue.post(id);
                }
                Ok(Accept::WouldBlock) => self.refill_reserve(),
                Ok(Accept::Exhausted(shortage)) => {
                    // A client still waits there: the next plan notifies another worker of it.
                    self.queue.post(id);
                    self.run_out(id, shortage, true_ms(clock), stats);
                    return None;
                }
                Err(error) => {
                    self.listeners.suspend(id, error, clock, stats);
                    self.left_behind = true;
                }
            }
        }
        None
    }

    /// Forgets that clients may wait, because there is no place for them here. Those that do are
    /// reported again, to this worker or to the one that the next plan notifies.
    pub(crate) fn leave_to_kernel(&mut self, stats: &mut Stats) {
        if self.has_queued() {
            self.left_behind = true;
            self.queue.clear();
            self.count_full(stats);
        }
    }

    /// Whether clients were left over, or may have been.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The oldest failure of a listener that was not taken yet.
    pub(crate) fn take_error(&mut self) -> Option<ListenerError> {
        self.listeners.take_error()
    }

    /// Whether this turn holds the accept lock.
    pub(crate) fn holds_lock(&self) -> bool {
        self.coordination.holds_lock()
    }

    /// Gives the accept lock back, if this turn holds it.
    pub(crate) fn release_lock(&mut self) {
        self.coordination.release_lock();
    }

    /// A descriptor is free again: a pause for want of one is over.
    pub(crate) fn descriptor_closed(&mut self) {
        self.backoff.descriptor_closed();
    }

    /// Closes the listeners for good, and notifies another worker in place of this one.
    pub(crate) fn close(&mut self, poller: &mut Poller, stats: &mut Stats) -> Result<()> {
        let listened = self.is_listening();
        self.coordination.step_down();
        self.queue.clear();
        let closed = self.listeners.close(poller);
        self.reserve = ReserveFd::empty();
        self.release_lock();
        let others = self.coordination.mark_full();
        // Also if it did not lead: the kernel may have woken no other worker for a client.
        if listened || others.notified {
            self.coordination.notify(others.least_loaded, stats);
        }
        closed
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listeners.are_registered()
    }

    /// Counts that there is no place, once until there is one.
    fn count_full(&mut self, stats: &mut Stats) {
        if !mem::replace(&mut self.is_full, true) {
            stats.full += 1;
        }
    }

    /// There is nothing left to accept with: all listeners pause. One client is turned away, unless
    /// another worker has a free place and answers.
    fn run_out(&mut self, listener: u32, shortage: Resource, now_ms: u64, stats: &mut Stats) {
        // Memory is not set aside.
        let reserve_helps = shortage != Resource::Memory && self.reserve.is_held();
        let is_hopeless = reserve_helps && self.coordination.mark_full().least_loaded.is_none();
        let now = Duration::from_millis(now_ms);
        if is_hopeless && self.backoff.may_shed(now) {
            let has_come = || matches!(self.listeners.accept(listener), Ok(Accept::Connection(..)));
            stats.shed += u64::from(self.reserve.with_released(has_come) == Some(true));
        }
        stats.accept_pauses += 1;
        self.backoff.pause(now);
    }

    /// Sets a descriptor aside again, if another has taken the one that was: not before everybody
    /// who waits has one.
    fn refill_reserve(&mut self) {
        if L::TAKES_DESCRIPTORS {
            self.reserve.acquire();
        }
    }
}

/// Not what the clock shows, which stood still while handlers ran.
pub(crate) fn true_ms(clock: &Clock) -> u64 {
    clock.monotonic_ns_now() / NS_PER_MS
}

/// The same worker with no place left.
fn full(load: Load) -> Load {
    Load {
        active: load.capacity,
        ..load
    }
}
