//! How a change of workers goes, as the application hears of it.

/// What becomes of a reload, as [`on_reload`](crate::Supervisor::on_reload) is told of it.
///
/// ```
/// use evcore_prefork::{Reload, Supervisor};
///
/// let supervisor = Supervisor::new(4).on_reload(|reload| match reload {
///     Reload::Begins => eprintln!("new workers are being started"),
///     Reload::Done => eprintln!("the new workers serve, the old ones finish"),
///     _ => eprintln!("the new workers refused: the old ones go on"),
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
}
