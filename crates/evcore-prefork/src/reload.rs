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
    /// No new workers are started yet, because no [slot](crate::Supervisor::slots) is free. Four
    /// [generations](crate#reload) use all slots, because some of their workers are not ready yet,
    /// or have not ended. The reload begins when all workers of one generation have ended.
    ///
    /// It is reported once for each HUP. Several HUPs that arrive together count as one. If the
    /// [ready timeout](crate::Supervisor::ready_timeout) has no limit, new workers that hang before
    /// they are ready keep their slots. The operator has to kill them.
    Waiting,
    /// Every new worker refused: it ended with [`DO_NOT_RESTART`](crate::DO_NOT_RESTART), or with
    /// [`CANNOT_START`](crate::CANNOT_START) while no worker of this server had ever reported that
    /// it is [ready](crate::Worker::ready). The old workers go on.
    Refused,
    /// No new workers are started, because no [slot](crate::Supervisor::slots) is free, and the old
    /// workers of three [generations](crate#reload) [do not end](crate::Supervisor::on_stuck). The
    /// present workers are the fourth generation, and go on. Or the present workers were stopped
    /// (WINCH), and do not end either.
    ///
    /// A further HUP succeeds when all workers of one of the stopped generations have ended.
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
