//! The ways in which workers can share their listeners.

use std::{num::NonZeroU32, time::Duration};

/// How the workers of one server decide who listens.
///
/// All workers of a server should follow the same policy.
///
/// ```
/// use evcore_balancer::Policy;
/// use std::time::Duration;
///
/// assert_eq!(Policy::default(), Policy::Off);
/// assert_eq!(Policy::mutex(), Policy::Mutex { delay: Duration::from_millis(500) });
/// assert_eq!(Policy::mutex().delay(), Some(Duration::from_millis(500)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Every worker that has a free place listens (nginx: `accept_mutex off`).
    ///
    /// Nothing is shared and nothing is waited for.
    /// A new connection may wake several workers, of which one gets it.
    #[default]
    Off,

    /// Only the worker that holds the accept lock listens (nginx: `accept_mutex on`).
    ///
    /// The lock is held through the wait and released before any handler runs.
    /// A worker in which less than an eighth of the places is free gives way to the others,
    /// but not for ever: after `delay` it takes one turn.
    ///
    /// Whoever has the lock is the only one awake, and takes it again and again: nginx gives nearly
    /// all clients to one worker while places are plentiful. Workers that have a
    /// [`Seat`](crate::Seat) among the [`Peers`](crate::Peers) do better: a holder that has 16
    /// connections (and a sixteenth) more than the least loaded calls that one and gives way to it,
    /// instead of by the eighth. Where that one does not come, another does after `delay`.
    ///
    /// A worker that dies with the lock is dealt with by
    /// [`force_unlock`](crate::AcceptMutex::force_unlock). One that is stopped (`SIGSTOP`) with the
    /// lock keeps it; so whoever has not listened for the `delay` looks once, without the lock and
    /// without waiting, whether somebody has been left there. With a single worker the lock only
    /// costs: use [`Off`](Policy::Off), as nginx does.
    Mutex {
        /// How long a worker that does not listen waits before it tries the lock (again).
        ///
        /// Rounded up to whole milliseconds, and to at least one: with less it would spin.
        delay: Duration,
    },

    /// Every worker that has a free place listens, exclusively: the kernel wakes one for a client
    /// (nginx since 1.11.3: `EPOLLEXCLUSIVE`).
    ///
    /// The kernel wakes the worker that registered first, so each registers again now and then,
    /// which puts it behind the others. Nobody is called: whom a worker leaves waiting because it
    /// is full or stopped, another finds when it registers again, after the `delay` at the latest.
    /// Where the poller has no exclusive wake-ups, this is
    /// [`Off`](Policy::Off).
    Exclusive {
        /// After how many accepted connections a worker registers again.
        readd_every: NonZeroU32,
        /// How long a registration lasts, at most: registering again finds what was left behind by
        /// a worker that was woken and then stopped. Rounded up like that of
        /// [`Mutex`](Policy::Mutex).
        delay: Duration,
    },

    /// Each worker has listeners of its own, among which the kernel spreads the clients
    /// (`SO_REUSEPORT`; nginx: `listen ... reuseport`).
    ///
    /// Nobody else can take in who waits at a worker that is full, blocked or stopped, and by
    /// default whoever waits at a listener that is closed is sent away.
    ReusePort,

    /// Every worker listens whose load is near that of the least loaded, exclusively.
    ///
    /// Who is above that stops, but never before another listens: the one that may not leave yet
    /// (the [keeper](crate::Keeper)) wakes the least loaded worker and leaves once it has come.
    /// So connections are spread evenly, also after many of one worker have ended, with few wakes
    /// and no pauses. Needs a [`Seat`](crate::Seat) among the [`Peers`](crate::Peers).
    ///
    /// A keeper that is blocked in a handler holds up who comes meanwhile until another looks,
    /// which each that does not listen does after `delay`. With two workers there is only that one.
    ///
    /// Where the poller has no exclusive wake-ups, those near the least load share the accept lock.
    LeastLoaded {
        /// How many connections above the least loaded worker are near enough, beside a sixteenth
        /// of that worker's. The smaller, the more even, and the more wakes. 0 is taken for 1.
        slack: u32,
        /// How long a registration lasts, and how long a worker that does not listen goes without a
        /// look: no worker that stops makes the listeners deaf for longer.
        /// Rounded up like that of [`Mutex`](Policy::Mutex).
        delay: Duration,
    },
}

impl Policy {
    /// nginx's `accept_mutex_delay`: half a second.
    pub const DEFAULT_DELAY: Duration = Duration::from_millis(500);

    /// Sixteen: as even as less, for fewer calls.
    pub const DEFAULT_READD_EVERY: NonZeroU32 = NonZeroU32::new(16).unwrap();

    /// How many connections the holder of the lock may be above the least loaded: for each time
    /// that the lock is handed over, nobody listens for as long as it takes to wake a worker.
    pub(crate) const MUTEX_SLACK: u32 = 16;

    /// How many connections a worker may be above the least loaded.
    pub const DEFAULT_SLACK: u32 = 4;

    /// [`Mutex`](Policy::Mutex) with the [default delay](Policy::DEFAULT_DELAY).
    #[must_use]
    pub const fn mutex() -> Self {
        Self::Mutex {
            delay: Self::DEFAULT_DELAY,
        }
    }

    /// [`Exclusive`](Policy::Exclusive) with the defaults.
    #[must_use]
    pub const fn exclusive() -> Self {
        Self::Exclusive {
            readd_every: Self::DEFAULT_READD_EVERY,
            delay: Self::DEFAULT_DELAY,
        }
    }

    /// [`LeastLoaded`](Policy::LeastLoaded) with the defaults.
    #[must_use]
    pub const fn least_loaded() -> Self {
        Self::LeastLoaded {
            slack: Self::DEFAULT_SLACK,
            delay: Self::DEFAULT_DELAY,
        }
    }

    /// Whether a [`Seat`](crate::Seat) among the [`Peers`](crate::Peers) is of use to a worker:
    /// needed by [`LeastLoaded`](Policy::LeastLoaded), and what makes [`Mutex`](Policy::Mutex)
    /// even.
    ///
    /// ```
    /// use evcore_balancer::Policy;
    ///
    /// assert!(Policy::mutex().uses_seats() && Policy::least_loaded().uses_seats());
    /// assert!(!Policy::exclusive().uses_seats());
    /// ```
    #[must_use]
    pub const fn uses_seats(self) -> bool {
        match self {
            Self::Mutex { .. } | Self::LeastLoaded { .. } => true,
            Self::Off | Self::Exclusive { .. } | Self::ReusePort => false,
        }
    }

    /// The same policy with another delay, if it has one.
    #[must_use]
    pub const fn with_delay(self, delay: Duration) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Mutex { .. } => Self::Mutex { delay },
            Self::Exclusive { readd_every, .. } => Self::Exclusive { readd_every, delay },
            Self::ReusePort => Self::ReusePort,
            Self::LeastLoaded { slack, .. } => Self::LeastLoaded { slack, delay },
        }
    }

    /// The delay, if the policy has one.
    #[must_use]
    pub const fn delay(self) -> Option<Duration> {
        match self {
            Self::Off | Self::ReusePort => None,
            Self::Mutex { delay }
            | Self::Exclusive { delay, .. }
            | Self::LeastLoaded { delay, .. } => Some(delay),
        }
    }
}

/// Rounds up, so that a delay is never cut short, to at least 1, so that nobody spins.
pub(crate) fn whole_ms(delay: Duration) -> u64 {
    let begun_ms = u64::from(delay.subsec_nanos() % 1_000_000 != 0);
    u64::try_from(delay.as_millis())
        .unwrap_or(u64::MAX)
        .saturating_add(begun_ms)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_round_up_to_whole_milliseconds_and_at_least_one() {
        for (delay, expected_ms) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_nanos(999_999), 1),
            (Duration::from_millis(1), 1),
            (Duration::new(0, 1_000_001), 2),
            (Policy::DEFAULT_DELAY, 500),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(whole_ms(delay), expected_ms, "{delay:?}");
        }
    }

    #[test]
    fn another_delay_changes_nothing_else() {
        let delay = Duration::from_millis(20);
        assert_eq!(Policy::Off.with_delay(delay), Policy::Off);
        assert_eq!(Policy::ReusePort.with_delay(delay), Policy::ReusePort);
        for policy in [Policy::mutex(), Policy::exclusive(), Policy::least_loaded()] {
            let changed = policy.with_delay(delay);
            assert_eq!(changed.delay(), Some(delay));
            assert_eq!(changed.with_delay(Policy::DEFAULT_DELAY), policy);
        }
    }
}
