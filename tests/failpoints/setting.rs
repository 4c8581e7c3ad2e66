//! The ways of sharing listeners in which a worker is made to die.

use std::time::Duration;

use evcore::{balancer::Policy, poller::BackendKind};

use crate::kinds::{self, By};

/// How long a worker may leave others deaf: short, so that runs are.
const DELAY: Duration = Duration::from_millis(50);

/// Longer than any client waits.
const NEVER: Duration = Duration::from_secs(3600);

/// A policy, on a poller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Setting {
    Off,
    Mutex,
    /// In a group, which hands the lock over.
    MutexHandedOver,
    Exclusive,
    /// Each worker has a listener of its own, among which the kernel spreads the clients.
    ReusePort,
    LeastLoaded,
    /// With such a delay that no worker probes: only the parent's notification makes a death good.
    LeastLoadedAtOnce,
    /// On a poller without exclusive wake-ups, where those near the least load share the lock.
    LeastLoadedByLock,
    /// The same, where a worker that is refused the lock comes back when it is notified, and not before.
    LeastLoadedByLockAtOnce,
}

/// When in its life a worker is made to die.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stage {
    /// From its start on.
    Serving,
    /// Once it was told to come to its end, its clients in peace.
    Leaving,
    /// Once it was told to stop where it is.
    Stopping,
}

impl Setting {
    pub(crate) const ALL: [Self; 9] = [
        Self::Off,
        Self::Mutex,
        Self::MutexHandedOver,
        Self::Exclusive,
        Self::ReusePort,
        Self::LeastLoaded,
        Self::LeastLoadedAtOnce,
        Self::LeastLoadedByLock,
        Self::LeastLoadedByLockAtOnce,
    ];

    /// The setting of this [name](Self::name).
    pub(crate) fn named(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|setting| setting.name() == name)
            .expect("the name of a setting")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Mutex => "mutex",
            Self::MutexHandedOver => "mutex_handed_over",
            Self::Exclusive => "exclusive",
            Self::ReusePort => "reuse_port",
            Self::LeastLoaded => "least_loaded",
            Self::LeastLoadedAtOnce => "least_loaded_at_once",
            Self::LeastLoadedByLock => "least_loaded_by_lock",
            Self::LeastLoadedByLockAtOnce => "least_loaded_by_lock_at_once",
        }
    }

    pub(crate) fn policy(self) -> Policy {
        let policy = match self {
            Self::Off | Self::ReusePort => Policy::Off,
            Self::Mutex | Self::MutexHandedOver => Policy::mutex(),
            Self::Exclusive => Policy::exclusive(),
            _ => Policy::LeastLoaded {
                // The least, so that few clients make a worker leave.
                slack: 1,
                delay: DELAY,
            },
        };
        policy.with_delay(self.delay())
    }

    /// How many clients each worker has room for: one so few that it is full at times, when it has
    /// all. Or both: only who is full hands the lock over to so few.
    pub(crate) fn room(self) -> [u32; 2] {
        match self {
            Self::MutexHandedOver => [2, 2],
            _ => [2, 8],
        }
    }

    /// Whether the workers see each other. If not, they share at most the lock.
    pub(crate) fn in_group(self) -> bool {
        self != Self::Mutex && self.policy().uses_group()
    }

    /// The poller, where it is not the best there is.
    pub(crate) fn poller(self) -> Option<BackendKind> {
        self.is_by_lock().then_some(BackendKind::Poll)
    }

    /// Whether each worker has a listener of its own. Then dead workers are replaced, because no
    /// other can accept their clients.
    pub(crate) fn has_own_listeners(self) -> bool {
        self == Self::ReusePort
    }

    /// The kinds of points that a worker comes to in a stage of its life.
    pub(crate) fn kinds(self, stage: Stage) -> Vec<&'static str> {
        let kinds = kinds::of(stage).into_iter();
        let kinds = kinds.filter(|(kind, by)| {
            let is_inside = kind.contains(" in ");
            self.has(*by) && (cfg!(evcore_failpoints) || !is_inside)
        });
        kinds.map(|(kind, _)| kind).collect()
    }

    /// Whether workers meet by this.
    fn has(self, by: By) -> bool {
        let least_loaded = matches!(self.policy(), Policy::LeastLoaded { .. });
        match by {
            By::Listener => true,
            By::Lock => matches!(self.policy(), Policy::Mutex { .. }) || self.is_by_lock(),
            By::Group => self.in_group(),
            By::Leader => least_loaded && !self.is_by_lock(),
        }
    }

    fn is_by_lock(self) -> bool {
        matches!(
            self,
            Self::LeastLoadedByLock | Self::LeastLoadedByLockAtOnce
        )
    }

    fn delay(self) -> Duration {
        match self {
            Self::LeastLoadedAtOnce | Self::LeastLoadedByLockAtOnce => NEVER,
            _ => DELAY,
        }
    }
}

impl Stage {
    pub(crate) const ALL: [Self; 3] = [Self::Serving, Self::Leaving, Self::Stopping];

    /// The stage of this [name](Self::name).
    pub(crate) fn named(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|stage| stage.name() == name)
            .expect("the name of a stage")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Leaving => "leaving",
            Self::Stopping => "stopping",
        }
    }

    /// Whether the worker comes to its end in it.
    pub(crate) fn is_last(self) -> bool {
        self != Self::Serving
    }
}
