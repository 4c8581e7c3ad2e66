//! The policies by which the workers of a server share their listeners.

// Loom models include this file from another directory. With explicit paths, the modules are found
// there, too.
#[path = "policy/exclusive.rs"]
pub(crate) mod exclusive;
#[path = "policy/least_loaded.rs"]
pub(crate) mod least_loaded;
#[path = "policy/lock.rs"]
pub(crate) mod lock;
#[path = "policy/quiet.rs"]
pub(crate) mod quiet;
#[path = "policy/slack.rs"]
pub(crate) mod slack;

use std::{num::NonZeroU32, time::Duration};

/// The policy by which the workers of a server decide which of them listen.
///
/// All workers of a server should follow the same policy. A server in which the kernel spreads the
/// clients (`SO_REUSEPORT`) gives each worker a listener of its own, and the policy
/// [`Off`](Policy::Off).
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
    /// Every worker that has room listens (nginx: `accept_mutex off`).
    ///
    /// The policy reads no shared state. A new connection may wake several workers, and one of them
    /// gets it.
    #[default]
    Off,

    /// Only the worker that holds the accept lock listens (nginx: `accept_mutex on`).
    ///
    /// A worker holds the lock while it waits, and releases it before any handler runs. By itself,
    /// the lock does not spread connections evenly, because the holder is awake when the lock
    /// becomes free, and often gets it again.
    ///
    /// - The members of a [`WorkerGroup`](crate::WorkerGroup) hand the lock over. If the holder
    ///   exceeds the load of the least loaded member by more than 16 connections plus a sixteenth
    ///   of that load, it notifies that member and yields the lock. If that member does not take
    ///   the lock, another one does after at most `delay`.
    /// - Workers that share only an [`AcceptMutex`](crate::AcceptMutex) follow nginx's rule. A
    ///   worker that is [crowded](crate::Load::is_crowded) yields the lock for `delay`, and then
    ///   holds the lock for one turn of its loop. Until workers are crowded, nearly all clients go
    ///   to one of them.
    ///
    /// [`release_dead`](crate::WorkerGroup::release_dead) frees the lock of a worker that has died.
    /// A worker that is stopped (`SIGSTOP`) keeps it. Therefore each worker with room that has not
    /// listened for `delay` polls the listeners once, without the lock. A single worker needs no
    /// lock: use [`Off`](Policy::Off).
    Mutex {
        /// The longest wait of a worker that was refused the lock, and the time for which a worker
        /// that yields the lock does not try it again.
        ///
        /// It is rounded up to whole milliseconds, and to at least 1 ms, so that no worker spins.
        delay: Duration,
    },

    /// Every worker that has room listens, and the kernel wakes one of them for a client (nginx
    /// since 1.11.3: `EPOLLEXCLUSIVE`).
    ///
    /// The kernel wakes the worker that registered first. So each worker registers again after some
    /// connections, and is then woken last. If a worker that is stopped (`SIGSTOP`) leaves clients
    /// waiting, another worker finds them when it registers again, at most `delay` later.
    ///
    /// For that reason a worker wakes once in each `delay`, until its
    /// [`WorkerGroup`](crate::WorkerGroup) has met no client for four delays. Then all members
    /// listen without exclusive wake-ups, and sleep until the kernel wakes them for the next
    /// client. Workers without a group do not do this, because they cannot see that the others meet
    /// no client.
    ///
    /// If the poller has no exclusive wake-ups, each worker that has room listens as under
    /// [`Off`](Policy::Off).
    Exclusive {
        /// The number of accepted connections after which a worker registers again.
        readd_every: NonZeroU32,
        /// The maximum time of a registration. It is rounded up like the delay of
        /// [`Mutex`](Policy::Mutex).
        delay: Duration,
    },

    /// The workers whose load is near the lowest load listen, with exclusive wake-ups.
    ///
    /// A worker with more connections stops listening. But one worker, the
    /// [leader](crate::Leader), must listen until another worker has become leader. So a leader
    /// with more connections notifies the least loaded worker, and stops when that worker has
    /// become leader. A full leader stops at once. This spreads connections evenly with few
    /// wake-ups, even after many connections of one worker have ended.
    ///
    /// Until the notified worker is leader, the old leader leaves clients in the backlog for up to
    /// 2 ms, so that a burst is spread too. If no answer comes, it notifies another worker. If
    /// there is no other one to notify, it accepts a few clients every 2 ms, and all after 10 ms.
    /// The workers have to be members of a [`WorkerGroup`](crate::WorkerGroup).
    ///
    /// If the leader blocks in a handler while no other worker listens, new clients wait until
    /// another worker *probes*: it polls the listeners once, at most `delay` later. If a worker is
    /// stopped after the kernel has woken it for a client, only a probe or a new registration finds
    /// that client. For that reason a worker wakes once in each `delay`, until its group has met no
    /// client for four delays. Then all members listen without exclusive wake-ups, and sleep until
    /// the kernel wakes them for the next client. A worker that is alone in its group always
    /// listens and sleeps like this.
    ///
    /// If the poller has no exclusive wake-ups, the workers near the lowest load share the accept
    /// lock.
    LeastLoaded {
        /// The number of connections by which a worker may exceed the lowest load and still count
        /// as near it. A sixteenth of the lowest load is added to this number. A smaller slack
        /// spreads connections more evenly and costs more wake-ups. 0 counts as 1.
        slack: u32,
        /// The maximum time of a registration, and the interval at which a worker that does not
        /// listen probes the listeners. It is rounded up like the delay of
        /// [`Mutex`](Policy::Mutex).
        delay: Duration,
    },
}

impl Policy {
    /// nginx's `accept_mutex_delay`: half a second.
    pub const DEFAULT_DELAY: Duration = Duration::from_millis(500);

    /// The default of `readd_every` in [`Exclusive`](Policy::Exclusive): 16 connections. Smaller
    /// numbers cost more system calls, and do not spread connections more evenly.
    pub const DEFAULT_READD_EVERY: NonZeroU32 = NonZeroU32::new(16).unwrap();

    /// The default slack of [`LeastLoaded`](Policy::LeastLoaded): four connections.
    pub const DEFAULT_SLACK: u32 = 4;

    /// The slack of the holder of the lock under [`Mutex`](Policy::Mutex). It is larger than the
    /// default slack, because no worker listens while the lock is handed over.
    pub(crate) const MUTEX_SLACK: u32 = 16;

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

    /// Returns whether workers under this policy sync with their group.
    /// [`LeastLoaded`](Policy::LeastLoaded) needs a group. With a group,
    /// [`Mutex`](Policy::Mutex) spreads connections evenly, and workers under
    /// [`Exclusive`](Policy::Exclusive) can [rest](crate::Plan::rests) while no client comes.
    ///
    /// ```
    /// use evcore_balancer::Policy;
    ///
    /// assert!(Policy::exclusive().uses_group() && Policy::least_loaded().uses_group());
    /// assert!(!Policy::Off.uses_group());
    /// ```
    #[must_use]
    pub const fn uses_group(self) -> bool {
        match self {
            Self::Mutex { .. } | Self::LeastLoaded { .. } | Self::Exclusive { .. } => true,
            Self::Off => false,
        }
    }

    /// Returns the same policy with another delay, if it has one.
    #[must_use]
    pub const fn with_delay(self, delay: Duration) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Mutex { .. } => Self::Mutex { delay },
            Self::Exclusive { readd_every, .. } => Self::Exclusive { readd_every, delay },
            Self::LeastLoaded { slack, .. } => Self::LeastLoaded { slack, delay },
        }
    }

    /// The delay, if the policy has one.
    #[must_use]
    pub const fn delay(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Mutex { delay }
            | Self::Exclusive { delay, .. }
            | Self::LeastLoaded { delay, .. } => Some(delay),
        }
    }
}

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// A delay in nanoseconds, rounded up to whole milliseconds, and to at least 1 ms, so that no
/// worker spins.
fn whole_ms(delay: Duration) -> u64 {
    let ms = u64::try_from(delay.as_nanos().div_ceil(u128::from(NS_PER_MS)));
    ms.unwrap_or(u64::MAX).max(1).saturating_mul(NS_PER_MS)
}

/// A time as nanoseconds. Policies calculate in each turn, and integers cost less than
/// [`Duration`]s.
pub(crate) fn nanos(time: Duration) -> u64 {
    const NS_PER_SECOND: u64 = 1_000_000_000;
    let whole = time.as_secs().saturating_mul(NS_PER_SECOND);
    whole.saturating_add(u64::from(time.subsec_nanos()))
}

#[cfg(all(test, not(evcore_loom)))]
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
        ] {
            assert_eq!(whole_ms(delay), expected_ms * NS_PER_MS, "{delay:?}");
        }
        assert_eq!(whole_ms(Duration::MAX), u64::MAX);
    }

    #[test]
    fn times_beyond_u64_nanoseconds_saturate() {
        assert_eq!(nanos(Duration::new(3, 7)), 3_000_000_007);
        assert_eq!(nanos(Duration::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }

    #[test]
    fn with_delay_changes_nothing_but_the_delay() {
        let delay = Duration::from_millis(20);
        assert_eq!(Policy::Off.with_delay(delay), Policy::Off);
        for policy in [Policy::mutex(), Policy::exclusive(), Policy::least_loaded()] {
            let changed = policy.with_delay(delay);
            assert_eq!(changed.delay(), Some(delay));
            assert_eq!(changed.with_delay(Policy::DEFAULT_DELAY), policy);
        }
    }
}
