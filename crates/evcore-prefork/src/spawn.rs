//! The contract between the master and a way to run workers. There are two ways:
//! [processes](crate::processes) and [threads](crate::threads).

use std::{io, num::NonZeroU32, os::fd::BorrowedFd};

use crate::{
    exit::{ExitCause, WorkerInfo},
    kept::KeptCounts,
    slot::Slot,
    stop::Stop,
    successor::Successor,
};

/// Starts workers.
pub(crate) trait Spawn {
    type Child: Child;

    /// The values with which a forked worker continues, after `spawn` has returned in its process
    /// too. [`Infallible`] for threads.
    ///
    /// [`Infallible`]: std::convert::Infallible
    type Forked;

    /// The action that is named in the error of a failed first start.
    const DOING: &'static str;

    fn spawn(&mut self, slot: Slot) -> io::Result<Spawned<Self::Child, Self::Forked>>;

    /// Does the work of a worker in a process of its own, and ends that process.
    fn run_forked(self, slot: Slot, forked: Self::Forked) -> !;

    /// Drops what only further workers would need, because no more workers are started.
    fn close(&mut self);

    /// Records the kind of worker that serves from now on in place of workers that have ended.
    fn set_successor(&mut self, _successor: Successor) {}

    /// Records that a worker has ended. `has_successor` is true if another worker serves in its
    /// place, or will.
    fn ended(&mut self, _worker: &WorkerInfo, _has_successor: bool) {}

    /// Reaps the descriptor stores that have ended. Calls `report` for those that have handed on
    /// connections.
    fn reap(&mut self, _report: &mut dyn FnMut(&WorkerInfo, KeptCounts)) {}

    /// Waits until the descriptor stores have ended, because they hand on connections to the
    /// workers of another master.
    fn wait(&mut self) {}
}

/// The two sides of a start.
pub(crate) enum Spawned<C, F> {
    /// The result in the master.
    Child(C),
    /// The result in the worker.
    Forked(F),
}

/// A worker, as its master sees it.
pub(crate) trait Child {
    /// Its process id, if it is a process.
    fn pid(&self) -> Option<NonZeroU32>;

    fn stop(&self, stop: Stop);

    /// Reports to the worker that another one serves in its place from now on. A stop follows, or
    /// has come before.
    fn replace(&self, successor: Successor);

    /// Ends the worker at once. A thread gets a fast stop instead.
    fn kill(&self);

    /// Makes the worker open its logs again.
    fn reopen(&self);

    /// Returns whether the worker has reported that it serves. The master calls this until it
    /// returns true.
    fn is_ready(&mut self) -> bool;

    /// The descriptor that becomes readable when the worker reports that it serves. None if the
    /// self-pipe is written to instead.
    fn ready_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Returns the worker's end once it has ended. The master calls this until then.
    fn try_wait(&mut self) -> Option<End>;

    /// Waits until the worker has ended, after `kill`. Does not wait for a thread.
    fn wait(&mut self);
}

/// The end of a worker.
pub(crate) struct End {
    pub(crate) cause: ExitCause,
    /// The stop that the master has got as well (for example by Ctrl-C), even if it has not handled
    /// it yet.
    pub(crate) stop: Option<Stop>,
}
