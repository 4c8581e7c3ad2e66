//! The counters and the present state of a loop.

use evcore_net::Resource;

/// Counters since a loop was built, and the loop's present state.
/// [`EventLoop::stats`](crate::EventLoop::stats) returns them. Each count costs one addition.
///
/// Distributions are in the [`Histograms`](crate::Histograms).
///
/// ```
/// use evcore::{EventLoop, Timer};
/// use std::time::Duration;
///
/// let mut ev = EventLoop::builder().connections(10).build()?;
/// let token = ev.add_unwatched()?;
/// ev.arm(token, Timer::READ, Duration::from_secs(60));
/// ev.handle().wake();
/// ev.wait()?;
/// let stats = ev.stats();
/// assert_eq!((stats.turns, stats.timers_armed, stats.active, stats.limit), (1, 1, 0, 10));
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Turns: waits that ended without an error. A wait that returns false, because a shutdown is
    /// complete, is not a turn.
    pub turns: u64,
    /// Updates of the clock by a [`timer_resolution`](crate::Builder::timer_resolution); 0 without
    /// one, because then every turn updates the clock.
    pub ticks: u64,
    /// Waits without a timeout that ended without an event, a wake-up or a signal. This should not
    /// happen.
    pub empty_waits: u64,
    /// Events that the kernel reported, including stale ones and those of listeners, the ticker and
    /// the notifier.
    pub events: u64,
    /// Posts that came from other threads, by a [`Handle`](crate::Handle), stale ones included.
    /// Posts that were merged count as one. A post for a token that has ended is not counted if a
    /// post for a later token with the same index waits at the same time.
    pub received: u64,
    /// Events, and posts of other threads, that were dropped because their token was closed, or
    /// because their listener was closed or suspended. Closing also cancels queued posts. These are
    /// not counted here, nor are the posts that [`received`](Self::received) leaves out.
    pub stale: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections lost before they were accepted, for example because the client had left.
    /// [`Accept::Aborted`](evcore_net::Accept::Aborted) lists the causes.
    pub aborted: u64,
    /// Times that the limit of [`connections`](crate::Builder::connections) was reached: the loop
    /// stopped listening, or a client waited for the slot of an idle connection (nginx:
    /// `worker_connections are not enough`). If it grows, raise the limit.
    pub full: u64,
    /// Times that this worker notified another one to accept clients.
    pub notifications: u64,
    /// Times that accepting paused for lack of descriptors or memory. A closed connection ends such
    /// a pause. [`last_exhausted`](Self::last_exhausted) returns the resource that was lacking.
    pub accept_pauses: u64,
    /// Times that a listener failed and was suspended for half a second.
    /// [`take_error`](crate::ListenersMut::take_error) returns the errors.
    pub listener_errors: u64,
    /// Timers that expired.
    pub expired: u64,
    /// Steps from the posted queue, of any origin.
    pub posted: u64,
    /// Idle connections that were [evicted](crate::Step::Evict).
    pub evictions: u64,
    /// Turns that took longer than the limit of the
    /// [watchdog](evcore_instrument::InstrumentOptions::watchdog); 0 without one.
    /// [`take_slow_turn`](evcore_instrument::Instruments::take_slow_turn) returns the slowest.
    pub slow_turns: u64,

    /// Watched connections, without the listeners and without background descriptors
    /// (`EventLoop::add_background`).
    pub active: u32,
    /// Number of connections that may be watched: the limit of
    /// [`connections`](crate::Builder::connections).
    pub limit: u32,
    /// Connections that are marked as [idle](crate::EventLoop::set_idle).
    pub idle: u32,
    /// Armed timers of all tokens.
    pub timers_armed: usize,
    /// True while any of this worker's listeners is registered with its poller.
    pub listening: bool,
    /// The resource that accepting has last run out of, for the log. `None` if accepting has lacked
    /// no resource since the loop was built. [`accept_pauses`](Self::accept_pauses) counts how
    /// often that has happened.
    ///
    /// The clients wait in the backlog. If the process has reached its own limit of descriptors,
    /// the loop [evicts](crate::Step::Evict) connections that have been idle for the
    /// [grace](crate::Builder::idle_grace), unless another worker of the
    /// [group](crate::Builder::group) has a free slot. It accepts again when a connection is
    /// closed, or after 500 ms.
    pub last_exhausted: Option<Resource>,
    /// True from the beginning of a [shutdown](crate::EventLoop::shutdown) on, whether it was begun
    /// here or by a [handle](crate::Handle::shutdown).
    pub shutting_down: bool,
    /// True when a [shutdown](crate::EventLoop::shutdown) is complete: its timeout has passed, or
    /// nothing is left to do. Look at it between turns. [`wait`](crate::EventLoop::wait) then
    /// returns false.
    ///
    /// Nothing is left if no connection is watched, nothing is posted or otherwise carried over,
    /// and no timer is armed except [background](crate::TimersMut::set_background) ones.
    /// Connections that are open at the end of the timeout get no further steps; drop them.
    pub shut_down: bool,
    /// The name of the poller's backend.
    pub backend: &'static str,
}
