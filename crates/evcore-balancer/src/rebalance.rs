//! Decides when a worker gives open connections to another one, and how many.
//!
//! The inputs are the spread of the open connections over all members, and numbers of this worker's
//! own connections: how many are idle, are leaving, have left, have come back, and have arrived.
//! Only idle connections can leave immediately.
//!
//! - Nothing moves before the connections have been uneven for [`UNEVEN_NS`]. Then a worker gives
//!   connections until it has no more than the mean.
//! - In one turn (iteration of its event loop), a worker gives at most [`AT_MOST`] connections. A
//!   worker gives more only after the receiver has answered for all of these.
//! - A worker that has got connections gives none for [`STAY_NS`]. So no connection moves twice
//!   within this time, and no state is kept for each connection.
//! - A worker is avoided if it has given connections back. It is also avoided if no connection
//!   could leave for it within [`VAIN_NS`], because it may be stopped. An avoided worker gets no
//!   connections for [`AVOID_NS`]. Meanwhile the next worker that lacks connections gets them. All
//!   avoided workers share one deadline, so a further avoided worker prolongs the time of the
//!   others. A worker is no longer avoided once a connection leaves for it, in a move that began
//!   earlier.
//! - A worker tries again to move connections after a pause that doubles each time, up to a limit.
//!   The pause is short again when connections have moved, or when more than twice as many are idle
//!   as at the last try. So a group whose connections cannot move seldom wakes up.
//! - A worker with too few connections wakes the workers above the mean, because they may sleep.

use crate::{
    inputs::Inputs,
    policy::NS_PER_MS,
    spread::{Give, Spread},
    worker_id::WorkerId,
};

const UNEVEN_NS: u64 = 50 * NS_PER_MS;
const STAY_NS: u64 = 1_000 * NS_PER_MS;
const AVOID_NS: u64 = 1_000 * NS_PER_MS;
const VAIN_NS: u64 = 250 * NS_PER_MS;
/// The longest pause of a worker that has idle connections to give. It is shorter than that of
/// other workers, because a stopped receiver may run again at any time.
const PAUSE_OF_GIVER_MAX_NS: u64 = 30_000 * NS_PER_MS;
/// The longest pause of other workers, which should seldom wake up.
const PAUSE_MAX_NS: u64 = 60_000 * NS_PER_MS;
const AT_MOST: u32 = 128;

#[derive(Clone, Debug)]
pub(crate) struct Rebalance {
    spread: Spread,
    uneven_since_ns: Option<u64>,
    /// True if this worker has begun to give connections. It goes on until it has no more than the
    /// mean.
    has_begun: bool,
    /// Time of the next try, and the pause after it.
    next_ns: u64,
    pause_ns: u64,
    idle: u32,
    arrived_ns: Option<u64>,
    given_to: Option<WorkerId>,
    /// Time since which this worker has tried in vain to give to `given_to`.
    in_vain_since_ns: Option<u64>,
    /// The workers that get no connections until `avoided_until_ns`.
    avoided: Vec<WorkerId>,
    avoided_until_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    pub(crate) give: Option<Give>,
    pub(crate) calls: bool,
    /// Time of the next plan, if nothing happens before.
    pub(crate) ends_ns: Option<u64>,
}

impl Default for Rebalance {
    fn default() -> Self {
        Self {
            spread: Spread::default(),
            uneven_since_ns: None,
            has_begun: false,
            next_ns: 0,
            pause_ns: UNEVEN_NS,
            idle: 0,
            arrived_ns: None,
            given_to: None,
            in_vain_since_ns: None,
            avoided: Vec::new(),
            avoided_until_ns: 0,
        }
    }
}

impl Rebalance {
    pub(crate) fn plan(&mut self, now: &Inputs, now_ns: u64) -> Moves {
        self.take_in(now, now_ns);
        let goes_on = self.has_begun && self.spread.give.is_some();
        if !self.spread.is_uneven && !goes_on {
            (self.uneven_since_ns, self.has_begun) = (None, false);
            // An avoided member does not count as below the mean, so the connections may only seem
            // even.
            if self.avoided(now_ns).is_empty() {
                self.forget_tries();
            }
            return Moves::default();
        }
        let since_ns = *self.uneven_since_ns.get_or_insert(now_ns);
        let concerns_this_worker = self.spread.give.is_some() || self.spread.is_below;
        // The answer to the connections under way triggers the next plan.
        if now.moves.leaving > 0 {
            return Moves::default();
        }
        if !concerns_this_worker {
            self.in_vain_since_ns = None;
            return match self.avoided(now_ns) {
                [] => Moves::default(),
                _ => Moves::at(self.avoided_until_ns),
            };
        }
        // The last spread may be older than the decision to avoid a worker, so it may still name
        // that worker as the receiver.
        let avoided = self.avoided(now_ns);
        if self
            .spread
            .give
            .is_some_and(|give| avoided.contains(&give.to))
        {
            return Moves::at(now_ns.saturating_add(NS_PER_MS));
        }
        let mut begins_ns = since_ns.saturating_add(UNEVEN_NS).max(self.next_ns);
        if let (Some(_), Some(arrived_ns)) = (self.spread.give, self.arrived_ns) {
            begins_ns = begins_ns.max(arrived_ns.saturating_add(STAY_NS));
        }
        if now_ns < begins_ns {
            return Moves::at(begins_ns);
        }
        self.next_ns = now_ns.saturating_add(self.pause_ns);
        self.idle = now.moves.idle;
        let give = self.spread.give.and_then(|give| {
            let connections = give.connections.min(now.moves.idle).min(AT_MOST);
            (connections > 0).then_some(Give {
                connections,
                ..give
            })
        });
        let longest_ns = match give {
            Some(_) => PAUSE_OF_GIVER_MAX_NS,
            None => PAUSE_MAX_NS,
        };
        self.pause_ns = self.pause_ns.saturating_mul(2).min(longest_ns);
        self.has_begun |= give.is_some();
        self.in_vain_since_ns = give.map(|give| {
            let is_same = self.given_to.replace(give.to) == Some(give.to);
            let since_ns = self.in_vain_since_ns.filter(|_| is_same);
            since_ns.unwrap_or(now_ns)
        });
        Moves {
            give,
            calls: self.spread.is_below,
            ..Moves::at(self.next_ns)
        }
    }

    fn take_in(&mut self, now: &Inputs, now_ns: u64) {
        let moves = now.moves;
        self.spread = now.spread.unwrap_or(self.spread);
        if moves.arrived > 0 {
            self.arrived_ns = Some(now_ns);
        }
        if moves.left > 0 {
            self.in_vain_since_ns = None;
            // Connections leave only after their receiver has sent a greeting, its first message in
            // a handover. So the receiver runs, and is not avoided any more.
            self.avoided.retain(|peer| self.given_to != Some(*peer));
        }
        let since_ns = self.in_vain_since_ns.unwrap_or(u64::MAX);
        let is_in_vain = since_ns.saturating_add(VAIN_NS) <= now_ns;
        if moves.came_back > 0 || is_in_vain {
            self.avoid(now_ns);
        } else if moves.left > 0 || moves.arrived > 0 || moves.idle > self.idle.saturating_mul(2) {
            self.forget_tries();
        }
    }

    fn forget_tries(&mut self) {
        (self.next_ns, self.pause_ns) = (0, UNEVEN_NS);
        self.in_vain_since_ns = None;
    }

    pub(crate) fn avoided(&self, now_ns: u64) -> &[WorkerId] {
        match now_ns < self.avoided_until_ns {
            true => &self.avoided,
            false => &[],
        }
    }

    fn avoid(&mut self, now_ns: u64) {
        if self.avoided(now_ns).is_empty() {
            self.avoided.clear();
        }
        let peer = self.given_to.filter(|peer| !self.avoided.contains(peer));
        self.avoided.extend(peer);
        self.avoided_until_ns = now_ns.saturating_add(AVOID_NS);
        self.in_vain_since_ns = None;
    }
}

impl Moves {
    fn at(ns: u64) -> Self {
        Self {
            ends_ns: Some(ns),
            ..Self::default()
        }
    }
}
