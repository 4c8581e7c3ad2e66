//! The two ways to run workers, [processes](crate::processes) and [threads](crate::threads), as the
//! master sees them.

use std::{io, num::NonZeroU32, os::fd::BorrowedFd};

use crate::{
    exit::{ExitCause, WorkerInfo},
    kept::KeptCounts,
    slot::Slot,
    stop::Stop,
    successor::Successor,
};

pub(crate) trait Spawn {
    type Child: Child;

    /// The values with which a forked worker continues; [`Infallible`] for threads.
    ///
    /// [`Infallible`]: std::convert::Infallible
    type Forked;

    /// The action that is named in the error of a failed first start.
    const DOING: &'static str;

    fn spawn(&mut self, slot: Slot) -> io::Result<Spawned<Self::Child, Self::Forked>>;

    /// Does the work of a forked worker, and ends its process.
    fn run_forked(self, slot: Slot, forked: Self::Forked) -> !;

    /// Drops the values that only further workers would need, because no more workers are started.
    fn close(&mut self);

    /// Records which kind of worker replaces those that stop or have ended.
    fn set_successor(&mut self, _successor: Successor) {}

    /// Records the end of a worker. `has_successor` is true if another worker serves in its place,
    /// or will.
    fn ended(&mut self, _worker: &WorkerInfo, _has_successor: bool) {}

    /// Reaps the descriptor stores that have ended. Calls `report` for those that have handed on
    /// connections.
    fn reap(&mut self, _report: &mut dyn FnMut(&WorkerInfo, KeptCounts)) {}

    /// Waits until the descriptor stores have ended, because they hand on connections to the
    /// workers of another master.
    fn wait(&mut self) {}
}

/// The result of a start: a fork returns in both processes.
pub(crate) enum Spawned<C, F> {
    Child(C),
    Forked(F),
}

pub(crate) trait Child {
    fn pid(&self) -> Option<NonZeroU32>;

    fn stop(&self, stop: Stop);

    /// Reports the worker's successor to the worker. A stop follows, or has come before.
    fn replace(&self, successor: Successor);

    /// Ends the worker at once. A thread gets a fast stop instead.
    fn kill(&self);

    fn reopen(&self);

    /// Returns whether the worker has reported that it serves. The master calls this until it
    /// returns true.
    fn is_ready(&mut self) -> bool;

    /// The descriptor that becomes readable when the worker reports that it serves. None if the
    /// self-pipe is written to instead.
    fn ready_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Returns the worker's end once it has ended. The master calls this until it gets the end.
    fn try_wait(&mut self) -> Option<End>;

    /// Waits until the worker has ended, after `kill`. Does not wait for a thread.
    fn wait(&mut self);
}

/// The end of a worker.
pub(crate) struct End {
    pub(crate) cause: ExitCause,
    /// The stop that this process has got, for example by Ctrl-C, even if the master has not
    /// handled it yet. `None` for a thread.
    pub(crate) stop: Option<Stop>,
}
