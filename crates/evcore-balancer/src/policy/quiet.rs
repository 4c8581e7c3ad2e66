//! Detects that a group should rest, because no member has met a client for [`DELAYS`] delays of
//! the policy.
//!
//! With exclusive wake-ups the kernel wakes one worker for a client, and that worker may be stopped
//! before it accepts. So another worker has to look for clients at least once in each delay: it
//! *probes* (polls the listeners once), or registers them again. A worker that *rests* listens
//! without exclusive wake-ups, so the kernel wakes it for the next client, whatever the others do.
//! The price is that the kernel wakes all workers for that client. So a worker that meets a client
//! ends its rest. If another worker accepts the client before a woken member runs, the kernel
//! reports nothing to that member, and it still rests. So a worker that accepts a further client
//! *rouses* the members that still rest: it wakes them and ends their rest.

use crate::inputs::{GroupView, Inputs};

/// Number of delays without a client before a worker rests. With four delays, a rare client wakes
/// hardly more workers than the probes and new registrations would if no worker rested
/// (`tests/rest.rs`).
const DELAYS: u64 = 4;

/// The clients that a group has met, as one member sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    after_ns: u64,
    /// Number of clients that the group had accepted at the last plan.
    clients: u32,
    /// Time of the last plan that noticed a client, or of the first plan.
    since_ns: Option<u64>,
    /// Number of clients that the group had accepted when this worker last began to rest.
    clients_at_rest: u32,
}

impl Quiet {
    pub(crate) fn new(delay_ns: u64) -> Self {
        Self {
            after_ns: delay_ns.saturating_mul(DELAYS),
            clients: 0,
            since_ns: None,
            clients_at_rest: 0,
        }
    }

    /// Returns whether the group has met no client for [`DELAYS`] delays.
    pub(crate) fn update(&mut self, inputs: &Inputs, view: &GroupView, now_ns: u64) -> bool {
        let is_new = inputs.has_met_clients() || self.clients != view.clients;
        self.clients = view.clients;
        let since_ns = self.since_ns.filter(|_| !is_new).unwrap_or(now_ns);
        self.since_ns = Some(since_ns);
        now_ns.saturating_sub(since_ns) >= self.after_ns
    }

    pub(crate) fn begin_rest(&mut self) {
        self.clients_at_rest = self.clients;
    }

    pub(crate) fn ends_rest(inputs: &Inputs, view: &GroupView) -> bool {
        inputs.has_met_clients() || inputs.notified || view.notified || view.roused
    }

    /// Returns whether a worker that does not rest should rouse those that do. A single client is
    /// not a reason, because the group may rest again after it.
    pub(crate) fn rouses(self, inputs: &Inputs, view: &GroupView) -> bool {
        view.others_rest
            && inputs.accepted > 0
            && self.clients.wrapping_sub(self.clients_at_rest) > 1
    }
}
