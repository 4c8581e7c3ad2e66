//! A thread that reports a poll which does not end.

use std::io;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// The poll that a thread watches.
pub(crate) struct Watch(Arc<Mutex<Polled>>);

#[derive(Clone, Copy, Default, PartialEq)]
struct Polled {
    /// The place where the task was spawned; `None` between two polls.
    at: Option<&'static Location<'static>>,
    /// The number of polls so far.
    polls: u64,
}

/// A poll that is watched, until it is dropped.
pub(crate) struct Watched<'a>(&'a Mutex<Polled>);

impl Watch {
    /// Starts a thread that calls `report` for each poll that it finds twice in a row. It ends with this
    /// value.
    pub(crate) fn start(
        limit: Duration,
        report: impl Fn(&'static Location<'static>) + Send + 'static,
    ) -> io::Result<Self> {
        let polled = Arc::default();
        let watched = Arc::downgrade(&polled);
        let watch = move || watch(&watched, limit, report);
        thread::Builder::new().name("stuck".into()).spawn(watch)?;
        Ok(Self(polled))
    }

    pub(crate) fn begin(&self, at: Option<&'static Location<'static>>) -> Watched<'_> {
        let mut polled = lock(&self.0);
        polled.at = at;
        polled.polls += 1;
        Watched(&self.0)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        lock(self.0).at = None;
    }
}

fn watch(
    watched: &Weak<Mutex<Polled>>,
    limit: Duration,
    report: impl Fn(&'static Location<'static>),
) {
    let (mut before, mut reported) = (Polled::default(), 0);
    while let Some(watched) = watched.upgrade() {
        let polled = *lock(&watched);
        drop(watched);
        if let Some(at) = polled.at
            && polled == before
            && polled.polls != reported
        {
            reported = polled.polls;
            report(at);
        }
        before = polled;
        thread::sleep(limit);
    }
}

/// The lock is never held while something panics.
fn lock(polled: &Mutex<Polled>) -> MutexGuard<'_, Polled> {
    polled.lock().unwrap_or_else(PoisonError::into_inner)
}
