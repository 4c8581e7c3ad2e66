//! A worker listens while its load is near the least. None stops before another one listens.
//!
//! The workers share which of them is the *leader*, the one that must not stop. A worker that starts
//! to listen becomes leader, so the leader is the worker that has started last, and any other worker
//! may stop at once. A leader above the limit notifies the least loaded worker, which starts to
//! listen and becomes leader. Until then the old leader accepts one client in each turn.
//!
//! A full worker cannot listen. If it leads, it steps down and notifies the least loaded worker that
//! has room. If all workers are full, none listens, and the first one that has room again starts by
//! itself.
//!
//! Three rules protect clients from workers that are stopped or blocked:
//!
//! - A worker with an unanswered notification is not chosen as the least loaded.
//! - A registration lasts for the delay.
//! - A worker that has not listened for the delay probes: it listens for one turn without waiting,
//!   and keeps listening if it found a client.
//!
//! A worker that is alone in its group needs none of this. It registers without exclusive wake-ups,
//! so the kernel wakes it for each client even if a worker of another group listens too. It waits
//! without a limit.

use std::time::Duration;

use super::{NS_PER_MS, lock::LockPolicy, nanos, slack::Slack, whole_ms};
use crate::{GroupView, Inputs, Leader, Leadership, Plan};

/// How long a leader waits for the worker that it has notified, before it notifies another.
const ANSWER_NS: u64 = 10 * NS_PER_MS;

/// The state of a worker.
#[derive(Clone, Debug)]
pub(crate) struct LeastLoaded {
    slack: Slack,
    delay_ns: u64,
    state: State,
    /// How many connections the last sync allows before this worker is above the limit.
    room: Option<u32>,
    /// Since when this leader waits for the worker that it has notified.
    // Invariant: `None` unless listening.
    notified_at_ns: Option<u64>,
    /// The policy on a poller without exclusive wake-ups.
    lock_policy: LockPolicy,
}

/// What a worker does between two plans.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It does not listen, because it is full or has not started.
    Out,
    /// It has stopped listening at this time.
    Away { since_ns: u64 },
    /// It listens for one turn that does not wait, since this time.
    Probing { since_ns: u64 },
    /// It listens with exclusive wake-ups, and has registered at this time.
    Listening { since_ns: u64 },
    /// It is alone in its group, and listens without exclusive wake-ups.
    Alone,
}

/// The inputs of a plan.
#[derive(Clone, Copy)]
struct Now<'a> {
    inputs: &'a Inputs,
    view: &'a GroupView,
    ns: u64,
    /// The inputs or the view report a notification.
    notified: bool,
}

impl LeastLoaded {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            delay_ns: whole_ms(delay),
            state: State::Out,
            room: None,
            notified_at_ns: None,
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
        self.room = self.slack.room(inputs.load, view.least_loaded);
        let now = Now {
            inputs,
            view: &view,
            ns,
            notified: inputs.notified || view.notified,
        };
        self.decide(now)
    }

    /// Whether only the time or another input changes what this worker does.
    pub(crate) fn is_settled(&self, inputs: &Inputs, plan: &Plan) -> bool {
        if !inputs.exclusive {
            return LockPolicy::is_settled(plan);
        }
        let is_settled = match self.state {
            State::Out => inputs.load.is_full(),
            State::Away { .. } | State::Listening { .. } => true,
            // A worker that is alone syncs in each turn, because another worker may have joined.
            State::Alone | State::Probing { .. } => false,
        };
        is_settled && self.notified_at_ns.is_none()
    }

    fn decide(&mut self, now: Now<'_>) -> Plan {
        if now.inputs.load.is_full() {
            return self.stop_full(now);
        }
        match self.state {
            State::Listening { .. } | State::Alone => self.keep_or_stop(now),
            State::Out => self.start_or_stay_away(now, now.ns),
            State::Away { since_ns } => self.start_or_stay_away(now, since_ns),
            // The probe has found clients, so the worker that should listen does not. Two workers that
            // listen are better than none.
            State::Probing { .. } if now.inputs.accepted > 0 => self.start(now),
            State::Probing { .. } if now.inputs.may_have_left_clients => self.start(now),
            State::Probing { since_ns } => self.start_or_stay_away(now, since_ns),
        }
    }

    fn stop_full(&mut self, now: Now<'_>) -> Plan {
        self.state = State::Out;
        self.notified_at_ns = None;
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
            // Only a handler of this worker can close a connection, and a plan follows it.
            ..Plan::away(None)
        }
    }

    fn keep_or_stop(&mut self, now: Now<'_>) -> Plan {
        if now.notified {
            return self.start(now);
        }
        let least_loaded = now.view.least_loaded;
        let others_listen = now.view.leader == Leader::Other;
        // The view leaves a notified worker out until it answers. There may be no other worker.
        let awaits = !others_listen && least_loaded.is_none() && self.awaits_answer(now.ns);
        if self.slack.is_near(now.inputs.load, least_loaded) && !awaits {
            self.notified_at_ns = None;
            return self.keep(now);
        }
        if others_listen {
            self.stop(now)
        } else {
            self.keep_leading(now)
        }
    }

    /// Keeps listening. Registers again if the registration is too old or of the wrong kind.
    fn keep(&mut self, now: Now<'_>) -> Plan {
        let plan = match self.state {
            State::Alone if now.view.alone => Plan::listen(),
            State::Listening { since_ns }
                if !now.view.alone && passed(since_ns, now.ns) < self.delay_ns =>
            {
                self.listening(self.delay_ns - passed(since_ns, now.ns))
            }
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

    /// Keeps listening above the limit, because no other worker leads, and notifies the one that
    /// should.
    fn keep_leading(&mut self, now: Now<'_>) -> Plan {
        let awaits = self.awaits_answer(now.ns);
        if !awaits {
            self.notified_at_ns = Some(now.ns);
        }
        Plan {
            accepts_at_most: Some(1),
            notify: now.view.least_loaded_id().filter(|_| !awaits),
            ..self.keep(now)
        }
    }

    /// Whether the worker that this leader has notified may still answer.
    fn awaits_answer(&self, now_ns: u64) -> bool {
        self.notified_at_ns
            .is_some_and(|notified_at_ns| passed(notified_at_ns, now_ns) < ANSWER_NS)
    }

    /// Stops, because another worker listens. If this worker leaves clients waiting, it notifies
    /// another one, which finds them.
    fn stop(&mut self, now: Now<'_>) -> Plan {
        self.notified_at_ns = None;
        self.state = State::Away { since_ns: now.ns };
        let left_clients = now.inputs.may_have_left_clients;
        Plan {
            notify: now.view.least_loaded_id().filter(|_| left_clients),
            ..Plan::away(wait(self.delay_ns))
        }
    }

    fn start_or_stay_away(&mut self, now: Now<'_>, since_ns: u64) -> Plan {
        let is_near = self.slack.is_near(now.inputs.load, now.view.least_loaded);
        if now.notified || is_near || now.view.leader == Leader::None {
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

    /// Registers, after all others, and becomes leader.
    fn start(&mut self, now: Now<'_>) -> Plan {
        let is_registered = !matches!(self.state, State::Out | State::Away { .. });
        self.notified_at_ns = None;
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
            self.state = State::Listening { since_ns: now.ns };
            self.listening(self.delay_ns)
        }
    }

    /// A turn that listens with exclusive wake-ups. The registration lasts for this long.
    fn listening(&self, left_ns: u64) -> Plan {
        Plan {
            exclusive: true,
            wait_at_most: wait(left_ns),
            accepts_at_most: self.room,
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
