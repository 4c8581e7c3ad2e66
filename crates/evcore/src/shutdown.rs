//! Graceful shutdown. The loop accepts no new clients, evicts idle connections and lets busy ones
//! finish, all within a timeout. A connection that became idle just before the shutdown gets a
//! grace, in which its next request can still arrive.

use std::time::Duration;

use crate::{
    acceptor::Acceptor,
    event_loop::EventLoop,
    time::{NEVER, whole_ns},
};

impl<L: Acceptor> EventLoop<L> {
    /// Starts a graceful shutdown bounded by `timeout`, which counts from this call.
    ///
    /// The listeners are closed; clients in a backlog wait for the other workers that share the
    /// listening socket. Every connection that is or becomes [idle](Self::set_idle) is
    /// [evicted](crate::Step::Evict), at most a [budget](crate::Budgets::evictions) of them in each
    /// turn. A connection that became idle within the [grace](crate::Builder::idle_grace) before
    /// this call, by default a second, gets the same grace once more, because its next request may
    /// be on the way. With a shorter timeout the shutdown is complete before such a connection is
    /// evicted. Busy connections go on as before. When the shutdown is complete,
    /// [`wait`](Self::wait) returns false. [`Step::ShuttingDown`](crate::Step::ShuttingDown) comes
    /// once, before the first eviction.
    ///
    /// If this is called several times, the earliest deadline counts. With a timeout of zero, the
    /// shutdown is complete at once. With a longer one, the call reads the clock's source.
    ///
    /// ```
    /// use evcore::{TokenMap, EventLoop, Interest, Mode, Step};
    /// use std::{os::unix::net::UnixStream, time::Duration};
    ///
    /// let (stream, _peer) = UnixStream::pair()?;
    /// let mut conns = TokenMap::new();
    /// let mut ev = EventLoop::builder().idle_grace(Duration::from_millis(100)).build()?;
    /// let token = conns.add(&mut ev, stream, Interest::READ, Mode::Level)?;
    /// ev.set_idle(token);
    /// ev.shutdown(Duration::from_secs(30));
    /// while ev.wait()? {
    ///     while let Some(step) = ev.next_step() {
    ///         match step {
    ///             Step::ShuttingDown => println!("good-bye"), // in the first turn
    ///             Step::Evict(token) => _ = conns.close(&mut ev, token), // after the grace
    ///             _ => {}
    ///         }
    ///     }
    /// }
    /// assert_eq!(ev.stats().turns, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&mut self, timeout: Duration) {
        let turn_ns = self.clock.monotonic_ns();
        // A handler of this turn may have blocked, which shortens neither the timeout nor the
        // grace.
        let now_ns = match timeout {
            Duration::ZERO => turn_ns,
            _ => turn_ns.max(self.clock.monotonic_ns_now()),
        };
        let over_ns = now_ns.saturating_add(whole_ns(timeout));
        if !self.is_shutting_down() {
            // The times at which connections became idle are times of turns. So the time of this
            // turn decides which of them get the grace.
            let grace_ns = self.evictions.begin_shutdown(turn_ns);
            let ends_ns = grace_ns.map_or(NEVER, |grace_ns| now_ns.saturating_add(grace_ns));
            self.shutdown.set_grace_end(ends_ns);
            // Only the first call closes the listeners, because closing ends the balancer's plan,
            // and a stopping worker calls `shutdown` in every turn. If the poller refuses to remove
            // a listener, later events of that listener are dropped.
            let _ = self.listeners().close();
        }
        self.shutdown.limit(over_ns);
        self.is_plain = false;
    }

    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.has_begun()
    }

    #[inline]
    pub(crate) fn shutdown_has_steps(&self) -> bool {
        self.is_shutting_down() && self.has_steps_of_shutdown()
    }

    #[cold]
    #[inline(never)]
    fn has_steps_of_shutdown(&self) -> bool {
        !self.shutdown.is_announced() || self.has_idle_of_shutdown()
    }

    /// Returns whether the shutdown is complete. O(1), plus a look at each background token once no
    /// connection is watched.
    #[inline]
    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shutting_down() && self.is_over()
    }

    #[cold]
    #[inline(never)]
    fn is_over(&self) -> bool {
        self.shutdown.is_over(self.clock.monotonic_ns()) || self.has_nothing_left()
    }

    /// Returns whether the grace is over, and [`end_grace`](Self::end_grace) has not been called
    /// since.
    pub(crate) fn grace_is_over(&self) -> bool {
        self.shutdown.grace_is_over(self.clock.monotonic_ns())
    }

    pub(crate) fn end_grace(&mut self) {
        self.shutdown.set_grace_end(NEVER);
        self.evictions.end_grace();
    }

    fn has_nothing_left(&self) -> bool {
        // The step that announces the shutdown does not keep an otherwise finished loop alive.
        let has_work = self.has_work() || self.has_idle_of_shutdown();
        self.slots.connections() == 0 && !has_work && self.only_background_timers_are_left()
    }

    fn only_background_timers_are_left(&self) -> bool {
        let background = self.slots.background();
        self.timers.is_empty() || self.timers.armed_of(background) == self.timers.len()
    }
}
