//! Eviction: closing idle connections to make room.
//!
//! The application marks the connections that are idle. If a client waits, and slots (places under
//! the limit of connections) or descriptors are short, the loop evicts the longest idle ones: an
//! eighth of all idle ones, at least 1 and at most 32, as nginx does. A loop that shuts down evicts
//! all idle connections. Those that became idle just before the shutdown get a *grace*, a time in
//! which their next request can still arrive.
//!
//! If slots are short, the loop chooses the connections to evict before it accepts, so no
//! connection is evicted in the turn (iteration of the loop) that accepts it. A shortage of
//! descriptors shows only when accepting fails. In that case the loop chooses after the failure,
//! among the connections whose idle time exceeds the grace. So the grace protects the connections
//! that were accepted in that turn. The loop yields evictions at the end of the turn, after the
//! events that the kernel has reported, so a connection with a reported request is not evicted.

use std::time::Duration;

use evcore_balancer::Load;
use evcore_token::{IdleList, Token};

use crate::{slots::Slots, time::whole_ns};

#[derive(Debug)]
pub(crate) struct Evictions {
    // Invariant: each index belongs to a current token whose descriptor is watched.
    pub(crate) idle: IdleList,
    /// The connections whose slots or descriptors are needed, the longest idle last. Since they
    /// were chosen, they may have become busy, or may have been closed.
    chosen: Vec<Token>,
}

impl Evictions {
    pub(crate) fn new(connections: u32, grace: Duration, lag_ns: u64) -> Self {
        let grace_ns = match whole_ns(grace) {
            0 => 0,
            // The clock may lag behind the time, so the grace is longer by the lag, as timers are.
            grace_ns => grace_ns.saturating_add(lag_ns),
        };
        Self {
            idle: IdleList::with_expected(connections, grace_ns),
            chosen: Vec::new(),
        }
    }

    /// The load that the balancer sees: a slot that an eviction can free counts as free.
    pub(crate) fn load_to_offer(&self, load: Load) -> Load {
        if load.is_full() && !self.idle.is_empty() {
            Load {
                active: load.capacity.saturating_sub(1),
                ..load
            }
        } else {
            load
        }
    }

    /// Returns the grace, in nanoseconds, of the connections that became idle just before the
    /// shutdown; `None` if there are no such connections.
    pub(crate) fn begin_shutdown(&mut self, now_ns: u64) -> Option<u64> {
        self.idle.begin_shutdown(now_ns)
    }

    pub(crate) fn end_grace(&mut self) {
        self.idle.end_grace();
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.idle.len()
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        self.idle.remove(index);
    }

    pub(crate) fn forget_choice(&mut self) {
        self.chosen.clear();
    }

    #[inline]
    pub(crate) fn any_chosen(&self) -> bool {
        !self.chosen.is_empty()
    }

    pub(crate) fn choose_for_slots(&mut self, load: Load, slots: &Slots) {
        let count = eviction_count(self.len(), load);
        let oldest = self.idle.iter().take(count as usize);
        self.chosen
            .extend(oldest.map(|index| slots.occupant(index)));
        self.chosen.reverse();
    }

    /// Chooses connections whose descriptors are needed, unless some are chosen already.
    #[cold]
    pub(crate) fn choose_by_age(&mut self, now_ns: u64, slots: &Slots) {
        if self.chosen.is_empty() {
            let count = batch_of(self.len());
            let long_idle = self.idle.longer_than_grace(now_ns).take(count as usize);
            self.chosen
                .extend(long_idle.map(|index| slots.occupant(index)));
            self.chosen.reverse();
        }
    }

    /// Returns whether `oldest` was chosen. Drops chosen connections before it, because they have
    /// become busy or are closed.
    pub(crate) fn has_chosen(&mut self, oldest: Token) -> bool {
        while let Some(chosen) = self.chosen.pop() {
            if chosen == oldest {
                return true;
            }
        }
        false
    }
}

/// Connections are evicted when at most one in this many slots is free (nginx).
const SHORT_BELOW_ONE_IN: u32 = 16;

/// A turn evicts one in this many idle connections (nginx).
const EVICT_ONE_IN: u32 = 8;

/// The most connections that one turn evicts to make room (nginx).
const EVICT_MAX: u32 = 32;

/// Number of connections to evict, out of `idle` ones, so that slots become free.
///
/// 0 unless slots are short. Otherwise a part of the idle connections, so that slots become free
/// quickly and not all clients are disconnected at once. Source: nginx, `ngx_drain_connections`.
fn eviction_count(idle: u32, load: Load) -> u32 {
    if load.free() > load.capacity / SHORT_BELOW_ONE_IN {
        return 0;
    }
    batch_of(idle)
}

fn batch_of(idle: u32) -> u32 {
    (idle / EVICT_ONE_IN).clamp(1, EVICT_MAX).min(idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evictions(idle: u32, free: u32, capacity: u32) -> u32 {
        let active = capacity - free;
        eviction_count(idle, Load { active, capacity })
    }

    #[test]
    fn nothing_is_evicted_while_more_than_a_sixteenth_is_free() {
        assert_eq!(evictions(100, 65, 1024), 0);
        assert_eq!(evictions(100, 64, 1024), 12);
    }

    #[test]
    fn an_eighth_of_the_idle_connections_is_evicted() {
        assert_eq!(evictions(80, 0, 1024), 10);
    }

    #[test]
    fn at_least_one_connection_is_evicted() {
        assert_eq!(evictions(1, 0, 1024), 1);
        assert_eq!(evictions(15, 0, 1024), 1);
        assert_eq!(evictions(16, 0, 1024), 2);
    }

    #[test]
    fn at_most_32_connections_are_evicted() {
        assert_eq!(evictions(256, 0, 1024), 32);
        assert_eq!(evictions(264, 0, 1024), 32);
        assert_eq!(evictions(1000, 0, 1024), 32);
    }

    #[test]
    fn nothing_is_evicted_if_nothing_is_idle() {
        assert_eq!(evictions(0, 0, 1024), 0);
    }

    #[test]
    fn a_small_loop_evicts_only_when_full() {
        assert_eq!(evictions(10, 1, 15), 0);
        assert_eq!(evictions(10, 0, 15), 1);
    }
}
