//! Everything that is simulated, in one place: what the handles of a world share.
//!
//! Whatever happens, happens here, one thing after the other. A client that is called has the
//! state in hand (as a [`Visit`]); the application never does, and so may use every handle.

mod calls;
mod group;
mod knocking;
mod processes;
mod traffic;
mod waits;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evcore::{Ready, clock::Reading};

use crate::{
    Chance, Conditions, Fault, Faults, Rng,
    agenda::{Agenda, Happening, Segment},
    group::Part,
    net::{EndId, Family, Net},
    notifier::Group,
    poll::{Instance, Object},
    rng::whole_ns,
    trace::{Trace, What},
};

pub(crate) use calls::ClientSlot;
pub(crate) use processes::Process;

/// The whole world.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) agenda: Agenda,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    /// How often each fault has occurred, by its place.
    counts: [u64; Fault::ALL.len()],
    pub(crate) conditions: Conditions,
    pub(crate) trace: Trace,
    pub(crate) net: Net,
    pub(crate) pollers: Vec<Instance>,
    pub(crate) processes: Vec<Process>,
    pub(crate) clients: Vec<ClientSlot>,
    /// Clients that have left.
    pub(crate) vacant_clients: Vec<u32>,
    /// What the workers of each server share.
    pub(crate) groups: Vec<Group>,
    /// What dead processes would have dropped.
    dead_parts: Vec<Part>,
    /// Somebody who slept was woken, by what has just happened.
    roused: bool,
    /// Raised by every waker, from anywhere: one of the pollers may have been woken.
    pub(crate) woken: Arc<AtomicBool>,
    /// No wait goes beyond this.
    pub(crate) end_ns: u64,
    /// What the monotonic clock is ahead of the time that has passed.
    clock_ahead_ns: u64,
    /// What the wall clock showed at the beginning, and what it was set by since.
    wall_seconds: i64,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            agenda: Agenda::default(),
            rng: Rng::new(seed),
            faults: Faults::none(),
            counts: [0; Fault::ALL.len()],
            conditions: Conditions::default(),
            trace: Trace::new(),
            net: Net::new(),
            pollers: Vec::new(),
            processes: Vec::new(),
            clients: Vec::new(),
            vacant_clients: Vec::new(),
            groups: Vec::new(),
            dead_parts: Vec::new(),
            roused: false,
            woken: Arc::default(),
            end_ns: u64::MAX,
            clock_ahead_ns: 0,
            wall_seconds: 0,
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.agenda.now_ns()
    }

    pub(crate) fn note(&mut self, what: What, who: u64, amount: u64) {
        self.trace.note(self.agenda.now_ns(), what, who, amount);
    }

    pub(crate) fn count(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// Whether a fault occurs, this time.
    #[inline]
    pub(crate) fn fails(&mut self, fault: Fault) -> bool {
        let chance: Chance = self.faults.chance(fault);
        let happens = self.rng.happens(chance);
        if happens {
            self.occurred(fault);
        }
        happens
    }

    /// For a fault that turned out to be possible only after it was drawn.
    pub(crate) fn occurred(&mut self, fault: Fault) {
        self.counts[fault as usize] += 1;
        self.note(What::Fault, fault as u64, 0);
    }

    /// A time of up to so much.
    pub(crate) fn up_to(&mut self, most: Duration) -> u64 {
        whole_ns(self.rng.time(&(Duration::from_nanos(1)..=most)))
    }

    /// What a monotonic clock reads now.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.now_ns().saturating_add(self.clock_ahead_ns)
    }

    /// What both clocks read now.
    pub(crate) fn reading(&self) -> Reading {
        const NS: u64 = 1_000_000_000;
        let monotonic_ns = self.monotonic_ns();
        let seconds = i64::try_from(monotonic_ns / NS).expect("584 years fit");
        Reading {
            monotonic_ns,
            unix_seconds: self.wall_seconds.saturating_add(seconds),
            subsecond_ns: u32::try_from(monotonic_ns % NS).expect("it is below a second"),
        }
    }

    pub(crate) fn set_wall(&mut self, seconds: i64) {
        self.wall_seconds = self.wall_seconds.saturating_add(seconds);
    }

    /// The faults of clocks, which are seen where a wait ends.
    pub(crate) fn trouble_clocks(&mut self) {
        const DAY: u64 = 86_400;
        if self.fails(Fault::ClockJump) {
            let jump_ns = self.up_to(Duration::from_secs(10));
            self.clock_ahead_ns = self.clock_ahead_ns.saturating_add(jump_ns);
        }
        if self.fails(Fault::WallStep) {
            let step = self.rng.below(2 * DAY + 1);
            self.set_wall(i64::try_from(step).expect("two days") - DAY as i64);
        }
    }

    /// Lets happen what happens until then, and time pass; but no further than the first thing that
    /// is somebody's affair outside: a sleeper is woken, by what happens or by a waker, a death
    /// noticed or, where that is of interest, a client was called.
    pub(crate) fn run(&mut self, until_ns: u64, to_clients: bool) {
        while let Some(happening) = self.agenda.take(until_ns) {
            self.roused = false;
            self.happen(happening);
            let matters = match happening {
                Happening::Reap(_) => true,
                Happening::News(_) | Happening::Alarm(..) => to_clients,
                _ => false,
            };
            if matters || self.roused || self.woken.swap(false, Ordering::AcqRel) {
                return;
            }
        }
        // Where nothing is to come, time has no reason to pass.
        if until_ns != u64::MAX {
            self.agenda.pass_to(until_ns);
        }
    }

    pub(crate) fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrival(end, segment) => self.arrive(end, segment),
            Happening::Knock(server, times) => self.knock(server, times),
            Happening::Connected(client) => self.connected(client),
            Happening::News(client) => self.call_with_news(client),
            Happening::Alarm(client, setting) => self.call_with_alarm(client, setting),
            Happening::Reap(process) => self.reap(process),
        }
    }

    /// Who holds what: the answer to a poller.
    pub(crate) fn holds(net: &Net, groups: &[Group], object: Object) -> Ready {
        match object {
            Object::End(id) => net.end(id).ready(net.end(id.other())),
            Object::Listener(id) if net.listening.socket(id).queue.is_empty() => Ready::NONE,
            Object::Listener(_) => Ready::READABLE,
            Object::Notifier(id) if Self::is_notified(groups, id) => Ready::READABLE,
            Object::Notifier(_) => Ready::NONE,
        }
    }

    pub(crate) fn enter_after(&mut self, after_ns: u64, happening: Happening) {
        let at_ns = self.now_ns().saturating_add(after_ns);
        self.agenda.enter(at_ns, happening);
    }

    /// Sends something on its way to an end, behind what is under way already.
    pub(crate) fn dispatch(&mut self, to: EndId, segment: Segment, after_ns: u64) {
        let now_ns = self.now_ns();
        let end = self.net.end_mut(to);
        let at_ns = end.last_arrival_ns.max(now_ns.saturating_add(after_ns));
        end.last_arrival_ns = at_ns;
        end.under_way += 1;
        if at_ns <= now_ns && end.under_way == 1 {
            self.arrive(to, segment);
        } else {
            self.agenda.enter(at_ns, Happening::Arrival(to, segment));
        }
    }

    /// How long a turn takes that has nothing to do.
    pub(crate) fn turn_ns(&mut self) -> u64 {
        whole_ns(self.rng.time(&self.conditions.turn)).max(1)
    }

    /// How long the application works on a step.
    pub(crate) fn step_ns(&mut self) -> u64 {
        whole_ns(self.rng.time(&self.conditions.step))
    }

    /// How long it takes until who is woken runs.
    pub(crate) fn wake_ns(&mut self) -> u64 {
        whole_ns(self.rng.time(&self.conditions.wake))
    }

    /// How long something takes from one end to the other.
    pub(crate) fn latency_ns(&mut self, to: EndId) -> u64 {
        match self.net.end(to).family {
            Family::Unix => 0,
            Family::Tcp => whole_ns(self.rng.time(&self.conditions.latency)),
        }
    }
}
