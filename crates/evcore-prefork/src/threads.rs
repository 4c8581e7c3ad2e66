//! The front for workers that are threads: the same words as for processes.

use std::{any::Any, fmt, io, time::Duration};

use crate::{
    Affinity, Outcome, Reload, Result, Stop, Worker,
    roster::{Patience, SETS_MAX},
    supervisor::require_sane,
    team::{Hooks, Plan, Team},
};

/// Runs workers as threads of this process: starts them, replaces those that end, and stops them.
///
/// The signals of the process are the same as for a [`Supervisor`](crate::Supervisor), and go to
/// all workers: TERM and INT, QUIT, HUP (new threads for old), USR1 and WINCH. USR2 does nothing: a
/// process that is to be replaced as a whole is better forked.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Outcome, ThreadEnd, Threads};
///
/// let mut ends = Vec::new();
/// let outcome = Threads::new(2)
///     .on_exit(|dead| ends.push((dead.index, dead.end.clone())))
///     .run(|_worker| DO_NOT_RESTART)?;
/// assert_eq!(outcome, Outcome::Refused);
/// ends.sort_by_key(|(index, _)| *index);
/// let refused = ThreadEnd::Returned(DO_NOT_RESTART);
/// assert_eq!(ends, [(0, refused.clone()), (1, refused)]);
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[must_use = "it does nothing until it runs"]
pub struct Threads<'a> {
    workers: usize,
    patience: Patience,
    slots_serve_alone: bool,
    affinity: Option<Affinity>,
    hooks: Hooks<'a>,
}

/// The end of a worker that was a thread, as [`on_exit`](Threads::on_exit) is told of it.
///
/// ```
/// use evcore_prefork::{DO_NOT_RESTART, Threads};
///
/// Threads::new(1)
///     .on_exit(|dead| assert_eq!(dead.to_string(), "worker 0 (seat 0), unasked, returned 2"))
///     .run(|_worker| DO_NOT_RESTART)?;
/// # Ok::<(), evcore_prefork::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadExit {
    /// The worker's index, which its replacement will have too.
    pub index: usize,
    /// The [seat](Worker::seat) it had.
    pub seat: usize,
    /// How it ended.
    pub end: ThreadEnd,
    /// The stop that it was asked for. None: it ended unasked.
    pub stop: Option<Stop>,
}

/// How a worker that was a thread ended.
///
/// ```
/// use evcore_prefork::ThreadEnd;
///
/// assert_eq!(ThreadEnd::Returned(0).to_string(), "returned 0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadEnd {
    /// Its function returned this.
    Returned(i32),
    /// It panicked with this message.
    Panicked(String),
    /// It did not stop in time. A thread cannot be killed: it runs on until the process ends.
    LeftBehind,
}

impl ThreadEnd {
    /// The end that was caught as a panic.
    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self::Panicked(text.unwrap_or_else(|| "something that is no text".to_owned()))
    }
}

impl fmt::Display for ThreadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned(code) => write!(f, "returned {code}"),
            Self::Panicked(text) => write!(f, "panicked: {text}"),
            Self::LeftBehind => f.write_str("did not stop, and is left behind"),
        }
    }
}

/// `worker 3 (seat 3), unasked, panicked: no more`, for a log.
impl fmt::Display for ThreadExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unasked = if self.stop.is_none() {
            ", unasked,"
        } else {
            ""
        };
        write!(
            f,
            "worker {} (seat {}){unasked} {}",
            self.index, self.seat, self.end
        )
    }
}

impl<'a> Threads<'a> {
    /// So many workers, from 1 to 1,024, which have the indices from 0 up.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            patience: Patience::default(),
            slots_serve_alone: false,
            affinity: None,
            hooks: Hooks {
                on_start: Box::new(|_| {}),
                on_ready: Box::new(|_| {}),
                on_exit: Box::new(|_| {}),
                on_stuck: Box::new(|_| {}),
                on_start_error: Box::new(|_, _| {}),
                on_reload: Box::new(|_| {}),
                on_reopen: Box::new(|| {}),
            },
        }
    }

    /// As [`Supervisor::seats`](crate::Supervisor::seats).
    #[must_use]
    pub fn seats(&self) -> usize {
        self.workers.saturating_mul(SETS_MAX)
    }

    /// As [`Supervisor::stop_timeout`](crate::Supervisor::stop_timeout).
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.patience.stop = timeout;
        self
    }

    /// As [`Supervisor::ready_timeout`](crate::Supervisor::ready_timeout).
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.patience.ready = timeout;
        self
    }

    /// As [`Supervisor::slots_serve_alone`](crate::Supervisor::slots_serve_alone).
    pub fn slots_serve_alone(mut self, alone: bool) -> Self {
        self.slots_serve_alone = alone;
        self
    }

    /// As [`Supervisor::affinity`](crate::Supervisor::affinity), for each thread by itself.
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.affinity = Some(affinity);
        self
    }

    /// Called with the index of each worker that was started.
    pub fn on_start(mut self, hook: impl FnMut(usize) + 'a) -> Self {
        self.hooks.on_start = Box::new(hook);
        self
    }

    /// As [`Supervisor::on_ready`](crate::Supervisor::on_ready), with the index alone.
    pub fn on_ready(mut self, hook: impl FnMut(usize) + 'a) -> Self {
        self.hooks.on_ready = Box::new(hook);
        self
    }

    /// Called for each end, before the replacement is started.
    pub fn on_exit(mut self, hook: impl FnMut(&ThreadExit) + 'a) -> Self {
        self.hooks.on_exit = Box::new(hook);
        self
    }

    /// Called with the index of each worker that did not stop within a second of
    /// [`Stop::Fast`](crate::Stop::Fast) in a reload or after WINCH: it keeps its seat until it
    /// ends, of which [`on_exit`](Self::on_exit) is told as always.
    pub fn on_stuck(mut self, hook: impl FnMut(usize) + 'a) -> Self {
        self.hooks.on_stuck = Box::new(hook);
        self
    }

    /// Called with the index and the error when a thread could not be started. The next try comes
    /// after a pause, as for a worker that ended young.
    pub fn on_start_error(mut self, hook: impl FnMut(usize, &io::Error) + 'a) -> Self {
        self.hooks.on_start_error = Box::new(hook);
        self
    }

    /// As [`Supervisor::on_reload`](crate::Supervisor::on_reload).
    pub fn on_reload(mut self, hook: impl FnMut(Reload) + 'a) -> Self {
        self.hooks.on_reload = Box::new(hook);
        self
    }

    /// As [`Supervisor::on_reopen`](crate::Supervisor::on_reopen).
    pub fn on_reopen(mut self, hook: impl FnMut() + 'a) -> Self {
        self.hooks.on_reopen = Box::new(hook);
        self
    }

    /// Starts the workers and watches over them until they are stopped; this thread does nothing
    /// else.
    ///
    /// Each worker calls `work`. One that returns or panics while nobody stops it is replaced, as
    /// [`Supervisor::run`](crate::Supervisor::run) tells. What `work` owns is dropped when the last
    /// worker has ended and none will be started any more.
    ///
    /// A worker that does not stop within a second of [`Stop::Fast`](crate::Stop::Fast) cannot be
    /// killed. When all is to stop it is left behind ([`ThreadEnd::LeftBehind`]), and ends with the
    /// process. In a reload it is [reported](Self::on_stuck) and keeps its seat; when the workers of
    /// three sets have not stopped, further reloads are [refused](crate::Reload::Stuck).
    ///
    /// The process may have other threads. Its signals are taken as by a supervisor, and are
    /// blocked in the workers, so that this thread gets them.
    ///
    /// # Errors
    ///
    /// [`NoWorkers`](crate::Error::NoWorkers), [`TooManyWorkers`](crate::Error::TooManyWorkers),
    /// [`InUse`](crate::Error::InUse) if the process has a worker or another master, and
    /// [`Os`](crate::Error::Os) if handlers or the first thread of all are refused.
    pub fn run(self, work: impl Fn(Worker) -> i32 + Send + Sync + 'static) -> Result<Outcome> {
        require_sane(self.workers)?;
        let plan = Plan {
            workers: self.workers,
            patience: self.patience,
            slots_serve_alone: self.slots_serve_alone,
            affinity: self.affinity,
        };
        Team::new(plan, self.hooks, work)?.run()
    }
}

impl fmt::Debug for Threads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("workers", &self.workers)
            .field("patience", &self.patience)
            .field("slots_serve_alone", &self.slots_serve_alone)
            .field("affinity", &self.affinity)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_words() {
        let told = |payload: Box<dyn Any + Send>| ThreadEnd::of_panic(&*payload).to_string();
        assert_eq!(told(Box::new("no more")), "panicked: no more");
        assert_eq!(told(Box::new(String::from("no 7"))), "panicked: no 7");
        assert_eq!(told(Box::new(7)), "panicked: something that is no text");
    }
}
