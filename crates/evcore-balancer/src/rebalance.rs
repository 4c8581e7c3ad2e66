//! Decides when a worker gives open connections to another one, and how many.
//!
//! A member sees only the number of open connections of the others. It also knows how many of its own
//! are idle; only these can leave at once.
//!
//! - Nothing moves before the connections have been uneven for [`UNEVEN_NS`]. Then a worker gives until
//!   it is at the mean.
//! - A turn gives at most [`AT_MOST`] connections. A worker gives more only after these have been
//!   answered.
//! - A worker that has got connections gives none for [`STAY_NS`]. So no connection moves twice
//!   within this time, and nothing has to be kept for each connection.
//! - A worker to which connections were given in vain gets none for [`AVOID_NS`]. It may be stopped.
//!   Meanwhile the next worker that lacks connections gets them. It may then get more than it lacks,
//!   because other workers may give it the same ones.
//! - If a worker cannot give, it tries again after a pause that doubles each time, up to
//!   [`LONGEST_PAUSE_NS`], or when twice as many connections are idle. So a group whose connections cannot
//!   move comes to rest, but for a try a minute.
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
const LONGEST_PAUSE_NS: u64 = 60_000 * NS_PER_MS;
const AT_MOST: u32 = 128;

/// The part of a balancer that evens out open connections.
#[derive(Clone, Debug)]
pub(crate) struct Rebalance {
    spread: Spread,
    /// Time since which the connections have been uneven.
    uneven_since_ns: Option<u64>,
    /// It has begun to give, and goes on until it is at the mean.
    has_begun: bool,
    /// Time of the next try, and the pause after it.
    next_ns: u64,
    pause_ns: u64,
    /// Number of connections that were idle at the last try.
    idle: u32,
    /// Time at which connections arrived here last.
    arrived_ns: Option<u64>,
    /// The worker that it has given connections to.
    given_to: Option<WorkerId>,
    /// True if nothing has left since that try: the worker has not even greeted, or none can leave.
    was_in_vain: bool,
    /// A worker that has not taken its connections, and the time since which it gets none.
    avoided: Option<(WorkerId, u64)>,
}

/// The part of a plan that evens out open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    pub(crate) give: Option<Give>,
    pub(crate) calls: bool,
    /// Time of the next look, if nothing happens before.
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
            was_in_vain: false,
            avoided: None,
        }
    }
}

impl Rebalance {
    pub(crate) fn plan(&mut self, now: &Inputs, now_ns: u64) -> Moves {
        self.take_in(now, now_ns);
        let goes_on = self.has_begun && self.spread.give.is_some();
        if !self.spread.is_uneven && !goes_on {
            (self.uneven_since_ns, self.has_begun) = (None, false);
            self.forget_tries();
            return Moves::default();
        }
        let since_ns = *self.uneven_since_ns.get_or_insert(now_ns);
        let is_mine = self.spread.give.is_some() || self.spread.is_below;
        // The answer to the connections under way triggers the next plan.
        if !is_mine || now.moves.leaving > 0 {
            return Moves::default();
        }
        let mut begins_ns = since_ns.saturating_add(UNEVEN_NS).max(self.next_ns);
        if let Some(give) = self.target(now_ns) {
            begins_ns = begins_ns.max(self.may_give_from_ns(give));
        }
        if now_ns < begins_ns {
            return Moves::at(begins_ns);
        }
        self.next_ns = now_ns.saturating_add(self.pause_ns);
        self.pause_ns = self.pause_ns.saturating_mul(2).min(LONGEST_PAUSE_NS);
        self.idle = now.moves.idle;
        if self.was_in_vain && self.spread.instead.is_some() {
            self.avoided = self.given_to.map(|peer| (peer, now_ns));
        }
        let give = self.target(now_ns).and_then(|give| {
            let connections = give.connections.min(now.moves.idle).min(AT_MOST);
            (connections > 0).then_some(Give {
                connections,
                ..give
            })
        });
        self.has_begun |= give.is_some();
        self.given_to = give.map(|give| give.to).or(self.given_to);
        self.was_in_vain = give.is_some();
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
        self.was_in_vain &= moves.left == 0;
        if moves.came_back > 0 {
            self.avoided = self.given_to.map(|peer| (peer, now_ns));
        } else if moves.left > 0 || moves.arrived > 0 || moves.idle / 2 > self.idle {
            self.forget_tries();
        }
    }

    /// Resets the pause that failed tries have prolonged.
    fn forget_tries(&mut self) {
        (self.next_ns, self.pause_ns) = (0, UNEVEN_NS);
    }

    /// The connections to give, and the worker that gets them.
    fn target(&self, now_ns: u64) -> Option<Give> {
        let first = self.spread.give?;
        let avoided = self.avoided.filter(|(peer, _)| *peer == first.to);
        let is_avoided = avoided.is_some_and(|(_, ns)| now_ns < ns.saturating_add(AVOID_NS));
        let instead = self.spread.instead.filter(|_| is_avoided);
        instead.or(Some(first))
    }

    fn may_give_from_ns(&self, give: Give) -> u64 {
        let stays_until_ns = self.arrived_ns.map(|ns| ns.saturating_add(STAY_NS));
        let avoided = self.avoided.filter(|(peer, _)| *peer == give.to);
        let avoided_until_ns = avoided.map(|(_, ns)| ns.saturating_add(AVOID_NS));
        stays_until_ns.max(avoided_until_ns).unwrap_or(0)
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
