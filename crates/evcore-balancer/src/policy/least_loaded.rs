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

use super::{lock::LockPolicy, slack::Slack, whole_ms};
use crate::{GroupView, Inputs, Leader, Leadership, Load, Plan};

/// How long a leader waits for the worker that it has notified, before it notifies another.
const ANSWER_TIME: Duration = Duration::from_millis(10);

/// The state of a worker.
#[derive(Clone, Debug)]
pub(crate) struct LeastLoaded {
    slack: Slack,
    delay: Duration,
    state: State,
    /// The load at the last look at the group.
    seen_at: Option<Load>,
    /// How many connections fit below the limit, by that look.
    room: Option<u32>,
    /// Since when this leader waits for the worker that it has notified.
    // Invariant: `None` unless listening.
    notified_at: Option<Duration>,
    /// Decides where the poller has no exclusive wake-ups.
    by_lock: LockPolicy,
}

/// What a worker does between two plans.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It does not listen: it is full, or has not begun.
    Out,
    /// It has not listened since then.
    Away { since: Duration },
    /// It listens for one turn that does not wait. It has not listened since then.
    Probing { since: Duration },
    /// It listens, by a registration of that time.
    Listening { since: Duration, exclusive: bool },
}

impl LeastLoaded {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            delay: whole_ms(delay),
            state: State::Out,
            seen_at: None,
            room: None,
            notified_at: None,
            by_lock: LockPolicy::new(slack, delay),
        }
    }

    pub(crate) fn plan(
        &mut self,
        now: &Inputs,
        try_lock: impl FnOnce() -> bool,
        sync: impl FnOnce() -> GroupView,
    ) -> Plan {
        if !now.exclusive {
            return self.by_lock.plan(now, try_lock, sync);
        }
        if self.is_settled(now) {
            return self.as_before(now.now);
        }
        self.seen_at = Some(now.load);
        let view = sync();
        // A notification may have come after `now.notified` was read.
        let notified = now.notified || view.notified;
        let now = &Inputs { notified, ..*now };
        self.room = self.slack.room(now.load, view.least_loaded);
        if now.load.is_full() {
            return self.leave_full(now, &view);
        }
        match self.state {
            State::Listening { since, exclusive } => {
                self.stay_or_leave(now, &view, since, exclusive)
            }
            State::Out => self.come_or_stay_away(now, &view, now.now),
            State::Away { since } => self.come_or_stay_away(now, &view, since),
            // The worker that should have listened did not: better two that listen than none.
            State::Probing { .. } if now.accepted > 0 || now.may_have_left_clients => {
                self.come(now, &view)
            }
            State::Probing { since } => self.come_or_stay_away(now, &view, since),
        }
    }

    /// Nothing has happened that could change the last decision.
    fn is_settled(&self, now: &Inputs) -> bool {
        let is_quiet = self.seen_at == Some(now.load)
            && now.accepted == 0
            && !now.notified
            && !now.may_have_left_clients
            && self.notified_at.is_none();
        is_quiet
            && match self.state {
                State::Out => now.load.is_full(),
                State::Probing { .. } => false,
                State::Away { since } => passed(since, now.now) < self.delay,
                // A worker that is alone looks in each turn, which is how it finds that another
                // worker has joined.
                State::Listening { since, exclusive } => {
                    exclusive && passed(since, now.now) < self.delay
                }
            }
    }

    /// The plan of a settled worker.
    fn as_before(&self, now: Duration) -> Plan {
        match self.state {
            State::Out | State::Probing { .. } => Plan::away(None),
            State::Away { since } => Plan::away(Some(self.left(since, now))),
            State::Listening { since, exclusive } => self.listening(since, exclusive, now),
        }
    }

    fn leave_full(&mut self, now: &Inputs, view: &GroupView) -> Plan {
        self.state = State::Out;
        self.notified_at = None;
        let leadership = match view.leader {
            Leader::Me => Leadership::Release,
            Leader::None | Leader::Other => Leadership::Keep,
        };
        // A worker that is notified and does not listen passes the notification on.
        let is_missed = view.leader != Leader::Other || now.may_have_left_clients || now.notified;
        Plan {
            leadership,
            notify: view.least_loaded_id().filter(|_| is_missed),
            // Only this worker's own handlers can free a place, and a plan follows them.
            ..Plan::away(None)
        }
    }

    fn stay_or_leave(
        &mut self,
        now: &Inputs,
        view: &GroupView,
        since: Duration,
        exclusive: bool,
    ) -> Plan {
        if now.notified {
            return self.come(now, view);
        }
        let others_listen = view.leader == Leader::Other;
        // A notified worker is left out of the view until it answers. There may be no other.
        let awaits = !others_listen && view.least_loaded.is_none() && self.awaits_answer(now);
        if self.slack.is_near(now.load, view.least_loaded) && !awaits {
            self.notified_at = None;
            return self.stay(now, view, since, exclusive);
        }
        if others_listen {
            self.leave(now, view)
        } else {
            self.keep_leading(now, view, since, exclusive)
        }
    }

    /// Keeps listening, near the least load.
    fn stay(&mut self, now: &Inputs, view: &GroupView, since: Duration, exclusive: bool) -> Plan {
        let has_expired = exclusive && passed(since, now.now) >= self.delay;
        let wanted = !view.alone;
        let again = has_expired || exclusive != wanted;
        let (since, exclusive) = (if again { now.now } else { since }, wanted);
        self.state = State::Listening { since, exclusive };
        Plan {
            register_again: again,
            leadership: if view.leader == Leader::None {
                Leadership::Acquire
            } else {
                Leadership::Keep
            },
            ..self.listening(since, exclusive, now.now)
        }
    }

    /// Above the limit while no other worker has to listen: notifies the one that should.
    fn keep_leading(
        &mut self,
        now: &Inputs,
        view: &GroupView,
        since: Duration,
        exclusive: bool,
    ) -> Plan {
        let awaits = self.awaits_answer(now);
        if !awaits {
            self.notified_at = Some(now.now);
        }
        Plan {
            accepts_at_most: Some(1),
            notify: view.least_loaded_id().filter(|_| !awaits),
            ..self.stay(now, view, since, exclusive)
        }
    }

    /// Whether the worker that this leader has notified may still come.
    fn awaits_answer(&self, now: &Inputs) -> bool {
        self.notified_at
            .is_some_and(|notified_at| passed(notified_at, now.now) < ANSWER_TIME)
    }

    /// Stops, because another worker listens. Clients that this worker leaves waiting are found by
    /// the worker that it notifies.
    fn leave(&mut self, now: &Inputs, view: &GroupView) -> Plan {
        self.notified_at = None;
        self.state = State::Away { since: now.now };
        Plan {
            notify: view.least_loaded_id().filter(|_| now.may_have_left_clients),
            ..Plan::away(Some(self.delay))
        }
    }

    fn come_or_stay_away(&mut self, now: &Inputs, view: &GroupView, since: Duration) -> Plan {
        let is_near = self.slack.is_near(now.load, view.least_loaded);
        if now.notified || is_near || view.leader == Leader::None {
            return self.come(now, view);
        }
        if passed(since, now.now) >= self.delay {
            self.state = State::Probing { since: now.now };
            return Plan {
                exclusive: true,
                ..Plan::probe()
            };
        }
        self.state = State::Away { since };
        Plan::away(Some(self.left(since, now.now)))
    }

    /// Registers again, behind all others, and becomes leader.
    fn come(&mut self, now: &Inputs, view: &GroupView) -> Plan {
        let since = now.now;
        let exclusive = !view.alone;
        let is_registered = matches!(self.state, State::Listening { .. } | State::Probing { .. });
        self.state = State::Listening { since, exclusive };
        self.notified_at = None;
        Plan {
            register_again: is_registered,
            leadership: Leadership::Acquire,
            ..self.listening(since, exclusive, now.now)
        }
    }

    fn listening(&self, since: Duration, exclusive: bool, now: Duration) -> Plan {
        Plan {
            exclusive,
            wait_at_most: exclusive.then(|| self.left(since, now)),
            accepts_at_most: self.room,
            ..Plan::listen()
        }
    }

    /// What is left of a delay that began then. At least 1 ms.
    fn left(&self, since: Duration, now: Duration) -> Duration {
        let left = self.delay.saturating_sub(passed(since, now));
        left.max(Duration::from_millis(1))
    }
}

fn passed(since: Duration, now: Duration) -> Duration {
    now.saturating_sub(since)
}

#[cfg(test)]
mod tests;
