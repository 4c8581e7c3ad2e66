//! The configurations of the server, and the phases in which a worker dies.

use std::time::Duration;

use evcore::{balancer::Policy, poller::BackendKind};

use crate::{
    failpoint::INSIDE,
    kinds::{self, Needs},
};

pub(crate) const DELAY: Duration = Duration::from_millis(50);

/// A delay that is longer than any client waits.
const NEVER: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Config {
    Off,
    Mutex,
    /// The accept lock in a group, whose members hand it over.
    MutexHandoff,
    Exclusive,
    /// Each worker has a listener of its own, and the kernel spreads the clients over them.
    ReusePort,
    LeastLoaded,
    /// No worker probes, because the delay is long. (In a probe, a worker that does not listen
    /// tries the listeners once. It does so once in each delay.) After a death, another worker
    /// listens only because the parent notifies it.
    LeastLoadedNoProbe,
    /// A poller without exclusive wake-ups, so that workers near the least load share the lock.
    LeastLoadedLock,
    /// Like `LeastLoadedLock`, without probes. A worker that is refused the lock does not wake up
    /// by itself to try again.
    LeastLoadedLockNoProbe,
}

/// The phase of a worker's life in which it dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// After the start.
    Serving,
    /// During a graceful shutdown.
    Leaving,
    /// While it stops at once.
    Stopping,
}

impl Config {
    pub(crate) const ALL: [Self; 9] = [
        Self::Off,
        Self::Mutex,
        Self::MutexHandoff,
        Self::Exclusive,
        Self::ReusePort,
        Self::LeastLoaded,
        Self::LeastLoadedNoProbe,
        Self::LeastLoadedLock,
        Self::LeastLoadedLockNoProbe,
    ];

    pub(crate) fn named(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|config| config.name() == name)
            .expect("the name of a configuration")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Mutex => "mutex",
            Self::MutexHandoff => "mutex_handoff",
            Self::Exclusive => "exclusive",
            Self::ReusePort => "reuse_port",
            Self::LeastLoaded => "least_loaded",
            Self::LeastLoadedNoProbe => "least_loaded_no_probe",
            Self::LeastLoadedLock => "least_loaded_lock",
            Self::LeastLoadedLockNoProbe => "least_loaded_lock_no_probe",
        }
    }

    pub(crate) fn policy(self) -> Policy {
        let policy = match self {
            Self::Off | Self::ReusePort => Policy::Off,
            Self::Mutex | Self::MutexHandoff => Policy::mutex(),
            Self::Exclusive => Policy::exclusive(),
            _ => Policy::LeastLoaded {
                // The slack is the number of clients by which a worker may exceed the least loaded
                // one before it leaves clients to others. With the smallest slack, few clients make
                // a worker stop listening.
                slack: 1,
                delay: DELAY,
            },
        };
        policy.with_delay(self.delay())
    }

    /// The capacity of each worker, in clients. The first worker is full with two clients. Under
    /// `MutexHandoff` both workers are full with two clients. A run has few clients, so only a full
    /// worker hands the lock over.
    pub(crate) fn capacities(self) -> [u32; 2] {
        match self {
            Self::MutexHandoff => [2, 2],
            _ => [2, 8],
        }
    }

    pub(crate) fn in_group(self) -> bool {
        self != Self::Mutex && self.policy().uses_group()
    }

    /// The poller, if it is not the default one.
    pub(crate) fn poller(self) -> Option<BackendKind> {
        self.uses_lock_policy().then_some(BackendKind::Poll)
    }

    /// Returns whether each worker has a listener of its own. If so, dead workers are replaced,
    /// because no other worker can accept their clients.
    pub(crate) fn has_own_listeners(self) -> bool {
        self == Self::ReusePort
    }

    pub(crate) fn kinds(self, phase: Phase) -> Vec<&'static str> {
        let kinds = kinds::of(phase).into_iter();
        let kinds = kinds.filter(|(kind, needs)| {
            let is_inside = kind.contains(" in ");
            self.has(*needs) && (INSIDE || !is_inside)
        });
        kinds.map(|(kind, _)| kind).collect()
    }

    fn has(self, needs: Needs) -> bool {
        let least_loaded = matches!(self.policy(), Policy::LeastLoaded { .. });
        match needs {
            Needs::Listener => true,
            Needs::Lock => matches!(self.policy(), Policy::Mutex { .. }) || self.uses_lock_policy(),
            Needs::Group => self.in_group(),
            Needs::Leader => least_loaded && !self.uses_lock_policy(),
        }
    }

    fn uses_lock_policy(self) -> bool {
        matches!(self, Self::LeastLoadedLock | Self::LeastLoadedLockNoProbe)
    }

    fn delay(self) -> Duration {
        match self {
            Self::LeastLoadedNoProbe | Self::LeastLoadedLockNoProbe => NEVER,
            _ => DELAY,
        }
    }
}

impl Phase {
    pub(crate) const ALL: [Self; 3] = [Self::Serving, Self::Leaving, Self::Stopping];

    pub(crate) fn named(name: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|phase| phase.name() == name)
            .expect("the name of a phase")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Leaving => "leaving",
            Self::Stopping => "stopping",
        }
    }

    /// Returns whether the worker ends in this phase.
    pub(crate) fn is_last(self) -> bool {
        self != Self::Serving
    }
}
