//! The idle, and whom of them to name for closing when places are short.
//!
//! Only the user knows who is idle, and says so. At the end of each turn the loop then looks whether
//! places are short and, by nginx's rule, names some of those who have been idle the longest; while
//! it shuts down, all of them.

use evcore_balancer::Load;
use evcore_token::{IdleList, Token};

use crate::{EventLoop, Listen, Step};

/// The idle of one loop, by index.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    // Invariant: each is watched, and lives.
    list: IdleList,
    /// Whether descriptors were added since the last look.
    grown: bool,
}

impl<L: Listen> EventLoop<L> {
    /// Says that a connection is idle: it is kept for what may come, and nothing is under way. Of
    /// all that are idle it is now the one that has been so for the shortest time, also if it was
    /// idle before.
    ///
    /// The loop then may name it in a [`Step::Closing`]: when places are short, or it
    /// [shuts down](Self::shutdown). `false`: the token is stale, or has no descriptor, so that its
    /// end would free no place.
    ///
    /// O(1), and cheap enough to be called after each request. A connection that is never called idle
    /// is never named. What is idle still gets all its other steps.
    ///
    /// ```
    /// use evcore::{EventLoop, Interest, Mode, Step, Table};
    /// use std::os::unix::net::UnixStream;
    ///
    /// let mut ev = EventLoop::builder().connections(2).build()?;
    /// let mut conns = Table::with_capacity(2);
    /// for stream in <[_; 2]>::from(UnixStream::pair()?) {
    ///     let token = conns.insert(stream).expect("there is room");
    ///     ev.add(token, conns.get(token).unwrap(), Interest::READ, Mode::Level)?;
    ///     ev.set_idle(token);
    /// }
    /// let oldest = conns.tokens().next().unwrap();
    ///
    /// ev.wait()?; // both places are taken
    /// assert!(matches!(ev.next_step(), Some(Step::Closing(token)) if token == oldest));
    /// ev.close_fd(oldest, conns.remove(oldest));
    /// assert!(ev.next_step().is_none());
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

    /// Decides how many of the idle this turn names.
    pub(crate) fn begin_closing(&mut self) {
        self.left.closing = self.budgets.closing.min(self.closings_due() as usize);
    }

    /// The look at the idle is over, whatever came of it.
    pub(crate) fn end_closing(&mut self) {
        self.idle.grown = false;
    }

    pub(crate) fn next_closing(&mut self) -> Option<Step<L::Stream>> {
        while self.left.closing > 0 {
            self.left.closing -= 1;
            let index = self.idle.list.oldest()?;
            if self.slots.is_posted(index) {
                // There is news for it, which is over this turn's budget.
                self.idle.list.touch(index);
                continue;
            }
            self.idle.list.remove(index);
            self.stats.closing += 1;
            return Some(Step::Closing(self.slots.living(index)));
        }
        None
    }

    /// How many of the idle are to be named, as things are.
    pub(crate) fn closings_due(&self) -> u32 {
        if self.is_shutting_down() {
            self.idle.list.len()
        } else {
            self.idle.short_of_places(self.load())
        }
    }
}

impl Idle {
    /// For so many connections; there may be more.
    pub(crate) fn expecting(connections: u32) -> Self {
        Self {
            list: IdleList::expecting(connections),
            grown: false,
        }
    }

    /// A descriptor was added.
    #[inline]
    pub(crate) fn grow(&mut self) {
        self.grown = true;
    }

    /// A watched life has ended.
    #[inline]
    pub(crate) fn forget(&mut self, index: u32) {
        self.list.remove(index);
    }

    /// nginx's number, when nginx asks for it: where places are taken. And when there is none left:
    /// then nobody is listened for, and nobody else would take one.
    fn short_of_places(&self, load: Load) -> u32 {
        if self.grown || load.is_full() {
            self.list.drain_count(load.free(), load.capacity)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1,024 places, of which 80 are idle.
    fn idle(grown: bool) -> Idle {
        let mut idle = Idle::default();
        (0..80).for_each(|index| idle.list.touch(index));
        idle.grown = grown;
        idle
    }

    fn with_free(free: u32) -> Load {
        Load {
            active: 1024 - free,
            capacity: 1024,
        }
    }

    #[test]
    fn an_eighth_is_due_from_a_sixteenth_of_free_places_down_where_places_were_taken() {
        let due = [1024, 65, 64, 1, 0].map(|free| idle(true).short_of_places(with_free(free)));
        assert_eq!(due, [0, 0, 10, 10, 10]);
    }

    #[test]
    fn those_who_stay_are_left_in_peace_while_there_is_a_place_and_nobody_comes() {
        let due = [64, 1, 0].map(|free| idle(false).short_of_places(with_free(free)));
        assert_eq!(due, [0, 0, 10]);
    }
}
