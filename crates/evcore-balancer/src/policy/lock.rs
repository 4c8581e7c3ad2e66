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

use super::{nanos, slack::Slack, whole_ms};
use crate::{GroupView, Inputs, Load, Plan};

/// The state of a worker that listens by the lock.
#[derive(Clone, Debug)]
pub(crate) struct LockPolicy {
    slack: Slack,
    delay_ns: u64,
    // Invariant: `None` until the first plan and while this worker holds the lock; otherwise the
    // time at which it stopped listening or was last refused.
    away_since_ns: Option<u64>,
    /// When this worker last listened. Before that, when it first planned.
    listened_at_ns: Option<u64>,
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
    /// This worker leaves the lock to others, for this many nanoseconds.
    GivesWay(u64),
    /// Another worker holds the lock.
    Refused,
    /// This worker holds the lock.
    Holds,
}

impl LockPolicy {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            delay_ns: whole_ms(delay),
            away_since_ns: None,
            listened_at_ns: None,
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
        let now_ns = nanos(now.now);
        if self.held || self.listened_at_ns.is_none() {
            self.listened_at_ns = Some(now_ns);
        }
        let view = self.view(now, sync);
        // A notification may have come after `now.notified` was read.
        let notified = now.notified || view.notified;
        let gives_way = !notified && self.is_over_limit(now, &view);
        let turn = self.take_turn(now, now_ns, gives_way, try_lock);
        let plan = self.plan_of(turn, now, now_ns, gives_way);
        // A worker that is notified and does not listen passes the notification on. After a refusal
        // another worker listens.
        let is_missed = self.held || (!plan.listening && (notified || now.may_have_left_clients));
        let must_notify = is_missed && !matches!(turn, Turn::Holds | Turn::Refused);
        // A probe may accept all clients that it finds.
        let room = self.slack.room(now.load, view.least_loaded);
        self.held = plan.holds_lock;
        self.probed = plan.listening && !plan.holds_lock;
        if plan.listening {
            self.listened_at_ns = Some(now_ns);
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
        now_ns: u64,
        gives_way: bool,
        try_lock: impl FnOnce() -> bool,
    ) -> Turn {
        let away_ns = passed(self.away_since_ns, now_ns);
        if now.load.is_full() {
            self.away_since_ns.get_or_insert(now_ns);
            return Turn::Full;
        }
        if gives_way && away_ns < self.delay_ns {
            self.away_since_ns.get_or_insert(now_ns);
            return Turn::GivesWay(self.delay_ns - away_ns);
        }
        if !try_lock() {
            self.away_since_ns = Some(now_ns);
            return Turn::Refused;
        }
        self.away_since_ns = None;
        Turn::Holds
    }

    fn plan_of(&self, turn: Turn, now: &Inputs, now_ns: u64, gives_way: bool) -> Plan {
        match turn {
            // Only this worker's own handlers can free a place, and a plan follows them.
            Turn::Full => Plan::away(None),
            Turn::GivesWay(left_ns) => self.stay_away(now, now_ns, left_ns),
            Turn::Refused => self.stay_away(now, now_ns, self.delay_ns),
            Turn::Holds => Plan {
                holds_lock: true,
                // Without an end to this turn no other worker would get the lock.
                wait_at_most: gives_way.then(|| Duration::from_nanos(self.delay_ns)),
                ..Plan::listen()
            },
        }
    }

    /// Does not listen for this long, unless it is time to probe. Probes go on while they leave
    /// clients waiting.
    fn stay_away(&self, now: &Inputs, now_ns: u64, at_most_ns: u64) -> Plan {
        let unattended_ns = passed(self.listened_at_ns, now_ns);
        let probes_on = self.probed && now.may_have_left_clients;
        if unattended_ns >= self.delay_ns || probes_on {
            return Plan::probe();
        }
        let left_ns = at_most_ns.min(self.delay_ns - unattended_ns);
        Plan::away(Some(Duration::from_nanos(left_ns)))
    }
}

/// How much time has passed since then. 0 if there is no such time, or if it is yet to come.
fn passed(since_ns: Option<u64>, now_ns: u64) -> u64 {
    since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
}

#[cfg(test)]
mod tests;
