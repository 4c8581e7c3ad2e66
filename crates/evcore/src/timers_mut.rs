//! The calls about a loop's timers that few programs need. `arm` and `disarm` are calls of the
//! loop itself.

use std::time::Instant;

use evcore_timer::Timer;
use evcore_token::Token;

use crate::acceptor::Acceptor;
use crate::event_loop::EventLoop;

/// A view of the timers of a loop. [`EventLoop::timers`] lends it.
///
/// # Timers of your own
///
/// For deadlines that belong to no connection, or for more deadlines than a token has timers, keep
/// a [`TimerQueue`](evcore_timer::TimerQueue) of your own, and arm one timer of one token for the
/// earliest deadline.
///
/// ```
/// use evcore::{EventLoop, Step, Timer, timer::{TimerHeap, TimerQueue}};
/// use std::time::Duration;
///
/// let mut ev = EventLoop::builder().build()?;
/// let (token, mut jobs) = (ev.add_unwatched()?, TimerHeap::new());
/// for (id, after_ms) in [(0, 3), (1, 1), (2, 2)] {
///     jobs.arm(id, ev.clock().monotonic_ms() + after_ms);
/// }
/// let mut done = Vec::new();
/// while let Some(first_ms) = jobs.next_deadline() {
///     let after = ev.clock().until(first_ms);
///     ev.arm(token, Timer::READ, after);
///     ev.wait()?;
///     while let Some(step) = ev.next_step() {
///         assert!(matches!(step, Step::Expired(expired, _) if expired == token));
///         while let Some((id, _)) = jobs.pop_expired(ev.clock().monotonic_ms()) {
///             done.push(id);
///         }
///     }
/// }
/// assert_eq!(done, [1, 2, 0]);
/// # Ok::<(), evcore::Error>(())
/// ```
///
/// # Examples
///
/// ```
/// use evcore::{EventLoop, Timer};
/// use std::time::Duration;
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// assert_eq!(ev.timers().deadline(token, Timer::READ), None);
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Debug)]
pub struct TimersMut<'a, L: Acceptor> {
    ev: &'a mut EventLoop<L>,
}

impl<L: Acceptor> EventLoop<L> {
    /// Lends the timers: deadlines as points in time, background timers, and the time of this turn
    /// (iteration of the loop).
    #[must_use]
    #[inline]
    pub fn timers(&mut self) -> TimersMut<'_, L> {
        TimersMut { ev: self }
    }
}

impl<L: Acceptor> TimersMut<'_, L> {
    /// Arms a timer, or moves it, for a point in time. Returns false if the token is stale.
    ///
    /// The timer expires once, never before `deadline`, however long the handler has taken already.
    /// If the deadline has passed, the timer is due at once. Rounding and resolution are those of
    /// [`arm`](EventLoop::arm). The first call reads the system's `Instant` and the source of the
    /// loop's clock.
    ///
    /// # Panics
    ///
    /// If a token has [no such timer](crate::Builder::timers_per_token).
    ///
    /// ```
    /// use evcore::{EventLoop, Timer};
    /// use std::time::{Duration, Instant};
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let token = ev.add_unwatched()?;
    /// let deadline = Instant::now() + Duration::from_millis(5);
    /// ev.timers().arm_at(token, Timer::READ, deadline);
    /// while ev.timers().deadline(token, Timer::READ).is_some() {
    ///     ev.wait()?;
    ///     while ev.next_step().is_some() {}
    /// }
    /// assert!(Instant::now() >= deadline);
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn arm_at(&mut self, token: Token, timer: Timer, deadline: Instant) -> bool {
        let after = deadline.saturating_duration_since(self.ev.clock.instant());
        self.ev.arm(token, timer, after)
    }

    /// Updates the time of this turn, from which [`arm`](EventLoop::arm) counts, to the present.
    ///
    /// A handler that has run for a long time calls this before it arms a timer. The call reads the
    /// clock once. (libuv: `uv_update_time`; nginx: `ngx_time_update`.)
    ///
    /// If the call comes in [phase 1](EventLoop::next_step), in the handler of an event, timers
    /// that are due by the new time expire in this turn, too. In a later phase, such as the handler
    /// of a [`Step::Accepted`](crate::Step::Accepted), the call does not change which timers expire
    /// in this turn, nor their order.
    ///
    /// ```
    /// # use evcore::{EventLoop, Timer};
    /// use evcore::clock::{Clock, ManualTimeSource};
    /// use std::time::Duration;
    ///
    /// let time = ManualTimeSource::at(0);
    /// let clock = Clock::with_source(time.clone());
    /// let mut ev = EventLoop::builder().clock(clock).build()?;
    /// let token = ev.add_unwatched()?;
    ///
    /// time.advance(Duration::from_millis(200)); // what the handler takes
    /// ev.timers().update_clock();
    /// ev.arm(token, Timer::READ, Duration::from_millis(100));
    /// assert_eq!(ev.timers().deadline(token, Timer::READ), Some(300));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn update_clock(&mut self) {
        self.ev.update_clock_within_turn();
    }

    /// The deadline of a timer, in milliseconds on the scale of the loop's
    /// [`Clock::monotonic_ms`](evcore_clock::Clock::monotonic_ms). `None` if it is not armed, or if
    /// the token is stale.
    ///
    /// [`arm`](EventLoop::arm) describes the rounding. A timer that is due and whose step has not
    /// been delivered is still armed. [`Clock::until`](evcore_clock::Clock::until) converts a
    /// deadline to a duration.
    ///
    /// # Panics
    ///
    /// If a token has [no such timer](crate::Builder::timers_per_token).
    ///
    /// ```
    /// # use evcore::{EventLoop, Timer};
    /// use std::time::Duration;
    ///
    /// let mut ev = EventLoop::builder().build()?;
    /// let token = ev.add_unwatched()?;
    /// assert_eq!(ev.timers().deadline(token, Timer::READ), None);
    ///
    /// ev.arm(token, Timer::READ, Duration::from_secs(60));
    /// let deadline_ms = ev.timers().deadline(token, Timer::READ).expect("it is armed");
    /// assert!(ev.clock().until(deadline_ms) <= Duration::from_millis(60_001));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[must_use]
    pub fn deadline(&self, token: Token, timer: Timer) -> Option<u64> {
        if !self.ev.slots.has(token) {
            return None;
        }
        self.ev.timers.deadline(token.index(), timer)
    }

    /// Makes all timers of a token background timers; they remain so when they are armed again. A
    /// [shutdown](EventLoop::shutdown) does not wait for background timers (nginx: `cancelable`;
    /// libuv: `unref`). Returns false if the token is stale.
    ///
    /// This is for periodic work, such as health checks of the servers behind a proxy, with a token
    /// [without a descriptor](EventLoop::add_unwatched). (A watched connection keeps the loop alive
    /// anyway.) The call does not change whether and when the timers expire.
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
    /// assert!(!ev.stats().shut_down, "the sweep is still to come");
    /// ev.timers().set_background(sweep);
    /// assert!(ev.stats().shut_down);
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn set_background(&mut self, token: Token) -> bool {
        self.ev.slots.set_background(token)
    }
}
