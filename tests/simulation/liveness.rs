//! Checks that some worker accepts soon while clients wait.
//!
//! A worker accepts at once, apart from its wake-up and the lag of a coarse clock. If workers share
//! the accept lock without a group, or after a fault has harmed a worker, it may take the delay of
//! the policy until another worker tries to accept.

use std::time::Duration;

use evcore_sim::{Sim, Workers};

use crate::{
    config::{ADDRESS, WORKER_FAULTS},
    line_server::LineServer,
};

/// Time that exceeds an iteration of the event loop, a client's call and a wake-up together.
const AT_ONCE: Duration = Duration::from_millis(50);

/// The backoff of a worker without free descriptors. The delay of every policy has the same length,
/// except in `Config::notifying`, where no check allows for a delay.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarantee {
    /// True if a worker that does not get the lock waits for the delay of the policy.
    pub(crate) has_pauses: bool,
    /// True if each worker has its own listener, whose clients no other worker accepts.
    pub(crate) own_listeners: bool,
    /// Time by which the clock of a worker may be behind.
    pub(crate) clock_lag: Duration,
}

#[derive(Debug)]
pub(crate) struct LivenessChecker {
    sim: Sim,
    guarantee: Guarantee,
    backlog_len: usize,
    /// The time since which clients wait although a worker could accept.
    stalled_since: Option<Duration>,
    harms: u64,
    last_harm: Option<Duration>,
}

impl LivenessChecker {
    pub(crate) fn new(sim: &Sim, guarantee: Guarantee) -> Self {
        Self {
            sim: sim.clone(),
            guarantee,
            backlog_len: 0,
            stalled_since: None,
            harms: 0,
            last_harm: None,
        }
    }

    /// Checks the server after an event.
    ///
    /// # Panics
    ///
    /// If clients have waited too long.
    pub(crate) fn check(&mut self, server: &Workers<LineServer>) {
        let now = self.sim.now();
        let was_harmed = self.update_harms(server, now);
        let backlog_len = self.sim.backlog_len(ADDRESS.into());
        let has_accepted = backlog_len < self.backlog_len;
        self.backlog_len = backlog_len;
        // The state that the last check found has lasted until this event, which may be the accept.
        if let Some(since) = self.stalled_since.filter(|_| !was_harmed) {
            let stalled = now - since;
            assert!(
                stalled <= self.limit(now),
                "{backlog_len} clients wait, and no worker has accepted for {stalled:?}"
            );
        }
        if backlog_len == 0 || !self.could_accept(server) {
            self.stalled_since = None;
        } else if has_accepted || was_harmed {
            self.stalled_since = Some(now);
        } else {
            self.stalled_since.get_or_insert(now);
        }
    }

    /// Returns whether a worker was harmed since the last check.
    fn update_harms(&mut self, server: &Workers<LineServer>, now: Duration) -> bool {
        let counts = WORKER_FAULTS.map(|fault| self.sim.fault_count(fault));
        let harms = counts.iter().sum();
        let was_harmed = self.harms != harms;
        self.harms = harms;
        if was_harmed || server.apps().any(|(index, _)| server.is_paused(index)) {
            self.last_harm = Some(now);
        }
        was_harmed
    }

    /// Returns whether a worker could accept the clients, or whether all workers could, if each has
    /// its own listener.
    fn could_accept(&self, server: &Workers<LineServer>) -> bool {
        let mut serving = server.apps().filter(|(_, app)| !app.is_shutting_down());
        let can = |(index, app): (usize, &LineServer)| app.has_room() && !server.is_paused(index);
        if self.guarantee.own_listeners {
            serving.all(can)
        } else {
            serving.any(can)
        }
    }

    fn limit(&self, now: Duration) -> Duration {
        let at_once = AT_ONCE + self.guarantee.clock_lag;
        let is_recent = |harm| now - harm <= at_once + PAUSE;
        if self.guarantee.has_pauses || self.last_harm.is_some_and(is_recent) {
            at_once + PAUSE
        } else {
            at_once
        }
    }
}
