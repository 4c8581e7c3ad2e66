//! The listeners' part of a turn (iteration of the loop): this worker starts or stops listening,
//! and accepts clients. It follows a *plan*, which is the balancer's decision for one or more
//! turns.
//!
//! A client that is left in the backlog is not lost, because a level-triggered listener reports the
//! client again. The *leader* of a group listens until it is full or another worker leads. It
//! *yields* while it leaves the waiting clients to a notified worker. Meanwhile its listeners are
//! edge-triggered and report a client only once, and the next plan takes the reported clients into
//! account.

use std::{mem, time::Duration};

use evcore_balancer::{Coordinator, Give, GroupMember, Leadership, Load, Notifier, Plan, Policy};
use evcore_clock::Clock;
use evcore_net::{Accept, Backoff, Resource};
use evcore_poller::{Interest, Mode, Poller, Ready, Target};
use evcore_posted::PostedQueue;

use crate::{
    acceptor::Acceptor,
    error::{Error, ListenerError, Result},
    keys::NOTIFY_KEY,
    listeners::Listeners,
    stats::Stats,
    step::Accepted,
    time::{NEVER, NS_PER_MS, now, whole_ns},
};

#[derive(Debug)]
pub(crate) struct Accepting<L> {
    // Invariant: from plan to plan, all listeners that are not suspended are registered with the
    // poller, or none are. (The lock is released in every turn; the registrations stay.)
    listeners: Listeners<L>,
    pub(crate) coordinator: Coordinator,
    /// Listeners that may have clients in their backlogs, in the order in which they are tried.
    // Invariant: empty while not listening.
    queue: PostedQueue,
    /// True if the present shortage of slots has been counted. A slot is a place for a connection.
    is_full: bool,
    allowed: usize,
    /// The number of connections that the last plan gives to another worker, until `take_give`
    /// takes it.
    pub(crate) give: Option<Give>,
    /// The pause of all listeners.
    backoff: Backoff,
    last_exhausted: Option<Resource>,
    /// Set if this turn's accepts ended for lack of a resource that evictions free.
    needs_evictions: bool,
}

impl<L: Acceptor> Accepting<L> {
    /// Registers the notifier, if there is one.
    pub(crate) fn new(
        listeners: Vec<L>,
        policy: Option<Policy>,
        member: Option<Box<dyn GroupMember>>,
        poller: &mut Poller,
    ) -> Result<Self> {
        let can = poller.backend().capabilities();
        // A leader that yields registers with `Mode::ExclusiveEdge`, and needs the edges of the
        // kernel. An emulated edge reports no further client until `rearm`, which is not called for
        // listeners.
        let exclusive = can.exclusive && can.edge;
        let coordinator = Coordinator::new(policy, member)
            .map_err(|policy| Error::NoGroup { policy })?
            .exclusive(exclusive);
        if let Some(notifier) = coordinator.notifier() {
            let target = match notifier {
                Notifier::Descriptor(fd) => Target::Descriptor(fd),
                Notifier::Simulated(number) => Target::Simulated(number),
            };
            poller.add(&target, NOTIFY_KEY, Interest::READ, Mode::Level)?;
        }
        Ok(Self {
            listeners: Listeners::new(listeners),
            coordinator,
            queue: PostedQueue::new(),
            is_full: false,
            allowed: usize::MAX,
            give: None,
            backoff: Backoff::new(),
            last_exhausted: None,
            needs_evictions: false,
        })
    }

    /// Makes a plan for this turn, makes the listeners follow it, and returns it.
    pub(crate) fn make_plan(
        &mut self,
        now_ns: u64,
        load: Load,
        clock: &Clock,
        poller: &mut Poller,
        stats: &mut Stats,
    ) -> Plan {
        loop {
            let plan = self.plan(now_ns, load);
            self.coordinator.keep_plan(&plan, now_ns, load);
            let is_followed = self.follow(&plan, clock, poller, stats);
            self.coordinator.end_plan_at(self.resumes_at_ns());
            if is_followed {
                return plan;
            }
            // The poller refused every listener. They are suspended now, so the next plan does not
            // listen.
        }
    }

    /// Counts that all slots are in use, and counts it again only after a slot was free. In
    /// `offered`, the load that the balancer sees, a slot that an eviction can free counts as free.
    pub(crate) fn note_load(&mut self, load: Load, offered: Load, stats: &mut Stats) {
        if offered.is_full() && !self.listeners.is_empty() {
            self.count_full(stats);
        } else if !load.is_full() {
            self.is_full = false;
        }
    }

    /// Makes a plan. The accept lock may be held from here on.
    fn plan(&mut self, now_ns: u64, load: Load) -> Plan {
        let now = Duration::from_nanos(now_ns);
        self.backoff.expire(now);
        self.listeners.resume(now);
        // No client can be accepted during a pause, or if every listener is suspended or closed.
        let accepts = self.backoff.resumes_at().is_none() && self.listeners.any_accepts();
        let active = if accepts { load.active } else { load.capacity };
        let load = Load { active, ..load };
        // The kernel may have woken no other worker for the clients of the queued listeners.
        if self.has_queued() {
            self.coordinator.on_clients_left();
        }
        let plan = self.coordinator.plan(now_ns / NS_PER_MS, load);
        if self.has_queued() {
            self.coordinator.on_listener_event();
        }
        self.allowed = plan.accepts_at_most.unwrap_or(u32::MAX) as usize;
        self.give = plan.give;
        plan
    }

    /// Follows the plan, in the order that [`Plan`] documents: steps down, changes the
    /// registrations, and publishes the plan to the group. A listener that the poller refuses is
    /// suspended.
    ///
    /// Returns false if the plan was to listen, and every listener was refused. This worker then
    /// gives up the lock and its leadership.
    #[must_use]
    fn follow(
        &mut self,
        plan: &Plan,
        clock: &Clock,
        poller: &mut Poller,
        stats: &mut Stats,
    ) -> bool {
        if plan.leadership == Leadership::Release {
            self.coordinator.step_down();
        }
        let changed = !self.is_listening() || self.listeners.have_changed();
        if self.is_listening() && (!plan.listening || plan.register_again) {
            self.queue.clear();
            self.listeners.deregister(poller, clock, stats);
        }
        if plan.listening && (changed || plan.register_again) {
            self.listeners.register(plan, poller, clock, stats);
        }
        if plan.edge_triggered {
            // The plan takes the reported clients into account, and leaves them to another worker.
            self.queue.clear();
        }
        let followed = self.is_listening() == plan.listening;
        if followed {
            self.coordinator.publish(plan);
            stats.notifications += u64::from(plan.notify.is_some());
        } else {
            self.queue.clear();
            self.coordinator.release_lock();
            self.coordinator.step_down();
            self.coordinator.on_clients_left();
        }
        followed
    }

    pub(crate) fn allowance(&self, budget: usize) -> usize {
        budget.min(self.allowed)
    }

    /// Records that the kernel may have left out an event of a listener or of the notifier.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_full_batch(&mut self) {
        if self.is_listening() {
            self.coordinator.on_clients_left();
        }
        self.coordinator.on_full_batch();
    }

    /// Records that another worker has notified this one. Returns false if there is no group.
    pub(crate) fn on_notified(&mut self, ready: Ready) -> bool {
        // The poller also reports the notifier, with an error, if the kernel has refused or dropped
        // its registration.
        self.coordinator.on_notified(ready.is_error())
    }

    /// The end of the pause or of the first suspension, whichever is earlier; [`NEVER`] without
    /// either.
    fn resumes_at_ns(&self) -> u64 {
        let ends = [self.backoff.resumes_at(), self.listeners.resumes_at()];
        let first = ends.into_iter().flatten().min();
        first.map_or(NEVER, whole_ns)
    }

    /// Handles an event of a listener: queues the listener, unless accepting is paused. Returns
    /// false if the event is stale, because this worker does not listen, or because the listener is
    /// suspended or closed.
    pub(crate) fn on_event(&mut self, listener: u32, ready: Ready) -> bool {
        let known = self.is_listening() && self.listeners.accepts(listener);
        if known {
            if self.backoff.resumes_at().is_some() {
                // Accepting was paused after this turn's plan.
                self.coordinator.on_clients_left();
            } else {
                self.queue.post(listener);
            }
            self.coordinator.on_listener_event();
            if ready.is_error() {
                // The poller also reports an error if the kernel has dropped the registration.
                self.listeners.doubt(listener);
                self.coordinator.on_listeners_changed();
            }
        }
        known
    }

    /// Accepts the next client. The queued listeners are tried in rotation, so that none starves
    /// another.
    ///
    /// Returns `None` if no listener is queued any more, `left` is used up, or a resource is
    /// exhausted. Listeners that are queued then stay queued for the next call.
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
                    self.is_full = false; // a slot was free
                    self.coordinator.on_accepted();
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
                Ok(Accept::WouldBlock) => {}
                Ok(Accept::Exhausted(resource)) => {
                    // A client still waits at this listener, and the next plan takes it into
                    // account.
                    self.queue.post(id);
                    self.on_exhausted(resource, now(clock), stats);
                    return None;
                }
                Err(error) => {
                    stats.aborted += u64::from(matches!(error, Error::Aborted { .. }));
                    self.listeners.suspend(id, error, clock, stats);
                    self.coordinator.on_listeners_changed();
                    self.coordinator.on_clients_left();
                }
            }
        }
        None
    }

    /// Empties the queue because no slot is free. The next plan takes the waiting clients into
    /// account.
    pub(crate) fn drop_backlog_hints(&mut self, stats: &mut Stats) {
        if self.has_queued() {
            self.coordinator.on_clients_left();
            self.queue.clear();
            self.count_full(stats);
        }
    }

    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    #[inline]
    pub(crate) fn queued(&self) -> u32 {
        self.queue.len()
    }

    /// Returns whether this turn's accepts ended for lack of a resource that evictions free. The
    /// next call returns false.
    #[inline]
    pub(crate) fn take_need_of_evictions(&mut self) -> bool {
        mem::take(&mut self.needs_evictions)
    }

    pub(crate) fn last_exhausted(&self) -> Option<Resource> {
        self.last_exhausted
    }

    pub(crate) fn take_error(&mut self) -> Option<ListenerError> {
        self.listeners.take_error()
    }

    /// Ends the pause of all listeners, because a descriptor was closed.
    pub(crate) fn descriptor_closed(&mut self) {
        if self.backoff.descriptor_closed() {
            self.coordinator.on_listeners_changed();
        }
    }

    /// Pauses accepting, because the application requests it. Waiting clients are left to other
    /// workers.
    pub(crate) fn pause(&mut self, clock: &Clock) {
        self.queue.clear();
        self.coordinator.on_clients_left();
        self.begin_pause(now(clock));
    }

    /// Closes the listeners for good. If this worker listened or was notified, notifies another one
    /// in its place.
    pub(crate) fn close(&mut self, poller: &mut Poller, stats: &mut Stats) -> Result<()> {
        let listened = self.is_listening();
        self.coordinator.step_down();
        self.coordinator.set_rebalancing(false);
        self.coordinator.on_listeners_changed();
        self.queue.clear();
        let closed = self.listeners.close(poller);
        self.coordinator.release_lock();
        let others = self.coordinator.mark_full();
        // The other worker is notified even if this one did not lead, because the kernel may have
        // woken no other worker for a client.
        let other = others.least_loaded.filter(|_| listened || others.notified);
        if let Some(other) = other {
            self.coordinator.notify_instead(other);
            stats.notifications += 1;
        }
        closed
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listeners.are_registered()
    }

    fn begin_pause(&mut self, now: Duration) {
        self.backoff.pause(now);
        self.coordinator.on_listeners_changed();
    }

    fn count_full(&mut self, stats: &mut Stats) {
        if !mem::replace(&mut self.is_full, true) {
            stats.full += 1;
        }
    }

    /// Pauses all listeners, because a resource has run out. At the descriptor limit of this
    /// process, a closed connection makes room for a client. So idle connections are evicted,
    /// unless another worker has a free slot. They are not evicted for other resources, because any
    /// process may take what is freed.
    #[cold]
    fn on_exhausted(&mut self, resource: Resource, now: Duration, stats: &mut Stats) {
        let has_others = self.coordinator.mark_full().least_loaded.is_some();
        self.needs_evictions = resource == Resource::Process && !has_others;
        self.last_exhausted = Some(resource);
        stats.accept_pauses += 1;
        self.begin_pause(now);
    }
}
