//! The values of `--accept`: the ways in which new connections are distributed over the workers.

use std::time::Duration;

use clap::ValueEnum;
use evcore::balancer::Policy;

/// A value of `--accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AcceptOption {
    Off,
    Mutex,
    Exclusive,
    #[value(name = "reuseport")]
    ReusePort,
    LeastLoaded,
}

impl AcceptOption {
    /// Returns the policy of the workers. A single worker has no other to share its listeners with,
    /// so its policy is `Off` (as in nginx).
    pub(crate) fn policy(self, delay: Duration, workers: usize) -> Policy {
        let policy = match self {
            _ if workers <= 1 => Policy::Off,
            // With `reuseport`, no listener is shared.
            Self::Off | Self::ReusePort => Policy::Off,
            Self::Mutex => Policy::mutex(),
            Self::Exclusive => Policy::exclusive(),
            Self::LeastLoaded => Policy::least_loaded(),
        };
        policy.with_delay(delay)
    }
}
