//! The idle, and whom of them to name for closing when places are short.
//!
//! Only the user knows who is idle, and says so. Where clients wait and places are short, the loop
//! chooses some of those who have been idle the longest, by nginx's rule; while it shuts down, all
//! of them. It chooses before it accepts, so that nobody who has just come is sent away for
//! somebody who came with him; and names them at the end of the turn, when all that is known of
//! them has been told, so that nobody who has just asked for something is sent away either.

use evcore_balancer::Load;
use evcore_token::{LruList, Token};

use crate::{Acceptor, EventLoop, Step, slots::Slots};

/// The idle of one loop, by index.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    // Invariant: each is watched, and lives.
    list: LruList,
    /// Whose places this turn wants, the oldest last. They may have been of use since, or closed.
    chosen: Vec<Token>,
}

impl<L: Acceptor> EventLoop<L> {
    /// Says that a connection is idle: it is kept for what may come, and nothing is under way. Of
    /// all that are idle it is now the one that has been so for the shortest time, also if it was
    /// idle before.
    ///
    /// The loop may then name it in a [`Step::Evict`]: when a client waits and places are short,
    /// or when it [shuts down](Self::shutdown). `false`: the token is stale, or has no descriptor,
    /// so that its end would free no place.
    ///
    /// Places are short when no more than 1/16 of the [capacity](crate::Builder::connections) is
    /// free. Then an eighth of the idle is named, the oldest, but one at least and 32 at most
    /// (nginx's numbers). A loop that is full listens for as long as
    /// anybody is idle.
    ///
    /// O(1), and cheap enough to be called after each request. A connection that is never called
    /// idle is never named. What is idle still gets all its other steps.
    ///
    /// ```
    /// use evcore::{Connections, EventLoop, Interest, Listener, Mode, Step};
    /// use std::net::TcpStream;
    ///
    /// let listener = Listener::bind("127.0.0.1:0")?;
    /// let clients = [0, 1, 2].map(|_| TcpStream::connect(listener.local_addr()));
    /// let mut ev = EventLoop::builder().listener(listener).connections(2).build()?;
    /// let mut conns = Connections::new();
    ///
    /// // There is room for two. The third is served too, in the place of the first.
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
    /// assert_eq!((ev.stats().closing, ev.idle()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn set_idle(&mut self, token: Token) -> bool {
        let watched = self.slots.watches(token);
        if watched {
            self.idle.list.touch(token.index());
        }
        watched
    }

    /// Says that a connection is no longer idle. `false`: it was not, or the token is stale. O(1).
    ///
    /// Not needed where a connection that gets something to do is idle again before the turn ends:
    /// [`set_idle`](Self::set_idle) alone makes it the last in order.
    #[inline]
    pub fn set_busy(&mut self, token: Token) -> bool {
        self.slots.has(token) && self.idle.list.remove(token.index())
    }

    /// Whether a connection is idle, as far as the loop was told.
    #[must_use]
    #[inline]
    pub fn is_idle(&self, token: Token) -> bool {
        self.slots.has(token) && self.idle.list.contains(token.index())
    }

    /// How many connections are idle.
    #[must_use]
    #[inline]
    pub fn idle(&self) -> u32 {
        self.idle.list.len()
    }

    /// What the balancer is to know of this worker: a place that an idle connection can be made to
    /// leave is as good as free.
    pub(crate) fn load_to_offer(&self) -> Load {
        let load = self.load();
        if load.is_full() && !self.idle.list.is_empty() {
            Load {
                active: load.capacity.saturating_sub(1),
                ..load
            }
        } else {
            load
        }
    }

    /// Chooses whose places are wanted, before clients are taken in.
    pub(crate) fn choose_oldest(&mut self) {
        self.idle.chosen.clear();
        if self.accepting.has_queued() {
            let load = self.load();
            let count = evictions(self.idle.list.len(), load.free(), load.capacity);
            self.idle.choose(count as usize, &self.slots);
        }
    }

    pub(crate) fn next_closing(&mut self) -> Option<Step<L::Stream>> {
        while self.left.closing > 0 {
            self.left.closing -= 1;
            let token = self.next_to_go()?;
            if self.slots.is_posted(token.index()) {
                // There is news for it, which was over this turn's budget.
                self.idle.list.touch(token.index());
                continue;
            }
            self.idle.list.remove(token.index());
            self.stats.closing += 1;
            return Some(Step::Evict(token));
        }
        None
    }

    /// Whether somebody is to be named however this turn goes.
    pub(crate) fn has_closings(&self) -> bool {
        self.is_shutting_down() && !self.idle.list.is_empty()
    }

    /// The oldest of the idle, if its place is wanted.
    fn next_to_go(&mut self) -> Option<Token> {
        let oldest = self.slots.occupant(self.idle.list.oldest()?);
        (self.is_shutting_down() || self.idle.has_chosen(oldest)).then_some(oldest)
    }
}

impl Idle {
    /// For so many connections; there may be more.
    pub(crate) fn expecting(connections: u32) -> Self {
        Self {
            list: LruList::with_expected(connections),
            ..Self::default()
        }
    }

    /// A watched life has ended.
    #[inline]
    pub(crate) fn forget(&mut self, index: u32) {
        self.list.remove(index);
    }

    fn choose(&mut self, count: usize, slots: &Slots) {
        let oldest = self.list.iter().take(count);
        self.chosen
            .extend(oldest.map(|index| slots.occupant(index)));
        self.chosen.reverse();
    }

    /// Whether the oldest was chosen. Who was chosen before it and is not the oldest has been of
    /// use since, or is closed.
    fn has_chosen(&mut self, oldest: Token) -> bool {
        while let Some(chosen) = self.chosen.pop() {
            if chosen == oldest {
                return true;
            }
        }
        false
    }
}

/// Connections are evicted when no more than this part of the capacity is free (nginx).
const SHORT_BELOW_ONE_IN: u32 = 16;

/// The part of the idle connections that one turn evicts (nginx).
const EVICT_ONE_IN: u32 = 8;

/// The most connections that one turn evicts to make room (nginx).
const EVICT_MAX: u32 = 32;

/// How many of `idle` connections to evict when `free` slots of `capacity` are left.
///
/// None while more than 1/16 of the capacity is free. After that 1/8 of the idle connections, at
/// least one and at most 32, so that slots become free quickly and not all clients are sent away at
/// once. Never more than there are. Source: nginx, `ngx_drain_connections`.
const fn evictions(idle: u32, free: u32, capacity: u32) -> u32 {
    if idle == 0 || free > capacity / SHORT_BELOW_ONE_IN {
        return 0;
    }
    match idle / EVICT_ONE_IN {
        0 => 1,
        part if part > EVICT_MAX => EVICT_MAX,
        part => part,
    }
}

#[cfg(test)]
mod tests {
    use super::evictions;

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
    fn nothing_is_evicted_where_nothing_is_idle() {
        assert_eq!(evictions(0, 0, 1024), 0);
    }

    #[test]
    fn a_small_loop_evicts_only_when_full() {
        assert_eq!(evictions(10, 1, 15), 0);
        assert_eq!(evictions(10, 0, 15), 1);
    }
}
