//! A worker listens while its load is near the least, and none stops before another listens.
//!
//! What the workers share is which of them is the *leader*, the one that must not stop. A worker
//! that begins to listen becomes leader, so the leader is the worker that came last, and any other
//! worker may stop at once. A leader above the limit notifies the least loaded worker, which comes
//! and becomes leader. Until then the old leader accepts one client in each turn.
//!
//! A full worker cannot listen. If it leads, it steps down and notifies the least loaded worker
//! that has a free place. If all are full, no worker listens, and the first one that has a free
//! place again begins by itself.
//!
//! Three rules are against workers that are stopped or blocked. No worker is chosen that has an
//! unanswered notification. A registration lasts for the delay. A worker that has not listened for
//! the delay probes: it listens for one turn without waiting, and keeps listening if it found a
//! client.
//!
//! A worker that is alone in its group needs none of that. It registers without exclusive wake-ups,
//! so the kernel wakes it for each client even if a worker of another group listens too, and it
//! waits without limit.

use std::time::Duration;

use super::{NS_PER_MS, lock::LockPolicy, nanos, slack::Slack, whole_ms};
use crate::{GroupView, Inputs, Leader, Leadership, Load, Plan};

/// How long a leader waits for the worker that it has notified, before it notifies another.
const ANSWER_NS: u64 = 10 * NS_PER_MS;

/// The state of a worker.
#[derive(Clone, Debug)]
pub(crate) struct LeastLoaded {
    slack: Slack,
    delay_ns: u64,
    state: State,
    /// The load at the last look at the group.
    seen_at: Option<Load>,
    /// How many connections fit below the limit, by that look.
    room: Option<u32>,
    /// Since when this leader waits for the worker that it has notified.
    // Invariant: `None` unless listening.
    notified_at_ns: Option<u64>,
    /// Decides where the poller has no exclusive wake-ups.
    by_lock: LockPolicy,
}

/// What a worker does between two plans.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It does not listen: it is full, or has not begun.
    Out,
    /// It has not listened since then.
    Away { since_ns: u64 },
    /// It listens for one turn that does not wait. It has not listened since then.
    Probing { since_ns: u64 },
    /// It listens exclusively, by a registration of that time.
    Listening { since_ns: u64 },
    /// It is alone in its group, and listens without exclusive wake-ups.
    Alone,
}

/// What a plan is made from.
#[derive(Clone, Copy)]
struct Now<'a> {
    inputs: &'a Inputs,
    view: &'a GroupView,
    ns: u64,
    /// A notification has come, by the inputs or by the view.
    notified: bool,
}

impl LeastLoaded {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            delay_ns: whole_ms(delay),
            state: State::Out,
            seen_at: None,
            room: None,
            notified_at_ns: None,
            by_lock: LockPolicy::new(slack, delay),
        }
    }

    pub(crate) fn plan(
        &mut self,
        inputs: &Inputs,
        try_lock: impl FnOnce() -> bool,
        sync: impl FnOnce() -> GroupView,
    ) -> Plan {
        if !inputs.exclusive {
            return self.by_lock.plan(inputs, try_lock, sync);
        }
        let ns = nanos(inputs.now);
        if let Some(plan) = self.settled(inputs, ns) {
            return plan;
        }
        self.seen_at = Some(inputs.load);
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

    /// The last plan again, if nothing has happened that could change it.
    fn settled(&self, inputs: &Inputs, now_ns: u64) -> Option<Plan> {
        let is_quiet = self.seen_at == Some(inputs.load)
            && inputs.accepted == 0
            && !inputs.notified
            && !inputs.may_have_left_clients
            && self.notified_at_ns.is_none();
        if !is_quiet {
            return None;
        }
        let left_ns = |since_ns| self.delay_ns.checked_sub(passed(since_ns, now_ns));
        match self.state {
            State::Out => inputs.load.is_full().then(|| Plan::away(None)),
            State::Away { since_ns } => {
                let left_ns = left_ns(since_ns).filter(|left_ns| *left_ns > 0)?;
                Some(Plan::away(wait(left_ns)))
            }
            State::Listening { since_ns } => {
                let left_ns = left_ns(since_ns).filter(|left_ns| *left_ns > 0)?;
                Some(self.listening(left_ns))
            }
            // A worker that is alone looks in each turn, which is how it finds that another worker
            // has joined.
            State::Alone | State::Probing { .. } => None,
        }
    }

    fn decide(&mut self, now: Now<'_>) -> Plan {
        if now.inputs.load.is_full() {
            return self.leave_full(now);
        }
        match self.state {
            State::Listening { .. } | State::Alone => self.stay_or_leave(now),
            State::Out => self.come_or_stay_away(now, now.ns),
            State::Away { since_ns } => self.come_or_stay_away(now, since_ns),
            // The worker that should have listened did not: better two that listen than none.
            State::Probing { .. } if now.inputs.accepted > 0 => self.come(now),
            State::Probing { .. } if now.inputs.may_have_left_clients => self.come(now),
            State::Probing { since_ns } => self.come_or_stay_away(now, since_ns),
        }
    }

    fn leave_full(&mut self, now: Now<'_>) -> Plan {
        self.state = State::Out;
        self.notified_at_ns = None;
        let leadership = match now.view.leader {
            Leader::Me => Leadership::Release,
            Leader::None | Leader::Other => Leadership::Keep,
        };
        // A worker that is notified and does not listen passes the notification on.
        let is_missed =
            now.view.leader != Leader::Other || now.inputs.may_have_left_clients || now.notified;
        Plan {
            leadership,
            notify: now.view.least_loaded_id().filter(|_| is_missed),
            // Only this worker's own handlers can free a place, and a plan follows them.
            ..Plan::away(None)
        }
    }

    fn stay_or_leave(&mut self, now: Now<'_>) -> Plan {
        if now.notified {
            return self.come(now);
        }
        let least_loaded = now.view.least_loaded;
        let others_listen = now.view.leader == Leader::Other;
        // A notified worker is left out of the view until it answers. There may be no other.
        let awaits = !others_listen && least_loaded.is_none() && self.awaits_answer(now.ns);
        if self.slack.is_near(now.inputs.load, least_loaded) && !awaits {
            self.notified_at_ns = None;
            return self.stay(now);
        }
        if others_listen {
            self.leave(now)
        } else {
            self.keep_leading(now)
        }
    }

    /// Keeps listening. Registers again if the registration is too old, or of the wrong kind.
    fn stay(&mut self, now: Now<'_>) -> Plan {
        let plan = match self.state {
            State::Alone if now.view.alone => self.listening_alone(),
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

    /// Above the limit while no other worker has to listen: notifies the one that should.
    fn keep_leading(&mut self, now: Now<'_>) -> Plan {
        let awaits = self.awaits_answer(now.ns);
        if !awaits {
            self.notified_at_ns = Some(now.ns);
        }
        Plan {
            accepts_at_most: Some(1),
            notify: now.view.least_loaded_id().filter(|_| !awaits),
            ..self.stay(now)
        }
    }

    /// Whether the worker that this leader has notified may still come.
    fn awaits_answer(&self, now_ns: u64) -> bool {
        self.notified_at_ns
            .is_some_and(|notified_at_ns| passed(notified_at_ns, now_ns) < ANSWER_NS)
    }

    /// Stops, because another worker listens. Clients that this worker leaves waiting are found by
    /// the worker that it notifies.
    fn leave(&mut self, now: Now<'_>) -> Plan {
        self.notified_at_ns = None;
        self.state = State::Away { since_ns: now.ns };
        let left_clients = now.inputs.may_have_left_clients;
        Plan {
            notify: now.view.least_loaded_id().filter(|_| left_clients),
            ..Plan::away(wait(self.delay_ns))
        }
    }

    fn come_or_stay_away(&mut self, now: Now<'_>, since_ns: u64) -> Plan {
        let is_near = self.slack.is_near(now.inputs.load, now.view.least_loaded);
        if now.notified || is_near || now.view.leader == Leader::None {
            return self.come(now);
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

    /// Registers, behind all others, and becomes leader.
    fn come(&mut self, now: Now<'_>) -> Plan {
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
            self.listening_alone()
        } else {
            self.state = State::Listening { since_ns: now.ns };
            self.listening(self.delay_ns)
        }
    }

    /// A turn that listens exclusively, by a registration that lasts this much longer.
    fn listening(&self, left_ns: u64) -> Plan {
        Plan {
            exclusive: true,
            wait_at_most: wait(left_ns),
            accepts_at_most: self.room,
            ..Plan::listen()
        }
    }

    fn listening_alone(&self) -> Plan {
        Plan {
            accepts_at_most: self.room,
            ..Plan::listen()
        }
    }
}

/// A limit of at least 1 ms, so that no worker spins.
fn wait(limit_ns: u64) -> Option<Duration> {
    Some(Duration::from_nanos(limit_ns.max(NS_PER_MS)))
}

fn passed(since_ns: u64, now_ns: u64) -> u64 {
    now_ns.saturating_sub(since_ns)
}

#[cfg(test)]
mod tests;
