//! Emits the loop's records as events of the crate `tracing`.
//! [The page of this crate](crate#tracing) lists these events.

use tracing::{debug, trace};

use crate::record::Record;

mod target {
    pub(super) const TURN: &str = "evcore::turn";
    pub(super) const BALANCER: &str = "evcore::balancer";
    pub(super) const ACCEPT: &str = "evcore::accept";
    pub(super) const POLLER: &str = "evcore::poller";
    pub(super) const TIMER: &str = "evcore::timer";
    pub(super) const POSTED: &str = "evcore::posted";
    pub(super) const CONNECTIONS: &str = "evcore::connections";
}

/// Emits a record: at the level `DEBUG` if a connection, or a plan of the balancer, makes only a
/// few such records, and at `TRACE` otherwise.
pub(crate) fn emit(record: &Record) {
    match *record {
        Record::TurnBegan {
            turn,
            at_ns,
            events,
        } => trace!(target: target::TURN, turn, at_ns, events, "turn began"),
        Record::TurnEnded { took_ns } => trace!(target: target::TURN, took_ns, "turn ended"),
        Record::Ready(token, ready) => trace!(target: target::TURN, %token, ?ready, "ready"),
        Record::Woken => trace!(target: target::TURN, "woken"),
        Record::ShuttingDown => trace!(target: target::TURN, "shutting down"),

        Record::Planned {
            listening,
            holds_lock,
            accepts_at_most,
            leadership,
            notified,
        } => debug!(
            target: target::BALANCER,
            listening,
            holds_lock,
            accepts_at_most,
            ?leadership,
            notified = notified.map(|worker| worker.slot()),
            "planned"
        ),
        Record::LockTaken => trace!(target: target::BALANCER, "accept lock taken"),
        Record::LockReleased => trace!(target: target::BALANCER, "accept lock released"),
        Record::Accepted(listener) => debug!(target: target::ACCEPT, listener, "accepted"),

        Record::Stale(token) => {
            let token = token.map(tracing::field::display);
            debug!(target: target::POLLER, token, "stale");
        }

        Record::Expired(token, timer) => trace!(target: target::TIMER, %token, ?timer, "expired"),
        Record::Armed {
            token,
            timer,
            deadline_ms,
        } => trace!(target: target::TIMER, %token, ?timer, deadline_ms, "armed"),
        Record::Disarmed(token, timer) => {
            trace!(target: target::TIMER, %token, ?timer, "disarmed");
        }
        Record::Posted(token, ready) => trace!(target: target::POSTED, %token, ?ready, "posted"),

        Record::Registered {
            token,
            watched,
            descriptor,
        } => debug!(target: target::CONNECTIONS, %token, watched, descriptor, "registered"),
        Record::Closed(token) => debug!(target: target::CONNECTIONS, %token, "closed"),
        Record::Evict(token) => debug!(target: target::CONNECTIONS, %token, "evicted"),
    }
}
