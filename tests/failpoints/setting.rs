//! The ways of sharing listeners in which a worker is made to die.

use std::time::Duration;

use evcore::{balancer::Policy, poller::Kind};

/// How long a worker may leave others deaf: short, so that runs are.
const DELAY: Duration = Duration::from_millis(50);

/// A policy, on a poller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Setting {
    Off,
    Mutex,
    Exclusive,
    ReusePort,
    LeastLoaded,
    /// On a poller without exclusive wake-ups, where those near the least load share the lock.
    LeastLoadedByLock,
}

impl Setting {
    pub(crate) const ALL: [Self; 6] = [
        Self::Off,
        Self::Mutex,
        Self::Exclusive,
        Self::ReusePort,
        Self::LeastLoaded,
        Self::LeastLoadedByLock,
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
            Self::Exclusive => "exclusive",
            Self::ReusePort => "reuse_port",
            Self::LeastLoaded => "least_loaded",
            Self::LeastLoadedByLock => "least_loaded_by_lock",
        }
    }

    pub(crate) fn policy(self) -> Policy {
        let policy = match self {
            Self::Off => Policy::Off,
            Self::Mutex => Policy::mutex(),
            Self::Exclusive => Policy::exclusive(),
            Self::ReusePort => Policy::ReusePort,
            Self::LeastLoaded | Self::LeastLoadedByLock => Policy::LeastLoaded {
                // The least, so that few clients make a worker leave.
                slack: 1,
                delay: DELAY,
            },
        };
        policy.with_delay(DELAY)
    }

    /// The poller, where it is not the best there is.
    pub(crate) fn poller(self) -> Option<Kind> {
        (self == Self::LeastLoadedByLock).then_some(Kind::Poll)
    }

    /// Whether the dead are replaced: where nobody else can take in their clients.
    pub(crate) fn replaces(self) -> bool {
        self == Self::ReusePort
    }

    /// The kinds of points that a worker comes to.
    pub(crate) fn kinds(self) -> Vec<&'static str> {
        let mut kinds = vec![
            "before register",
            "before wait",
            "after wait",
            "before accept",
            "after accept",
            "before step",
            "before publish",
            "after publish",
        ];
        if matches!(self, Self::Mutex | Self::LeastLoadedByLock) {
            kinds.extend(LOCK);
        }
        if matches!(self, Self::LeastLoaded | Self::LeastLoadedByLock) {
            kinds.extend(SEAT);
        }
        if self == Self::LeastLoaded {
            kinds.extend(KEEPER);
        }
        kinds
    }
}

const LOCK: [&str; 4] = [
    "before try_lock",
    "after try_lock",
    "before unlock",
    "after unlock",
];

const SEAT: [&str; 8] = [
    "before is_called",
    "after is_called",
    "before look",
    "after look",
    "before call",
    "after call",
    "before silence",
    "after silence",
];

const KEEPER: [&str; 4] = ["before take", "after take", "before resign", "after resign"];
