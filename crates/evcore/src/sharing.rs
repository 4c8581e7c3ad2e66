//! What a worker shares with the others: the accept lock, its seat among them, and the decision
//! that rests on both.

use std::{mem, os::fd::RawFd};

use evcore_balancer::{Balancer, Duty, Load, Lock, Peer, Plan, Policy, Seat, Situation, View};
use evcore_poller::{Interest, Mode, Pollable, Poller};

use crate::{Error, Result, Stats, naming::BELL_KEY};

/// The worker among others.
#[derive(Debug)]
pub(crate) struct Sharing {
    balancer: Balancer,
    lock: Option<Box<dyn Lock>>,
    // Invariant: only from a plan to the end of that turn's accepts.
    holds_lock: bool,
    seat: Option<Box<dyn Seat>>,
    /// Connections accepted since the last plan.
    accepted: u32,
    /// A call was answered since the last plan, and not yet followed.
    heard: bool,
    /// The policy has delays, and so depends on the time.
    has_delay: bool,
}

impl Sharing {
    /// Begins to watch for calls. What the policy needs and was not given is an error.
    pub(crate) fn new(
        policy: Policy,
        lock: Option<Box<dyn Lock>>,
        seat: Option<Box<dyn Seat>>,
        poller: &mut Poller,
    ) -> Result<Self> {
        let least_loaded = matches!(policy, Policy::LeastLoaded { .. });
        if least_loaded && seat.is_none() {
            return Err(Error::NoSeat);
        }
        let takes_turns = match policy {
            Policy::Mutex { .. } => true,
            Policy::LeastLoaded { .. } => !poller.abilities().exclusive,
            _ => false,
        };
        if takes_turns && lock.is_none() {
            return Err(Error::NoLock);
        }
        if let Some(bell) = seat.as_ref().and_then(|seat| seat.bell()) {
            poller.add(&Bell(bell), BELL_KEY, Interest::READ, Mode::Level)?;
        }
        Ok(Self {
            balancer: Balancer::new(policy),
            lock,
            holds_lock: false,
            seat,
            accepted: 0,
            heard: false,
            has_delay: policy.delay().is_some(),
        })
    }

    /// What the balancer says of this turn; the lock may be held from here on.
    pub(crate) fn plan(
        &mut self,
        now_ms: u64,
        load: Load,
        left_waiting: bool,
        exclusive: bool,
    ) -> Plan {
        let called = self.seat.is_some() && (mem::take(&mut self.heard) || self.is_called());
        let (lock, seat) = (&mut self.lock, &mut self.seat);
        let situation = Situation {
            load,
            accepted: mem::take(&mut self.accepted),
            left_waiting,
            called,
            exclusive,
            seated: seat.is_some(),
            ..Situation::at(now_ms)
        };
        let plan = self.balancer.plan(
            &situation,
            || lock.as_mut().is_some_and(|lock| lock.try_lock()),
            || seat.as_mut().map_or(View::alone(), |seat| seat.look(load)),
        );
        self.holds_lock = plan.holds_lock;
        plan
    }

    /// What is to be said before the listeners are taken out.
    pub(crate) fn resign(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.resign();
        }
    }

    /// What is to be said once the listeners are as planned.
    #[inline]
    pub(crate) fn tell(&mut self, plan: &Plan, stats: &mut Stats) {
        let Some(seat) = &mut self.seat else {
            return;
        };
        if plan.duty == Duty::Take {
            seat.take();
        }
        if let Some(peer) = plan.calls {
            seat.call(peer);
            stats.calls += 1;
        }
    }

    /// Shows the others that there is no place here, which answers a call for the next plan to
    /// follow, and tells what is seen of them. Who does not look at the others for its policy sees
    /// none, since they do not show themselves.
    pub(crate) fn withdraw(&mut self) -> View {
        let seat = self.seat.as_mut();
        let view = seat.map_or(View::alone(), |seat| seat.look(NO_PLACE));
        self.heard |= view.called;
        view
    }

    /// Calls another worker in place of this one, if there is any.
    pub(crate) fn call(&mut self, peer: Option<Peer>, stats: &mut Stats) {
        if let (Some(seat), Some(peer)) = (&mut self.seat, peer) {
            seat.call(peer.seat);
            stats.calls += 1;
            // That follows whatever call was heard.
            self.heard = false;
        }
    }

    fn is_called(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.is_called())
    }

    /// Whether the policy depends on the time.
    pub(crate) fn has_delay(&self) -> bool {
        self.has_delay
    }

    /// Hears a call, which the next plan answers.
    pub(crate) fn hear(&mut self) -> bool {
        self.seat.as_mut().map(|seat| seat.silence()).is_some()
    }

    /// Counts a client that was accepted.
    pub(crate) fn accepted(&mut self) {
        self.accepted += 1;
    }

    /// Whether the accept lock is held.
    pub(crate) fn holds_lock(&self) -> bool {
        self.holds_lock
    }

    /// Gives the accept lock back, if this turn holds it.
    pub(crate) fn release_lock(&mut self) {
        if !mem::take(&mut self.holds_lock) {
            return;
        }
        if let Some(lock) = &mut self.lock {
            lock.unlock();
        }
    }
}

/// The load of a worker that no client can go to.
const NO_PLACE: Load = Load {
    active: 0,
    capacity: 0,
};

/// What a call makes readable.
struct Bell(RawFd);

impl Pollable for Bell {
    fn raw_fd(&self) -> RawFd {
        self.0
    }
}
