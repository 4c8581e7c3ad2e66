//! The progress of a reload, as the application gets it.

use std::fmt;

/// The progress of a reload, as the hook [`on_reload`](crate::Supervisor::on_reload) gets it.
///
/// ```
/// use evcore_prefork::{Reload, Supervisor};
///
/// let supervisor = Supervisor::new(4).on_reload(|reload| match reload {
///     Reload::Started => { /* read the configuration again */ }
///     _ => eprintln!("{reload}"),
/// });
/// # drop(supervisor);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reload {
    /// New workers are about to be started. Anything that they need must be in place when the hook
    /// returns.
    Started,
    /// The new workers serve. The old ones, if there are any, are about to get a graceful stop.
    Done,
    /// All workers got a graceful stop (WINCH) before the new ones served.
    Drained,
    /// No new workers are started yet, because workers of earlier reloads, which are not ready yet
    /// or have not ended, have all [slots](crate::Supervisor::slots). The reload begins when all
    /// workers of one of these reloads have ended.
    ///
    /// It is reported for each HUP. New workers that hang before they are ready keep their slots if
    /// the [timeout](crate::Supervisor::ready_timeout) has no limit, so kill them.
    Waiting,
    /// Every new worker ended with [`DO_NOT_RESTART`](crate::DO_NOT_RESTART), or with
    /// [`CANNOT_START`](crate::CANNOT_START) before any worker was ready. The old ones go on.
    Refused,
    /// No new workers are started, because the old workers of three reloads [do not
    /// end](crate::Supervisor::on_stuck), so that no [slot](crate::Supervisor::slots) is free. The
    /// present workers, if there are any, go on.
    ///
    /// A further HUP succeeds when all old workers of one reload have ended.
    Stuck,
}

/// Prints, for example, `the new workers serve, the old ones finish`, for a log.
impl fmt::Display for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "new workers are being started",
            Self::Done => "the new workers serve, the old ones finish",
            Self::Drained => "the new workers stop before they serve",
            Self::Waiting => "no new workers yet: workers of earlier reloads have all slots",
            Self::Refused => "the new workers refuse, the old ones go on",
            Self::Stuck => {
                "no new workers: workers of earlier reloads do not end, and have all slots; reload \
                 again when they have ended"
            }
        })
    }
}
