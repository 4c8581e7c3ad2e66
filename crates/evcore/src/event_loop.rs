//! The loop's state, and what its user asks of it between steps.

use std::{fmt, time::Duration};

use evcore_accept::Listener;
use evcore_balancer::Load;
use evcore_clock::Clock;
use evcore_poller::{Interest, Mode, Poller, Ready, Source};
use evcore_token::Token;

use crate::{
    Acceptor, Budgets, Builder, Error, Handle, ListenerError, Result, Stats, Step, Timer,
    accepting::Accepting, batch::Batch, group::Coordination, idle::Idle, measures::Measures,
    naming::Naming, outside::Outside, pace::Pace, shutdown::Shutdown, slots::Slots, timers::Timers,
    turn::Phase,
};

/// One worker's event loop: the parts, in nginx's order.
///
/// `L` is what it accepts from: a [`Listener`], but for [simulators](Acceptor).
///
/// You own the connections, the loop owns the order. It belongs to one thread; others reach it by a
/// [`Handle`].
///
/// ```
/// use evcore::{Connections, EventLoop, Interest, Mode, Step, Timer};
/// use std::{io::Write, os::unix::net::UnixStream, time::Duration};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let mut conns = Connections::new();
/// let mut ev = EventLoop::builder().build()?;
/// let token = conns.add(&mut ev, far, Interest::READ, Mode::Level)?;
/// ev.arm(token, Timer::READ, Duration::from_secs(60));
/// near.write_all(b"hello")?;
///
/// ev.wait()?;
/// assert!(matches!(ev.next_step(), Some(Step::Ready(ready, _)) if ready == token));
/// assert!(conns.close(&mut ev, token));
/// assert!(ev.next_step().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoop<L: Acceptor = Listener> {
    pub(crate) clock: Clock,
    pub(crate) pace: Pace,
    pub(crate) poller: Poller,
    pub(crate) naming: Naming,
    pub(crate) slots: Slots,
    pub(crate) timers: Timers,
    pub(crate) accepting: Accepting<L>,
    pub(crate) idle: Idle,
    pub(crate) shutdown: Shutdown,
    /// How many descriptors may be watched.
    limit: u32,

    pub(crate) phase: Phase,
    pub(crate) batch: Batch,
    /// The step of a later phase, on its way to the caller. Were it a return value, which takes
    /// memory since a client's address is long, then every step would be put into that memory, also
    /// those of the batch, whose two words else stay in registers.
    // Invariant: nothing, but within `next_step`.
    pub(crate) found: Option<Step<L::Stream>>,
    pub(crate) outside: Outside,
    pub(crate) budgets: Budgets,
    /// What is left of the budgets in this turn.
    pub(crate) left: Budgets,
    pub(crate) stats: Stats,
    pub(crate) measures: Measures,
}

impl EventLoop {
    /// What to build a loop with.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<L: Acceptor> EventLoop<L> {
    pub(crate) fn from_parts(
        builder: Builder<L>,
        mut poller: Poller,
        mut pace: Pace,
    ) -> Result<Self> {
        let coordination = Coordination::new(builder.policy, builder.member, &mut poller)?;
        // A wait that a signal ends is a turn with no events: so no clock is read to put it on
        // again, and what the signal's handler did is seen at once.
        poller.return_on_signal(true);
        // A token's generation does not come again, so the loop itself knows who is gone.
        poller.see_gone(true);
        let mut clock = builder.clock.unwrap_or_else(Clock::system);
        pace.begin(&mut clock, &mut poller)?;
        let budgets = builder.budgets.at_least_one();
        let waker = poller.waker();
        let naming = Naming::behind(builder.listeners.len());
        Ok(Self {
            outside: Outside::new(move || waker.wake()),
            poller,
            naming,
            slots: Slots::new(builder.connections, naming.index_max()),
            timers: Timers::new(
                builder.timer_queue,
                builder.timers_per_token,
                clock.monotonic_ms(),
                pace.behind_ns(),
            ),
            clock,
            pace,
            accepting: Accepting::new(builder.listeners, coordination),
            idle: Idle::expecting(builder.connections),
            shutdown: Shutdown::default(),
            limit: builder.connections,
            phase: Phase::Over,
            found: None,
            batch: Batch::with_capacity(budgets.batch),
            budgets,
            left: budgets,
            stats: Stats::default(),
            measures: Measures::new(builder.watchdog),
        })
    }

    /// Watches a descriptor under a new token.
    ///
    /// The token of an ended connection is not used again: an index is, with another generation.
    /// Keep the descriptor open until [`close`](Self::close); [`Connections`](crate::Connections)
    /// does so by itself. [`Mode::Edge`] with [`Interest::BOTH`] costs one system call in the life
    /// of a connection.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] at the limit of [connections](Builder::connections), and the poller's
    /// refusals. Nothing is watched then.
    pub fn add(
        &mut self,
        fd: &(impl Source + ?Sized),
        interest: Interest,
        mode: Mode,
    ) -> Result<Token> {
        let full = Error::Full { limit: self.limit };
        if self.load().is_full() {
            return Err(full);
        }
        let token = self.slots.next_token().ok_or(full)?;
        self.poller
            .add(fd, self.naming.key(token), interest, mode)?;
        self.slots.begin(token, true);
        Ok(token)
    }

    /// A new token without a descriptor, for timers and posts alone. It does not count as a
    /// connection.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] where some 16 million tokens are in use.
    pub fn add_unwatched(&mut self) -> Result<Token> {
        let limit = self.naming.index_max();
        let token = self.slots.next_token().ok_or(Error::Full { limit })?;
        self.slots.begin(token, false);
        Ok(token)
    }

    /// Asks the poller for something else, from the next wait on; costs nothing if it is taken
    /// back before.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], also for a token that has no descriptor. What the kernel refuses comes
    /// back as a [`Step::Ready`](crate::Step::Ready) with [`Ready::ERROR`].
    pub fn modify(&mut self, token: Token, interest: Interest) -> Result<()> {
        if !self.slots.watches(token) {
            return Err(Error::Stale { token });
        }
        Ok(self.poller.modify(self.naming.key(token), interest)?)
    }

    /// Says that a side of a [`Mode::Edge`] descriptor has been drained, so that it is reported
    /// again. Free on epoll. `false`: the token is stale, or has no descriptor.
    ///
    /// Drained means that a call has met `WouldBlock`. A short read will do as well, but only if no
    /// step of this token has carried [`Ready::READ_CLOSED`] yet: data and end may come in one
    /// step, and the end is then not reported a second time. See
    /// [`Stream::recv`](crate::Stream::recv).
    ///
    /// After a `connect` that has answered `EINPROGRESS`, call it for both sides.
    #[inline]
    pub fn rearm(&mut self, token: Token, interest: Interest) -> bool {
        self.slots.watches(token) && self.poller.rearm(self.naming.key(token), interest).is_ok()
    }

    /// Arms a timer, or moves it. It fires once, never earlier than `after` from this
    /// turn's time, and is rounded up to a millisecond (and to a
    /// [`timer_resolution`](Builder::timer_resolution)). `false`: the token is stale.
    ///
    /// One that is armed by the handler of another timer fires in the next turn at the earliest,
    /// however short it is.
    ///
    /// # Panics
    ///
    /// If a token has [no such timer](Builder::timers_per_token).
    #[inline]
    pub fn arm(&mut self, token: Token, timer: Timer, after: Duration) -> bool {
        let lives = self.slots.has(token);
        if lives {
            let now_ns = self.clock.monotonic_ns();
            self.timers.arm(token.index(), timer, now_ns, after);
        }
        lives
    }

    /// Clears a timer. `false`: it was not armed, or the token is stale.
    ///
    /// # Panics
    ///
    /// If a token has [no such timer](Builder::timers_per_token).
    #[inline]
    pub fn disarm(&mut self, token: Token, timer: Timer) -> bool {
        self.slots.has(token) && self.timers.disarm(token.index(), timer)
    }

    /// Yields [`Step::Ready`](crate::Step::Ready) for this token later in this turn, or in the next
    /// if the budget of posted steps is used up. Posting again merges readiness. `false`: the token
    /// is stale.
    #[inline]
    pub fn post(&mut self, token: Token, ready: Ready) -> bool {
        self.slots.post(token, ready)
    }

    /// Yields [`Step::Ready`](crate::Step::Ready) for this token in the next turn, which then does
    /// not wait: for one that has had its share and would go on, after a look at what else there
    /// is.
    ///
    /// Posting again merges readiness. If something is posted for this turn already, or comes to
    /// be, all of it comes in this turn. `false`: the token is stale.
    ///
    /// ```
    /// # use evcore::{EventLoop, Ready, Step};
    /// # let mut ev = EventLoop::builder().build()?;
    /// # let token = ev.add_unwatched()?;
    /// # ev.post(token, Ready::READABLE);
    /// ev.wait()?;
    /// while let Some(step) = ev.next_step() {
    ///     // Once in this turn, though it always wants more.
    ///     assert!(matches!(step, Step::Ready(ready, _) if ready == token));
    ///     ev.post_next(token, Ready::READABLE);
    /// }
    /// ev.wait()?; // does not wait
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(ready, _)) if ready == token));
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[inline]
    pub fn post_next(&mut self, token: Token, ready: Ready) -> bool {
        self.slots.post_next(token, ready)
    }

    /// Takes back what was posted for this token, for this turn or the next, and says what it was.
    /// What another thread has posted is taken back only once it has come in.
    pub fn cancel(&mut self, token: Token) -> Ready {
        self.slots.cancel(token)
    }

    /// A handle to this loop, for other threads and signal handlers.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(
            self.poller.waker(),
            self.outside.calls(),
            self.outside.sender(),
        )
    }

    /// The time of this turn, and its strings.
    #[must_use]
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether a token is in the loop.
    #[must_use]
    #[inline]
    pub fn contains(&self, token: Token) -> bool {
        self.slots.has(token)
    }

    /// How many descriptors are watched, listeners not counted.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.slots.watched()
    }

    /// How many descriptors may be watched: the limit of [connections](Builder::connections).
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many timers are armed, of all tokens.
    ///
    /// ```
    /// # use evcore::{EventLoop, Timer};
    /// # use std::time::Duration;
    /// let mut ev = EventLoop::builder().build()?;
    /// let token = ev.add_unwatched()?;
    /// ev.arm(token, Timer::READ, Duration::from_secs(60));
    /// ev.arm(token, Timer::READ, Duration::from_secs(90));
    /// assert_eq!(ev.timers_armed(), 1);
    /// # Ok::<(), evcore::Error>(())
    /// ```
    #[must_use]
    pub fn timers_armed(&self) -> usize {
        self.timers.len()
    }

    /// Whether this worker's listeners are registered with its poller.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.accepting.is_listening()
    }

    /// The error of a listener that failed: for the log, since nothing need be done about it. `None`
    /// if no listener failed since its last error was taken.
    ///
    /// A listener fails when the poller refuses to register it or to take it out (out of memory, or
    /// of watches: `fs.epoll.max_user_watches` on Linux), or when accepting fails for a reason that
    /// concerns no single client. It is suspended for half a second and then tried again. The other
    /// listeners and all connections are served on.
    ///
    /// Call it after the steps of a turn. At most one error is kept of each listener, the latest;
    /// [`Stats::listener_errors`] counts all of them.
    ///
    /// ```
    /// # use evcore::EventLoop;
    /// # let mut ev = EventLoop::builder().build()?;
    /// # ev.handle().wake();
    /// ev.wait()?;
    /// while let Some(step) = ev.next_step() { /* ... */ }
    /// while let Some(error) = ev.take_listener_error() {
    ///     eprintln!("{error}");
    /// }
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn take_listener_error(&mut self) -> Option<ListenerError> {
        self.accepting.take_error()
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

    pub(crate) fn load(&self) -> Load {
        Load {
            active: self.slots.watched(),
            capacity: self.limit,
        }
    }
}

/// What it is, where it stands and what it has done; not its tables, which may be long.
impl<L: Acceptor> fmt::Debug for EventLoop<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop")
            .field("poller", &self.poller_name())
            .field("active", &self.active())
            .field("listening", &self.is_listening())
            .field("phase", &self.phase)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
