//! How a worker ended, and how all of it did.

use std::{fmt, num::NonZeroU32, process::ExitStatus};

use crate::Stop;

/// The exit code (2, as in nginx) by which a worker asks not to be replaced.
///
/// For a worker that knows that its replacement would fare no better. It is a worker's only way to
/// stay away: one that returns 0 while nobody asked it to stop is replaced, as is one that panics.
pub const DO_NOT_RESTART: i32 = 2;

/// A worker's death, as [`on_exit`](crate::Supervisor::on_exit) is told of it.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Supervisor};
///
/// let mut codes = Vec::new();
/// Supervisor::new(2)
///     .on_exit(|dead| codes.push((dead.index, dead.status.and_then(|status| status.code()))))
///     .run(|_worker| DO_NOT_RESTART)?;
/// codes.sort();
/// assert_eq!(codes, [(0, Some(2)), (1, Some(2))]);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerExit {
    /// The worker's index, which its replacement will have too.
    pub index: usize,
    /// The [seat](crate::Worker::seat) it had.
    pub seat: usize,
    /// The process id it had.
    pub pid: NonZeroU32,
    /// Its exit code or the signal that ended it.
    ///
    /// None if other code in the master's process waited for it first, and so took the answer.
    pub status: Option<ExitStatus>,
    /// The stop that its master had asked it for, or was told itself. None: the worker ended
    /// unasked, and its status alone says why. One that was signalled by others, an operator
    /// perhaps, ended unasked too.
    pub stop: Option<Stop>,
}

/// `worker 3 (process 4711) ended unasked: signal: 9 (SIGKILL)`, for a log.
impl fmt::Display for WorkerExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unasked = if self.stop.is_none() { " unasked" } else { "" };
        write!(
            f,
            "worker {} (process {}) ended{unasked}: ",
            self.index, self.pid
        )?;
        match self.status {
            Some(status) => status.fmt(f),
            None => f.write_str("nobody knows how"),
        }
    }
}

/// Why [`run`](crate::Supervisor::run) returned, after the last worker's end.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor};
///
/// let outcome = Supervisor::new(1).run(|_worker| DO_NOT_RESTART)?;
/// assert_eq!(outcome, Outcome::Refused);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A signal stopped it. `Graceful` only if all workers ended by themselves within the
    /// [timeout](crate::Supervisor::stop_timeout), and nobody made the stop a fast one.
    Stopped(Stop),
    /// Every worker ended with [`DO_NOT_RESTART`].
    Refused,
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_death_reads_as_a_line_of_a_log() {
        let mut dead = WorkerExit {
            index: 3,
            seat: 3,
            pid: NonZeroU32::new(4711).unwrap(),
            status: Some(ExitStatus::from_raw(7 << 8)),
            stop: None,
        };
        assert_eq!(
            dead.to_string(),
            "worker 3 (process 4711) ended unasked: exit status: 7"
        );
        dead.stop = Some(Stop::Fast);
        dead.status = None;
        assert_eq!(
            dead.to_string(),
            "worker 3 (process 4711) ended: nobody knows how"
        );
    }
}
