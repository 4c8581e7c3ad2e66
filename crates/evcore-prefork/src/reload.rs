//! How a change of workers goes, as the application hears of it.

use std::fmt;

/// What becomes of a reload, as [`on_reload`](crate::Supervisor::on_reload) is told of it.
///
/// ```
/// use evcore_prefork::{Reload, Supervisor};
///
/// let supervisor = Supervisor::new(4).on_reload(|reload| match reload {
///     Reload::Begins => { /* read the configuration again */ }
///     _ => eprintln!("{reload}"),
/// });
/// # drop(supervisor);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reload {
    /// New workers are about to be started: what they are to find anew is to be there now.
    Begins,
    /// The new workers serve, and the old ones are about to be asked to finish.
    ///
    /// Not told where there were no old ones, after WINCH.
    Done,
    /// Every new worker ended with [`DO_NOT_RESTART`](crate::DO_NOT_RESTART): the old ones go on.
    Refused,
    /// No new workers are started: the old ones of three reloads were killed a second ago or
    /// earlier and have not ended, and there is no [seat](crate::Supervisor::seats) for more. The
    /// present ones go on.
    ///
    /// It happens to [`Threads`](crate::Threads), since a thread cannot be killed, and to processes
    /// that the kernel does not let go. A further HUP may succeed when some of them have ended.
    Stuck,
}

/// `the new workers serve, the old ones finish`, for a log.
impl fmt::Display for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begins => "new workers are being started",
            Self::Done => "the new workers serve, the old ones finish",
            Self::Refused => "the new workers refuse, the old ones go on",
            Self::Stuck => {
                "no new workers: those of earlier reloads do not stop, and have all seats; restart \
                 the server"
            }
        })
    }
}
