//! The loop's state, and what its user asks of it between steps.

use std::{os::fd::AsFd, time::Duration};

use evcore_accept::{Backoff, Listener};
use evcore_balancer::{Balancer, Lock, Policy};
use evcore_clock::Clock;
use evcore_poller::{Events, Interest, Mode, Poller, Ready};
use evcore_posted::PostedQueue;
use evcore_timer::{TimerQueue, TimerWheel};
use evcore_token::Token;

use crate::{
    Budgets, Builder, Error, Handle, Result, Side, Stats,
    naming::{Slots, timer_id, token_key},
    turn::Phase,
};

/// One worker's event loop: the parts, in nginx's order.
///
/// You own the connections, the loop owns the order; see the [crate's](crate) example. It belongs
/// to one thread; others reach it by a [`Handle`].
#[derive(Debug)]
pub struct EventLoop {
    pub(crate) clock: Clock,
    pub(crate) poller: Poller,
    pub(crate) timers: TimerWheel,
    pub(crate) balancer: Balancer,
    pub(crate) lock: Option<Box<dyn Lock>>,

    pub(crate) listeners: Vec<Listener>,
    /// The poller's id of the index 0: behind one for each listener that there was at first.
    pub(crate) first_token: u32,
    pub(crate) backoff: Backoff,
    /// Whether the listeners are registered with the poller (not: whether the lock is held).
    pub(crate) listening: bool,
    pub(crate) holds_lock: bool,

    pub(crate) slots: Slots,
    /// Tokens with a descriptor.
    pub(crate) active: u32,
    pub(crate) capacity: u32,

    /// What the last wait brought; delivered up to `next_event`.
    pub(crate) batch: Events,
    pub(crate) next_event: usize,
    /// A wake-up that is not yet delivered.
    pub(crate) woken: bool,
    /// Listeners that have clients waiting.
    pub(crate) accepts: PostedQueue,
    pub(crate) posted: PostedQueue,

    pub(crate) phase: Phase,
    pub(crate) budgets: Budgets,
    /// What is left of the budgets in this turn.
    pub(crate) left: Budgets,
    /// What a step met and could not return: the next wait does.
    pub(crate) failure: Option<Error>,
    pub(crate) stats: Stats,
}

impl EventLoop {
    /// What to build a loop with.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn from_parts(builder: Builder, mut poller: Poller) -> Result<Self> {
        if matches!(builder.policy, Policy::Mutex { .. }) && builder.lock.is_none() {
            return Err(Error::NoLock);
        }
        // The loop keeps its own time: a wait that a signal ends is a turn with no events, and no
        // clock is read to put it on again.
        poller.see_signals(true);
        let budgets = builder.budgets.at_least_one();
        Ok(Self {
            clock: builder.clock.unwrap_or_else(Clock::system),
            poller,
            timers: TimerWheel::new(),
            balancer: Balancer::new(builder.policy),
            lock: builder.lock,
            first_token: count(&builder.listeners),
            listeners: builder.listeners,
            backoff: Backoff::new(),
            listening: false,
            holds_lock: false,
            slots: Slots::default(),
            active: 0,
            capacity: builder.connections,
            batch: Events::with_capacity(budgets.batch),
            next_event: 0,
            woken: false,
            accepts: PostedQueue::new(),
            posted: PostedQueue::new(),
            phase: Phase::Over,
            budgets,
            left: budgets,
            failure: None,
            stats: Stats::default(),
        })
    }

    /// Begins to watch a descriptor under a token, and so brings the token into the loop.
    ///
    /// Keep the descriptor open until [`close`](Self::close). [`Mode::Edge`] with
    /// [`Interest::BOTH`] costs one system call in the life of a connection.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`], and the poller's refusals; the token is then not in the loop.
    pub fn add(
        &mut self,
        token: Token,
        fd: impl AsFd,
        interest: Interest,
        mode: Mode,
    ) -> Result<()> {
        self.check_free(token)?;
        self.poller.add(fd, self.key(token), interest, mode)?;
        self.slots.begin(token).watched = true;
        self.active += 1;
        Ok(())
    }

    /// Brings a token into the loop that has no descriptor, for timers and posts alone. It does not
    /// count as a connection.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`].
    pub fn begin(&mut self, token: Token) -> Result<()> {
        self.check_free(token)?;
        self.slots.begin(token);
        Ok(())
    }

    /// Asks the poller for something else, from the next wait on; costs nothing if it is taken
    /// back before.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], and the poller's refusals.
    pub fn modify(&mut self, token: Token, interest: Interest) -> Result<()> {
        if !self.slots.has(token) {
            return Err(Error::Stale { token });
        }
        Ok(self.poller.modify(self.key(token), interest)?)
    }

    /// Says that a [`Mode::Edge`] descriptor has been drained: that this side has met `WouldBlock`,
    /// or a short read on a stream that is not at its end. Free on epoll. `false`: the token is
    /// stale.
    #[inline]
    pub fn rearm(&mut self, token: Token, interest: Interest) -> bool {
        self.slots.has(token) && self.poller.rearm(self.key(token), interest).is_ok()
    }

    /// Arms the timer of a side, or moves it. It fires once, never earlier than `after` from this
    /// turn's time, and is rounded up to a millisecond. `false`: the token is stale.
    #[inline]
    pub fn arm(&mut self, token: Token, side: Side, after: Duration) -> bool {
        let lives = self.slots.has(token);
        if lives {
            let deadline = tick_after(self.clock.monotonic_ns(), after);
            self.timers.arm(timer_id(token.index(), side), deadline);
        }
        lives
    }

    /// Clears the timer of a side. `false`: it was not armed, or the token is stale.
    #[inline]
    pub fn disarm(&mut self, token: Token, side: Side) -> bool {
        self.slots.has(token) && self.timers.disarm(timer_id(token.index(), side))
    }

    /// Yields [`Step::Ready`](crate::Step::Ready) for this token later in this turn, or in the next
    /// if the posted phase is over. Posting again merges readiness. `false`: the token is stale.
    pub fn post(&mut self, token: Token, ready: Ready) -> bool {
        let Some(slot) = self.slots.of(token) else {
            return false;
        };
        slot.posted |= ready;
        self.posted.post(token.index());
        true
    }

    /// Takes back what was posted for this token, and says what it was.
    pub fn cancel(&mut self, token: Token) -> Ready {
        let Some(slot) = self.slots.of(token) else {
            return Ready::NONE;
        };
        self.posted.cancel(token.index());
        std::mem::take(&mut slot.posted)
    }

    /// A handle that wakes this loop from another thread or a signal handler.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(self.poller.waker())
    }

    /// The time of this turn, and its strings.
    #[must_use]
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether a token is in the loop.
    #[must_use]
    pub fn contains(&self, token: Token) -> bool {
        self.slots.has(token)
    }

    /// How many descriptors are watched, listeners not counted.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Whether this worker's listeners are registered with its poller.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listening
    }

    /// The name of the poller's backend.
    #[must_use]
    pub fn poller_name(&self) -> &'static str {
        self.poller.name()
    }

    /// What the loop has done so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    #[inline]
    pub(crate) fn key(&self, token: Token) -> u64 {
        token_key(token, self.first_token)
    }

    fn check_free(&self, token: Token) -> Result<()> {
        match self.slots.living(token.index()) {
            Some(living) => Err(Error::InUse { token, living }),
            None => Ok(()),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each is a descriptor: far below 2^32"
)]
pub(crate) fn count(listeners: &[Listener]) -> u32 {
    listeners.len() as u32
}

const NS_PER_MS: u64 = 1_000_000;

/// The first millisecond that is not before `after` has passed.
///
/// Rounded up from nanoseconds: rounding the present down and adding milliseconds to it would fire
/// up to one millisecond early.
#[inline]
fn tick_after(now_ns: u64, after: Duration) -> u64 {
    let after_ns = after.as_secs().saturating_mul(1_000_000_000);
    let after_ns = after_ns.saturating_add(u64::from(after.subsec_nanos()));
    now_ns.saturating_add(after_ns).div_ceil(NS_PER_MS)
}

/// How long it is from now until a tick.
pub(crate) fn until_tick(now_ns: u64, tick: u64) -> Duration {
    Duration::from_nanos(tick.saturating_mul(NS_PER_MS).saturating_sub(now_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early() {
        let ms = Duration::from_millis;
        assert_eq!(tick_after(10_000_000, ms(5)), 15);
        assert_eq!(tick_after(10_000_001, ms(5)), 16);
        assert_eq!(tick_after(10_999_999, Duration::ZERO), 11);
        assert_eq!(tick_after(0, Duration::MAX), u64::MAX.div_ceil(NS_PER_MS));
    }

    #[test]
    fn the_wait_ends_when_the_tick_begins() {
        assert_eq!(until_tick(10_999_999, 11), Duration::from_nanos(1));
        assert_eq!(until_tick(11_000_000, 11), Duration::ZERO);
        assert_eq!(until_tick(12_000_000, 11), Duration::ZERO);
    }
}
