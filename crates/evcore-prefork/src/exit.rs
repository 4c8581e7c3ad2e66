//! The exit codes of workers, and the reasons for which a worker or the supervisor ends.

use std::{any::Any, fmt, num::NonZeroU32, os::unix::process::ExitStatusExt, process::ExitStatus};

use crate::{slot::Slot, stop::Stop, worker_index::WorkerIndex};

/// The exit code by which a worker prevents its replacement: 2, as in nginx.
///
/// Use it if a replacement would fail in the same way. The supervisor replaces a worker that ends
/// in any other way (but see [`CANNOT_START`]), unless it has stopped that worker.
pub const DO_NOT_RESTART: i32 = 2;

/// The exit code by which a worker reports that it could not start, before it was
/// [ready](crate::Worker::ready): 3.
///
/// Once any worker of the server has been ready, this end is like any other crash, and the worker
/// is replaced. Before that, the cause may concern all workers. If every worker ends with this
/// code, or with [`DO_NOT_RESTART`], the server has failed to start ([`Outcome::AllRefused`]). If
/// another worker becomes ready instead, this worker is started again, after its
/// [pause](crate#replacement).
///
/// Do not use this code in a server whose workers never report that they are ready, because the
/// worker would not be replaced.
pub const CANNOT_START: i32 = 3;

/// Identifies a worker to the supervisor's hooks.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Supervisor};
///
/// let mut started = Vec::new();
/// Supervisor::new(2)
///     .on_start(|worker| started.push((worker.index.get(), worker.slot)))
///     .run_threads(|_worker| DO_NOT_RESTART)?;
/// assert_eq!(started, [(0, 0), (1, 1)]);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// The worker's [index](crate::Worker::index), which its replacement gets too.
    pub index: WorkerIndex,
    /// The worker's [slot](crate::Worker::slot), which no other living worker has.
    pub slot: usize,
    /// The worker's process id. None if it is a thread, or if it could not be started.
    pub pid: Option<NonZeroU32>,
}

impl WorkerInfo {
    pub(crate) fn new(slot: Slot, workers: usize, pid: Option<NonZeroU32>) -> Self {
        Self {
            index: WorkerIndex::new(slot.index),
            slot: slot.number(workers),
            pid,
        }
    }
}

/// Prints `worker 3 (process 4711)`, or `worker 3 (slot 7)` without a process, for a log.
impl fmt::Display for WorkerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, slot, pid } = self;
        match pid {
            Some(pid) => write!(f, "worker {index} (process {pid})"),
            None => write!(f, "worker {index} (slot {slot})"),
        }
    }
}

/// The end of a worker, as the hook [`on_exit`](crate::Supervisor::on_exit) gets it.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, ExitCause, Supervisor};
///
/// let mut ends = Vec::new();
/// Supervisor::new(2)
///     .on_exit(|exit| ends.push((exit.worker.index.get(), exit.cause.clone())))
///     .run(|_worker| DO_NOT_RESTART)?;
/// ends.sort_by_key(|(index, _)| *index);
/// let refused = ExitCause::Exited(DO_NOT_RESTART);
/// assert_eq!(ends, [(0, refused.clone()), (1, refused)]);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerExit {
    /// The worker that ended.
    pub worker: WorkerInfo,
    /// The cause of its end.
    pub cause: ExitCause,
    /// The stop that the worker, or the whole server, got before this end. None if the worker ended
    /// unexpectedly.
    ///
    /// A signal that an operator sends only to this worker does not count. A signal to the whole
    /// process group counts, such as Ctrl-C.
    pub stop: Option<Stop>,
}

/// Prints `worker 3 (process 4711) ended unexpectedly: signal: 9 (SIGKILL)`, for a log.
impl fmt::Display for WorkerExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unexpectedly = if self.stop.is_none() {
            " unexpectedly"
        } else {
            ""
        };
        write!(f, "{} ended{unexpectedly}: {}", self.worker, self.cause)
    }
}

/// The cause of a worker's end.
///
/// ```
/// use evcore_prefork::ExitCause;
///
/// assert_eq!(ExitCause::Exited(7).to_string(), "exit status: 7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitCause {
    /// The worker's function returned this code, or its process exited with it.
    ///
    /// The code of a process has eight bits. A process that panics exits with 101.
    Exited(i32),
    /// A signal ended the worker's process.
    Signaled {
        /// The number of the signal.
        signal: i32,
        /// True if the system wrote a core dump.
        core_dumped: bool,
    },
    /// The worker is a thread, and panicked with this message.
    Panicked(String),
    /// The worker is a thread, and did not stop within a second of [`Stop::Fast`] when the
    /// supervisor stopped. A thread cannot be killed, so it runs on until the process ends.
    Abandoned,
    /// The exit status could not be read, for example because other code in the master's process
    /// has waited for the worker.
    Unknown,
}

impl ExitCause {
    pub(crate) fn of_process(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Signaled {
                signal,
                core_dumped: status.core_dumped(),
            },
            (None, None) => Self::Unknown,
        }
    }

    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self::Panicked(text.unwrap_or_else(|| "with a value that is not a string".to_owned()))
    }
}

impl fmt::Display for ExitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit status: {code}"),
            Self::Signaled {
                signal,
                core_dumped,
            } => {
                // The standard library prints the names of the signals.
                let core = if *core_dumped { 0x80 } else { 0 };
                ExitStatus::from_raw(signal | core).fmt(f)
            }
            Self::Panicked(text) => write!(f, "panicked: {text}"),
            Self::Abandoned => f.write_str("did not stop, and was abandoned"),
            Self::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// The reason why the supervisor returned.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Outcome, Supervisor};
///
/// let outcome = Supervisor::new(1).run(|_worker| DO_NOT_RESTART)?;
/// assert_eq!(outcome, Outcome::AllRefused);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A signal stopped the supervisor. The stop is `Graceful` only if all workers ended by
    /// themselves within the [timeout](crate::Supervisor::stop_timeout), and no signal made it
    /// fast.
    Stopped(Stop),
    /// Every worker ended with [`DO_NOT_RESTART`], or with [`CANNOT_START`] before any was ready.
    AllRefused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_reads_as_a_line_of_a_log() {
        let mut exit = WorkerExit {
            worker: WorkerInfo {
                index: WorkerIndex::new(3),
                slot: 7,
                pid: NonZeroU32::new(4711),
            },
            cause: ExitCause::Exited(7),
            stop: None,
        };
        assert_eq!(
            exit.to_string(),
            "worker 3 (process 4711) ended unexpectedly: exit status: 7"
        );
        exit.worker.pid = None;
        exit.stop = Some(Stop::Fast);
        exit.cause = ExitCause::Abandoned;
        assert_eq!(
            exit.to_string(),
            "worker 3 (slot 7) ended: did not stop, and was abandoned"
        );
    }

    #[test]
    fn the_cause_of_a_process_reads_as_its_status() {
        for raw in [0, 7 << 8, 9, 15, 11 | 0x80] {
            let status = ExitStatus::from_raw(raw);
            let cause = ExitCause::of_process(status);
            assert_eq!(cause.to_string(), status.to_string());
        }
    }

    #[test]
    fn a_panic_is_reported_with_its_message() {
        let report = |payload: Box<dyn Any + Send>| ExitCause::of_panic(&*payload).to_string();
        assert_eq!(report(Box::new("no more")), "panicked: no more");
        assert_eq!(report(Box::new(String::from("no 7"))), "panicked: no 7");
        assert_eq!(
            report(Box::new(7)),
            "panicked: with a value that is not a string"
        );
    }
}
