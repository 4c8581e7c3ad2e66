//! The values of `--accept`.

use std::{str::FromStr, time::Duration};

use evcore::balancer::Policy;

use crate::option_error::OptionError;

/// A value of `--accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptOption {
    Off,
    Mutex,
    Exclusive,
    ReusePort,
    LeastLoaded,
}

impl AcceptOption {
    /// A single worker shares its listeners with no other, so it needs no policy (as in nginx).
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

impl FromStr for AcceptOption {
    type Err = OptionError;

    fn from_str(value: &str) -> Result<Self, OptionError> {
        match value {
            "off" => Ok(Self::Off),
            "mutex" => Ok(Self::Mutex),
            "exclusive" => Ok(Self::Exclusive),
            "reuseport" => Ok(Self::ReusePort),
            "least-loaded" => Ok(Self::LeastLoaded),
            _ => Err(OptionError(format!(
                "--accept {value:?}: expected off, mutex, exclusive, reuseport or least-loaded"
            ))),
        }
    }
}
