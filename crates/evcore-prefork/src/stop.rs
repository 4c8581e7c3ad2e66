//! The two kinds of stop: graceful and fast.

/// A request to a worker, or to the whole server, to end.
///
/// ```
/// use evcore_prefork::Stop;
///
/// assert!(Stop::Graceful < Stop::Fast);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stop {
    /// QUIT: finish the requests under way, and accept no new clients.
    Graceful,
    /// TERM, INT, or the death of the master: stop now. The master kills a process that has not
    /// ended a second after the master has sent the stop.
    Fast,
}

impl Stop {
    /// A number that is greater for a harder stop, and never 0.
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
