//! Eviction: closing idle connections to make room.
//!
//! Only the application knows which connections are idle, and marks them. If a client waits and
//! slots or descriptors are short, the loop evicts some that have been idle the longest, by nginx's
//! rule. While it shuts down it evicts all of them, those that became idle just before that after a
//! grace.
//!
//! It chooses for slots before it accepts, so a connection is never evicted in favour of one accepted
//! in the same turn. That descriptors are short shows only when a client is accepted; the grace keeps
//! the connections of the same turn. The loop yields evictions at the end of the turn, when every pending event has been delivered, so
//! a connection with a new request is not evicted either.

use std::time::Duration;

use evcore_balancer::Load;
use evcore_token::{IdleList, Token};

use crate::{
    acceptor::Acceptor, event_loop::EventLoop, slots::Slots, step::Step, timers::whole_ns,
};

/// The idle connections of one loop, and those that it evicts in this turn.
#[derive(Debug)]
pub(crate) struct Evictions {
    // Invariant: each index is that of a current token whose descriptor is watched.
    idle: IdleList,
    /// The connections whose slots this turn needs, the oldest last. Since they were chosen they may
    /// have become busy, or may have been closed.
    chosen: Vec<Token>,
}

impl<L: Acceptor> EventLoop<L> {
    /// Marks a connection as idle: it waits for its peer, and may be closed to make room. Moves it
    /// to the most-recently-used end, even if it was already idle.
    ///
    /// The loop yields an idle connection in a [`Step::Evict`] if a client waits and slots or
    /// descriptors are short, or if the loop [shuts down](Self::shutdown). Returns false if the token is stale or
    /// has no descriptor, because closing it would free no slot.
    ///
    /// Slots are short if no more than 1/16 of the [limit](crate::Builder::connections) is free.
    /// Then an eighth of the idle connections is evicted in a turn, the oldest first: at least 1 and
    /// at most 32 (nginx's numbers). A full loop goes on listening while a connection is idle.
    ///
    /// If the process has no descriptor left, the same part of the idle connections is evicted each
    /// time that accepting fails, but only those that have been idle for the
    /// [grace](crate::Builder::idle_grace), and only if no other worker of the group has a free slot.
    /// For a shortage of the whole system none is evicted, because another process may take what is
    /// freed.
    ///
    /// Mark a connection when its client has its answer, and nothing of another request has come. If
    /// the protocol has no message ends, mark it only after it has been quiet for a while.
    ///
    /// The next request of a client that has just been answered may be on its way, and closing would
    /// lose it. So a shutdown does not evict a connection at once that was marked within the
    /// [grace](crate::Builder::idle_grace) before, by default a second. It has the same time again.
    /// Answer a request that comes in that time as the last one (in HTTP, with `Connection: close`),
    /// and then close. A connection that is marked during a shutdown is evicted at once, so an answer
    /// must announce the end if [`Stats::shutting_down`](crate::Stats::shutting_down) is true.
    ///
    /// O(1), and cheap enough to call after each request. A connection that was never marked idle is
    /// never evicted. An idle connection still gets all its other steps.
    ///
    /// ```
    /// use evcore::{TokenMap, EventLoop, Interest, Listener, Mode, Step};
    /// use std::net::TcpStream;
    ///
    /// let listener = Listener::bind("127.0.0.1:0")?;
    /// let clients = [0, 1, 2].map(|_| TcpStream::connect(listener.local_addr()));
    /// let mut ev = EventLoop::builder().listener(listener).connections(2).build()?;
    /// let mut conns = TokenMap::new();
    ///
    /// // There is room for two. The third is served too, in the slot of the first.
    /// while ev.stats().accepted < 3 {
    ///     ev.wait()?;
    ///     while let Some(step) = ev.next_step() {
    ///         match step {
    ///             Step::Accepted(new) => {
    ///                 let token = conns.add(&mut ev, new.stream, Interest::READ, Mode::Level)?;
    ///                 ev.set_idle(token);
    ///             }
    ///             Step::Evict(oldest) => {
    ///                 conns.close(&mut ev, oldest);
    ///             }
    ///             _ => {}
    ///         }
    ///     }
    /// }
    /// assert_eq!((ev.stats().evictions, ev.stats().idle), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn set_idle(&mut self, token: Token) -> bool {
        let watched = self.slots.watches(token);
        if watched {
            let now_ns = self.clock.monotonic_ns();
            self.evictions.idle.touch(token.index(), now_ns);
        }
        watched
    }

    /// Marks a connection as no longer idle. Returns false if it was not idle, or if the token is
    /// stale. O(1).
    ///
    /// Not needed if the connection is idle again before the turn ends:
    /// [`set_idle`](Self::set_idle) alone moves it to the most-recently-used end.
    #[inline]
    pub fn set_busy(&mut self, token: Token) -> bool {
        self.slots.has(token) && self.evictions.idle.remove(token.index())
    }

    /// Whether a connection is marked as idle.
    #[must_use]
    #[inline]
    pub fn is_idle(&self, token: Token) -> bool {
        self.slots.has(token) && self.evictions.idle.contains(token.index())
    }

    /// The load that the balancer sees: a slot that an eviction can free counts as free.
    pub(crate) fn load_to_offer(&self) -> Load {
        self.evictions.load_to_offer(self.load())
    }

    /// A phase without steps: chooses the connections whose slots are needed, before clients are
    /// accepted. If the grace of a shutdown is over, all are needed.
    pub(crate) fn choose_evictions(&mut self) -> Option<Step<L::Stream>> {
        self.evictions.chosen.clear();
        if self.grace_is_over() {
            self.end_grace();
        }
        // No slot is needed if the plan leaves all clients to another worker.
        if self.accepting.has_queued() && self.left.accepts > 0 {
            let load = self.load();
            let count = eviction_count(self.evictions.len(), load);
            self.evictions.choose(count, &self.slots);
        }
        None
    }

    /// Chooses connections whose descriptors are needed. Those that became idle within the grace stay,
    /// because their next request may be on the way. Otherwise the clients of a burst would evict each
    /// other before they are served.
    #[cold]
    pub(crate) fn choose_evictions_by_age(&mut self) {
        if self.evictions.chosen.is_empty() {
            let count = batch_of(self.evictions.len());
            let now_ns = self.clock.monotonic_ns();
            let long_idle = self.evictions.idle.longer_than_grace(now_ns);
            let chosen = long_idle.take(count as usize);
            let tokens = chosen.map(|index| self.slots.occupant(index));
            self.evictions.chosen.extend(tokens);
            self.evictions.chosen.reverse();
        }
    }

    pub(crate) fn next_eviction(&mut self) -> Option<Step<L::Stream>> {
        while self.left.evictions > 0 {
            self.left.evictions -= 1;
            let token = self.next_to_evict()?;
            if self.slots.is_posted(token.index()) {
                // Its next event was over this turn's budget of posted steps.
                let now_ns = self.clock.monotonic_ns();
                self.evictions.idle.touch(token.index(), now_ns);
                continue;
            }
            self.evictions.idle.remove(token.index());
            self.stats.evictions += 1;
            return Some(Step::Evict(token));
        }
        None
    }

    /// Whether the shutdown, which has begun, has connections to evict now.
    #[cold]
    #[inline(never)]
    pub(crate) fn shutdown_evicts(&self) -> bool {
        self.evictions.idle.next_of_shutdown().is_some() || self.grace_is_over()
    }

    /// The idle connection that a shutdown evicts next, or the oldest one if its slot is needed.
    fn next_to_evict(&mut self) -> Option<Token> {
        if self.is_shutting_down() {
            let next = self.evictions.idle.next_of_shutdown()?;
            return Some(self.slots.occupant(next));
        }
        let oldest = self.slots.occupant(self.evictions.idle.oldest()?);
        self.evictions.has_chosen(oldest).then_some(oldest)
    }
}

impl Evictions {
    /// For so many connections; there may be more.
    pub(crate) fn new(connections: u32, grace: Duration, lag_ns: u64) -> Self {
        let grace_ns = match whole_ns(grace) {
            0 => 0,
            // As for timers: the clock may be behind.
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

    /// Returns how long the connections wait that became idle just before; `None` if there is none.
    pub(crate) fn begin_shutdown(&mut self, now_ns: u64) -> Option<u64> {
        self.idle.begin_shutdown(now_ns)
    }

    /// Releases the connections that wait.
    pub(crate) fn end_grace(&mut self) {
        self.idle.end_grace();
    }

    /// How many connections are idle.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.idle.len()
    }

    /// A watched token has ended.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        self.idle.remove(index);
    }

    fn choose(&mut self, count: u32, slots: &Slots) {
        let oldest = self.idle.iter().take(count as usize);
        self.chosen
            .extend(oldest.map(|index| slots.occupant(index)));
        self.chosen.reverse();
    }

    /// Whether the oldest was chosen. A connection that was chosen before it, and is not the oldest
    /// any more, has become busy or is closed.
    fn has_chosen(&mut self, oldest: Token) -> bool {
        while let Some(chosen) = self.chosen.pop() {
            if chosen == oldest {
                return true;
            }
        }
        false
    }
}

/// Connections are evicted when no more than this part of the slots is free (nginx).
const SHORT_BELOW_ONE_IN: u32 = 16;

/// The part of the idle connections that one turn evicts (nginx).
const EVICT_ONE_IN: u32 = 8;

/// The most connections that one turn evicts to make room (nginx).
const EVICT_MAX: u32 = 32;

/// How many of `idle` connections to evict.
///
/// None while more than 1/16 of the slots is free. After that 1/8 of the idle connections, at least
/// 1 and at most 32, so that slots become free quickly and not all clients are disconnected at once.
/// Source: nginx, `ngx_drain_connections`.
fn eviction_count(idle: u32, load: Load) -> u32 {
    if load.free() > load.capacity / SHORT_BELOW_ONE_IN {
        return 0;
    }
    batch_of(idle)
}

/// The number of idle connections that one turn evicts.
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
