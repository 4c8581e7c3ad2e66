//! Only the worker that holds the accept lock listens, and the lock is handed over.
//!
//! The holder keeps the lock while its load is near the least. Above that limit it gives way and
//! notifies the least loaded worker. It cannot keep listening until that worker has come, because
//! that worker needs the lock: for the time of one wake-up no worker listens. A worker without a
//! group sees no loads and follows nginx's rule: it gives way while it is crowded.
//!
//! A worker that is refused the lock, or gives way, comes back after the delay. A worker with a free
//! place that has not listened for the delay *probes*: it listens for one turn, without the lock and
//! without waiting, because the holder may be stopped. The lock limits how many workers a client
//! wakes, not how many accept, so a probe breaks no promise.

use std::time::Duration;

use super::{slack::Slack, whole_ms};
use crate::{GroupView, Inputs, Load, Plan};

/// The state of a worker that listens by the lock.
#[derive(Clone, Debug)]
pub(crate) struct LockPolicy {
    slack: Slack,
    delay: Duration,
    // Invariant: `None` until the first plan and while this worker holds the lock; otherwise the
    // time at which it stopped listening or was last refused.
    away_since: Option<Duration>,
    /// When this worker last listened. Before that, when it first planned.
    listened_at: Option<Duration>,
    /// The last look at the group, and the load at that time.
    seen: Option<(Load, GroupView)>,
    /// The plan before this one held the lock.
    held: bool,
    /// The plan before this one was a probe.
    probed: bool,
}

/// What the lock decides about a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    /// This worker has no free place.
    Full,
    /// This worker leaves the lock to others, for this long.
    GivesWay(Duration),
    /// Another worker holds the lock.
    Refused,
    /// This worker holds the lock.
    Holds,
}

impl LockPolicy {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            delay: whole_ms(delay),
            away_since: None,
            listened_at: None,
            seen: None,
            held: false,
            probed: false,
        }
    }

    /// Decides about a turn.
    pub(crate) fn plan(
        &mut self,
        now: &Inputs,
        try_lock: impl FnOnce() -> bool,
        sync: impl FnOnce() -> GroupView,
    ) -> Plan {
        if self.held || self.listened_at.is_none() {
            self.listened_at = Some(now.now);
        }
        let view = self.view(now, sync);
        // A notification may have come after `now.notified` was read.
        let notified = now.notified || view.notified;
        let gives_way = !notified && self.is_over_limit(now, &view);
        let turn = self.take_turn(now, gives_way, try_lock);
        let plan = self.plan_of(turn, now, gives_way);
        // A worker that is notified and does not listen passes the notification on. After a refusal
        // another worker listens.
        let is_missed = self.held || (!plan.listening && (notified || now.may_have_left_clients));
        let must_notify = is_missed && !matches!(turn, Turn::Holds | Turn::Refused);
        // A probe may accept all clients that it finds.
        let room = self.slack.room(now.load, view.least_loaded);
        self.held = plan.holds_lock;
        self.probed = plan.listening && !plan.holds_lock;
        if plan.listening {
            self.listened_at = Some(now.now);
        }
        Plan {
            accepts_at_most: room.filter(|_| plan.holds_lock),
            notify: view.least_loaded_id().filter(|_| must_notify),
            ..plan
        }
    }

    /// The group as last seen. This worker looks again only if something has changed here. Changes
    /// elsewhere matter when the next client has come. A notification is reported once.
    fn view(&mut self, now: &Inputs, sync: impl FnOnce() -> GroupView) -> GroupView {
        let is_quiet = !now.notified && !now.may_have_left_clients;
        match self.seen {
            Some((load, view)) if is_quiet && load == now.load => view,
            _ => {
                let view = sync();
                let reported = GroupView {
                    notified: false,
                    ..view
                };
                self.seen = Some((now.load, reported));
                view
            }
        }
    }

    /// Whether this worker should leave the lock to others.
    fn is_over_limit(&self, now: &Inputs, view: &GroupView) -> bool {
        if now.in_group {
            !self.slack.is_near(now.load, view.least_loaded)
        } else {
            now.load.is_crowded()
        }
    }

    /// Tries the lock, unless this worker is full or gives way. A worker gives way for the delay,
    /// and then takes one turn.
    fn take_turn(
        &mut self,
        now: &Inputs,
        gives_way: bool,
        try_lock: impl FnOnce() -> bool,
    ) -> Turn {
        let away = passed(self.away_since, now.now);
        if now.load.is_full() {
            self.away_since.get_or_insert(now.now);
            return Turn::Full;
        }
        if gives_way && away < self.delay {
            self.away_since.get_or_insert(now.now);
            return Turn::GivesWay(self.delay - away);
        }
        if !try_lock() {
            self.away_since = Some(now.now);
            return Turn::Refused;
        }
        self.away_since = None;
        Turn::Holds
    }

    fn plan_of(&self, turn: Turn, now: &Inputs, gives_way: bool) -> Plan {
        match turn {
            // Only this worker's own handlers can free a place, and a plan follows them.
            Turn::Full => Plan::away(None),
            Turn::GivesWay(left) => self.stay_away(now, left),
            Turn::Refused => self.stay_away(now, self.delay),
            Turn::Holds => Plan {
                holds_lock: true,
                // Without an end to this turn no other worker would get the lock.
                wait_at_most: gives_way.then_some(self.delay),
                ..Plan::listen()
            },
        }
    }

    /// Does not listen for this long, unless it is time to probe. Probes go on while they leave
    /// clients waiting.
    fn stay_away(&self, now: &Inputs, at_most: Duration) -> Plan {
        let unattended = passed(self.listened_at, now.now);
        let probes_on = self.probed && now.may_have_left_clients;
        if unattended >= self.delay || probes_on {
            return Plan::probe();
        }
        Plan::away(Some(at_most.min(self.delay - unattended)))
    }
}

/// How much time has passed since then. None if there is no such time, or if it is yet to come.
fn passed(since: Option<Duration>, now: Duration) -> Duration {
    since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
}

#[cfg(test)]
mod tests;
