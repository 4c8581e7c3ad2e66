//! The two ways to stop.

/// The way to stop.
///
/// ```
/// use evcore_prefork::Stop;
///
/// assert!(Stop::Graceful < Stop::Fast);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stop {
    /// QUIT: finish the requests under way, accept no new clients.
    Graceful,
    /// TERM or INT: stop now. A process that has not ended a second later is killed.
    Fast,
}

impl Stop {
    /// The harder, the greater; never 0.
    pub(crate) const fn severity(self) -> u8 {
        match self {
            Self::Graceful => 1,
            Self::Fast => 2,
        }
    }

    pub(crate) const fn from_severity(severity: u8) -> Option<Self> {
        match severity {
            0 => None,
            1 => Some(Self::Graceful),
            _ => Some(Self::Fast),
        }
    }
}
