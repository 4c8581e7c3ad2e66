//! Graceful shutdown: no new clients, idle connections are evicted, busy ones finish, all within a
//! timeout. A connection that became idle just before it has a grace.

use std::time::Duration;

use evcore_token::Token;

use crate::{
    Acceptor, EventLoop, Result,
    timers::{NEVER, whole_ns},
};

/// Whether the loop shuts down, and until when.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// When it ends at the latest, in nanoseconds of the loop's clock; [`NEVER`] if the loop does
    /// not shut down.
    over_ns: u64,
    /// When the connections are evicted that became idle just before it; [`NEVER`] if there is none.
    grace_ends_ns: u64,
    // Invariant: the earlier of both.
    next_ns: u64,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            over_ns: NEVER,
            grace_ends_ns: NEVER,
            next_ns: NEVER,
        }
    }
}

impl<L: Acceptor> EventLoop<L> {
    /// Begins the next turn of a worker, and returns false when the worker has stopped.
    ///
    /// `stop` is how long the worker may still take to stop: `None` if it need not stop, a duration
    /// for a graceful stop, zero to stop at once. With `evcore-prefork` it is
    /// `worker.stop_within(timeout)`. A stop must also wake the loop, by a [`Handle`](crate::Handle):
    /// the loop looks at `stop` before it waits.
    ///
    /// A `stop` begins the [shutdown](Self::shutdown), and a shorter one makes it end earlier; a
    /// longer one, or `None`, changes nothing. While the shutdown is not complete, each call
    /// [waits](Self::wait). When it is complete, also one that a handle has begun, the call returns
    /// false without waiting. Drop the connections that are still open.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait): the loop cannot go on. A signal that interrupts the wait is no
    /// error, and neither is a [listener that fails](crate::ListenersMut::take_error).
    ///
    /// ```
    /// use evcore::{TokenMap, EventLoop, Interest, Mode, Step};
    /// use std::{os::unix::net::UnixStream, time::Duration};
    ///
    /// let (stream, peer) = UnixStream::pair()?;
    /// let mut conns = TokenMap::new();
    /// let mut ev = EventLoop::builder().build()?;
    /// conns.add(&mut ev, stream, Interest::READ, Mode::Level)?;
    /// drop(peer);
    ///
    /// let stop = || Some(Duration::from_secs(30)); // `worker.stop_within(timeout)`
    /// while ev.next_turn(stop())? {
    ///     while let Some(step) = ev.next_step() {
    ///         if let Step::Ready(token, _) = step {
    ///             conns.close(&mut ev, token); // its client has left
    ///         }
    ///     }
    ///     while let Some(error) = ev.listeners().take_error() {
    ///         eprintln!("{error}");
    ///     }
    /// }
    /// assert_eq!(ev.stats().turns, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_turn(&mut self, stop: Option<Duration>) -> Result<bool> {
        if let Some(timeout) = stop {
            self.shutdown(timeout);
        }
        if self.is_shut_down() {
            return Ok(false);
        }
        self.wait()?;
        Ok(true)
    }

    /// Starts a graceful shutdown bounded by `timeout`, which counts from this call.
    ///
    /// The listeners are closed; clients in the backlog wait for the other workers that share it.
    /// Every connection that is or becomes [idle](Self::set_idle) is [evicted](crate::Step::Evict),
    /// a [budget](crate::Budgets::evictions) of them in each turn. A connection that became idle within
    /// the [grace](crate::Builder::idle_grace) before this call, by default a second, is evicted when
    /// the grace has passed again: its next request may be on the way. With a shorter timeout it is not
    /// evicted, because the shutdown is complete before. Busy connections go on as before.
    /// [`is_shut_down`](Self::is_shut_down) returns whether the shutdown is complete.
    /// [`Step::ShuttingDown`](crate::Step::ShuttingDown) comes once, before the first eviction.
    ///
    /// If it is called several times, the earliest deadline counts. With a timeout of zero, the
    /// shutdown is complete at once. Reads the clock's source.
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
    /// while !ev.is_shut_down() {
    ///     ev.wait()?;
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
        // A handler of this turn may have blocked. That shortens neither the timeout nor the grace.
        let now_ns = match timeout {
            Duration::ZERO => turn_ns,
            _ => turn_ns.max(self.clock.monotonic_ns_now()),
        };
        let over_ns = now_ns.saturating_add(whole_ns(timeout));
        if !self.is_shutting_down() {
            // Connections became idle by the time of the turn.
            let grace_ns = self.evictions.begin_shutdown(turn_ns);
            let ends_ns = grace_ns.map_or(NEVER, |grace_ns| now_ns.saturating_add(grace_ns));
            self.shutdown.set_grace_end(ends_ns);
            self.remote.announce_shutdown();
            // Only once, because it ends the plan. `next_turn` gets here in each turn of a stop. If
            // the poller refuses, its later events of the listeners are dropped.
            let _ = self.listeners().close();
        }
        self.shutdown.limit(over_ns);
    }

    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.over_ns != NEVER
    }

    /// Whether a [shutdown](Self::shutdown) is complete: its timeout has passed, or nothing is left
    /// to do. False before a shutdown has begun. Call it between turns. Once it is true, no wait
    /// sleeps.
    ///
    /// Nothing is left if no descriptor is watched, nothing is posted or otherwise carried over, and
    /// no timer is armed except [background](Self::set_background) ones.
    ///
    /// Connections still open at the deadline get no further steps; drop them.
    ///
    /// O(1), plus a look at each background token once no descriptor is watched.
    #[must_use]
    #[inline]
    pub fn is_shut_down(&self) -> bool {
        self.is_shutting_down()
            && (self.shutdown.over_ns <= self.clock.monotonic_ns() || self.has_nothing_left())
    }

    /// Whether a shutdown has something to do in this turn, or is complete.
    #[inline]
    pub(crate) fn shutdown_is_due(&self) -> bool {
        self.is_shutting_down() && (self.shutdown_evicts() || self.is_shut_down())
    }

    /// Makes the timers of a token background timers, those that are armed now and those armed later:
    /// they do not keep a loop that [shuts down](Self::shutdown) from being done (nginx:
    /// `cancelable`; libuv: `unref`). Returns false if the token is stale.
    ///
    /// This is for periodic work, with a token [without a descriptor](Self::add_unwatched). (A watched
    /// descriptor keeps the loop alive anyway.) It does not change whether and when the timers expire.
    ///
    /// ```
    /// use evcore::{EventLoop, Timer};
    /// use std::time::Duration;
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let sweep = ev.add_unwatched()?;
    /// ev.arm(sweep, Timer::READ, Duration::from_secs(3600));
    ///
    /// ev.shutdown(Duration::from_secs(30));
    /// assert!(!ev.is_shut_down(), "the sweep is still to come");
    /// ev.set_background(sweep);
    /// assert!(ev.is_shut_down());
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn set_background(&mut self, token: Token) -> bool {
        self.slots.set_background(token)
    }

    /// When the shutdown has something to do at the latest: the end of the grace, or its own;
    /// [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn shutdown_acts_at_ns(&self) -> u64 {
        self.shutdown.next_ns
    }

    /// Whether the grace is over, and its connections have not been released to be evicted.
    pub(crate) fn grace_is_over(&self) -> bool {
        self.shutdown.grace_ends_ns <= self.clock.monotonic_ns()
    }

    pub(crate) fn end_grace(&mut self) {
        self.shutdown.set_grace_end(NEVER);
        self.evictions.end_grace();
    }

    #[inline(never)]
    fn has_nothing_left(&self) -> bool {
        // The step that announces the shutdown keeps no loop that has nothing to do.
        let has_work = self.queued() > 0 || self.remote.has_requests() || self.shutdown_evicts();
        self.slots.watched() == 0 && !has_work && self.only_background_timers_are_left()
    }

    fn only_background_timers_are_left(&self) -> bool {
        let background = self.slots.background();
        self.timers.is_empty() || self.timers.armed_of(background) == self.timers.len()
    }
}

impl Shutdown {
    /// Begins, or makes the end earlier.
    fn limit(&mut self, over_ns: u64) {
        self.over_ns = self.over_ns.min(over_ns).min(NEVER - 1);
        self.next_ns = self.over_ns.min(self.grace_ends_ns);
    }

    fn set_grace_end(&mut self, ends_ns: u64) {
        self.grace_ends_ns = ends_ns;
        self.next_ns = self.over_ns.min(ends_ns);
    }
}
