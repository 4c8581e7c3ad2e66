//! The lock policy: only the worker that holds the accept lock listens.
//!
//! The holder keeps the lock while its load is near the lowest load. Above that limit it yields the
//! lock and notifies the least loaded worker. That worker needs the lock to listen, so no worker
//! listens while that one wakes up. A worker without a group sees no loads and follows nginx's
//! rule: it yields while it is crowded.
//!
//! A worker that was refused the lock tries it again in its next turn (iteration of its event
//! loop), at the latest after the delay. A worker that yields tries it again after the delay. A
//! worker that has room and has not listened for the delay *probes*, because the holder may be
//! stopped. A probe listens for one turn, without the lock and without waiting. This does not
//! violate the lock, whose purpose is that a client wakes few workers.

use std::time::Duration;

use super::{nanos, slack::Slack, whole_ms};
use crate::{
    inputs::{GroupView, Inputs, Load},
    plan::Plan,
};

#[derive(Clone, Debug)]
pub(crate) struct LockPolicy {
    slack: Slack,
    delay_ns: u64,
    // Invariant: `None` until the first plan and while this worker holds the lock. Otherwise the
    // time at which it stopped listening, or last failed to get the lock.
    away_since_ns: Option<u64>,
    /// The time at which this worker last listened, or else made its first plan.
    listened_at_ns: Option<u64>,
    seen: Option<Seen>,
    held: bool,
    probed: bool,
}

/// A view of the group, with the inputs on which it depends.
#[derive(Clone, Copy, Debug)]
struct Seen {
    load: Load,
    late: bool,
    view: GroupView,
}

/// The action of this turn on the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Full,
    /// This worker yields the lock to others, for this many nanoseconds more.
    Yields(u64),
    Refused,
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
        // A notification may have arrived after `now.notified` was set.
        let notified = now.notified || view.notified;
        let is_over_limit = self.is_over_limit(now, &view);
        let yields = !notified && is_over_limit;
        let turn = self.take_turn(now, now_ns, yields, try_lock);
        let plan = self.plan_of(turn, now, now_ns, yields);
        // A worker that held the lock, was notified, or left clients waiting notifies another one
        // if it does not listen now. A worker that was refused the lock notifies none, because
        // another worker has the lock.
        let is_missed = self.held || (!plan.listening && (notified || now.may_have_left_clients));
        let must_notify = is_missed && !matches!(turn, Turn::Holds | Turn::Refused);
        // A probe may accept all clients that it finds, so it has no limit.
        let room = self.slack.room(now.load, view.least_loaded);
        self.held = plan.holds_lock;
        self.probed = plan.listening && !plan.holds_lock;
        if plan.listening {
            self.listened_at_ns = Some(now_ns);
        }
        Plan {
            accepts_at_most: room.filter(|_| plan.holds_lock),
            // Above its limit a worker plans each turn anew, even if it was notified.
            stands: plan.holds_lock && !is_over_limit,
            notify: view.least_loaded_id().filter(|_| must_notify),
            ..plan
        }
    }

    /// Returns the view of the group. This worker syncs only if its own inputs have changed,
    /// because changes of other workers matter only when the next client has connected. The kept
    /// view has no notification, because each notification is reported once.
    fn view(&mut self, now: &Inputs, sync: impl FnOnce() -> GroupView) -> GroupView {
        let is_quiet = !now.notified && !now.may_have_left_clients;
        let is_same = |seen: &Seen| seen.load == now.load && seen.late == now.late;
        if let Some(seen) = self.seen.filter(is_same).filter(|_| is_quiet) {
            return seen.view;
        }
        let view = sync();
        self.seen = Some(Seen {
            load: now.load,
            late: now.late,
            view: GroupView {
                notified: false,
                ..view
            },
        });
        view
    }

    fn is_over_limit(&self, now: &Inputs, view: &GroupView) -> bool {
        if now.in_group {
            view.outpaced || !self.slack.is_near(now.load, view.least_loaded)
        } else {
            now.load.is_crowded()
        }
    }

    /// Tries the lock, unless this worker is full or yields. A worker yields for the delay. Then it
    /// takes a turn with the lock. A further turn with the lock follows if that turn left clients
    /// waiting and accepted none.
    fn take_turn(
        &mut self,
        now: &Inputs,
        now_ns: u64,
        yields: bool,
        try_lock: impl FnOnce() -> bool,
    ) -> Turn {
        let away_ns = passed(self.away_since_ns, now_ns);
        if now.load.is_full() {
            self.away_since_ns.get_or_insert(now_ns);
            return Turn::Full;
        }
        // A turn after the yield continues if it found clients and accepted none of them.
        let goes_on = self.held && now.may_have_left_clients && now.accepted == 0;
        if yields && away_ns < self.delay_ns && !goes_on {
            self.away_since_ns.get_or_insert(now_ns);
            return Turn::Yields(self.delay_ns - away_ns);
        }
        if !try_lock() {
            self.away_since_ns = Some(now_ns);
            return Turn::Refused;
        }
        self.away_since_ns = None;
        Turn::Holds
    }

    fn plan_of(&self, turn: Turn, now: &Inputs, now_ns: u64, yields: bool) -> Plan {
        match turn {
            // The wait needs no limit, because only a handler of this worker can close a
            // connection, and a plan follows each handler.
            Turn::Full => Plan::away(None),
            Turn::Yields(left_ns) => self.stay_away(now, now_ns, left_ns),
            Turn::Refused => self.stay_away(now, now_ns, self.delay_ns),
            Turn::Holds => Plan {
                holds_lock: true,
                // Without a limit on this turn, no other worker would get the lock.
                wait_at_most: yields.then(|| Duration::from_nanos(self.delay_ns)),
                ..Plan::listen()
            },
        }
    }

    /// Stays away for at most this long, unless a probe is due. A probe that leaves clients waiting
    /// is followed by another one.
    fn stay_away(&self, now: &Inputs, now_ns: u64, at_most_ns: u64) -> Plan {
        let unattended_ns = passed(self.listened_at_ns, now_ns);
        let probes_again = self.probed && now.may_have_left_clients;
        if unattended_ns >= self.delay_ns || probes_again {
            return Plan::probe();
        }
        let left_ns = at_most_ns.min(self.delay_ns - unattended_ns);
        Plan::away(Some(Duration::from_nanos(left_ns)))
    }
}

/// The time since `since_ns`. It is 0 if `since_ns` is `None` or in the future.
fn passed(since_ns: Option<u64>, now_ns: u64) -> u64 {
    since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
}

#[cfg(all(test, not(evcore_loom)))]
#[path = "lock/tests.rs"] // The path is the same when a loom model includes this file.
mod tests;
