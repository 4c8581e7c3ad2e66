//! The policy `LeastLoaded`: a worker listens while its load is near the lowest load of its group.
//! Unless it is full, it does not stop before another one listens.
//!
//! One worker is the *leader*, which must not stop. A worker that starts to listen becomes leader,
//! so any other worker may stop at once. `Slack` defines the limit up to which a load is near the
//! lowest. A leader above this limit notifies the least loaded worker, which starts to listen and
//! becomes leader.
//!
//! Until then the old leader *yields*: it stays registered, and leaves the waiting clients to the
//! notified worker. It registers edge-triggered, so that these clients do not keep it awake. After
//! [`PATIENCE_NS`] it notifies the next worker. If there is no other, it accepts as many clients as
//! the slack in each further interval of this length, and all of them after [`ANSWER_NS`]. It also
//! yields to a worker that another one has notified.
//!
//! A view shows the group at the time of the plan, and a worker may sleep for a long time before a
//! client comes. Therefore the first turn (iteration of the event loop) that accepts takes at most
//! as many clients as the slack, and the next plan reads the view again.
//!
//! A full worker that leads steps down and notifies the least loaded worker that has room. If all
//! workers are full, none listens, and the first one that has room again starts by itself.
//!
//! Three rules protect clients from workers that are stopped or blocked:
//!
//! - A leader waits once for the worker that it has notified. After that, it does not choose the
//!   notified worker again until that one answers.
//! - A registration lasts for the delay of the policy. The next one reports the clients that wait.
//! - A worker that has not listened for the delay probes: it listens for one turn without waiting,
//!   and keeps listening if it found a client.
//!
//! In a group that meets no client, the workers rest ([`Quiet`]), and these rules do not apply.
//!
//! None of this applies to a worker that is alone in its group. It registers without exclusive
//! wake-ups, so the kernel wakes it for each client even if a worker of another group listens too.

use std::time::Duration;

use super::{NS_PER_MS, lock::LockPolicy, nanos, quiet::Quiet, slack::Slack, whole_ms};
use crate::{
    inputs::{GroupView, Inputs, Leader, Peer},
    plan::{Leadership, Plan},
    worker_id::WorkerId,
};

/// Time for which a leader leaves the clients to the worker that it has notified, before it
/// notifies another. A worker that sleeps usually begins to run within this time even if all CPUs
/// are busy. A loop's time has a precision of a millisecond, so the leader waits for one to two
/// milliseconds.
const PATIENCE_NS: u64 = 2 * NS_PER_MS;

/// After this time without an answer, and without another worker to notify, a leader accepts all
/// clients.
const ANSWER_NS: u64 = 5 * PATIENCE_NS;

#[derive(Clone, Debug)]
pub(crate) struct LeastLoaded {
    slack: Slack,
    delay_ns: u64,
    state: State,
    // Invariant: `None` unless listening.
    awaited: Option<Awaited>,
    /// The notified worker for which this one has waited in vain. It may be stopped.
    // Invariant: `None`, or the pending worker of the last view.
    ignored: Option<WorkerId>,
    is_over_limit: bool,
    quiet: Quiet,
    /// The policy on a poller without exclusive wake-ups.
    lock_policy: LockPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It does not listen, because it is full or has not started.
    Out,
    /// It has stopped listening at this time.
    Away { since_ns: u64 },
    /// It listens for one turn that does not wait, since this time.
    Probing { since_ns: u64 },
    /// It listens with exclusive wake-ups, and has registered at this time; edge-triggered if it
    /// yields.
    Listening { since_ns: u64, yields: bool },
    /// It is alone in its group, and listens without exclusive wake-ups.
    Alone,
    /// The group is quiet, and this worker listens without exclusive wake-ups. A worker above the
    /// limit accepts nothing. When a client ends the rest of such a worker, it stops listening.
    /// After the delay it probes, in case no other worker has accepted that client.
    Resting,
}

/// A worker that was notified and has not become leader.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// Its identity, and its load when the wait began.
    peer: Peer,
    since_ns: u64,
    /// Number of clients that the leader has accepted since the wait began.
    accepted: u32,
}

#[derive(Clone, Copy)]
struct Now<'a> {
    inputs: &'a Inputs,
    view: &'a GroupView,
    /// The least loaded of the other workers, including a pending one that is not ignored.
    least_loaded: Option<Peer>,
    ns: u64,
    notified: bool,
    is_quiet: bool,
}

impl LeastLoaded {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            delay_ns: whole_ms(delay),
            state: State::Out,
            awaited: None,
            ignored: None,
            is_over_limit: false,
            quiet: Quiet::new(whole_ms(delay)),
            lock_policy: LockPolicy::new(slack, delay),
        }
    }

    pub(crate) fn plan(
        &mut self,
        inputs: &Inputs,
        try_lock: impl FnOnce() -> bool,
        sync: impl FnOnce() -> GroupView,
    ) -> Plan {
        if !inputs.exclusive {
            return self.lock_policy.plan(inputs, try_lock, sync);
        }
        let ns = nanos(inputs.now);
        let view = sync();
        let now = Now {
            inputs,
            view: &view,
            least_loaded: None,
            ns,
            notified: inputs.notified || view.notified,
            is_quiet: self.quiet.update(inputs, &view, ns),
        };
        self.update_awaited(now);
        let pending = view.pending.filter(|peer| self.ignored != Some(peer.id));
        let both = [view.least_loaded, pending].into_iter().flatten();
        let now = Now {
            least_loaded: both.min_by_key(|peer| peer.active),
            ..now
        };
        self.is_over_limit = now.least_loaded.is_some() && !self.is_near(now);
        let plan = self.decide(now);
        Plan {
            rouses: !plan.rests && self.quiet.rouses(inputs, &view),
            ..self.pace(plan, now)
        }
    }

    /// Ends the wait for a notified worker if this worker no longer leads, is notified itself, or
    /// is no longer above the limit, or if the wait has lasted too long.
    fn update_awaited(&mut self, now: Now<'_>) {
        let pending = now.view.pending.map(|peer| peer.id);
        self.ignored = self.ignored.filter(|id| pending == Some(*id));
        let Some(mut awaited) = self.awaited.take() else {
            return;
        };
        let waited_ns = passed(awaited.since_ns, now.ns);
        if waited_ns >= PATIENCE_NS {
            self.ignored = pending.filter(|id| *id == awaited.peer.id);
        }
        awaited.accepted = awaited.accepted.saturating_add(now.inputs.accepted);
        let leads = now.view.leader == Leader::Me && !now.notified;
        let is_above =
            now.view.outpaced || !self.slack.is_near(now.inputs.load, Some(awaited.peer));
        if leads && is_above && waited_ns < ANSWER_NS {
            self.awaited = Some(awaited);
        }
    }

    /// Returns whether the plan may be used for more turns.
    pub(crate) fn is_settled(&self, inputs: &Inputs, plan: &Plan) -> bool {
        if !inputs.exclusive {
            return plan.stands;
        }
        let is_settled = match self.state {
            State::Out => inputs.load.is_full(),
            State::Away { .. } | State::Resting => true,
            // A worker that is above the limit, and awaits no other, has just started to listen. If
            // its load stays the same, it stops or awaits another worker in its next plan. So this
            // plan does not stand.
            State::Listening { .. } => !self.is_over_limit,
            // A worker that is alone syncs in each turn, because another worker may have joined.
            State::Alone | State::Probing { .. } => false,
        };
        is_settled && self.awaited.is_none()
    }

    fn decide(&mut self, now: Now<'_>) -> Plan {
        if now.inputs.load.is_full() {
            return self.stop_full(now);
        }
        match self.state {
            State::Listening { .. } | State::Alone => self.keep_or_stop(now),
            State::Resting => self.rest_or_wake(now),
            State::Out => self.start_or_stay_away(now, now.ns),
            State::Away { since_ns } => self.start_or_stay_away(now, since_ns),
            // The probe has found clients, so no other worker accepts them in time.
            State::Probing { .. } if now.inputs.accepted > 0 => self.start(now),
            State::Probing { .. } if now.inputs.may_have_left_clients => self.start(now),
            State::Probing { .. } if now.view.leader == Leader::Other && self.can_rest(now) => {
                self.rest()
            }
            State::Probing { since_ns } => self.start_or_stay_away(now, since_ns),
        }
    }

    fn stop_full(&mut self, now: Now<'_>) -> Plan {
        self.state = State::Out;
        self.awaited = None;
        let leadership = match now.view.leader {
            Leader::Me => Leadership::Release,
            Leader::None | Leader::Other => Leadership::Keep,
        };
        // A notified worker that does not listen forwards the notification.
        let is_missed =
            now.view.leader != Leader::Other || now.inputs.may_have_left_clients || now.notified;
        Plan {
            leadership,
            notify: now.view.least_loaded_id().filter(|_| is_missed),
            // The wait needs no limit, because only a handler of this worker can close a
            // connection, and a plan follows each handler.
            ..Plan::away(None)
        }
    }

    fn keep_or_stop(&mut self, now: Now<'_>) -> Plan {
        if now.notified {
            return self.start(now);
        }
        if self.is_near(now) {
            return self.keep(now);
        }
        match now.view.leader {
            Leader::Other => self.stop(now),
            Leader::None | Leader::Me => self.keep_leading(now),
        }
    }

    fn is_near(&self, now: Now<'_>) -> bool {
        !now.view.outpaced && self.slack.is_near(now.inputs.load, now.least_loaded)
    }

    /// Keeps listening. Registers again if the registration is too old or of the wrong kind.
    fn keep(&mut self, now: Now<'_>) -> Plan {
        let plan = match self.state {
            State::Alone if now.view.alone => Plan::listen(),
            State::Listening { since_ns, .. }
                if !now.view.alone && passed(since_ns, now.ns) < self.delay_ns =>
            {
                Self::listening(self.delay_ns - passed(since_ns, now.ns))
            }
            State::Listening { .. } if self.can_rest(now) => self.rest(),
            State::Resting if !self.is_over_limit && !Self::ends_rest(now) => Plan::rest(),
            _ => Plan {
                register_again: true,
                ..self.register(now)
            },
        };
        Plan {
            leadership: if now.view.leader == Leader::None {
                Leadership::Acquire
            } else {
                Leadership::Keep
            },
            ..plan
        }
    }

    /// Returns whether this worker rests instead of registering again.
    fn can_rest(&self, now: Now<'_>) -> bool {
        let is_settled = self.awaited.is_none() && !now.notified && !now.view.alone;
        let has_place = !self.is_over_limit || now.view.leader == Leader::Other;
        now.is_quiet && is_settled && has_place
    }

    fn rest(&mut self) -> Plan {
        self.quiet.begin_rest();
        self.state = State::Resting;
        Plan {
            register_again: true,
            ..Plan::rest()
        }
    }

    fn rest_or_wake(&mut self, now: Now<'_>) -> Plan {
        let leads_elsewhere = now.view.leader == Leader::Other;
        if now.notified || !self.is_over_limit || !leads_elsewhere || now.view.alone {
            return self.keep_or_stop(now);
        }
        if !Self::ends_rest(now) {
            return Plan::rest();
        }
        // All others have met the client too, so none of them needs a notification. If the client
        // still waits after the delay, this worker's probe finds it.
        self.state = State::Away { since_ns: now.ns };
        Plan::away(wait(self.delay_ns))
    }

    fn ends_rest(now: Now<'_>) -> bool {
        Quiet::ends_rest(now.inputs, now.view)
    }

    /// Keeps listening above the limit, because no other worker leads, and notifies the worker that
    /// should become leader.
    fn keep_leading(&mut self, now: Now<'_>) -> Plan {
        let is_patient = |awaited: &Awaited| passed(awaited.since_ns, now.ns) < PATIENCE_NS;
        let mut notify = None;
        let is_waiting = self.awaited.as_ref().is_some_and(is_patient);
        if let Some(peer) = now.least_loaded.filter(|_| !is_waiting) {
            self.awaited = Some(Awaited {
                peer,
                since_ns: now.ns,
                accepted: 0,
            });
            // Another worker may have notified this peer already.
            notify = now.view.least_loaded.filter(|least| least.id == peer.id);
        }
        Plan {
            notify: notify.map(|peer| peer.id),
            ..self.keep(now)
        }
    }

    /// Limits the number of clients that a turn accepts, and makes a leader above the limit yield.
    fn pace(&mut self, plan: Plan, now: Now<'_>) -> Plan {
        // The view will be old when a client comes, unless the turn before accepted one.
        let few = (now.inputs.accepted == 0).then(|| self.slack.times(1));
        let State::Listening { since_ns, yields } = self.state else {
            let is_probe = matches!(self.state, State::Probing { .. });
            let none = (plan.rests && self.is_over_limit).then_some(0);
            return Plan {
                accepts_at_most: none.or(few).filter(|_| plan.listening && !is_probe),
                ..plan
            };
        };
        let batch = self.slack.batch(now.inputs.load, now.least_loaded);
        let batch = few.map_or(batch, |few| batch.min(few));
        let (share, left_ns) = match &self.awaited {
            Some(awaited) => self.share(awaited, now.ns),
            None => (u32::MAX, u64::MAX),
        };
        let accepts_at_most = batch.min(share);
        let has_clients = yields || now.inputs.may_have_left_clients;
        let is_yielding = accepts_at_most == 0 && has_clients;
        self.state = State::Listening {
            since_ns,
            yields: is_yielding,
        };
        Plan {
            edge_triggered: is_yielding,
            register_again: plan.register_again || is_yielding != yields,
            // A worker that does not yield accepts at least the client that has woken it.
            accepts_at_most: Some(accepts_at_most.max(u32::from(!is_yielding))),
            wait_at_most: plan.wait_at_most.min(wait(left_ns)),
            ..plan
        }
    }

    /// Number of clients that a leader may accept while it waits for an answer, and the time until
    /// this number changes, in nanoseconds. The number is 0 at first, and grows by the slack after
    /// each interval of [`PATIENCE_NS`].
    fn share(&self, awaited: &Awaited, ns: u64) -> (u32, u64) {
        let waited_ns = passed(awaited.since_ns, ns);
        let left_ns = PATIENCE_NS - waited_ns % PATIENCE_NS;
        let intervals = (waited_ns / PATIENCE_NS).try_into().unwrap_or(u32::MAX);
        let share = self.slack.times(intervals);
        (share.saturating_sub(awaited.accepted), left_ns)
    }

    fn stop(&mut self, now: Now<'_>) -> Plan {
        self.awaited = None;
        self.state = State::Away { since_ns: now.ns };
        let left_clients = now.inputs.may_have_left_clients;
        Plan {
            notify: now.view.least_loaded_id().filter(|_| left_clients),
            ..Plan::away(wait(self.delay_ns))
        }
    }

    fn start_or_stay_away(&mut self, now: Now<'_>, since_ns: u64) -> Plan {
        if now.notified || self.is_near(now) || now.view.leader == Leader::None {
            return self.start(now);
        }
        let away_ns = passed(since_ns, now.ns);
        if away_ns >= self.delay_ns {
            self.state = State::Probing { since_ns: now.ns };
            return Plan {
                exclusive: true,
                ..Plan::probe()
            };
        }
        self.state = State::Away { since_ns };
        Plan::away(wait(self.delay_ns - away_ns))
    }

    /// Registers, so that the kernel wakes this worker last, and becomes leader.
    fn start(&mut self, now: Now<'_>) -> Plan {
        let is_registered = !matches!(self.state, State::Out | State::Away { .. });
        Plan {
            register_again: is_registered,
            leadership: Leadership::Acquire,
            ..self.register(now)
        }
    }

    fn register(&mut self, now: Now<'_>) -> Plan {
        if now.view.alone {
            self.state = State::Alone;
            Plan::listen()
        } else {
            self.state = State::Listening {
                since_ns: now.ns,
                yields: false,
            };
            Self::listening(self.delay_ns)
        }
    }

    fn listening(left_ns: u64) -> Plan {
        Plan {
            exclusive: true,
            wait_at_most: wait(left_ns),
            ..Plan::listen()
        }
    }
}

/// A limit on the wait. It is at least 1 ms, so that no worker spins.
fn wait(limit_ns: u64) -> Option<Duration> {
    Some(Duration::from_nanos(limit_ns.max(NS_PER_MS)))
}

fn passed(since_ns: u64, now_ns: u64) -> u64 {
    now_ns.saturating_sub(since_ns)
}

#[cfg(all(test, not(evcore_loom)))]
#[path = "least_loaded/tests.rs"] // The path is the same when a loom model includes this file.
mod tests;
