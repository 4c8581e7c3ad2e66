//! The loop's state, and the calls that its user makes between steps.

use std::{fmt, os::fd::AsRawFd, time::Duration};

use evcore_balancer::Load;
use evcore_clock::{Clock, ClockUpdates};
use evcore_net::Listener;
use evcore_poller::{Interest, MAX_ID, Mode, Poller, Ready, Source, Target};
use evcore_posted::Requests;
use evcore_timer::{Timer, TimerQueue, TimerTable};
use evcore_token::Token;

use crate::{
    accepting::Accepting,
    acceptor::Acceptor,
    batch::Batch,
    budgets::Budgets,
    error::{Error, Result},
    eviction::Evictions,
    handle::Handle,
    idle_marks::IdleMarks,
    instruments::Instruments,
    phase::Phase,
    record::Record,
    shutdown_times::ShutdownTimes,
    slots::{Kind, Slots},
    stats::Stats,
    step::Step,
};

/// The event loop of one worker.
///
/// [`wait`](Self::wait) begins a turn, which is one iteration of the loop, and
/// [`next_step`](Self::next_step) yields its steps, which the application handles. The application
/// owns the connections; the loop keeps a token for each. The loop belongs to one thread; other
/// threads reach it through a [`Handle`].
///
/// `L` is the type of the listeners: [`Listener`], or a simulator's own [`Acceptor`].
///
/// ```
/// use evcore::{TokenMap, EventLoop, Interest, Mode, Step, Timer};
/// use std::{io::Write, os::unix::net::UnixStream, time::Duration};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let mut conns = TokenMap::new();
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
    pub(crate) updates: ClockUpdates,
    /// The last turn in which a handler has updated the clock, and the time at which that turn
    /// began.
    pub(crate) updated_turn: (u64, u64),
    pub(crate) poller: Poller,
    pub(crate) slots: Slots,
    /// The queue is boxed, so that it is chosen at run time and is not a type parameter of the
    /// loop. That costs an indirect call for each arm.
    pub(crate) timers: TimerTable<Box<dyn TimerQueue>>,
    pub(crate) accepting: Accepting<L>,
    pub(crate) evictions: Evictions,
    /// Marks that show another process, a descriptor store, which connections are idle; `None`
    /// without a store.
    pub(crate) marks: Option<Box<IdleMarks>>,
    pub(crate) shutdown: ShutdownTimes,
    pub(crate) requests: Requests<Ready>,

    /// True if the loop has no instruments, no timer resolution and no idle marks, and does not
    /// shut down. One test of this flag replaces four.
    pub(crate) is_plain: bool,
    pub(crate) phase: Phase,
    pub(crate) batch: Batch,
    pub(crate) budgets: Budgets,
    pub(crate) left: Budgets,
    /// A step on its way to the caller. The type is large, because a step may contain a client's
    /// address. If the later phases returned it by value, every step would go through memory, even
    /// an event, whose two words otherwise stay in registers.
    // Invariant: `None`, except within `next_step`.
    pub(crate) pending_step: Option<Step<L::Stream>>,

    /// The counters, the limit and the backend; the rest is filled in by [`stats`](Self::stats).
    pub(crate) stats: Stats,
    pub(crate) instruments: Instruments,
}

impl<L: Acceptor> EventLoop<L> {
    /// The next step of this turn; `None` ends the turn.
    ///
    /// # The order of a turn
    ///
    /// [`wait`](Self::wait) registers or deregisters the listeners as the balancer plans, waits,
    /// and updates the clock. Then the steps come in this order:
    ///
    /// 1. [`Step::Ready`] for each event. A worker that holds the accept lock releases the lock
    ///    before it yields events. It does so at once if no client waits. Otherwise it first posts
    ///    the events of this phase, which then come in phase 5, and accepts clients.
    /// 2. [`Step::Accepted`], from one listener after the other. If few slots for connections are
    ///    free, the loop first chooses the idle connections that it [evicts](Self::set_idle), so
    ///    that no client of this turn is among them. After the clients the loop releases the accept
    ///    lock.
    /// 3. [`Step::ShuttingDown`], if a shutdown has begun, and [`Step::Woken`], if a [`Handle`]
    ///    woke the loop.
    /// 4. [`Step::Expired`] for timers.
    /// 5. [`Step::Ready`] for posted work, in this order: carried over from the turn before,
    ///    [put off](Self::post_next) to this turn, posted by [other threads](Handle::post), posted
    ///    instead of delivered in phase 1, posted by the handlers of this turn.
    /// 6. [`Step::Evict`], if a client waits and slots or descriptors are short, or if the loop
    ///    [shuts down](Self::shutdown). Each event that the kernel has reported for the connection
    ///    has been delivered by then.
    ///
    /// Work beyond its [budget](Budgets) is carried over to the next turn, which then does not
    /// wait. The time stands still during a turn unless a handler
    /// [updates](crate::TimersMut::update_clock) it, and the timers that a turn arms count from
    /// that time.
    #[inline]
    pub fn next_step(&mut self) -> Option<Step<L::Stream>> {
        // Most steps are events, for which no phase needs to be looked up.
        match self.next_event() {
            Some(step) => Some(step),
            None if self.find_step() => self.pending_step.take(),
            None => None,
        }
    }

    /// Finds a step that is not an event, or any step if steps are [watched](Self::is_watched), and
    /// returns whether there is one. Not inlined, so that the part in the caller's loop stays
    /// short.
    #[inline(never)]
    fn find_step(&mut self) -> bool {
        // Most turns have nothing but events.
        if self.phase == Phase::Events && self.is_plain && !self.has_later_work() {
            self.phase = Phase::Over;
            return false;
        }
        self.find_later_step()
    }

    #[inline(never)]
    fn find_later_step(&mut self) -> bool {
        self.pending_step = if self.is_watched() {
            self.next_watched()
        } else {
            self.next_in_order()
        };
        self.pending_step.is_some()
    }

    /// Watches a descriptor under a new token.
    ///
    /// No token is used twice, because an index is reused only with another generation. Keep the
    /// descriptor open until [`remove`](Self::remove), or use [`Connections`](crate::Connections)
    /// or a [`TokenMap`](crate::TokenMap), which own the descriptor and end its token. On epoll,
    /// [`Mode::Edge`] with [`Interest::BOTH`] costs one system call for the registration, and needs
    /// no later change of interest.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] at the limit of [connections](crate::Builder::connections), or if some 16
    /// million tokens are in use, and the errors of the poller. Nothing is watched then.
    pub fn add(
        &mut self,
        fd: &(impl Source + ?Sized),
        interest: Interest,
        mode: Mode,
    ) -> Result<Token> {
        if self.load().is_full() {
            let limit = self.stats.limit;
            return Err(Error::Full { limit });
        }
        self.watch(fd, interest, mode, Kind::Connection)
    }

    /// Watches a descriptor that is not a connection, such as a mailbox, under a new token: it is
    /// reported in each turn in which it is readable.
    ///
    /// It counts neither for the limit nor as [`active`](Stats::active), and a
    /// [shutdown](Self::shutdown) waits neither for it nor for its timers. Keep the descriptor open
    /// until [`remove`](Self::remove).
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if some 16 million tokens are in use, and the errors of the poller.
    ///
    /// ```
    /// use evcore::{EventLoop, Step};
    /// use std::{io::Write, os::unix::net::UnixStream};
    ///
    /// let mut ev = EventLoop::builder().connections(0).build()?;
    /// let (mut sender, mailbox) = UnixStream::pair()?;
    /// let token = ev.add_background(&mailbox)?;
    /// sender.write_all(b"a message")?;
    /// ev.wait()?;
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(ready, _)) if ready == token));
    /// assert_eq!(ev.stats().active, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_background(&mut self, fd: &(impl Source + ?Sized)) -> Result<Token> {
        self.watch(fd, Interest::READ, Mode::Level, Kind::Background)
    }

    fn watch(
        &mut self,
        fd: &(impl Source + ?Sized),
        interest: Interest,
        mode: Mode,
        kind: Kind,
    ) -> Result<Token> {
        let full = Error::Full { limit: MAX_ID };
        let token = self.slots.next_token().ok_or(full)?;
        self.poller.add(fd, token.to_bits(), interest, mode)?;
        self.slots.begin(token, kind);
        if let (Some(marks), Kind::Connection) = (&mut self.marks, kind) {
            marks.begin(token.index(), fd.target());
        }
        let descriptor = match fd.target() {
            Target::Descriptor(fd) => Some(fd.as_raw_fd()),
            Target::Simulated(_) => None,
        };
        self.record(Record::Registered {
            token,
            watched: true,
            descriptor,
        });
        Ok(token)
    }

    /// Returns a new token without a descriptor, for timers and posts only. It does not count as a
    /// connection.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if some 16 million tokens are in use.
    pub fn add_unwatched(&mut self) -> Result<Token> {
        let full = Error::Full { limit: MAX_ID };
        let token = self.slots.next_token().ok_or(full)?;
        self.slots.begin(token, Kind::Unwatched);
        self.record(Record::Registered {
            token,
            watched: false,
            descriptor: None,
        });
        Ok(token)
    }

    /// Changes the interest of a token from the next wait on.
    ///
    /// Calls before the next wait are merged. If the interest ends up unchanged, no system call is
    /// made, except to arm a [`Mode::Oneshot`] again.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], also if the token has no descriptor. If the kernel refuses the change, the
    /// token gets a [`Step::Ready`](crate::Step::Ready) with [`Ready::ERROR`](crate::Ready::ERROR).
    #[inline]
    pub fn modify(&mut self, token: Token, interest: Interest) -> Result<()> {
        let key = token.to_bits();
        // A key is registered exactly while its token has a descriptor.
        let modified = self.poller.modify(key, interest);
        modified.map_err(|_| Error::Stale { token })
    }

    /// Makes the loop report a side of a [`Mode::Edge`] descriptor again after it was drained.
    /// Makes no system call on epoll. Returns false if the token is stale or has no descriptor.
    ///
    /// A side is drained when a call has returned `WouldBlock`. A short read is enough if no step
    /// of this token has carried [`Ready::READ_CLOSED`](crate::Ready::READ_CLOSED) yet, because
    /// data and end of file may come in one step, and the end is not reported a second time. See
    /// [`Stream::recv`](crate::Stream::recv).
    ///
    /// After a `connect` that has returned `EINPROGRESS`, call this for both sides.
    #[inline]
    pub fn rearm(&mut self, token: Token, interest: Interest) -> bool {
        // As in `modify`, the key is registered only while this token has a descriptor.
        self.poller.rearm(token.to_bits(), interest).is_ok()
    }

    /// Arms a timer, or moves it. Returns false if the token is stale.
    ///
    /// The timer expires once, never earlier than `after` from this turn's time, which the
    /// [clock](Self::clock) shows. That is the time at which the wait ended. So if a handler takes
    /// 200 ms and then arms a timer for 100 ms, the timer is due at once. Such a handler calls
    /// [`update_clock`](crate::TimersMut::update_clock) first, so that the time counts from that
    /// call, or arms the timer for a [point in time](crate::TimersMut::arm_at).
    ///
    /// A handler that takes 17 ms and arms its own timer again for 50 ms therefore runs every
    /// 50 ms: the wait that follows it lasts 33 ms. If the handler takes 70 ms, the timer is due
    /// when the handler returns, and expires in the next turn without a wait, so the handler runs
    /// every 70 ms. But after a turn with events, a timer for two seconds or more may expire late
    /// by up to the time that the turn took.
    ///
    /// The deadline is rounded up to a millisecond, and a
    /// [`timer_resolution`](crate::Builder::timer_resolution) is added to it. A timer that the
    /// handler of an expired timer arms expires in the next turn at the earliest.
    ///
    /// Arming a timer may allocate. If no memory is left, the process aborts, as with any
    /// collection of the standard library.
    ///
    /// # Panics
    ///
    /// If a token has [no such timer](crate::Builder::timers_per_token).
    #[inline]
    pub fn arm(&mut self, token: Token, timer: Timer, after: Duration) -> bool {
        let is_current = self.slots.has(token);
        if is_current {
            let now_ns = self.clock.monotonic_ns();
            self.timers.arm(token.index(), timer, now_ns, after);
            if self.instruments.is_on() {
                self.record_arm(token, timer, after);
            }
        }
        is_current
    }

    /// Disarms a timer. Returns false if it was not armed, or if the token is stale.
    ///
    /// # Panics
    ///
    /// If a token has [no such timer](crate::Builder::timers_per_token).
    #[inline]
    pub fn disarm(&mut self, token: Token, timer: Timer) -> bool {
        let was_armed = self.slots.has(token) && self.timers.disarm(token.index(), timer);
        if was_armed {
            self.record(Record::Disarmed(token, timer));
        }
        was_armed
    }

    /// Returns a handle to this loop, for other threads and signal handlers.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(self.poller.waker(), self.requests.requester())
    }

    /// The loop's clock, which shows the time of this turn. [`Clock::instant`] returns it as an
    /// [`Instant`](std::time::Instant).
    #[must_use]
    #[inline]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the counters and the present state of the loop.
    #[must_use]
    #[inline]
    pub fn stats(&self) -> Stats {
        Stats {
            active: self.slots.connections(),
            idle: self.evictions.len(),
            timers_armed: self.timers.len(),
            listening: self.accepting.is_listening(),
            last_exhausted: self.accepting.last_exhausted(),
            shutting_down: self.is_shutting_down(),
            shut_down: self.is_shut_down(),
            slow_turns: self.instruments.slow_turns(),
            ..self.stats
        }
    }

    pub(crate) fn load(&self) -> Load {
        Load {
            active: self.slots.connections(),
            capacity: self.stats.limit,
        }
    }
}

/// Prints the loop's state and counters, without its tables, which may be long.
impl<L: Acceptor> fmt::Debug for EventLoop<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop")
            .field("phase", &self.phase)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
