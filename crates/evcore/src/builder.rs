//! Builds a loop from its settings.

use std::time::Duration;

use evcore_balancer::{GroupMember, Policy};
use evcore_clock::{Clock, ClockUpdates};
use evcore_instrument::InstrumentOptions;
use evcore_net::Listener;
use evcore_poller::{Backend, BackendKind, Interest, MAX_ID, Mode, Poller};
use evcore_posted::Requests;
use evcore_timer::{Lazy, Timer, TimerQueue, TimerTable, TimerWheel};

use crate::{
    accepting::Accepting,
    acceptor::Acceptor,
    batch::Batch,
    budgets::Budgets,
    error::Result,
    event_loop::EventLoop,
    eviction::Evictions,
    instruments::{Instruments, TRACES},
    keys::{self, TICKER_KEY},
    phase::Phase,
    shutdown_times::ShutdownTimes,
    slots::Slots,
    stats::Stats,
};

/// A client usually sends its next request within this time after an answer.
const DEFAULT_IDLE_GRACE: Duration = Duration::from_secs(1);

// The wheel has an id for each timer of each index that the poller accepts.
const _: () = assert!((MAX_ID + 1) * (Timer::MAX_PER_INDEX as u32) - 1 <= TimerWheel::ID_MAX);

/// Builds an [`EventLoop`]. [`EventLoop::builder`] returns one.
///
/// `L` is the type of the listeners: [`Listener`], or a simulator's own [`Acceptor`] with
/// [`Builder::default`].
///
/// ```
/// use evcore::{Budgets, EventLoop, Listener, balancer::Policy, poller::BackendKind};
///
/// let ev = EventLoop::builder()
///     .listener(Listener::bind("127.0.0.1:0")?)
///     .connections(10_000)
///     .policy(Policy::Off)
///     .poller(BackendKind::Poll)
///     .budgets(Budgets { accepts: 16, ..Budgets::default() })
///     .build()?;
/// assert_eq!(ev.stats().backend, "poll");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder<L = Listener> {
    listeners: Vec<L>,
    connections: u32,
    policy: Option<Policy>,
    member: Option<Box<dyn GroupMember>>,
    clock: Option<Clock>,
    budgets: Budgets,
    timer_queue: Box<dyn TimerQueue>,
    timers_per_token: u8,
    resolution: Option<Duration>,
    instruments: InstrumentOptions,
    idle_grace: Duration,
    polling: Polling,
}

#[derive(Debug)]
enum Polling {
    Best,
    BackendKind(BackendKind),
    Backend(Box<dyn Backend>),
}

impl EventLoop {
    /// Returns a builder with the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl<L: Acceptor> Builder<L> {
    /// Adds a listener to accept from. [`Accepted::listener`](crate::Accepted::listener) is its
    /// number, from 0 in the order of these calls.
    pub fn listener(mut self, listener: L) -> Self {
        self.listeners.push(listener);
        self
    }

    /// The connection limit: the number of descriptors that may be watched at once, not counting
    /// the listeners and background descriptors (`EventLoop::add_background`). Default 1,024.
    ///
    /// At the limit [`EventLoop::add`] fails, and the loop stops accepting until a connection is
    /// closed. It goes on listening while a connection is [idle](EventLoop::set_idle), because an
    /// idle connection can be evicted. Evictions begin when at most 1/16 of the limit is free, so
    /// fewer connections stay open if many are idle.
    ///
    /// A session with two descriptors counts as two: a proxy for 1,000 clients needs 2,000.
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the policy by which workers share the listeners. Default: the policy of the
    /// [group](Self::group), or [`Policy::Off`] if there is none.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Makes this worker a member of a group: `member` is a [`Member`](evcore_balancer::Member) of
    /// a [`WorkerGroup`](evcore_balancer::WorkerGroup). The group also has a policy.
    ///
    /// [`Policy::LeastLoaded`] needs a member. Under [`Policy::Mutex`], a member whose load is well
    /// above the lowest load yields the lock to the member with the lowest load. For
    /// [`Policy::Mutex`] as in nginx, the [handle](evcore_balancer::AcceptMutex::lock_handle) of a
    /// lock is enough.
    ///
    /// ```
    /// use evcore::{EventLoop, balancer::{Policy, WorkerGroup, WorkerId}};
    ///
    /// // Before the fork, with as many slots as the supervisor has (`Supervisor::slots`):
    /// let group = WorkerGroup::new(Policy::least_loaded(), 16)?;
    /// // In the worker of slot 2:
    /// let member = group.join(WorkerId::from_slot(2));
    /// let ev = EventLoop::builder().group(member).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(mut self, member: impl GroupMember + 'static) -> Self {
        self.member = Some(Box::new(member));
        self
    }

    /// The poller backend. Default: the best that this system has.
    pub fn poller(mut self, kind: BackendKind) -> Self {
        self.polling = Polling::BackendKind(kind);
        self
    }

    /// A poller backend of your own, for example a simulator's. If its waits take simulated time,
    /// give the loop a [clock](Self::clock) that shows the same time.
    pub fn backend(mut self, backend: impl Backend + 'static) -> Self {
        self.polling = Polling::Backend(Box::new(backend));
        self
    }

    /// The clock, for example one over a [manual source](evcore_clock::ManualTimeSource) for tests.
    /// Default: the system's clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The timer queue. Default: a `Lazy` over a `TimerWheel`, where moving a timer to later is one
    /// store.
    ///
    /// The queue must be empty. It must accept an id for each [timer](Self::timers_per_token) of
    /// each token's index. Its ticks are milliseconds of the clock. With a
    /// [`Coalesced`](evcore_timer::Coalesced) queue, timers may be early or late by less than its
    /// slack, because the queue ignores a move that is shorter than that.
    pub fn timer_queue(mut self, queue: impl TimerQueue + 'static) -> Self {
        self.timer_queue = Box::new(queue);
        self
    }

    /// The number of [timers](crate::Timer) of each token, from 1 to 8. Default 2.
    ///
    /// With the default queue a timer takes 16 bytes for each index, and more while it is armed.
    /// Three timers take as much as four; five or more take as much as eight.
    ///
    /// # Panics
    ///
    /// If `timers` is 0 or above [`Timer::MAX_PER_INDEX`](crate::Timer::MAX_PER_INDEX).
    pub fn timers_per_token(mut self, timers: u8) -> Self {
        let most = Timer::MAX_PER_INDEX;
        assert!(
            (1..=most).contains(&timers),
            "{timers} timers per token; from 1 to {most} are possible"
        );
        self.timers_per_token = timers;
        self
    }

    /// Updates the clock once in this time instead of after every wait (nginx: `timer_resolution`).
    /// Default: after every wait.
    ///
    /// This saves the reading of a clock in each turn (iteration of the loop). Each update costs a
    /// wake-up and a read of a descriptor, even when the loop has nothing to do. So a resolution
    /// suits loops with many short turns.
    ///
    /// Between two updates the clock's time and its formatted dates do not change. When a timer is
    /// armed, the clock may be behind by one resolution. So each deadline is later by one
    /// resolution, and the timer expires at the first update that reaches the deadline. No timer is
    /// early. In a loop with short turns, no timer is late by more than two resolutions and a
    /// millisecond. A [shutdown](EventLoop::shutdown) also ends at an update, and is late by at
    /// most one resolution.
    ///
    /// A [`Ticker`](evcore_clock::Ticker) causes the updates. With a [`backend`](Self::backend) of
    /// your own, and on systems without a ticker, the loop reads the clock's source after every
    /// wait instead, and every wait ends at the next update at the latest. So a simulator only has
    /// to advance its time.
    ///
    /// ```
    /// use evcore::EventLoop;
    /// use std::time::Duration;
    ///
    /// let builder = EventLoop::builder().timer_resolution(Duration::from_millis(100));
    /// let mut ev = builder.build()?;
    /// let shown_ns = ev.clock().monotonic_ns();
    /// ev.wait()?; // the tick ends it
    /// assert_eq!(ev.stats().ticks, 1);
    /// assert!(ev.clock().monotonic_ns() > shown_ns);
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn timer_resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// The instruments of the loop: histograms, a watchdog for slow turns, and records of its last
    /// actions. Default: none.
    ///
    /// [`InstrumentOptions`] documents the costs, and [`EventLoop::instruments`] reads the
    /// instruments. Without instruments, each wait and each call that would make a record costs a
    /// comparison, and an event costs nothing.
    ///
    /// ```
    /// use evcore::{EventLoop, InstrumentOptions};
    /// use std::time::Duration;
    ///
    /// let instruments = InstrumentOptions::new()
    ///     .histograms(true)
    ///     .watchdog(Duration::from_millis(100))
    ///     .flight_recorder(1_000);
    /// let mut ev = EventLoop::builder().instruments(instruments).build()?;
    /// ev.handle().wake();
    /// ev.wait()?;
    /// assert_eq!(ev.instruments().histograms().unwrap().events().count(), 1);
    /// assert_eq!(ev.instruments().take_slow_turn(), None, "no turn is over yet");
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn instruments(mut self, options: InstrumentOptions) -> Self {
        self.instruments = options;
        self
    }

    /// The grace of connections that become idle just before a shutdown. Default 1 second.
    ///
    /// A [shutdown](EventLoop::shutdown) does not at once evict a connection that
    /// [`set_idle`](EventLoop::set_idle) marked less than this time before the shutdown began. The
    /// connection gets the same grace once more, in which a request that was on its way still
    /// arrives. Precision: an eighth of the grace.
    ///
    /// A shortage of descriptors does not evict a connection that was marked within this time
    /// before the shortage.
    ///
    /// A grace does not extend the timeout of the shutdown. With zero, no connection gets a grace,
    /// which suits a protocol in which only the server begins a conversation.
    ///
    /// ```
    /// use evcore::{TokenMap, EventLoop, Interest, Mode, Step};
    /// use std::{io::Write, os::unix::net::UnixStream, time::Duration};
    ///
    /// let (stream, mut client) = UnixStream::pair()?;
    /// let mut conns = TokenMap::new();
    /// let mut ev = EventLoop::builder().build()?;
    /// let token = conns.add(&mut ev, stream, Interest::READ, Mode::Level)?;
    /// ev.set_idle(token);
    /// ev.shutdown(Duration::from_secs(30));
    ///
    /// client.write_all(b"this was on its way")?;
    /// ev.wait()?;
    /// assert!(matches!(ev.next_step(), Some(Step::Ready(ready, _)) if ready == token));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn idle_grace(mut self, grace: Duration) -> Self {
        self.idle_grace = grace;
        self
    }

    /// The most work of each kind that a turn does.
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// Builds the loop. In a worker process, call it after the fork, because a forked child cannot
    /// use a poller of its parent.
    ///
    /// # Errors
    ///
    /// [`Error::NoGroup`](crate::Error::NoGroup) if the policy needs a lock or a group that this
    /// worker does not have, [`Error::Ticker`](crate::Error::Ticker) if the
    /// [resolution](Self::timer_resolution) is zero or longer than a day, or if the system refuses
    /// a ticker, and the errors of the poller.
    ///
    /// # Panics
    ///
    /// If the [timer queue](Self::timer_queue) is not empty.
    pub fn build(self) -> Result<EventLoop<L>> {
        // A backend of the caller's own may simulate time, which a ticker of the kernel does not
        // follow.
        let updates = match (self.resolution, &self.polling) {
            (None, _) => ClockUpdates::every_wait(),
            (Some(resolution), Polling::Backend(_)) => ClockUpdates::by_source(resolution)?,
            (Some(resolution), _) => ClockUpdates::every(resolution)?,
        };
        let mut poller = match self.polling {
            Polling::Best => Poller::new()?,
            Polling::BackendKind(kind) => Poller::with(kind)?,
            Polling::Backend(backend) => Poller::from(backend),
        };
        let (policy, member) = (self.policy, self.member);
        let first_index = keys::first_index(self.listeners.len());
        let expected = first_index.saturating_add(self.connections);
        let accepting = Accepting::new(self.listeners, policy, member, &mut poller)?;
        let mut clock = self.clock.unwrap_or_else(Clock::system);
        if let Some(ticker) = updates.ticker() {
            poller.add(ticker, TICKER_KEY, Interest::READ, Mode::Level)?;
        }
        updates.begin(&mut clock);
        let budgets = self.budgets.at_least_one();
        let stats = Stats {
            limit: self.connections,
            backend: poller.backend().name(),
            ..Stats::default()
        };
        let instruments = Instruments::new(self.instruments.timed(TRACES));
        let lag_ns = updates.lag_ns();
        let timers = TimerTable::new(
            self.timer_queue,
            self.timers_per_token,
            clock.monotonic_ns(),
        );
        let waker = poller.waker();
        Ok(EventLoop {
            is_plain: updates.is_every_wait() && !instruments.is_on(),
            marks: None,
            requests: Requests::new(move || waker.wake()),
            poller,
            slots: Slots::new(first_index, expected, MAX_ID),
            timers: timers.with_lag(lag_ns),
            evictions: Evictions::new(expected, self.idle_grace, lag_ns),
            clock,
            updates,
            updated_turn: (u64::MAX, 0),
            accepting,
            shutdown: ShutdownTimes::default(),
            phase: Phase::Over,
            pending_step: None,
            batch: Batch::with_capacity(budgets.batch),
            budgets,
            left: budgets,
            stats,
            instruments,
        })
    }
}

impl<L: Acceptor> Default for Builder<L> {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            connections: 1024,
            policy: None,
            member: None,
            clock: None,
            budgets: Budgets::default(),
            timer_queue: Box::new(Lazy::new(TimerWheel::new())),
            timers_per_token: 2,
            resolution: None,
            instruments: InstrumentOptions::new(),
            idle_grace: DEFAULT_IDLE_GRACE,
            polling: Polling::Best,
        }
    }
}
