//! An orderly end: nobody new, the idle go, the busy finish, and all of it within a time.

use std::time::Duration;

use evcore_token::Token;

use crate::{Acceptor, EventLoop};

/// Whether the loop shuts down, and until when.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    /// When it gives up, in nanoseconds of the loop's clock.
    over_ns: Option<u64>,
}

impl<L: Acceptor> EventLoop<L> {
    /// Begins an orderly end, which lasts so long at most, from this turn's time.
    ///
    /// The listeners are closed: who waits in the backlog is left to the other workers that share
    /// it. Whoever is [idle](Self::set_idle), or comes to be, is named in a
    /// [`Step::Evict`](crate::Step::Evict), a [budget](crate::Budgets::closing) of them a turn.
    /// Those who are busy go on as before, to their own end. The loop says when it
    /// [is done](Self::is_done).
    ///
    /// Called again, it can only be made shorter: whichever call ends first counts. To give up at
    /// once, ask for no time at all.
    ///
    /// ```
    /// use evcore::{Connections, EventLoop, Interest, Mode, Step};
    /// use std::{os::unix::net::UnixStream, time::Duration};
    ///
    /// let (stream, _peer) = UnixStream::pair()?;
    /// let mut conns = Connections::new();
    /// let mut ev = EventLoop::builder().build()?;
    /// let token = conns.add(&mut ev, stream, Interest::READ, Mode::Level)?;
    /// ev.set_idle(token);
    /// ev.shutdown(Duration::from_secs(30));
    /// while !ev.is_done() {
    ///     ev.wait()?;
    ///     while let Some(step) = ev.next_step() {
    ///         if let Step::Evict(token) = step {
    ///             conns.close(&mut ev, token);
    ///         }
    ///     }
    /// }
    /// assert_eq!(ev.stats().turns, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&mut self, timeout: Duration) {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let now_ns = self.clock.monotonic_ns();
        // As for timers: the clock may be behind, and nobody is to have less time than that.
        let over_ns = now_ns
            .saturating_add(timeout_ns)
            .saturating_add(self.updates.lag_ns());
        self.shutdown.begin(over_ns);
        // What the poller refuses of it matters no more: events of what is gone are dropped.
        let _ = self.close_listeners();
    }

    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.over_ns.is_some()
    }

    /// Whether a [shutdown](Self::shutdown) has come to its end: its time is over, or nothing is
    /// left to do. Never before one has begun. To be asked between two turns; a wait does not wait
    /// then.
    ///
    /// Nothing is left when no descriptor is watched, nothing is posted or otherwise left over, and
    /// no timer is armed but [cancelable](Self::set_background) ones.
    ///
    /// Who is still there when the time is over has no further step to expect: dropping the
    /// connections closes them.
    ///
    /// O(1), but a look at each cancelable token once no descriptor is watched.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_over = |over_ns| over_ns <= self.clock.monotonic_ns() || self.has_nothing_left();
        self.shutdown.over_ns.is_some_and(is_over)
    }

    /// Says that nobody need wait for the timers of this token, those that are armed now and those
    /// that will be (nginx: `cancelable`): they do not keep a loop that
    /// [shuts down](Self::shutdown) from being done. `false`: the token is stale.
    ///
    /// For what is done from time to time, by a token [without a descriptor](Self::add_unwatched); a descriptor that is watched keeps the loop alive by itself. It changes nothing
    /// about whether and when the timers fire.
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
    /// assert!(!ev.is_done(), "the sweep is still to come");
    /// ev.set_background(sweep);
    /// assert!(ev.is_done());
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn set_background(&mut self, token: Token) -> bool {
        self.slots.set_background(token)
    }

    /// How long until the shutdown gives up; `None`: there is none.
    pub(crate) fn gives_up_in(&self, now_ns: u64) -> Option<Duration> {
        let left_ns = self.shutdown.over_ns?.saturating_sub(now_ns);
        Some(Duration::from_nanos(left_ns))
    }

    fn has_nothing_left(&self) -> bool {
        self.slots.watched() == 0 && !self.has_work() && self.only_cancelable_timers_are_left()
    }

    fn only_cancelable_timers_are_left(&self) -> bool {
        let cancelable = self.slots.cancelable();
        self.timers.is_empty() || self.timers.armed_of(cancelable) == self.timers.len()
    }
}

impl Shutdown {
    /// Begins, or ends sooner.
    fn begin(&mut self, over_ns: u64) {
        let over_ns = self.over_ns.map_or(over_ns, |sooner| sooner.min(over_ns));
        self.over_ns = Some(over_ns);
    }
}
