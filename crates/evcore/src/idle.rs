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
    /// ([nginx's numbers](LruList::drain_count)). A loop that is full listens for as long as
    /// anybody is idle.
    ///
    /// O(1), and cheap enough to be called after each request. A connection that is never called
    /// idle is never named. What is idle still gets all its other steps.
    ///
    /// ```
    /// use evcore::{Connections, EventLoop, Interest, Listener, Mode, Step};
    /// use std::net::TcpStream;
    ///
    /// let listener = Listener::bind("127.0.0.1:0".parse()?)?;
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
            let count = self.idle.list.drain_count(load.free(), load.capacity);
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
