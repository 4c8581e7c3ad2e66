//! How a loop is built.

use std::time::Duration;

use evcore_accept::Listener;
use evcore_balancer::Policy;
use evcore_clock::Clock;
use evcore_poller::{Backend, BackendKind, Poller};
use evcore_timer::{Lazy, TimerQueue, TimerWheel};

use crate::{Acceptor, EventLoop, GroupMember, Result, pace::Pace};

/// How much of each kind a turn does at most; what is over comes in the next turn, which then does
/// not wait.
///
/// ```
/// use evcore::{Budgets, EventLoop};
///
/// let budgets = Budgets { accepts: 16, ..Budgets::default() };
/// let ev = EventLoop::builder().budgets(budgets).build()?;
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Events that one wait brings (nginx: `epoll_events`). Default 256; 0 is taken for 1.
    pub batch: usize,
    /// Connections accepted, from all listeners together (nginx: `multi_accept`). Default 64; 0 is
    /// taken for 1.
    pub accepts: usize,
    /// Timers fired. Default 256; 0 is taken for 1. A piece of a queue's
    /// [sorting](evcore_timer::TimerQueue::has_more) counts as 16.
    pub expired: usize,
    /// Posted steps, and posts that are taken in from other threads. Default 256; 0 is taken for 1.
    pub posted: usize,
    /// Idle connections named for closing while the loop shuts down. Default 256; 0 is taken for 1.
    /// (Where it is clients who want the places, 32 at most are named in any case.)
    pub closing: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            batch: 256,
            accepts: 64,
            expired: 256,
            posted: 256,
            closing: 256,
        }
    }
}

impl Budgets {
    /// A budget of nothing would stop the loop, not slow it down.
    pub(crate) fn at_least_one(self) -> Self {
        Self {
            batch: self.batch.max(1),
            accepts: self.accepts.max(1),
            expired: self.expired.max(1),
            posted: self.posted.max(1),
            closing: self.closing.max(1),
        }
    }
}

/// Builds an [`EventLoop`]; from [`EventLoop::builder`].
///
/// `L` is what it accepts from: a [`Listener`], but for simulators, who begin with
/// [`Builder::new`].
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
/// assert_eq!(ev.poller_name(), "poll");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder<L = Listener> {
    pub(crate) listeners: Vec<L>,
    pub(crate) connections: u32,
    pub(crate) policy: Policy,
    pub(crate) member: Option<Box<dyn GroupMember>>,
    pub(crate) clock: Option<Clock>,
    pub(crate) budgets: Budgets,
    pub(crate) timer_queue: Box<dyn TimerQueue>,
    pub(crate) timers_per_token: u8,
    pub(crate) resolution: Option<Duration>,
    pub(crate) watchdog: Option<Duration>,
    polling: Polling,
}

/// Where the poller comes from.
#[derive(Debug)]
enum Polling {
    Best,
    BackendKind(BackendKind),
    Backend(Box<dyn Backend>),
}

impl<L: Acceptor> Builder<L> {
    /// A loop of the defaults, that listens nowhere.
    pub fn new() -> Self {
        Self {
            listeners: Vec::new(),
            connections: 1024,
            policy: Policy::Off,
            member: None,
            clock: None,
            budgets: Budgets::default(),
            timer_queue: Box::new(Lazy::new(TimerWheel::new())),
            timers_per_token: 2,
            resolution: None,
            watchdog: None,
            polling: Polling::Best,
        }
    }

    /// Accepts from this listener too; [`Accepted::listener`](crate::Accepted::listener) counts
    /// them from 0 in the order of these calls.
    pub fn listener(mut self, listener: L) -> Self {
        self.listeners.push(listener);
        self
    }

    /// How many descriptors may be watched at once, listeners not counted. Default 1,024.
    ///
    /// At the limit [`EventLoop::add`] refuses, and the loop stops accepting until one is closed;
    /// if none of them is [idle](EventLoop::set_idle), it stops listening. A session of two
    /// descriptors counts as two: a proxy for 1,000 clients needs 2,000.
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// How workers share the listeners. Default [`Policy::Off`]: this worker listens always.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What this worker shares with the others: its membership in a
    /// [`WorkerGroup`](evcore_balancer::WorkerGroup), which [`Policy::LeastLoaded`] needs and with
    /// which [`Policy::Mutex`] hands its lock over; or, for [`Policy::Mutex`] as nginx has it, the
    /// [handle](evcore_balancer::AcceptMutex::handle) of a lock.
    ///
    /// ```
    /// use evcore::{EventLoop, balancer::{Policy, WorkerGroup, WorkerId}};
    ///
    /// let policy = Policy::least_loaded();
    /// // Before the fork:
    /// let group = WorkerGroup::new(policy, 4)?;
    /// // In the worker of slot 2:
    /// let ev = EventLoop::builder()
    ///     .policy(policy)
    ///     .group(group.join(WorkerId::from_slot(2)))
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(mut self, member: impl GroupMember + 'static) -> Self {
        self.member = Some(Box::new(member));
        self
    }

    /// A named poller backend. Default: the best that this system has.
    pub fn poller(mut self, kind: BackendKind) -> Self {
        self.polling = Polling::BackendKind(kind);
        self
    }

    /// A poller backend of your own: a simulator's, say. Its time is that of the
    /// [clock](Self::clock) and its wait alone.
    pub fn backend(mut self, backend: impl Backend + 'static) -> Self {
        self.polling = Polling::Backend(Box::new(backend));
        self
    }

    /// A clock of your own: one over a [manual source](evcore_clock::ManualTimeSource), for tests.
    /// Default: the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// A timer queue of another kind. Default: a `Lazy` over a `TimerWheel`, whose re-arming
    /// to later is a store.
    ///
    /// It must be empty, and must take an id for each [timer](Self::timers_per_token) of each index.
    /// Its ticks are milliseconds of the clock. With a [`Coalesced`](evcore_timer::Coalesced),
    /// timers may be early by the slack.
    pub fn timer_queue(mut self, queue: impl TimerQueue + 'static) -> Self {
        self.timer_queue = Box::new(queue);
        self
    }

    /// How many timers each token has, from 1 to 8. Default 2: [`Timer::READ`](crate::Timer::READ)
    /// and [`Timer::WRITE`](crate::Timer::WRITE).
    ///
    /// A timer takes 16 bytes for each index, armed or not; three take as much as four, and five or
    /// more as much as eight.
    ///
    /// # Panics
    ///
    /// If `timers` is 0 or above [`Timer::MAX_PER_TOKEN`](crate::Timer::MAX_PER_TOKEN).
    pub fn timers_per_token(mut self, timers: u8) -> Self {
        let most = crate::Timer::MAX_PER_TOKEN;
        assert!(
            (1..=most).contains(&timers),
            "{timers} timers a token: from 1 to {most} are possible"
        );
        self.timers_per_token = timers;
        self
    }

    /// Updates the clock once in this time and not after every wait (nginx: `timer_resolution`).
    /// Default: after every wait.
    ///
    /// Saves reading two clocks a turn, and costs a wake-up and a read of a descriptor each time,
    /// also of a loop that has nothing to do: for loops of many short turns. The loop sleeps all
    /// the same, and until the next time if no descriptor is ready.
    ///
    /// Between two updates the clock stands still, its strings with it. A timer is still never
    /// early: what the clock may be behind when it is armed is added, so it fires at the first
    /// update after it is due, late by at most two resolutions.
    ///
    /// The updates come from a [`Ticker`](evcore_clock::Ticker). With a [`backend`](Self::backend)
    /// of your own, and on systems that have no ticker, the clock's source is asked after every
    /// wait whether it is time to, and no wait goes beyond that: so a simulator has nothing to do
    /// but to let time pass.
    ///
    /// ```
    /// use evcore::EventLoop;
    /// use std::time::Duration;
    ///
    /// let builder = EventLoop::builder().timer_resolution(Duration::from_millis(100));
    /// let mut ev = builder.build()?;
    /// let shown_ns = ev.clock().monotonic_ns();
    /// ev.wait()?; // nothing else is there to end it
    /// assert_eq!(ev.stats().ticks, 1);
    /// assert!(ev.clock().monotonic_ns() > shown_ns);
    /// # Ok::<(), evcore::Error>(())
    /// ```
    pub fn timer_resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// Reports turns that take longer than a limit, each with its longest step. Default: none are.
    ///
    /// Nothing is called: [`take_slow_turn`](EventLoop::take_slow_turn) tells the worst of them,
    /// and [`Stats::slow_turns`](crate::Stats::slow_turns) counts them. A clock is read for each
    /// step then, some 30 ns; without a watchdog a step costs nothing for it. A limit of nothing
    /// reports every turn that takes any time.
    ///
    /// What you do outside of steps, between the last of a turn and the next wait, counts for the
    /// turn and for no step. A turn that does not end is not reported: nobody asks any more.
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }

    /// How much a turn does at most.
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// The loop. In a worker process, build it after the fork: a poller does not survive one.
    ///
    /// # Errors
    ///
    /// [`Error::NoGroup`](crate::Error::NoGroup),
    /// [`Error::Resolution`](crate::Error::Resolution), and
    /// the poller's and the ticker's refusal.
    pub fn build(mut self) -> Result<EventLoop<L>> {
        let pace = Pace::new(self.resolution, matches!(self.polling, Polling::Backend(_)))?;
        let poller = match std::mem::replace(&mut self.polling, Polling::Best) {
            Polling::Best => Poller::new()?,
            Polling::BackendKind(kind) => Poller::with(kind)?,
            Polling::Backend(backend) => Poller::from_backend(backend),
        };
        EventLoop::from_parts(self, poller, pace)
    }
}

impl<L: Acceptor> Default for Builder<L> {
    fn default() -> Self {
        Self::new()
    }
}
