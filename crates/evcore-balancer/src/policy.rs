//! The ways in which workers can share their listeners.

use std::time::Duration;

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
    /// A worker that dies with the lock is dealt with by [`force_unlock`](crate::AcceptMutex::force_unlock).
    /// One that is stopped (`SIGSTOP`) with the lock is not: the others stay out until it goes on or dies.
    /// With a single worker the lock only costs: use [`Off`](Policy::Off), as nginx does.
    Mutex {
        /// How long a worker that does not listen waits before it tries the lock (again).
        ///
        /// Rounded up to whole milliseconds, and to at least one: with less it would spin.
        delay: Duration,
    },
}

impl Policy {
    /// nginx's `accept_mutex_delay`: half a second.
    pub const DEFAULT_DELAY: Duration = Duration::from_millis(500);

    /// [`Mutex`](Policy::Mutex) with the [default delay](Policy::DEFAULT_DELAY).
    #[must_use]
    pub const fn mutex() -> Self {
        Self::Mutex {
            delay: Self::DEFAULT_DELAY,
        }
    }
}
