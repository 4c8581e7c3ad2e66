//! The state of a simulation, which all its handles share.
//!
//! Events happen one after the other. While a client is called, the state is locked, and the client
//! gets it as a `ClientCx`. While the application runs, the state is not locked, so that the
//! application can use every handle.

mod channels;
mod client_callbacks;
mod connect;
mod datagrams;
mod delivery;
mod group;
mod processes;
mod readiness;
mod stores;
mod thread_pools;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evcore::{Ready, clock::WallTime};

use crate::{
    config::SimConfig,
    event_queue::{EventQueue, Segment, SimEvent},
    faults::{Fault, Faults},
    kernel_poller::{KernelPoller, Object},
    net::{EndpointId, Family, Net},
    notifier::Group,
    restriction::Restriction,
    rng::{Rng, whole_ns},
    role::Role,
    thread_pool::ThreadPools,
    trace::{Detail, Event, Subject, Trace},
};

pub(crate) use channels::Unsent;
pub(crate) use client_callbacks::{Callback, ClientSlot};
pub(crate) use processes::Process;
pub(crate) use stores::Store;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) event_queue: EventQueue,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    pub(crate) restriction: Restriction,
    /// Number of clients that the test wanted, including those that the restriction leaves out.
    pub(crate) clients_wanted: usize,
    counts: [u64; Fault::ALL.len()],
    pub(crate) config: SimConfig,
    pub(crate) trace: Trace,
    pub(crate) net: Net,
    pub(crate) pollers: Vec<KernelPoller>,
    pub(crate) processes: Vec<Process>,
    pub(crate) clients: Vec<ClientSlot>,
    /// The slots of clients that have exited.
    pub(crate) free_clients: Vec<u32>,
    pub(crate) groups: Vec<Group>,
    pub(crate) thread_pools: ThreadPools,
    /// The roles of killed processes. They are kept, so that the roles' destructors do not run.
    dead_roles: Vec<Role>,
    /// True while a kill closes the descriptors of a process. A client whose connection is closed
    /// meanwhile has lost that connection to a fault.
    is_killing: bool,
    /// True if the last event has woken a poller that slept.
    woke_sleeper: bool,
    /// True if a waker was used, so that one of the pollers may have been woken.
    pub(crate) waker_used: Arc<AtomicBool>,
    /// A wait outside of `Workers` does not sleep from this time on.
    pub(crate) time_limit_ns: u64,
    /// The time by which the monotonic clock is ahead of the simulated time.
    clock_ahead_ns: u64,
    /// The wall clock at time 0, plus all its steps since then.
    wall_seconds: i64,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            event_queue: EventQueue::default(),
            rng: Rng::new(seed),
            faults: Faults::none(),
            restriction: Restriction::NONE,
            clients_wanted: 0,
            counts: [0; Fault::ALL.len()],
            config: SimConfig::default(),
            trace: Trace::new(),
            net: Net::new(),
            pollers: Vec::new(),
            processes: Vec::new(),
            clients: Vec::new(),
            free_clients: Vec::new(),
            groups: Vec::new(),
            thread_pools: ThreadPools::default(),
            dead_roles: Vec::new(),
            is_killing: false,
            woke_sleeper: false,
            waker_used: Arc::default(),
            time_limit_ns: u64::MAX,
            clock_ahead_ns: 0,
            wall_seconds: 0,
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.event_queue.now_ns()
    }

    #[inline]
    pub(crate) fn note(&mut self, event: Event) {
        self.trace.note(self.event_queue.now_ns(), event);
    }

    /// Adds a detail if the trace is recorded.
    #[inline]
    pub(crate) fn detail(&mut self, detail: impl FnOnce() -> Detail) {
        self.trace.detail(self.event_queue.now_ns(), detail);
    }

    pub(crate) fn fault_count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// Draws whether a fault occurs now, and counts the fault if it does.
    #[inline]
    pub(crate) fn draw_fault(&mut self, fault: Fault, subject: Subject) -> bool {
        let is_drawn = self.rng.happens(self.faults.probability(fault));
        let happens = is_drawn && self.permits(fault);
        if happens {
            self.count_fault(fault, subject);
        }
        happens
    }

    /// Returns whether a fault that was drawn may occur in this run.
    pub(crate) fn permits(&self, fault: Fault) -> bool {
        self.restriction.permits(fault, self.now_ns())
    }

    pub(crate) fn count_fault(&mut self, fault: Fault, subject: Subject) {
        self.counts[fault as usize] += 1;
        self.note(Event::FaultOccurred(fault, subject));
    }

    /// A random time from 1 ns to `max`.
    pub(crate) fn random_up_to(&mut self, max: Duration) -> u64 {
        whole_ns(self.rng.duration(&(Duration::from_nanos(1)..=max)))
    }

    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.now_ns().saturating_add(self.clock_ahead_ns)
    }

    pub(crate) fn wall_time(&self) -> WallTime {
        const NS: u64 = 1_000_000_000;
        let monotonic_ns = self.monotonic_ns();
        let seconds = i64::try_from(monotonic_ns / NS).expect("584 years fit");
        WallTime {
            unix_seconds: self.wall_seconds.saturating_add(seconds),
            subsecond_ns: u32::try_from(monotonic_ns % NS).expect("it is below a second"),
        }
    }

    pub(crate) fn step_wall_clock(&mut self, seconds: i64) {
        self.wall_seconds = self.wall_seconds.saturating_add(seconds);
    }

    pub(crate) fn inject_clock_faults(&mut self) {
        const DAY: u64 = 86_400;
        if self.draw_fault(Fault::ClockJump, Subject::Machine) {
            let jump_ns = self.random_up_to(Duration::from_secs(10));
            self.clock_ahead_ns = self.clock_ahead_ns.saturating_add(jump_ns);
        }
        if self.draw_fault(Fault::WallClockStep, Subject::Machine) {
            let step = self.rng.below(2 * DAY + 1);
            self.step_wall_clock(i64::try_from(step).expect("two days") - DAY as i64);
        }
    }

    /// Returns whether no event is left, and `until_ns` sets no limit.
    pub(crate) fn is_over(&self, until_ns: u64) -> bool {
        until_ns == u64::MAX && self.event_queue.next_ns().is_none()
    }

    /// Lets time and events pass until `until_ns`, or until an event that concerns the caller. Such
    /// an event wakes a poller, uses a waker, is the notice of a death or, if `to_clients` is set,
    /// calls a client.
    pub(crate) fn run(&mut self, until_ns: u64, to_clients: bool) {
        while let Some(event) = self.event_queue.pop(until_ns) {
            self.woke_sleeper = false;
            self.apply(event);
            let matters = match event {
                SimEvent::Reap(_) => true,
                SimEvent::NotifyClient(_) | SimEvent::ClientTimer(..) => to_clients,
                _ => false,
            };
            if matters || self.woke_sleeper || self.waker_used.swap(false, Ordering::AcqRel) {
                return;
            }
        }
        // Without an event and without a limit, time stands still.
        if until_ns != u64::MAX {
            self.event_queue.advance_to(until_ns);
        }
    }

    pub(crate) fn apply(&mut self, event: SimEvent) {
        match event {
            SimEvent::Arrival(end, segment) => self.arrive(end, segment),
            SimEvent::Connect(server, attempt) => self.attempt_connect(server, attempt),
            SimEvent::ConnectFails(server, failure) => self.fail_connect(server, failure),
            SimEvent::NotifyClient(client) => self.deliver_client_event(client),
            SimEvent::ClientTimer(client, timer) => self.client_timer_expired(client, timer),
            SimEvent::Reap(process) => self.reap(process),
            SimEvent::Datagram(index) => self.datagram_arrives(index),
            SimEvent::JobEnds(job) => self.end_job(job),
        }
    }

    pub(crate) fn readiness(net: &Net, groups: &[Group], object: Object) -> Ready {
        match object {
            Object::Endpoint(id) => net.endpoint(id).ready(net.endpoint(id.other())),
            Object::Listener(id) if net.listeners.socket(id).queue.is_empty() => Ready::NONE,
            Object::Listener(_) => Ready::READABLE,
            Object::Notifier(id) if Self::is_notified(groups, id) => Ready::READABLE,
            Object::Notifier(_) => Ready::NONE,
            Object::Channel(id) if net.channels.is_readable(id) => Ready::READABLE,
            Object::Channel(_) | Object::Counter(_) => Ready::NONE,
            Object::Udp(id) if net.udp.socket(id).is_readable() => {
                Ready::READABLE | Ready::WRITABLE
            }
            Object::Udp(_) => Ready::WRITABLE,
        }
    }

    pub(crate) fn schedule_after(&mut self, after_ns: u64, event: SimEvent) {
        let at_ns = self.now_ns().saturating_add(after_ns);
        self.event_queue.schedule(at_ns, event);
    }

    /// Sends a segment to an endpoint, behind the segments that are in flight to it.
    pub(crate) fn transmit(&mut self, to: EndpointId, segment: Segment, after_ns: u64) {
        self.detail(|| Detail::Departed { to, segment });
        let now_ns = self.now_ns();
        let end = self.net.endpoint_mut(to);
        let at_ns = end.last_arrival_ns.max(now_ns.saturating_add(after_ns));
        end.last_arrival_ns = at_ns;
        end.segments_in_flight += 1;
        if at_ns <= now_ns && end.segments_in_flight == 1 {
            self.arrive(to, segment);
        } else {
            self.event_queue
                .schedule(at_ns, SimEvent::Arrival(to, segment));
        }
    }

    pub(crate) fn turn_ns(&mut self) -> u64 {
        whole_ns(self.rng.duration(&self.config.turn_time)).max(1)
    }

    pub(crate) fn step_ns(&mut self) -> u64 {
        whole_ns(self.rng.duration(&self.config.step_time))
    }

    pub(crate) fn wake_ns(&mut self) -> u64 {
        whole_ns(self.rng.duration(&self.config.wake_latency))
    }

    pub(crate) fn latency_ns(&mut self, to: EndpointId) -> u64 {
        match self.net.endpoint(to).family {
            Family::Unix => 0,
            Family::Tcp => whole_ns(self.rng.duration(&self.config.latency)),
        }
    }
}
