//! The contract between the master and a way to run workers. There are two:
//! [processes](crate::processes) and [threads](crate::threads).

use std::{io, num::NonZeroU32, os::fd::BorrowedFd};

use crate::{exit::ExitCause, slot::Slot, stop::Stop};

/// Starts workers.
pub(crate) trait Spawn {
    type Child: Child;

    /// The needs of a worker that continues in this very function. [`Infallible`] for threads.
    ///
    /// [`Infallible`]: std::convert::Infallible
    type Forked;

    /// The action in the error of a failed first start.
    const DOING: &'static str;

    fn spawn(&mut self, slot: Slot) -> io::Result<Spawned<Self::Child, Self::Forked>>;

    /// Does the work of a worker in a process of its own, and ends that process.
    fn run_forked(self, slot: Slot, forked: Self::Forked) -> !;

    /// Drops what only further workers would need. None is started any more.
    fn close(&mut self);
}

/// The two sides of a start.
pub(crate) enum Spawned<C, F> {
    /// In the master.
    Child(C),
    /// In the worker.
    Forked(F),
}

/// A worker, as its master sees it.
pub(crate) trait Child {
    /// Its process id, if it is a process.
    fn pid(&self) -> Option<NonZeroU32>;

    fn stop(&self, stop: Stop);

    /// Reports to it that another worker serves in its place from now on. A stop follows.
    fn replace(&self);

    /// Ends it at once. A thread gets a fast stop instead.
    fn kill(&self);

    /// Makes it open its logs again.
    fn reopen(&self);

    /// Returns whether it has reported that it serves. To be called until it returns true.
    fn is_ready(&mut self) -> bool;

    /// The descriptor that becomes readable when the worker reports that it serves. None if the
    /// self-pipe is written to instead.
    fn ready_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Returns its end once it has ended. The master calls this until then.
    fn try_wait(&mut self) -> Option<End>;

    /// Waits until it has ended, after `kill`. Does not wait for a thread.
    fn wait(&mut self);
}

/// The end of a worker.
pub(crate) struct End {
    pub(crate) cause: ExitCause,
    /// The stop that it got, if that was not from its master alone.
    pub(crate) stop: Option<Stop>,
}
